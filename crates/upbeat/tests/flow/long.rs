//! Long messages, and those that ask for room first: they come whole, and leave nothing behind
//! wherever they end.

use crate::budget::whole;
use crate::common::server::{KINDS, Kind};
use crate::common::{Watchdog, first, soon, until, yield_now};
use crate::depot::{DepotClient, Make, Stand, bytes_of, is_lost, sum};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use upbeat::{CallError, Counter, Waiting};
use upbeat_core::limits::{CALLS_PER_SESSION_MAX, LONG_KEPT_MAX, LONG_SLAB_BYTES, SLABS_LONG_MAX};

const MIB: usize = 1 << 20;
/// So long that each has a slab of its own.
const SINGLE: usize = LONG_SLAB_BYTES / 2 + 1;

/// Polls a future once, which is not done by that.
pub(crate) async fn begin<F: Future>(mut future: Pin<&mut F>) {
    let pending = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await;
    assert!(pending);
}

#[test]
fn they_come_whole_both_ways() {
    let _watchdog = Watchdog::new("whole");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let make = Make::new(waiting);
            for client in [make, make.conservative()] {
                let stand = Stand::new(kind, make, client);
                stand.node.block_on(async {
                    let depot = stand.client().await;
                    let before = stand.node.counted(Counter::RoomAsked);
                    // The count stands before the bytes: these are 65,536 and one word more.
                    let lens = [65_528, 65_529, 65_536, 65_537, MIB, 16 * MIB];
                    for len in lens {
                        let bytes = bytes_of(1, len);
                        assert!(depot.echo(bytes.clone()).await == Ok(bytes), "{len} bytes");
                    }
                    let asked = stand.node.counted(Counter::RoomAsked) - before;
                    assert_eq!(asked, if client.conservative { lens.len() as u64 } else { 0 });
                });
            }
        }
    }
}

/// The length of a value is known only when it is written: it may look short, or as if it fitted the ring.
#[test]
fn what_is_longer_than_it_looks_goes_all_the_same() {
    let _watchdog = Watchdog::new("looks");
    for kind in KINDS {
        let make = Make::new(Waiting::Adaptive);
        for client in [make, make.conservative()] {
            let stand = Stand::new(kind, make, client);
            stand.node.block_on(async {
                let depot = stand.client().await;
                for (count, each) in [(2, 60), (20, 3000), (20, 4000), (1000, 1000), (5000, 30)] {
                    let asked = stand.node.counted(Counter::RoomAsked);
                    let texts = vec!["t".repeat(each); count];
                    let same = depot.texts(texts.clone()).await.map(|back| back == texts);
                    assert_eq!(same, Ok(true), "{count} of {each}");
                    let asked = stand.node.counted(Counter::RoomAsked) - asked;
                    assert_eq!(asked, u64::from(client.conservative), "{count} of {each}");
                }
            });
        }
    }
}

#[test]
fn a_hundred_mebibytes() {
    let _watchdog = Watchdog::new("100 MiB");
    let make = Make::new(Waiting::Adaptive);
    let stand = Stand::new(Kind::Shared, make, make);
    stand.node.block_on(async {
        let depot = stand.client().await;
        let bytes = vec![7; 100 * MIB];
        let back = depot.echo(bytes).await.unwrap();
        assert!(back.len() == 100 * MIB && back.iter().all(|byte| *byte == 7));
    });
}

/// Long values are sent while earlier ones lie unread, up to the number of buffers, and are received in order.
#[test]
fn the_next_is_written_while_the_one_before_is_read() {
    let _watchdog = Watchdog::new("overlap");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let make = Make::new(waiting);
            let stand = Stand::new(kind, make.share(1), make);
            stand.node.block_on(async {
                let depot = stand.client().await;
                let long = |number| depot.put(number, bytes_of(number, SINGLE + number as usize));
                depot.put(1, vec![]).await.unwrap();
                assert_eq!(stand.settled().await.0, 1);
                let last = 1 + SLABS_LONG_MAX as u64;
                for number in 2..=last {
                    soon(long(number)).await.unwrap();
                }
                assert_eq!(long(last + 1).try_send(), Err(CallError::Full));
                let mut wait = pin!(long(last + 1));
                begin(wait.as_mut()).await;
                assert_eq!(stand.settled().await.0, 1);
                stand.open(true);
                wait.await.unwrap();
                let bytes = bytes_of(0, MIB);
                let summed = sum(&bytes);
                assert_eq!(depot.keep(last + 2, bytes).await, Ok((last + 2, summed)));
                let (began, standing, _, disorder) = depot.state().await.unwrap();
                assert_eq!((began, standing, disorder), (last + 2, 0, 0));
            });
            whole(&stand, 1);
        }
    }
}

