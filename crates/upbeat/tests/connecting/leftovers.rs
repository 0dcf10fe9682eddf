//! Tests of the leftovers of dead nodes: files that no process holds, and a socket that a child still holds.

use crate::common::process::{Other, end_with_input, leave_sockets, linger, say};
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, Watchdog, node, setting};
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::path::Path;
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
        _ => return false,
    }
    true
}

/// The files in the directory of the program.
fn files(place: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(place.join(PROGRAM)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn files_of(names: &[&str]) -> BTreeSet<String> {
    names.iter().flat_map(|name| [format!("{name}.lock"), format!("{name}.sock")]).collect()
}

#[test]
fn the_next_node_removes_the_files_of_dead_ones() {
    let _watchdog = Watchdog::new("files of dead nodes", 60);
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
    let _watchdog = Watchdog::new("names that come and go", 120);
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

#[test]
fn a_dead_server_is_not_waited_for_although_a_child_holds_its_socket() {
    let _watchdog = Watchdog::new("an heir of a socket", 60);
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
