//! Peers of other hosts that end in order: the node learns it at once, and their sessions count no more.

use crate::bounds::beside;
use crate::callbacks::issue;
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, Watchdog, alone, block_on};
use crate::{identity_of, protected, unprotected};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use upbeat::{Builder, CallError, Why};

/// Longer than any of these tests may take: a session that is suspended lasts beyond its test.
const WITHIN: Duration = Duration::from_secs(300);
const SOON: Duration = Duration::from_secs(20);

/// The ways in which a client ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Blocking,
    /// After calls that it gave up.
    Abandoned,
    Awaited,
    Node,
    NodeShutDown,
}

impl Ends {
    fn why(self) -> Why {
        match self {
            Ends::Blocking | Ends::Abandoned | Ends::Awaited => Why::HandleClosed,
            Ends::Node | Ends::NodeShutDown => Why::Closed,
        }
    }

    /// Connects a client, which calls, and ends it.
    fn client(self, directory: &Directory, identity: &str, to: &str) {
        if let Ends::Node | Ends::NodeShutDown = self {
            let builder = unprotected(directory).shared_memory(false).resume_within(WITHIN);
            let node = protected(builder, identity).build().unwrap();
            node.block_on(async {
                let work: WorkClient = node.connect(to).await.unwrap();
                assert_eq!(work.add(1, 2).await, Ok(3));
            });
            if let Ends::NodeShutDown = self {
                node.shut_down(Duration::from_secs(1));
            }
            return;
        }
        let builder = upbeat::handle::builder().program(PROGRAM).directory(directory.path());
        let builder = builder.resume_within(WITHIN).shared_memory(false);
        let builder = match identity {
            "" => builder.insecure_plaintext(),
            path => builder.identity(identity_of(path)),
        };
        let work: WorkHandle = match self {
            Ends::Awaited => block_on(builder.connect_async(to)).unwrap(),
            _ => builder.connect(to).unwrap(),
        };
        match self {
            Ends::Awaited => assert_eq!(block_on(work.add(1, 2)), Ok(3)),
            Ends::Abandoned => {
                let blocking = work.blocking().deadline(Duration::from_millis(5));
                // A fast machine may answer in time.
                let abandoned = blocking.bytes(vec![7; 3 << 20]).map(|bytes| bytes.len());
                assert!(matches!(abandoned, Ok(_) | Err(CallError::Deadline(_))), "{abandoned:?}");
                assert!(matches!(blocking.forever(), Err(CallError::Deadline(_))));
            }
            _ => assert_eq!(work.blocking().add(1, 2), Ok(3)),
        }
    }
}

/// Has a node that permits few sessions of an address note why it loses them.
fn noting(test: impl Fn(&Directory, &str, &str, &Receiver<(Why, String)>)) {
    for is_secure in [false, true] {
        let directory = Directory::new();
        let identity = if is_secure { issue(&directory) } else { String::new() };
        let (tell, losses) = channel();
        let with = move |builder: Builder| {
            let builder = builder.sessions_per_address(16).resume_within(WITHIN);
            builder.on_lost(move |lost| {
                let _ = tell.send((lost.why.clone(), lost.to_string()));
            })
        };
        let counted = beside("bounded", &identity, with, |at| {
            test(&directory, &identity, &format!("bounded@{at}"), &losses);
        });
        assert_eq!(counted.turned_away, 0);
    }
}

/// Of clients that come one after the other none is refused, and each is known to have ended in order.
#[test]
fn clients_that_come_one_after_the_other_are_not_counted_together() {
    let _alone = alone();
    let _watchdog = Watchdog::new("one after the other");
    noting(|directory, identity, to, losses| {
        for ends in [Ends::Blocking, Ends::Awaited, Ends::Abandoned, Ends::Node, Ends::NodeShutDown]
        {
            for _ in 0..20 {
                ends.client(directory, identity, to);
                let (why, text) = losses.recv_timeout(SOON).expect("its end is told");
                assert!(why == ends.why(), "{ends:?}: {text}");
            }
        }
    });
}

/// A handle tells its end also when the node reads late.
#[test]
fn a_handle_that_is_dropped_while_the_node_is_busy_is_known_to_have_ended() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a busy node");
    noting(|directory, identity, to, losses| {
        let builder = upbeat::handle::builder().program(PROGRAM).directory(directory.path());
        let builder = builder.resume_within(WITHIN).shared_memory(false);
        let builder = match identity {
            "" => builder.insecure_plaintext(),
            path => builder.identity(identity_of(path)),
        };
        let work: WorkHandle = builder.connect(to).unwrap();
        let (stalls, waits) =
            (work.blocking(), work.blocking().deadline(Duration::from_millis(1_000)));
        assert_eq!((stalls.add(1, 2), waits.add(3, 4)), (Ok(3), Ok(7)));
        std::thread::scope(|scope| {
            scope.spawn(move || stalls.stall(2_500).unwrap());
            while waits.bytes(vec![1; 100_000]).is_ok() {}
            drop(waits);
        });
        drop(work);
        for _ in 0..2 {
            let (why, text) = losses.recv_timeout(SOON).expect("its end is told");
            assert!(why == Why::HandleClosed, "{text}");
        }
    });
}

/// A handle whose node is gone says so at once, and does not wait until it could resume.
#[test]
fn a_handle_of_a_node_that_has_ended_connects_anew() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a node that has ended");
    let directory = Directory::new();
    let mut kept = None;
    let builder = || upbeat::handle::builder().program(PROGRAM).directory(directory.path());
    let with = |builder: Builder| builder.resume_within(WITHIN);
    beside("short", "", with, |at| {
        let handle: WorkHandle = builder()
            .resume_within(WITHIN)
            .shared_memory(false)
            .insecure_plaintext()
            .connect(&format!("short@{at}"))
            .unwrap();
        assert_eq!(handle.blocking().add(1, 2), Ok(3));
        kept = Some(handle);
    });
    let error = kept.unwrap().blocking().add(1, 2).unwrap_err();
    assert!(matches!(error, CallError::NotConnected { .. }), "{error:?}");
}
