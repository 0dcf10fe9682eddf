//! Many messages: in flight at once, both ways at once, more than there is room for.

use crate::common::server::{KINDS, Kind, Stand};
use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{Watchdog, at_once, over_network, over_streams, soon, yield_now};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::time::Duration;
use upbeat::{CallError, Counter, Node, Waiting};
use upbeat_core::limits::CALLS_PER_SESSION_MAX;

async fn client(stand: &Stand) -> WorkClient {
    stand.node.connect(&stand.name()).await.unwrap()
}

/// Serves `Work` on a client's node too.
fn serve_here(node: &Node) {
    let worker = Rc::new(Worker::default());
    *worker.node.borrow_mut() = Some(node.clone());
    node.serve(WorkServer::shared(worker)).unwrap();
}

#[test]
fn tasks_in_flight_get_their_own_answers() {
    let _watchdog = Watchdog::new("in flight");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = client(&stand).await;
            let tasks: Vec<_> = (0..64_u64)
                .map(|task| {
                    let work = work.clone();
                    stand.node.spawn(async move {
                        for round in 0..200 {
                            let sent = vec![task as u8; (task * 40 + round) as usize % 3000];
                            assert_eq!(work.add(task, round).await, Ok(task + round));
                            assert_eq!(work.bytes(sent.clone()).await, Ok(sent));
                            if round % 50 == task % 50 {
                                assert_eq!(work.nap(task % 5, round).await, Ok(round));
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(work.waiting().await.unwrap().0, 0);
        });
    }
}

/// As many calls as may be open are. More wait, in order, and one-way messages pass them.
#[test]
fn calls_beyond_those_that_may_be_open_wait() {
    let _watchdog = Watchdog::new("calls open");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = client(&stand).await;
            let mut open = Vec::new();
            while open.len() < CALLS_PER_SESSION_MAX {
                match work.forever().try_send() {
                    Ok(call) => open.push(call),
                    Err(CallError::Full) => upbeat::sleep(Duration::from_micros(100)).await,
                    Err(other) => panic!("{} are open: {other}", open.len()),
                }
            }
            let too_many = CallError::TooManyCalls { most: CALLS_PER_SESSION_MAX };
            assert_eq!(work.null().try_send().map(drop), Err(too_many));
            // Polled once and kept, forgotten, with a deadline, and such as are polled.
            let mut kept = Box::pin(work.add(1, 0));
            assert!(poll_once(kept.as_mut()).await.is_pending());
            for _ in 0..100 {
                let mut forgotten = Box::pin(work.add(1, 0));
                assert!(poll_once(forgotten.as_mut()).await.is_pending());
                std::mem::forget(forgotten);
            }
            let late = work.add(1, 0).deadline(Duration::from_millis(5)).await;
            assert_eq!(late, Err(CallError::deadline(false)));
            let done = Rc::new(RefCell::new(Vec::new()));
            let tasks: Vec<_> = (0..50)
                .map(|task| {
                    let (work, done) = (work.clone(), Rc::clone(&done));
                    stand.node.spawn(async move {
                        assert_eq!(work.add(task, 1).await, Ok(task + 1));
                        done.borrow_mut().push(task);
                    })
                })
                .collect();
            upbeat::yield_now().await;
            for number in 1..=100 {
                assert_eq!(soon(work.note(number)).await, Ok(()));
            }
            assert!(done.borrow().is_empty());
            open.pop();
            for task in tasks {
                soon(task).await.unwrap();
            }
            assert_eq!(*done.borrow(), (0..50).collect::<Vec<_>>());
            assert_eq!(soon(kept).await, Ok(1));
            drop(open);
            assert_eq!(soon(work.noted()).await, Ok((100, 100, 0)));
        });
    }
}

/// Polls a future once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[test]
fn two_nodes_that_call_each_other_at_once() {
    let _watchdog = Watchdog::new("both ways");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let stand = Stand::new(kind, waiting);
            serve_here(&stand.node);
            let here = stand.node.name();
            stand.node.block_on(async {
                let work = client(&stand).await;
                let tasks: Vec<_> = (0..32)
                    .map(|task| {
                        let (work, here) = (work.clone(), here.clone());
                        stand.node.spawn(async move {
                            for n in 0..50 {
                                // Its handler calls back here, in the same session.
                                assert_eq!(work.relay(here.clone(), n, task).await, Ok(n + task));
                                let blob = work.blob(n * 300).await;
                                assert_eq!(blob.map(|blob| blob.len() as u64), Ok(n * 300));
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
            });
            // Over a network the peer's name does not say that the name leads to it.
            assert_eq!(stand.node.sessions(), if over_network() { 2 } else { 1 });
        }
    }
}

#[test]
fn many_one_way_messages_arrive_in_order() {
    let _watchdog = Watchdog::new("one-ways");
    let count = if cfg!(debug_assertions) { 200_000 } else { 4_000_000 };
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = client(&stand).await;
            for number in 1..=count {
                work.note(number).await.unwrap();
            }
            // A call is ordered behind them.
            assert_eq!(work.noted().await, Ok((count, count, 0)));
        });
    }
}

