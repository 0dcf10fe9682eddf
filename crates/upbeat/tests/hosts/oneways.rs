//! One-way messages over TCP and under TLS: a sender that blocks gets all of them through, and what a sender was told
//! was sent arrives, although the sender ends at once and its receiver is busy.

use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, Watchdog, at_once, block_on};
use crate::trust::Authority;
use crate::{Server, protected, unprotected};
use std::cell::Cell;
use std::thread;
use std::time::Duration;
use upbeat::handle::HandleBuilder;
use upbeat::{CallError, Node, Waiting};

/// A server over TCP or under TLS, and the identity of its clients.
pub(crate) struct Stand {
    pub(crate) server: Server,
    own: String,
    directory: Directory,
    _authority: Authority,
}

impl Stand {
    pub(crate) fn new(is_secure: bool) -> Stand {
        let (directory, authority) = (Directory::new(), Authority::new());
        let issue = |file: &str, name: &str| match is_secure {
            true => authority.issue(file, name),
            false => String::new(),
        };
        let identity = issue("server.pem", &format!("{PROGRAM}/server"));
        let own = issue("own.pem", &format!("{PROGRAM}/*"));
        let server = Server::with(PROGRAM, "server", "127.0.0.1:0", &identity);
        Stand { server, own, directory, _authority: authority }
    }

    pub(crate) fn handles(&self) -> HandleBuilder {
        let builder = upbeat::handle::builder().program(PROGRAM).directory(self.directory.path());
        match &*self.own {
            "" => builder.insecure_plaintext(),
            path => builder.identity(crate::identity_of(path)),
        }
    }

    fn handle(&self, waiting: Waiting) -> WorkHandle {
        self.handles().waiting(waiting).connect(&self.server.named("server")).unwrap()
    }

    fn node(&self) -> Node {
        protected(unprotected(&self.directory), &self.own).build().unwrap()
    }

    /// Has the server's thread do nothing for so long. Returns the thread that waits for that.
    fn stall(&self, ms: u64) -> thread::JoinHandle<()> {
        let handle = self.handle(Waiting::Adaptive);
        handle.blocking().null().unwrap();
        let watcher = self.handle(Waiting::Adaptive);
        let watches = watcher.blocking().deadline(Duration::from_millis(100));
        // Both have their sessions: the server accepts no others meanwhile.
        watcher.blocking().null().unwrap();
        let stalls = thread::spawn(move || handle.blocking().stall(ms).unwrap());
        // The stall has begun when a call is not answered any more.
        while !matches!(watches.null(), Err(CallError::Deadline(_))) {}
        stalls
    }