/// Several at once from several tasks, more bytes than a session may keep.
#[test]
fn more_than_there_is_memory_for_takes_turns() {
    let _watchdog = Watchdog::new("turns");
    let make = Make::new(Waiting::Adaptive);
    let len = 90 * MIB;
    for budget in [1 << 30, 1] {
        let stand = Stand::new(Kind::Shared, make.share(budget), make);
        stand.open(true);
        stand.node.block_on(async {
            let depot = stand.client().await;
            let tasks: Vec<_> = (0..4_u64)
                .map(|task| {
                    let depot = depot.clone();
                    stand.node.spawn(async move {
                        let len = len + task as usize * MIB;
                        let answer = depot.keep(task, vec![1; len]).await;
                        assert_eq!(answer, Ok((task, len as u64)));
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}

/// The future that is to go first is polled last: it is not overtaken for good by those that would
/// take the buffers which are left, and wait in them behind it. It may lose its grant, and asks again.
#[test]
fn one_that_is_polled_late_is_waited_for() {
    let _watchdog = Watchdog::new("late");
    let make = Make::new(Waiting::Adaptive);
    let stand = Stand::new(Kind::Local, make, make.conservative());
    stand.open(true);
    stand.node.block_on(async {
        let depot = stand.client().await;
        let len = SINGLE;
        for kept in 1..=LONG_KEPT_MAX as u64 {
            assert_eq!(depot.lend(vec![1; len].into()).await, Ok(kept));
        }
        let mut one = pin!(depot.keep(1, vec![1; len]));
        begin(one.as_mut()).await;
        let others: Vec<_> = (2..5)
            .map(|number| {
                let depot = depot.clone();
                stand.node.spawn(async move { depot.keep(number, vec![1; len]).await })
            })
            .collect();
        // All have asked, and room was granted to all.
        upbeat::sleep(Duration::from_millis(200)).await;
        assert_eq!(one.await, Ok((1, len as u64)));
        for (number, other) in (2..).zip(others) {
            assert_eq!(other.await.unwrap(), Ok((number, len as u64)));
        }
    });
}

/// Room was granted to one for which there is no buffer now: those that wait behind it in the queue,
/// which can go no further before it, do not keep it waiting. On a busy machine it may lose its grant, and
/// with it its place in the order.
#[test]
fn one_that_was_granted_does_not_stand_behind_others() {
    let _watchdog = Watchdog::new("granted");
    for kind in KINDS {
        let make = Make::new(Waiting::Adaptive);
        let stand = Stand::new(kind, make, make.conservative());
        stand.open(true);
        stand.node.block_on(async {
            let depot = stand.client().await;
            let len = SINGLE;
            for kept in 1..=LONG_KEPT_MAX as u64 {
                assert_eq!(depot.lend(vec![1; len].into()).await, Ok(kept));
            }
            // These take the other buffers, and the last one has none.
            let one = |number| Box::pin(depot.put(number, bytes_of(number, len)));
            let left = (SLABS_LONG_MAX - LONG_KEPT_MAX) as u64;
            let mut longs: Vec<_> = (1..=left + 1).map(one).collect();
            for long in &mut longs {
                begin(long.as_mut()).await;
            }
            upbeat::sleep(Duration::from_millis(20)).await;
            let stalls = {
                let watcher = stand.ask(|depot| depot);
                std::thread::spawn(move || watcher.blocking().stall(1000).unwrap())
            };
            upbeat::sleep(Duration::from_millis(30)).await;
            let mut last = longs.pop().unwrap();
            for long in longs {
                long.await.unwrap();
            }
            let tasks: Vec<_> = (left + 2..200)
                .map(|number| {
                    let depot = depot.clone();
                    let bytes = bytes_of(number, 5000);
                    stand.node.spawn(async move { depot.put(number, bytes).await })
                })
                .collect();
            upbeat::sleep(Duration::from_millis(20)).await;
            // The message is sent at once if the other node did not stand still so soon.
            let polled = poll_fn(|context| Poll::Ready(last.as_mut().poll(context))).await;
            match polled {
                Poll::Ready(sent) => sent.unwrap(),
                Poll::Pending => last.await.unwrap(),
            }
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            stalls.join().unwrap();
            let (began, standing, ..) = depot.state().await.unwrap();
            assert_eq!((began, standing), (199, 0));
        });
    }
}

/// Given up before room is granted, after it, and when its time is over: no room stays reserved.
#[test]
fn what_is_given_up_leaves_no_room_reserved() {
    let _watchdog = Watchdog::new("reserved");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let make = Make::new(waiting);
            let stand = Stand::new(kind, make.share(1000), make.conservative());
            stand.open(true);
            stand.node.block_on(async {
                let depot = stand.client().await;
                for turns in 0..60 {
                    let mut call = pin!(depot.echo(bytes_of(turns, 100_000)));
                    begin(call.as_mut()).await;
                    // Granted or not, and never polled again.
                    for _ in 0..turns {
                        yield_now().await;
                    }
                    if turns % 20 == 19 {
                        upbeat::sleep(Duration::from_millis(5)).await;
                    }
                    if turns % 3 == 0 {
                        let mut put = pin!(depot.put(1, bytes_of(turns, 100_000)));
                        begin(put.as_mut()).await;
                        for _ in 0..turns {
                            yield_now().await;
                        }
                    }
                }
                let mut late = 0;
                for micros in [0, 10, 50, 100, 200, 500, 1000] {
                    let call = depot.echo(bytes_of(1, MIB));
                    match call.deadline(Duration::from_micros(micros)).await {
                        Ok(_) => {}
                        Err(CallError::Deadline(_)) => late += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                assert!(late > 0, "a mebibyte goes both ways in no time");
                let bytes = bytes_of(1, 90_000);
                assert_eq!(depot.echo(bytes.clone()).await, Ok(bytes));
                assert_eq!(stand.counted(Counter::PeerFaults), 0);
                assert_eq!(stand.node.counted(Counter::PeerFaults), 0);
            });
            whole(&stand, 1000);
        }
    }
}

/// The peer dies at each stage, or shuts down.
#[test]
fn the_peer_dies_meanwhile() {
    let _watchdog = Watchdog::new("dies");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for micros in [0, 100, 1000, 10_000] {
                for share in [1, 1 << 30] {
                    let make = Make::new(waiting);
                    let mut stand = Stand::new(kind, make.share(share), make);
                    let mut server = stand.server.take().unwrap();
                    stand.node.block_on(async {
                        let depot = stand.client().await;
                        let tasks: Vec<_> = (0..6_u64)
                            .map(|task| {
                                let depot = depot.clone();
                                stand.node.spawn(async move {
                                    match task % 3 {
                                        0 => depot.put(task, vec![1; 4 * MIB]).await,
                                        1 => depot.keep(task, vec![1; 4 * MIB]).await.map(drop),
                                        _ => depot.blob(8 * MIB as u64).await.map(drop),
                                    }
                                })
                            })
                            .collect();
                        yield_now().await;
                        let ends = std::thread::spawn(move || {
                            std::thread::sleep(Duration::from_micros(micros));
                            server.kill();
                            server
                        });
                        for (number, task) in tasks.into_iter().enumerate() {
                            match task.await.unwrap() {
                                // A call of `keep` stands at the gate, which nobody opens.
                                Ok(()) => assert_ne!(number % 3, 1, "a reply of a dead peer"),
                                Err(error) => assert!(is_lost(&error), "{error}"),
                            }
                        }
                        until(|| stand.node.sessions() == 0).await;
                        drop(ends.join().unwrap());
                    });
                }
            }
        }
    }
}

/// The caller's process dies while its long requests wait, are granted, are on their way, are
/// served: the node's budget is whole.
#[test]
fn a_dead_caller_leaves_the_budget_whole() {
    let _watchdog = Watchdog::new("dead caller");
    for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
        for ms in [0, 1, 2, 5, 20] {
            let make = Make::new(waiting);
            let stand = Stand::new(Kind::Shared, make.budget(1000).share(1000), make);
            let part = format!("flood {} {waiting:?} 0 0 false", stand.name());
            let mut flood = crate::common::process::Other::start(&part, &stand.place);
            flood.expect("flooding");
            std::thread::sleep(Duration::from_millis(ms));
            flood.kill();
            drop(flood);
            stand.node.block_on(until(|| stand.counted(Counter::SessionsLost) > 0));
            // One-way messages that were accepted stand still, and hold what they take of the budget.
            stand.open(true);
            stand.node.block_on(async {
                // The client's session and the watcher's remain.
                let depot = stand.client().await;
                let bytes = bytes_of(5, 100_000);
                assert_eq!(depot.echo(bytes.clone()).await, Ok(bytes));
                until(|| stand.state().1 == 0).await;
            });
            whole(&stand, 1000);
        }
    }
}

/// Floods a depot with requests of all lengths, until it is killed.
pub(crate) fn flood(name: &str, place: &std::path::Path, make: Make) {
    let node = make.node("flood", place);
    node.block_on(async {
        let depot: DepotClient = node.connect(name).await.unwrap();
        crate::common::process::say("flooding");
        for number in 1..=200_u64 {
            let depot = depot.clone();
            drop(node.spawn(async move {
                let len = [8, 500, 100_000, 2 * MIB][number as usize % 4];
                let bytes = bytes_of(number, len);
                match number % 3 {
                    0 => drop(depot.put(number, bytes).await),
                    _ => drop(depot.keep(number, bytes).await),
                }
            }));
        }
        std::future::pending::<()>().await;
    });
}

/// A node that shuts down while long requests wait for room: each ends with an error.
#[test]
fn a_node_shuts_down_meanwhile() {
    let _watchdog = Watchdog::new("shuts down");
    for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
        let make = Make::new(waiting);
        let stand = Stand::new(Kind::Local, make, make);
        let name = format!("ending/{}", stand.id);
        let (place, thread_name) = (stand.place.clone(), name.clone());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let node = make.share(1).node(&thread_name, &place);
            let keeper = crate::depot::serve(&node);
            ready.send(()).unwrap();
            node.block_on(until(|| node.counted(Counter::RefusedHere) > 3));
            node.shut_down(Duration::from_millis(100));
            *keeper.node.borrow_mut() = None;
        });
        is_ready.recv().unwrap();
        stand.node.block_on(async {
            let depot: DepotClient = stand.node.connect(&name).await.unwrap();
            let tasks: Vec<_> = (0..20_usize)
                .map(|task| {
                    let depot = depot.clone();
                    let len = [8, 500, 100_000, 2 * MIB][task % 4];
                    stand.node.spawn(async move { depot.keep(1, vec![1; len]).await })
                })
                .collect();
            for task in tasks {
                assert!(task.await.unwrap().is_err());
            }
        });
        thread.join().unwrap();
    }
}

/// Memory of long messages is given back when nothing is sent any more, by nodes that sleep too.
#[test]
fn memory_of_long_messages_is_given_back() {
    let _watchdog = Watchdog::new("given back");
    // One after the other: both ask how much memory this process has.
    for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
        let make = Make::new(waiting);
        let stand = Stand::new(Kind::Shared, make, make);
        // Its process has our buffers mapped as well as its own: those that we give up go there too.
        let resident = || stand.ask(|depot| depot.blocking().resident().unwrap());
        let before = resident();
        stand.node.block_on(async {
            let depot = stand.client().await;
            drop(depot.echo(vec![1; 40 * MIB]).await.unwrap());
            // Both nodes sleep meanwhile. The buffers are given up after a second.
            let sleeps = stand.node.counted(Counter::Sleeps);
            upbeat::sleep(Duration::from_millis(2500)).await;
            let slept = stand.node.counted(Counter::Sleeps) - sleeps;
            assert!(slept < 12, "it does not sleep: {slept}");
            let after = resident();
            assert!(after < before + 8 * 1024, "{before} {after}");
            let bytes = bytes_of(1, 2 * MIB);
            let sum = sum(&bytes);
            stand.open(true);
            assert_eq!(depot.keep(1, bytes).await, Ok((1, sum)));
        });
        // A handle's too.
        stand.ask(|depot| drop(depot.blocking().echo(vec![1; 20 * MIB]).unwrap()));
        stand.node.block_on(until(|| resident() < before + 8 * 1024));
    }
}

