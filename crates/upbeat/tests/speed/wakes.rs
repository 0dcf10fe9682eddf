//! A message wakes its receiver if that sleeps, and is found where the receiver looks if not.
//!
//! `UPBEAT_WAKES` says how many calls are made of each kind. Few are enough to find a wake that is
//! never sent. A fence that is missing between what is written and what is looked at loses a wake now
//! and then, and only in a release build: many calls are a step of `.ci/run`. The models of
//! `upbeat_memory::doorbell` find every such fence.

use crate::common::server::{KINDS, Kind, Server};
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, Random, Watchdog, alone, block_on, node, seed, setting};
use std::path::PathBuf;
use std::time::Duration;
use upbeat::{Counter, Node, Waiting};

/// Calls in which a lost wake is looked for at a time.
const BATCH: u64 = 10_000;
/// The most PAUSEs between a reply and the next call: about what a receiver takes to fall asleep.
const PAUSES_MAX: u64 = 100;
/// Sessions of one program: more than a node looks at each turn whether or not anything comes.
const SESSIONS: usize = 8;
/// Looks at all lanes after which a session in which nothing came is not looked at each turn.
const SWEEPS_UNTIL_COLD: u64 = 3;

/// A server, and where it is.
struct Stand {
    name: String,
    place: PathBuf,
    _server: Server,
    _directory: Directory,
}

impl Stand {
    fn new(kind: Kind, waiting: Waiting) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        // The registry of this process is one for all tests: names differ.
        let name = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let server = Server::start(kind, &name, &place, waiting);
        Stand { name, place, _server: server, _directory: directory }
    }

    fn node(&self, waiting: Waiting) -> Node {
        node(&format!("caller/{}", self.name), &self.place, waiting)
    }

    fn handle(&self, waiting: Waiting) -> WorkHandle {
        let builder = upbeat::handle::builder().program(PROGRAM).directory(&self.place);
        builder.waiting(waiting).connect(&self.name).unwrap()
    }
}

/// The side that sleeps at once: its peer polls for ever, so that each reply comes while the sleeper falls
/// asleep.
const SLEEPERS: [(Waiting, Waiting); 2] =
    [(Waiting::Polling, Waiting::Sleeping), (Waiting::Sleeping, Waiting::Polling)];

/// Makes calls in batches, each under a watchdog: a wake that is lost is never made up for.
fn calls(what: &'static str, mut batch: impl FnMut(std::ops::Range<u64>, &mut Random)) {
    let (many, mut random) = (setting("UPBEAT_WAKES", 500), Random::new(seed(1)));
    for first in (0..many).step_by(BATCH as usize) {
        let _watchdog = Watchdog::new(what);
        batch(first..many.min(first + BATCH), &mut random);
    }
}

fn pause(random: &mut Random) {
    for _ in 0..random.below(PAUSES_MAX) {
        std::hint::spin_loop();
    }
}

#[test]
fn no_node_sleeps_over_a_message() {
    let _alone = alone();
    for (kind, (calling, serving)) in KINDS.into_iter().flat_map(|kind| SLEEPERS.map(|s| (kind, s)))
    {
        let stand = Stand::new(kind, serving);
        let node = stand.node(calling);
        let work: WorkClient = node.block_on(node.connect(&stand.name)).unwrap();
        calls("a node's call", |numbers, random| {
            node.block_on(async {
                for number in numbers {
                    pause(random);
                    assert_eq!(work.add(number, 1).await, Ok(number + 1));
                }
            });
        });
    }
}

#[test]
fn no_handle_sleeps_over_a_message() {
    let _alone = alone();
    for (kind, (calling, serving)) in KINDS.into_iter().flat_map(|kind| SLEEPERS.map(|s| (kind, s)))
    {
        let stand = Stand::new(kind, serving);
        let handle = stand.handle(calling);
        let work = handle.blocking();
        calls("a handle's call", |numbers, random| {
            for number in numbers {
                pause(random);
                assert_eq!(work.add(number, 1), Ok(number + 1));
            }
        });
    }
}

/// The reply of an awaited call comes while its future looks for it, while the future leaves, or while the
/// handle's thread falls asleep.
#[test]
fn no_awaited_call_sleeps_over_its_reply() {
    let _alone = alone();
    let handles = [Waiting::Adaptive, Waiting::Polling, Waiting::Sleeping];
    let servers = [Waiting::Polling, Waiting::Sleeping];
    for (calling, serving) in handles.into_iter().flat_map(|how| servers.map(|s| (how, s))) {
        let stand = Stand::new(Kind::Shared, serving);
        let handle = stand.handle(calling);
        calls("an awaited call", |numbers, random| {
            block_on(async {
                for number in numbers {
                    pause(random);
                    assert_eq!(handle.add(number, 1).await, Ok(number + 1));
                }
            });
        });
    }
}

/// The server looks for ever, so no bell tells it where the message lies: the note does.
#[test]
fn a_message_in_an_idle_session_is_found_by_its_note() {
    let _alone = alone();
    for kind in KINDS {
        let _watchdog = Watchdog::new("notes");
        let stand = Stand::new(kind, Waiting::Polling);
        let handle = stand.handle(Waiting::Adaptive);
        let observer = handle.blocking();
        let counted = |counter: Counter| observer.counted(counter as u64).unwrap();
        let idle: Vec<_> = (0..SESSIONS).map(|_| handle.blocking()).collect();
        let call_in_each = || idle.iter().for_each(|work| assert_eq!(work.add(1, 1), Ok(2)));
        call_in_each();
        let cold = counted(Counter::Sweeps) + SWEEPS_UNTIL_COLD;
        while counted(Counter::Sweeps) < cold {
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = counted(Counter::SweepsFound);
        call_in_each();
        let found = counted(Counter::SweepsFound) - before;
        // A look at all lanes may come between a message and its note.
        assert!(found <= SESSIONS as u64 / 2, "{found} of {SESSIONS} by looks at all lanes alone");
    }
}