    /// Checks that the server gets so many messages in order.
    fn check(&self, count: u64) {
        let handle = self.handle(Waiting::Adaptive);
        let begun = std::time::Instant::now();
        loop {
            let noted = handle.blocking().noted().unwrap();
            if noted == (count, count, 0) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{noted:?} of {count}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A message of these lengths takes from a quarter of the first ring to half of it, and more with padding.
#[test]
fn a_sender_that_blocks_finds_room_for_each_length() {
    let _watchdog = Watchdog::new("one-way messages that block");
    for is_secure in [false, true] {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping, Waiting::Polling] {
            let stand = Stand::new(is_secure);
            let mut sent = 0;
            for length in [1_890, 2_049, 2_500, 3_000, 3_300, 4_000] {
                // The lane of a new session has not grown.
                let handle = stand.handle(waiting);
                let blocking = handle.blocking().deadline(Duration::from_secs(20));
                for _ in 0..200 {
                    sent += 1;
                    blocking.note_text(sent, "x".repeat(length)).unwrap();
                }
                assert_eq!(blocking.noted(), Ok((sent, sent, 0)));
            }
        }
    }
}

/// A deadline ends the wait for room in a ring that stays full.
#[test]
fn a_sender_that_blocks_has_a_deadline() {
    let _watchdog = Watchdog::new("deadlines of one-way messages");
    let stand = Stand::new(false);
    let handle = stand.handle(Waiting::Adaptive);
    let stalls = stand.stall(1_500);
    let blocking = handle.blocking().deadline(Duration::from_millis(200));
    let mut number = 0;
    let error = loop {
        number += 1;
        match blocking.note_text(number, "x".repeat(3_000)) {
            Ok(()) => assert!(number < 100_000, "it takes everything"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, CallError::Deadline(_)), "{error}");
    stalls.join().unwrap();
}

/// The messages of each test. The first make the lane grow, and the others fit it while the receiver is busy, and do not
/// fit the buffers of the system.
const COUNT: u64 = 3_000;
const FIRST: u64 = 1_500;

fn text() -> String {
    "x".repeat(1_000)
}

#[test]
fn messages_of_a_blocking_handle_arrive_after_its_end() {
    arrive("blocking", |stand, stall| {
        let handle = stand.handle(Waiting::Adaptive);
        let blocking = handle.blocking();
        for number in 1..=COUNT {
            blocking.note_text(number, text()).unwrap();
            if number == FIRST {
                blocking.null().unwrap();
                stall();
            }
        }
    });
}

/// A handle that is kept and not used any more sends what it has said to have sent.
#[test]
fn messages_of_an_idle_blocking_handle_arrive() {
    let _watchdog = Watchdog::new("an idle handle");
    for is_secure in [false, true] {
        let stand = Stand::new(is_secure);
        let handle = stand.handle(Waiting::Adaptive);
        let blocking = handle.blocking();
        (1..=FIRST).for_each(|number| blocking.note_text(number, text()).unwrap());
        blocking.null().unwrap();
        let stalls = stand.stall(1_000);
        (FIRST + 1..=COUNT).for_each(|number| blocking.note_text(number, text()).unwrap());
        stalls.join().unwrap();
        stand.check(COUNT);
    }
}

#[test]
fn messages_of_an_awaited_handle_arrive_after_its_end() {
    arrive("awaited", |stand, stall| {
        let handle = stand.handle(Waiting::Adaptive);
        block_on(async {
            for number in 1..=COUNT {
                handle.note_text(number, text()).await.unwrap();
                if number == FIRST {
                    handle.null().await.unwrap();
                    stall();
                }
            }
        });
    });
}

#[test]
fn messages_of_a_node_arrive_after_its_end() {
    at_once([false, true], |shuts_down| {
        arrive("node", |stand, stall| {
            let node = stand.node();
            node.block_on(async {
                let work: WorkClient = node.connect(&stand.server.named("server")).await.unwrap();
                for number in 1..=COUNT {
                    work.note_text(number, text()).await.unwrap();
                    if number == FIRST {
                        work.null().await.unwrap();
                        stall();
                    }
                }
            });
            if shuts_down {
                node.shut_down(Duration::from_secs(10));
            }
        });
    });
}

/// Lengths of messages. While the sender ships the first one, it takes the others out of its lane, and writes them into
/// the lane again afterwards. The 51 short ones fit once the receiver has read. The one of half a ring fits only at the
/// ring's beginning. The last ones are so few that the receiver reads them together with the end of the session.
const BEHIND_A_LONG_ONE: [(usize, &[usize]); 3] =
    [(8 << 20, &[1; 51]), (8 << 20, &[4_000, 1]), (300 << 10, &[1, 200, 1])];

/// Returns the texts of the messages, behind one that makes the session ready for long ones.
fn texts((long, others): (usize, &[usize])) -> Vec<String> {
    [long, long].iter().chain(others).map(|length| "x".repeat(*length)).collect()
}

#[test]
fn messages_behind_a_long_one_arrive_after_their_node_has_ended() {
    at_once(BEHIND_A_LONG_ONE.into_iter().zip([false, true, false]), |(lengths, shuts_down)| {
        let texts = texts(lengths);
        arrive_all("node behind a long message", texts.len() as u64, |stand, stall| {
            let node = stand.node();
            node.block_on(async {
                let work: WorkClient = node.connect(&stand.server.named("server")).await.unwrap();
                for (number, text) in (1..).zip(texts.clone()) {
                    work.note_text(number, text).await.unwrap();
                    if number == 1 {
                        work.null().await.unwrap();
                        stall();
                    }
                }
            });
            if shuts_down {
                node.shut_down(Duration::from_secs(10));
            }
        });
    });
}

#[test]
fn messages_behind_a_long_one_arrive_after_their_handle_has_ended() {
    at_once(BEHIND_A_LONG_ONE.map(texts), |texts| {
        arrive_all("awaited behind a long message", texts.len() as u64, |stand, stall| {
            let handle = stand.handle(Waiting::Adaptive);
            block_on(async {
                for (number, text) in (1..).zip(texts.clone()) {
                    handle.note_text(number, text).await.unwrap();
                    if number == 1 {
                        handle.null().await.unwrap();
                        stall();
                    }
                }
            });
        });
    });
}

/// Has a sender connect, call the function that makes the server busy, send its messages, and end.
fn arrive(what: &'static str, send: impl Fn(&Stand, &dyn Fn()) + Sync) {
    arrive_all(what, COUNT, send);
}

/// Does what `arrive` does with so many messages.
fn arrive_all(what: &'static str, count: u64, send: impl Fn(&Stand, &dyn Fn()) + Sync) {
    let _watchdog = Watchdog::new(what);
    at_once([false, true], |is_secure| {
        let stand = Stand::new(is_secure);
        let stalls = Cell::new(None);
        // Handles must not block within a node's task.
        let stall =
            || stalls.set(thread::scope(|scope| scope.spawn(|| stand.stall(1_000)).join().ok()));
        send(&stand, &stall);
        stalls.take().unwrap().join().unwrap();
        stand.check(count);
    });
}
