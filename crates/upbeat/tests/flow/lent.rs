//! Buffers that are read in place, and kept.

use crate::common::server::KINDS;
use crate::common::{Watchdog, first};
use crate::depot::{DepotHandle, Make, Server, Stand, bytes_of, sum};
use std::time::{Duration, Instant};
use upbeat::{InPlace, Waiting};
use upbeat_core::limits::{self, BUFFERS_FIRST, SLABS_PER_SIZE_MAX};

/// What fits a slot is copied out of it, and what is long lies in a buffer. In between it is the
/// sender who says.
const SLOT: usize = 104;
const LONG: usize = 4096;

/// Buffers of the longest medium answers that a session has.
const BUFFERS: u64 =
    BUFFERS_FIRST[3] as u64 + (SLABS_PER_SIZE_MAX as u64 - 1) * limits::BUFFERS[3] as u64;

/// Items whose encoding, behind a byte and a count, has a length around these.
fn counts(each: usize) -> Vec<usize> {
    let around = |bytes: usize| {
        let most = (bytes - 16) / each;
        most.saturating_sub(2)..=most + 2
    };
    let ends = [SLOT, 512, 8192, 65_536].into_iter().flat_map(around);
    [0, 1, 2, 3].into_iter().chain(ends).chain([300_000 / each]).collect()
}

fn is_lent(bytes: usize, lent: bool, what: &str) {
    let len = 16 + bytes.next_multiple_of(8);
    if !(SLOT + 1..LONG).contains(&len) {
        assert_eq!(lent, len > SLOT, "{bytes} bytes of {what}");
    }
}

#[test]
fn items_of_every_size_are_read_where_they_lie() {
    let _watchdog = Watchdog::new("items", 120);
    for kind in KINDS {
        let make = Make::new(Waiting::Adaptive);
        let stand = Stand::new(kind, make, make);
        stand.open(true);
        stand.node.block_on(async {
            let depot = stand.client().await;
            for count in counts(1) {
                let items = bytes_of(1, count);
                let sum = sum(&items);
                let (n, total, lent) = depot.sum8(1, items.into()).await.unwrap();
                assert_eq!((n, total), (count as u64, sum));
                is_lent(count, lent, "u8");
            }
            for count in counts(2) {
                let items: Vec<u16> = (0..count).map(|at| (at * 77) as u16).collect();
                let sum = items.iter().copied().map(u64::from).sum();
                let (n, total, lent) = depot.sum16(1, items.into()).await.unwrap();
                assert_eq!((n, total), (count as u64, sum));
                is_lent(2 * count, lent, "u16");
            }
            for count in counts(4) {
                let items: Vec<u32> = (0..count).map(|at| (at * 777_777) as u32).collect();
                let sum = items.iter().copied().map(u64::from).sum();
                let (n, total, lent) = depot.sum32(1, items.into()).await.unwrap();
                assert_eq!((n, total), (count as u64, sum));
                is_lent(4 * count, lent, "u32");
            }
            for count in counts(8) {
                for tag in ["", "a", "behind so many bytes"] {
                    let items: Vec<f64> = (0..count).map(|at| at as f64).collect();
                    let sum = items.iter().sum();
                    let (n, total, lent) = depot.sum_float(tag.into(), items.into()).await.unwrap();
                    assert_eq!((n, total), (count as u64, sum));
                    is_lent(8 * count + tag.len().next_multiple_of(8), lent, "f64");
                }
            }
            for count in counts(16) {
                let items: Vec<[u64; 2]> = (0..count as u64).map(|at| [at, at * at]).collect();
                let sum = items.iter().map(|[one, two]| one * 3 + two).sum();
                let tag = "odd";
                let (n, total, lent) = depot.sum_pairs(tag.into(), items.into()).await.unwrap();
                assert_eq!((n, total), (count as u64, sum));
                is_lent(16 * count + 8, lent, "pairs");
            }
        });
    }
}

