use super::*;
use crate::instructions::callgrind::Profile;
use crate::instructions::inlined;
use crate::repository;
use std::path::Path;

/// A small part of a real profile: one address for each of these functions.
const PROFILE: &str = "\
cmd: ./outside local client
positions: instr
events: Ir
ob=(1) /x/outside
fn=(1) upbeat::node::Node::turn
0x100 10
+1 20
+1 30
+1 10
+1 10
fn=(2) <upbeat::task::Spawned<F> as upbeat::task::Task>::poll
0x200 5
+1 15
totals: 100
";

const FRAMES: &str = "\
0x100
arrived
/r/crates/memory/src/ring/reader.rs:390
look
/r/crates/memory/src/lane.rs:94
upbeat::node::Node::turn
/r/crates/upbeat/src/node.rs:100
0x101
get<u64>
/rustc/0/library/core/src/cell.rs:500
turn_once
/r/crates/upbeat/src/dispatch.rs:300
upbeat::node::Node::turn
/r/crates/upbeat/src/node.rs:100
0x102
load
/r/crates/memory/src/region/plain.rs:20
flush
/r/crates/upbeat/src/dispatch.rs:525
upbeat::node::Node::turn
/r/crates/upbeat/src/node.rs:100
0x103
upbeat::node::Node::turn
/r/crates/memory/src/region/plain.rs:20
0x104
core::ptr::drop_in_place<upbeat::call::Call<(),()>>
/rustc/0/library/core/src/ptr/mod.rs:805
0x200
waiter_mut<upbeat::session::reply::Waiting>
/r/crates/core/src/channel/call.rs:213
<upbeat::task::Spawned<F> as upbeat::task::Task>::poll
/r/crates/upbeat/src/task.rs:177
0x201
juggle
/r/crates/upbeat/src/circus.rs:1
<upbeat::task::Spawned<F> as upbeat::task::Task>::poll
/r/crates/upbeat/src/task.rs:177
";

fn shares(recipe: &Recipe) -> Shares {
    let counted = Counted { calls: 10, profile: Profile::read(PROFILE).unwrap() };
    let frames = inlined::read(FRAMES, &[Path::new("/r")]).unwrap();
    let mut shares = Shares::new("null/local".into(), recipe);
    shares.add(recipe, &counted, &frames);
    shares
}

#[test]
fn the_recipe_knows_what_a_profile_has() {
    let recipe = Recipe::read(&repository::root()).unwrap();
    let shares = shares(&recipe);
    let of = |name: &str| {
        let at = recipe.rows.iter().position(|row| row.name == name).unwrap();
        shares.percent(shares.rows[at])
    };
    assert_eq!(of("enqueue, dequeue notices"), 10.0);
    assert_eq!(of("dispatcher while loop, switch"), 30.0, "its own, and what nobody has taken");
    assert_eq!(of("set, clear flags"), 30.0, "a word is loaded for whoever looks at it");
    assert_eq!(of("cactus stack"), 10.0);
    assert_eq!(of("queue searching (dispatcher)"), 5.0);
    assert_eq!(shares.of_other(), 15.0);
    assert_eq!(shares.all, 10.0);
    let text = table(&recipe, &[shares]);
    assert!(text.contains("other: 15.00% crates/upbeat/src/circus.rs juggle"), "{text}");
}

#[test]
fn the_paper_is_told_in_full() {
    let recipe = Recipe::read(&repository::root()).unwrap();
    let papers: Vec<f64> = recipe.groups.iter().map(|group| group.paper).collect();
    assert_eq!(papers, [22.4, 18.1, 22.2, 10.6, 20.6, 6.4]);
    assert_eq!(recipe.rows.iter().filter(|row| row.paper.is_some()).count(), 23);
    for (number, group) in recipe.groups.iter().enumerate() {
        let rows = recipe.rows.iter().filter(|row| row.group == number);
        let sum: f64 = rows.filter_map(|row| row.paper).sum();
        assert!((sum - group.paper).abs() < 0.15, "{}: {sum}, but for rounding", group.name);
    }
}

#[test]
fn the_recipe_names_files_that_are_there() {
    let root = repository::root();
    for file in Recipe::read(&root).unwrap().files() {
        assert!(file == "main.rs" || root.join(file).is_file(), "{file} is gone");
    }
}

#[test]
fn a_recipe_that_is_wrong_is_refused() {
    let refused = |text: &str| Recipe::parse(text).unwrap_err();
    assert!(refused("[a]: 1\n  f.rs *\n").contains(":2: `f.rs *` stands in no row"));
    assert!(refused("row: 1\n").contains("stands in no category"));
    assert!(refused("[a]: 1\nrow: many\n").contains("is no number"));
    assert!(refused("[a]: 1\nrow: -\n  f.rs\n").contains("names no function"));
    assert!(refused("[a]: 1\nrow: -\n  f.rs g\nb: 1\n  f.rs g\n").contains("again"));
}

#[test]
fn an_object_is_one_line() {
    let recipe =
        Recipe::parse("[a]: 1.5\nb: 1.5\n  crates/memory/src/ring/reader.rs *\nc: -\n").unwrap();
    let text = json(&recipe, &[shares(&recipe)]);
    let first = text.lines().next().unwrap();
    assert_eq!(
        first,
        "{\"bench\":\"categories\",\"case\":\"null/local\",\"group\":\"a\",\"row\":\"b\",\
         \"unit\":\"percent\",\"today\":10,\"paper\":1.5,\"ratio\":0.15}"
    );
    assert!(text.lines().all(|line| line.starts_with('{') && line.ends_with('}')));
}