/// Room was granted, and then there is no number for the call: the room is given back, and asked for again
/// when there is one.
#[test]
fn a_grant_that_cannot_be_used_is_given_back() {
    let _watchdog = Watchdog::new("unused");
    let most = CALLS_PER_SESSION_MAX as u64;
    for kind in KINDS {
        let make = Make::new(Waiting::Adaptive);
        let stand = Stand::new(kind, make.share(1 << 30), make.conservative());
        stand.node.block_on(async {
            let depot = stand.client().await;
            let keep = |number| {
                let depot = depot.clone();
                stand.node.spawn(async move { depot.keep(number, vec![]).await })
            };
            let tasks: Vec<_> = (1..most).map(keep).collect();
            until(|| stand.state().0 == most - 1).await;
            let mut long = pin!(depot.keep(0, vec![1; 100_000]));
            begin(long.as_mut()).await;
            // This one takes the last number while that one waits for room.
            let mut last = pin!(depot.keep(most, vec![]));
            begin(last.as_mut()).await;
            // The call has no number when its room comes.
            assert!(first(long.as_mut(), upbeat::sleep(Duration::from_millis(20))).await.is_err());
            stand.open(true);
            assert_eq!(long.await, Ok((0, 100_000)));
            assert_eq!(last.await, Ok((most, 0)));
            for task in tasks {
                assert!(task.await.unwrap().is_ok());
            }
            assert!(depot.echo(vec![1; 100_000]).await.is_ok());
        });
    }
}