#[test]
fn one_way_messages_are_heard_by_a_sleeper() {
    let _watchdog = Watchdog::new("sleeper");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Sleeping);
        stand.node.block_on(async {
            let work = client(&stand).await;
            for number in 1..=200 {
                work.note(number).await.unwrap();
                // Nothing is sent behind it, so it must have rung by itself.
                if number % 20 == 0 {
                    upbeat::sleep(Duration::from_millis(2)).await;
                }
            }
            assert_eq!(work.noted().await, Ok((200, 200, 0)));
        });
    }
}

#[test]
fn a_full_lane_makes_its_sender_wait() {
    let _watchdog = Watchdog::new("lane full");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let stand = Stand::new(kind, waiting);
            stand.node.block_on(async {
                let work = client(&stand).await;
                let stalling = work.clone();
                let stall = stand.node.spawn(async move { stalling.stall(300).await });
                yield_now().await;
                // More than the largest lane holds.
                let text = "x".repeat(1000);
                for number in 1..=6000 {
                    work.note_text(number, text.clone()).await.unwrap();
                }
                assert_eq!(work.noted().await, Ok((6000, 6000, 0)));
                stall.await.unwrap().unwrap();
                assert!(stand.node.counted(Counter::LaneFull) > 0);
            });
        }
    }
}

#[test]
fn many_large_messages_at_once() {
    let _watchdog = Watchdog::new("large");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = client(&stand).await;
            let tasks: Vec<_> = (0..40)
                .map(|task| {
                    let work = work.clone();
                    stand.node.spawn(async move {
                        let sent = vec![task; 900_000 + task as usize];
                        assert!(work.bytes(sent.clone()).await.as_ref() == Ok(&sent));
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}

#[test]
fn one_way_messages_that_wait_at_their_receiver_all_end() {
    let _watchdog = Watchdog::new("unfinished");
    for kind in KINDS {
        at_once([Waiting::Adaptive, Waiting::Sleeping], |waiting| {
            let stand = Stand::new(kind, waiting);
            stand.node.block_on(async {
                let work = client(&stand).await;
                let count = 70_000;
                for number in 1..=count {
                    // So long that all have come before the first one ends.
                    work.note_late(number, 1500).await.unwrap();
                }
                loop {
                    let (noted, ..) = work.noted().await.unwrap();
                    if noted == count {
                        break;
                    }
                    upbeat::sleep(Duration::from_millis(5)).await;
                }
                assert_eq!(work.waiting().await, Ok((0, count)));
            });
        });
    }
}

#[test]
fn an_answer_that_comes_late_wakes_a_sleeper() {
    const CLIENTS: u64 = 8;
    const NAPS: u64 = 3;
    let _watchdog = Watchdog::new("late answers");
    // A server that is always awake, so that it is not its going to sleep that rings.
    let stand = Stand::new(Kind::Shared, Waiting::Polling);
    // So many sessions that the server does not look at each of them all the time.
    let ready = Arc::new(Barrier::new(CLIENTS as usize + 1));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (name, server) = (format!("{}/{number}", stand.node.name()), stand.name());
            let (place, ready) = (stand.place.clone(), Arc::clone(&ready));
            std::thread::spawn(move || {
                let node = crate::common::node(&name, &place, Waiting::Sleeping);
                let work: WorkClient = node.block_on(node.connect(&server)).unwrap();
                for _ in 0..2 {
                    ready.wait();
                }
                for n in 0..NAPS {
                    assert_eq!(node.block_on(soon(work.nap(300, n))), Ok(n));
                }
            })
        })
        .collect();
    ready.wait();
    let work = stand.node.block_on(client(&stand));
    let bells = || stand.node.block_on(work.counted(Counter::BellsSent as u64).into_future());
    let before = bells().unwrap();
    ready.wait();
    clients.into_iter().for_each(|client| client.join().unwrap());
    // A client of a busy machine may not sleep yet, and over a byte stream the message itself wakes.
    let bells = bells().unwrap() - before;
    assert!(over_streams() || bells >= CLIENTS * NAPS / 2, "{bells}");
}

#[test]
fn a_handler_that_waits_is_passed_by_others() {
    let _watchdog = Watchdog::new("promotion");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = client(&stand).await;
            let mut slow = Box::pin(work.forever());
            let sent = poll_fn(|context| Poll::Ready(slow.as_mut().poll(context).is_pending()));
            assert!(sent.await);
            for n in 0..1000 {
                assert_eq!(work.add(n, 1).await, Ok(n + 1));
            }
            assert_eq!(work.waiting().await, Ok((1, 1)), "it still waits");
            drop(slow);
            while work.waiting().await != Ok((0, 1)) {}
        });
    }
}
