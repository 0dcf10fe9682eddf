//! Tests of the leftovers of dead nodes: files that no process holds, and a socket that a child still holds.

use crate::common::process::{Other, end_with_input, leave_sockets, linger, say};
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, Watchdog, node, on_one_host, setting};
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Command;
use upbeat::{Node, Waiting};

pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part.split_once(' ') {
        Some(("stand", name)) => {
            let _node = node(name, place, Waiting::Sleeping);
            say("standing");
            linger();
        }
        Some(("leave", name)) => {
            let _node = node(name, place, Waiting::Sleeping);
            say(&format!("heir {}", leave_sockets()));
            linger();
        }
        Some(("churn", name)) => churn(name, place),
        Some(("alternate", name)) => {
            come_and_go(name, place);
            say("gone");
            linger();
        }
        Some(("usual", name)) => {
            let _node = Node::new(name).unwrap();
            say("standing");
            linger();
        }
        _ => return false,
    }
    true
}

/// The files in the directory of the program, which is there as long as any node of it.
fn files(place: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(place.join(PROGRAM)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn files_of(names: &[&str]) -> BTreeSet<String> {
    names.iter().flat_map(|name| [format!("{name}.lock"), format!("{name}.sock")]).collect()
}

#[test]
fn the_next_node_removes_the_files_of_dead_ones() {
    let _watchdog = Watchdog::new("files of dead nodes");
    let directory = Directory::new();
    let place = directory.path();
    let alive = node("alive", &place, Waiting::Sleeping);
    let mut other = Other::start("stand other", &place);
    other.expect("standing");
    for number in 0..4 {
        let mut victim = Other::start(&format!("stand victim/{number}"), &place);
        victim.expect("standing");
        victim.kill();
        victim.child.wait().unwrap();
    }
    let next = node("next", &place, Waiting::Sleeping);
    assert_eq!(files(&place), files_of(&["alive", "next", "other"]));
    drop((alive, next));
    assert_eq!(files(&place), files_of(&["other"]));
    // Its name is held still, by itself.
    let taken = Node::builder("other").program(PROGRAM).directory(&place).build();
    assert!(taken.is_err_and(|error| error.to_string().contains("`other` is taken")));
}

/// Takes its name and leaves it again, and dies at last. Others sweep meanwhile.
fn churn(name: &str, place: &Path) {
    end_with_input();
    for round in 0..setting("UPBEAT_CHURN", 200) {
        let node = node(name, place, Waiting::Sleeping);
        let files = files(place);
        let ours = files_of(&[name]);
        assert!(ours.is_subset(&files), "round {round}: {ours:?} are not among {files:?}");
        if round % 2 == 0 {
            drop(node);
        } else {
            node.shut_down(std::time::Duration::ZERO);
        }
    }
    std::mem::forget(node(name, place, Waiting::Sleeping));
    say("churned");
    linger();
}

#[test]
fn a_name_is_taken_while_others_remove_dead_files() {
    let _watchdog = Watchdog::new("names that come and go");
    let directory = Directory::new();
    let place = directory.path();
    let mut churns = [0, 1, 2].map(|number| Other::start(&format!("churn churn-{number}"), &place));
    for churn in &mut churns {
        churn.expect("churned");
        churn.kill();
        churn.child.wait().unwrap();
    }
    let last = node("last", &place, Waiting::Sleeping);
    assert_eq!(files(&place), files_of(&["last"]));
    drop(last);
}

/// Makes a node again and again, which is often the only one of its program.
fn come_and_go(name: &str, place: &Path) {
    for round in 0..setting("UPBEAT_CHURN", 200) {
        let node = Node::builder(name).program(PROGRAM).directory(place).build();
        let node = node.unwrap_or_else(|error| panic!("round {round}: {error}"));
        let files = files(place);
        assert!(files_of(&[name]).is_subset(&files), "round {round}: only {files:?}");
        drop(node);
    }
}

#[test]
fn the_last_node_removes_the_directory_of_its_program() {
    // Between fork and exec the children of other tests hold this process's listeners, and with them the ports of its nodes.
    if !on_one_host("nodes that come and go while other tests start processes") {
        return;
    }
    let _watchdog = Watchdog::new("nodes that come and go");
    let directory = Directory::new();
    let place = directory.path();
    let mut others =
        [0, 1].map(|number| Other::start(&format!("alternate other-{number}"), &place));
    std::thread::scope(|scope| {
        for number in 0..2 {
            let place = &place;
            scope.spawn(move || come_and_go(&format!("thread-{number}"), place));
        }
    });
    for other in &mut others {
        other.expect("gone");
    }
    let there = || std::fs::read_dir(&place).unwrap().count();
    assert_eq!(there(), 0, "the directory of the program is left");
    // After a kill the next node does it.
    let mut victim = Other::start("stand victim", &place);
    victim.expect("standing");
    victim.kill();
    victim.child.wait().unwrap();
    assert_eq!(files(&place), files_of(&["victim"]));
    drop(node("next", &place, Waiting::Sleeping));
    assert_eq!(there(), 0, "the directory of the program is left after a kill");
}

#[test]
fn files_of_another_node_of_the_name_are_left_alone() {
    let _watchdog = Watchdog::new("files that were removed");
    let directory = Directory::new();
    let place = directory.path();
    let first = node("first", &place, Waiting::Sleeping);
    // As a service that cleans a directory of its files does.
    for file in ["first.lock", "first.sock"] {
        std::fs::remove_file(place.join(PROGRAM).join(file)).unwrap();
    }
    let mut other = Other::start("stand first", &place);
    other.expect("standing");
    drop(first);
    assert_eq!(files(&place), files_of(&["first"]));
}

#[test]
fn a_node_removes_what_dead_programs_have_left() {
    let _watchdog = Watchdog::new("dead programs");
    let directory = Directory::new();
    let runtime = directory.path().with_extension("runtime");
    std::fs::DirBuilder::new().mode(0o700).create(&runtime).unwrap();
    let start = |program: &str, name: &str| {
        let mut command = Command::new("env");
        command.arg(format!("XDG_RUNTIME_DIR={}", runtime.display()));
        command.arg(format!("UPBEAT_PROGRAM={program}"));
        // Over a network the identity would have to lie beside the directory.
        command.arg("UPBEAT_TEST_CARRIER=");
        let mut other = Other::start_under(command, &format!("usual {name}"), &directory.path());
        other.expect("standing");
        other
    };
    let programs = || -> BTreeSet<String> {
        let entries = std::fs::read_dir(runtime.join("upbeat")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let mut alive = start("alive", "one");
    for (program, name) in [("alive", "two"), ("dead", "one"), ("dead", "two/three")] {
        let mut victim = start(program, name);
        victim.kill();
        victim.child.wait().unwrap();
    }
    // Nothing of Upbeat's, and a program with such a file as well.
    std::fs::create_dir(runtime.join("upbeat").join("odd")).unwrap();
    std::fs::write(runtime.join("upbeat").join("odd").join("file"), "").unwrap();
    let mut next = start("next", "one");
    assert_eq!(programs(), ["alive", "next", "odd"].map(str::to_owned).into());
    next.end();
    alive.end();
    // The next node of the program itself.
    start("alive", "three").end();
    assert_eq!(programs(), ["odd"].map(str::to_owned).into());
}

#[test]
fn a_dead_server_is_not_waited_for_although_a_child_holds_its_socket() {
    let _watchdog = Watchdog::new("an heir of a socket");
    let directory = Directory::new();
    let place = directory.path();
    let mut server = Other::start("leave server", &place);
    let heir = server.expect("heir").parse().unwrap();
    server.kill();
    server.child.wait().unwrap();
    // Before a node comes that would put the socket away.
    let builder = upbeat::handle::builder().program(PROGRAM).directory(&place);
    let error = builder.connect::<WorkHandle>("server").err().expect("it is dead").to_string();
    assert!(error.contains("node `server` was there but is dead"), "{error}");

    let mut server = Other::start("leave server", &place);
    let other_heir = server.expect("heir").parse().unwrap();
    let client = node("client/leftovers", &place, Waiting::Sleeping);
    server.kill();
    server.child.wait().unwrap();
    let error = client.block_on(client.connect::<WorkClient>("server")).err();
    let error = error.expect("it is dead").to_string();
    assert!(error.contains("node `server` was there but is dead"), "{error}");
    for heir in [heir, other_heir] {
        rustix::process::kill_process(Pid::from_raw(heir).unwrap(), Signal::KILL).unwrap();
    }
}
