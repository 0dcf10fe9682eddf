//! Tests what `on_lost` reports of a peer: a dropped handle, a node that was shut down, a process that was killed.

use crate::common::process::{Other, linger, say};
use crate::common::work::{WorkClient, WorkHandle, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Watchdog, alone, block_on, node, until};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use upbeat::{Lost, Node, Waiting, Why};

/// Calls the server, as a client or as a handle, says so, and ends as its part says.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let Some(("end", how)) = part.split_once(' ') else { return false };
    let handles = || upbeat::handle::builder().program(PROGRAM).directory(place);
    let caller = node("caller", place, Waiting::Adaptive);
    if how == "handle" {
        let work: WorkHandle = handles().connect("server").unwrap();
        // A session of a thread that blocks, and another one of awaited calls.
        work.blocking().null().unwrap();
        block_on(work.null()).unwrap();
        say("called");
        linger();
        return true;
    }
    let work: WorkClient = caller.block_on(caller.connect("server")).unwrap();
    caller.block_on(work.null()).unwrap();
    say("called");
    linger();
    match how {
        "shut down" => caller.shut_down(Duration::from_secs(1)),
        _ => drop((work, caller)),
    }
    true
}

#[test]
fn a_peer_that_has_closed_is_told_from_one_that_has_died() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("ends", 60));
    let directory = Directory::new();
    let place = directory.path();
    let losses = Rc::new(RefCell::new(Vec::<Lost>::new()));
    let told = Rc::clone(&losses);
    let builder = Node::builder("server").program(PROGRAM).directory(&place);
    let server = builder.on_lost(move |lost| told.borrow_mut().push(lost.clone())).build().unwrap();
    server.serve(WorkServer::new(Worker::default())).unwrap();
    let mut texts = Vec::new();
    for (how, kills, sessions, why, text) in [
        ("handle", false, 2, Why::HandleClosed, "which it needs no more"),
        ("shut down", false, 1, Why::Closed, "was shut down"),
        ("drop", false, 1, Why::Closed, "was shut down"),
        ("drop", true, 1, Why::Died, "has died"),
        ("handle", true, 2, Why::Died, "has died"),
    ] {
        let mut other = Other::start(&format!("end {how}"), &place);
        server.block_on(until(|| server.sessions() == sessions));
        let waits = std::thread::spawn(move || {
            other.expect("called");
            other
        });
        server.block_on(until(|| waits.is_finished()));
        let mut other = waits.join().unwrap();
        match kills {
            true => other.kill(),
            false => drop(other.child.stdin.take()),
        }
        server.block_on(until(|| losses.borrow().len() == sessions));
        for lost in losses.take() {
            assert!(lost.why == why && lost.to_string().contains(text), "{how}, {kills}: {lost}");
            texts.push(lost.to_string());
        }
    }
    assert!(texts[0].starts_with("a handle of "), "{}", texts[0]);
}