/// A handler that has become a task reads in place still, and sends it on.
#[test]
fn what_is_kept_stays_as_it_was() {
    let _watchdog = Watchdog::new("kept", 120);
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let make = Make::new(waiting);
            let stand = Stand::new(kind, make, make);
            let third = format!("third/{}", stand.id);
            let _third = Server::start(kind, &third, &stand.place, make);
            stand.node.block_on(async {
                let depot = stand.client().await;
                let tasks: Vec<_> = (0..28_usize)
                    .map(|task| {
                        let (depot, third) = (depot.clone(), third.clone());
                        stand.node.spawn(async move {
                            let items: Vec<u32> =
                                (0..30 * task * task).map(|at| (at + task) as u32).collect();
                            let sum: u64 = items.iter().copied().map(u64::from).sum();
                            let count = items.len() as u64;
                            let sent = depot.forward(1, items.into(), third).await;
                            assert_eq!(sent, Ok(count + sum));
                        })
                    })
                    .collect();
                // Others come and go in the buffers beside them.
                for number in 0..500 {
                    let bytes = bytes_of(number, number as usize * 17 % 3000);
                    assert_eq!(depot.echo(bytes.clone()).await, Ok(bytes));
                }
                stand.open(true);
                for task in tasks {
                    task.await.unwrap();
                }
            });
        }
    }
}

/// All buffers of a size are kept by the receiver: senders wait, and go on when some come back,
/// whoever gives them back and when.
#[test]
fn who_waits_for_a_buffer_is_told_when_one_comes_back() {
    let _watchdog = Watchdog::new("buffers", 120);
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for elsewhere in [false, true] {
                for len in [5000, 8000, 65_000] {
                    let make = Make::new(waiting);
                    let stand = Stand::new(kind, make, make);
                    stand.node.block_on(async {
                        let depot = stand.client().await;
                        let mut buffers = 0;
                        while let Ok(lent) = depot.lend(vec![1; len].into()).try_send() {
                            buffers += 1;
                            assert_eq!(lent.await, Ok(buffers));
                        }
                        assert!((16..=128).contains(&buffers), "{buffers} buffers of {len}");
                        // Those of other sizes and short ones pass.
                        assert_eq!(depot.echo(vec![5; 8]).await, Ok(vec![5; 8]));
                        let other = if len > 8192 { 6000 } else { 40_000 };
                        assert_eq!(depot.echo(vec![5; other]).await, Ok(vec![5; other]));
                        let waits: Vec<_> = (0..10)
                            .map(|_| {
                                let depot = depot.clone();
                                stand
                                    .node
                                    .spawn(async move { depot.lend(vec![1; len].into()).await })
                            })
                            .collect();
                        stand.settled().await;
                        stand.ask(move |depot| {
                            // By another session, so that nothing comes in the one that waits.
                            depot.blocking().give_back(15, elsewhere).unwrap();
                        });
                        for wait in waits {
                            let kept = wait.await.unwrap().unwrap();
                            assert!((buffers - 14..=buffers - 5).contains(&kept), "{kept}");
                        }
                        depot.give_back(buffers - 5, false).await.unwrap();
                        for _ in 0..3 * buffers {
                            let bytes = bytes_of(4, len);
                            let mirrored = depot.mirror(bytes.clone().into()).await.unwrap();
                            assert!(mirrored.is_lent() && mirrored.to_vec() == bytes);
                        }
                    });
                }
            }
        }
    }
}

