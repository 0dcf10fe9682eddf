//! Plain use at full speed: one-way messages as fast as they can be sent, over every way to a server,
//! in another thread and in another process. Every message arrives, once and in order, and no sender
//! hangs.
//!
//! `UPBEAT_FULL_SPEED_RUNS` says how many runs each way makes, `UPBEAT_FULL_SPEED_MESSAGES` how many
//! messages of each size a run sends, `UPBEAT_FULL_SPEED_SECONDS` after how long a test has hung.

use crate::common::server::{KINDS, Kind, Server};
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, Watchdog, among_others, block_on, node, setting};
use std::path::PathBuf;
use upbeat::Waiting;

/// The bytes of a message: in a word, in a slot, and in a row of slots.
const SIZES: [usize; 3] = [8, 64, 3000];

/// How a sender waits in a run.
const POLICIES: [Waiting; 2] = [Waiting::Adaptive, Waiting::Sleeping];

/// A server, and the number of messages that were sent to it.
struct Stand {
    _server: Server,
    name: String,
    place: PathBuf,
    sent: u64,
    _directory: Directory,
}

/// The messages that a run sends for one size.
struct Batch {
    numbers: std::ops::RangeInclusive<u64>,
    /// The text beside the number, if the size has room for one.
    text: Option<String>,
}

impl Stand {
    fn new(kind: Kind) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        // The registry of this process is one for all tests: names differ.
        let name = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let server = Server::start(kind, &name, &place, Waiting::Adaptive);
        Stand { _server: server, name, place, sent: 0, _directory: directory }
    }

    fn handle(&self, waiting: Waiting) -> WorkHandle {
        let builder = upbeat::handle::builder().program(PROGRAM).directory(&self.place);
        builder.waiting(waiting).connect(&self.name).unwrap()
    }

    /// The next messages of this size.
    fn batch(&mut self, size: usize) -> Batch {
        let first = self.sent + 1;
        self.sent += setting("UPBEAT_FULL_SPEED_MESSAGES", 10_000);
        let text = (size > 8).then(|| "x".repeat(size - 8));
        Batch { numbers: first..=self.sent, text }
    }

    /// Checks what the server says it was given.
    fn check(&self, noted: (u64, u64, u64)) {
        assert_eq!(noted, (self.sent, self.sent, 0), "messages, the last one, out of order");
    }
}

/// Has each run send its messages to servers of both kinds.
fn runs(what: &'static str, mut run: impl FnMut(&mut Stand, Waiting)) {
    let _among = among_others();
    let _watchdog = Watchdog::within(what, setting("UPBEAT_FULL_SPEED_SECONDS", 60));
    for kind in KINDS {
        let mut stand = Stand::new(kind);
        for number in 0..setting("UPBEAT_FULL_SPEED_RUNS", 2) {
            run(&mut stand, POLICIES[number as usize % POLICIES.len()]);
        }
    }
}

#[test]
fn of_a_blocking_handle() {
    runs("one-way messages of a blocking handle", |stand, waiting| {
        let handle = stand.handle(waiting);
        let blocking = handle.blocking();
        for size in SIZES {
            let Batch { numbers, text } = stand.batch(size);
            for number in numbers {
                let sent = match &text {
                    None => blocking.note(number),
                    Some(text) => blocking.note_text(number, text.clone()),
                };
                sent.unwrap();
            }
        }
        stand.check(blocking.noted().unwrap());
    });
}

#[test]
fn of_an_awaited_handle() {
    runs("one-way messages of an awaited handle", |stand, waiting| {
        let handle = stand.handle(waiting);
        block_on(async {
            for size in SIZES {
                let Batch { numbers, text } = stand.batch(size);
                for number in numbers {
                    let sent = match &text {
                        None => handle.note(number).await,
                        Some(text) => handle.note_text(number, text.clone()).await,
                    };
                    sent.unwrap();
                }
            }
            stand.check(handle.noted().await.unwrap());
        });
    });
}

#[test]
fn of_a_node() {
    runs("one-way messages of a node", |stand, waiting| {
        let node = node(&format!("sender/{}", stand.name), &stand.place, waiting);
        node.block_on(async {
            let work: WorkClient = node.connect(&stand.name).await.unwrap();
            for size in SIZES {
                let Batch { numbers, text } = stand.batch(size);
                for number in numbers {
                    let sent = match &text {
                        None => work.note(number).await,
                        Some(text) => work.note_text(number, text.clone()).await,
                    };
                    sent.unwrap();
                }
            }
            stand.check(work.noted().await.unwrap());
        });
    });
}
