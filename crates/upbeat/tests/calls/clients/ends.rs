//! Tests what `on_lost` reports of a peer: a dropped handle, a node that was shut down, a process that was killed.

use crate::common::process::{Other, linger, say};
use crate::common::work::{WorkClient, WorkHandle, WorkServer, Worker};
use crate::common::{
    Directory, PROGRAM, Signal, Watchdog, alone, block_on, node, over_streams, setting, soon, until,
};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::time::Duration;
use upbeat::{Lost, Node, Waiting, Why};

/// The reasons for which a node has lost its sessions.
type Losses = Rc<RefCell<Vec<Lost>>>;

/// A node that notes its losses.
fn noting(name: &str, place: &Path, waiting: Waiting) -> (Node, Losses) {
    let losses = Losses::default();
    let told = Rc::clone(&losses);
    let builder = Node::builder(name).program(PROGRAM).directory(place).waiting(waiting);
    let node = builder.on_lost(move |lost| told.borrow_mut().push(lost.clone())).build().unwrap();
    (node, losses)
}

/// Calls the server, as a client or as a handle, says so, and ends as its part says.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let Some(("end", how)) = part.split_once(' ') else { return false };
    let handles = || upbeat::handle::builder().program(PROGRAM).directory(place);
    let caller = node("caller", place, Waiting::Adaptive);
    if how == "handle" {
        let work: WorkHandle = handles().connect("clients/server").unwrap();
        // A session of a thread that blocks, and another one of awaited calls.
        work.blocking().null().unwrap();
        block_on(work.null()).unwrap();
        say("called");
        linger();
        return true;
    }
    let work: WorkClient = caller.block_on(caller.connect("clients/server")).unwrap();
    caller.block_on(work.null()).unwrap();
    if let Some(rounds) = how.strip_prefix("again ") {
        for round in 0..rounds.parse().unwrap() {
            meet(place, "clients/server", round);
        }
        say("done");
        linger();
        return true;
    }
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
    let (_alone, _watchdog) = (alone(), Watchdog::new("ends"));
    let directory = Directory::new();
    let place = directory.path();
    let (server, losses) = noting("clients/server", &place, Waiting::Adaptive);
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

/// Calls a server from a node that ends in order right afterwards, with messages on their way.
fn meet(place: &Path, server: &str, round: u64) {
    let waiting = [Waiting::Adaptive, Waiting::Sleeping, Waiting::Polling][round as usize % 3];
    let caller = node(&format!("caller/{}/{round}", std::process::id()), place, waiting);
    let work: WorkClient = caller.block_on(caller.connect(server)).unwrap();
    caller.block_on(async {
        soon(work.null()).await.unwrap();
        for number in 0..round % 60 {
            work.note_text(number, "x".repeat(500)).await.unwrap();
        }
        // The last messages are on their way, and the segments that they lie in.
        for length in [100_000, 300_000].into_iter().take(round as usize % 3) {
            work.note_text(round, "x".repeat(length)).await.unwrap();
        }
    });
    // Over a byte stream an end without grace cuts the message that is on its way.
    let grace = Duration::from_secs(if over_streams() { 20 } else { 0 });
    match round % 2 {
        0 => drop((work, caller)),
        _ => caller.shut_down(grace),
    }
}

/// A peer that ends in order has not died, whatever it has sent before, in this process and in another one, and whichever
/// side ends.
#[test]
fn an_orderly_end_is_never_a_death() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("orderly ends"));
    let directory = Directory::new();
    let place = directory.path();
    let rounds = setting("UPBEAT_ENDS", 300);
    let (server, losses) = noting("clients/server", &place, Waiting::Adaptive);
    server.serve(WorkServer::new(Worker::default())).unwrap();
    for other_process in [false, true] {
        let (at, stop) = (place.clone(), Signal::default());
        let is_over = stop.clone();
        let callers = std::thread::spawn(move || {
            match other_process {
                true => {
                    let mut other = Other::start(&format!("end again {rounds}"), &at);
                    other.expect("done");
                    other.end();
                }
                false => (0..rounds).for_each(|round| meet(&at, "clients/server", round)),
            }
            stop.give();
        });
        server.block_on(is_over);
        callers.join().unwrap();
        server.block_on(until(|| server.sessions() == 0));
        let losses = losses.take();
        // The other process has a node of its own that ends with it.
        assert_eq!(losses.len() as u64, rounds + u64::from(other_process));
        let deaths = losses.iter().filter(|lost| lost.why != Why::Closed);
        let deaths: Vec<String> = deaths.map(Lost::to_string).collect();
        assert_eq!(deaths, [""; 0], "of {rounds} ends, in another process: {other_process}");
    }
}

/// A server that ends in order has not died for its client either.
#[test]
fn a_server_that_ends_in_order_has_not_died() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("orderly ends of servers"));
    let directory = Directory::new();
    let place = directory.path();
    let (client, losses) = noting("clients/client", &place, Waiting::Adaptive);
    let rounds = setting("UPBEAT_ENDS", 300);
    for round in 0..rounds {
        let (at, name) = (place.clone(), format!("clients/server/{round}"));
        let (quit, quits) = channel();
        let (ready, is_ready) = channel();
        let own = name.clone();
        let server = std::thread::spawn(move || {
            let server = node(&own, &at, Waiting::Adaptive);
            let stop = Signal::default();
            quit.send(stop.clone()).unwrap();
            server.serve(WorkServer::new(Worker::default())).unwrap();
            ready.send(()).unwrap();
            server.block_on(stop);
            match round % 2 {
                0 => drop(server),
                _ => server.shut_down(Duration::ZERO),
            }
        });
        let stop: Signal = quits.recv().unwrap();
        is_ready.recv().unwrap();
        client.block_on(async {
            let work: WorkClient = client.connect(&name).await.unwrap();
            // The server may not have finished the handshake.
            if round % 3 == 0 {
                soon(work.null()).await.unwrap();
            }
            // Messages go on while the server ends, and make the lane grow at any moment of that.
            let mut number = 0;
            if round % 4 != 1 {
                stop.give();
            }
            while soon(work.note_text(number, "x".repeat(500))).await.is_ok() {
                number += 1;
                if round % 4 == 1 && number == round % 40 {
                    stop.give();
                }
            }
            until(|| client.sessions() == 0).await;
        });
        server.join().unwrap();
    }
    let deaths = losses.take().into_iter().filter(|lost| lost.why != Why::Closed);
    let deaths: Vec<String> = deaths.map(|lost| lost.to_string()).collect();
    assert_eq!(deaths, [""; 0], "of {rounds} ends");
}