/// What is read in place outlives its session, and its sender.
#[test]
fn what_is_lent_outlives_its_sender() {
    let _watchdog = Watchdog::new("outlives", 60);
    for kind in KINDS {
        for len in [80, 6000, 70_000, 3_000_000] {
            let make = Make::new(Waiting::Adaptive);
            let mut stand = Stand::new(kind, make, make);
            let bytes = bytes_of(8, len);
            let mirrored: InPlace<u8> = stand.node.block_on(async {
                let depot = stand.client().await;
                depot.mirror(bytes.clone().into()).await.unwrap()
            });
            stand.server = None;
            stand.node.block_on(crate::common::until(|| stand.node.sessions() == 0));
            assert_eq!(mirrored.is_lent(), len > 80);
            assert_eq!(mirrored.to_vec(), bytes);
            let Stand { node, .. } = stand;
            drop(node);
            let moved = std::thread::spawn(move || mirrored.to_vec() == bytes);
            assert!(moved.join().unwrap());
        }
    }
}

/// Answers that a client keeps take all buffers for answers: its callee goes on when it lets go,
/// in whichever thread.
#[test]
fn answers_that_are_kept_hold_up_their_sender_alone() {
    let _watchdog = Watchdog::new("answers", 120);
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for elsewhere in [false, true] {
                let make = Make::new(waiting);
                let stand = Stand::new(kind, make, make);
                stand.node.block_on(async {
                    let depot = stand.client().await;
                    let mut kept = Vec::new();
                    let mut call = loop {
                        let bytes = bytes_of(kept.len() as u64, LONG);
                        let mut call = Box::pin(depot.mirror(bytes.into()));
                        let nap = upbeat::sleep(Duration::from_millis(60));
                        match first(call.as_mut(), nap).await {
                            Ok(answer) => kept.push(answer.unwrap()),
                            Err(()) => break call,
                        }
                    };
                    let last = kept.len() as u64;
                    assert!((16..=128).contains(&last), "{last} buffers");
                    let back = kept.split_off(kept.len() - 5);
                    match elsewhere {
                        false => drop(back),
                        true => drop(std::thread::spawn(move || {
                            std::thread::sleep(Duration::from_millis(100));
                            drop(back);
                        })),
                    }
                    assert_eq!(call.as_mut().await.unwrap().to_vec(), bytes_of(last, LONG));
                    for (number, kept) in (0..).zip(&kept) {
                        assert_eq!(kept.to_vec(), bytes_of(number, LONG));
                    }
                });
            }
        }
    }
}

/// The same through handles.
#[test]
fn handles_hold_and_give_back() {
    let _watchdog = Watchdog::new("handles", 120);
    for kind in KINDS {
        let make = Make::new(Waiting::Sleeping);
        let stand = Stand::new(kind, make, make);
        stand.ask(|depot: DepotHandle| {
            let blocking = depot.blocking();
            let mut kept = Vec::new();
            for number in 0..BUFFERS {
                kept.push(blocking.mirror(bytes_of(number, 60_000).into()).unwrap());
            }
            let back = kept.split_off(4);
            let began = Instant::now();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(150));
                drop(back);
            });
            // It is answered when the other thread lets go.
            let bytes = bytes_of(1, 60_000);
            assert_eq!(blocking.mirror(bytes.clone().into()).unwrap().to_vec(), bytes);
            assert!(began.elapsed() >= Duration::from_millis(150), "there were more buffers");
            thread.join().unwrap();
            for (number, kept) in (0..).zip(&kept) {
                assert_eq!(kept.to_vec(), bytes_of(number, 60_000));
            }
        });
        // More answers at once than there are buffers for: who reads them makes room.
        let handle = stand.ask(|depot| depot);
        let node = upbeat::Node::builder(&format!("reader/{}", stand.id));
        let node = node.program(crate::common::PROGRAM).local_only().build().unwrap();
        node.block_on(async {
            let tasks: Vec<_> = (0..300)
                .map(|number| {
                    let handle = handle.clone();
                    node.spawn(async move {
                        let len = [400, 60_000][number as usize % 2];
                        assert_eq!(handle.blob(len).await, Ok(bytes_of(len, len as usize)));
                        let bytes = bytes_of(number, len as usize);
                        assert_eq!(handle.echo(bytes.clone()).await, Ok(bytes));
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}
