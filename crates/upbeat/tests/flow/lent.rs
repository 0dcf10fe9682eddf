//! Buffers that are read in place, and kept.

use crate::common::server::{KINDS, Kind};
use crate::common::{Watchdog, over_network};
use crate::depot::{DepotHandle, Make, Stand, bytes_of, started, sum, with_each_kind};
use std::time::Duration;
use upbeat::{InPlace, Waiting};
use upbeat_core::limits::{self, BUFFERS, BUFFERS_FIRST, SLABS_PER_SIZE_MAX};

/// A value that fits a slot is copied out of it, and a long value lies in a buffer. In between, the
/// sender decides.
const SLOT: usize = 104;
const LONG: usize = 4096;

/// Buffers of one of the usual sizes that a session has, for requests as for answers.
pub(crate) fn all_of(size: usize) -> u64 {
    assert_eq!(SLABS_PER_SIZE_MAX, 2, "the first is the small one");
    u64::from(BUFFERS_FIRST[size] + BUFFERS[size])
}

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
    let _watchdog = Watchdog::new("items");
    with_each_kind(async |depot| {
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

/// A handler that has become a task reads in place still, and sends it on.
#[test]
fn what_is_kept_stays_as_it_was() {
    let _watchdog = Watchdog::new("kept");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let make = Make::new(waiting);
            let stand = Stand::new(kind, make, make);
            let third = format!("third/{}", stand.id);
            let _third = started(kind, &third, &stand.place, make);
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

/// Handlers that keep their arguments in place leave buffers to what comes behind: half of them are
/// copied, and of long ones all but two.
#[test]
fn what_is_kept_holds_up_nobody() {
    let _watchdog = Watchdog::new("nobody");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for (count, len) in [(150, 5000), (80, 60_000), (12, 5_000_000)] {
                let make = Make::new(waiting);
                let stand = Stand::new(kind, make, make);
                stand.node.block_on(async {
                    let depot = stand.client().await;
                    let tasks: Vec<_> = (0..count)
                        .map(|_| {
                            let depot = depot.clone();
                            stand.node.spawn(async move {
                                let items = vec![1.0; len / 8];
                                depot.sum_float(String::new(), items.into()).await
                            })
                        })
                        .collect();
                    // The request comes behind the others.
                    upbeat::sleep(Duration::from_millis(10)).await;
                    let bytes = bytes_of(1, len);
                    assert!(depot.echo(bytes.clone()).await == Ok(bytes));
                    stand.open(true);
                    let mut lent = 0;
                    for task in tasks {
                        let (items, sum, is_lent) = task.await.unwrap().unwrap();
                        assert_eq!((items, sum), ((len / 8) as u64, (len / 8) as f64));
                        lent += u32::from(is_lent);
                    }
                    let most = match len {
                        5000 => all_of(2) as u32 / 2,
                        60_000 => all_of(3) as u32 / 2,
                        _ => limits::LONG_KEPT_MAX as u32,
                    };
                    assert!((1..=most).contains(&lent), "{lent} of {len} bytes");
                });
            }
        }
    }
}

/// The longest that are kept leave room for as long ones.
#[test]
fn one_as_long_comes_behind_one_that_is_kept() {
    let _watchdog = Watchdog::new("as long");
    let make = Make::new(Waiting::Adaptive);
    let stand = Stand::new(Kind::Local, make, make);
    let len = limits::LONG_BYTES_MAX / 2 + 1000;
    stand.node.block_on(async {
        let depot = stand.client().await;
        for _ in 0..3 {
            assert_eq!(depot.lend(vec![1; len].into()).await, Ok(1));
        }
    });
}

/// A value that is read in place outlives its session, and its sender.
#[test]
fn what_is_lent_outlives_its_sender() {
    let _watchdog = Watchdog::new("outlives");
    for kind in KINDS {
        for len in [80, 6000, 70_000, 3_000_000] {
            let make = Make::new(Waiting::Adaptive);
            let mut stand = Stand::new(kind, make, make);
            let bytes = bytes_of(8, len);
            let mirrored: InPlace<u8> = stand.node.block_on(async {
                let depot = stand.client().await;
                loop {
                    let mirrored: InPlace<u8> = depot.mirror(bytes.clone().into()).await.unwrap();
                    // A reply between hosts may come in the ring before a buffer for it is granted.
                    if !over_network() || mirrored.is_lent() || len <= 80 {
                        break mirrored;
                    }
                }
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

/// The values that a handle holds in place are bounded too, and may be given back on any thread.
#[test]
fn handles_hold_and_give_back() {
    let _watchdog = Watchdog::new("handles");
    for kind in KINDS {
        let make = Make::new(Waiting::Sleeping);
        let stand = Stand::new(kind, make, make);
        stand.ask(|depot: DepotHandle| {
            let blocking = depot.blocking();
            for (len, most) in [(60_000, all_of(3) / 2), (5_000_000, limits::LONG_KEPT_MAX as u64)]
            {
                let mut kept = Vec::new();
                for number in 0..10 {
                    kept.push(blocking.mirror(bytes_of(number, len).into()).unwrap());
                }
                let lent = kept.iter().filter(|kept| kept.is_lent()).count() as u64;
                assert!((1..=most).contains(&lent), "{lent} of {len} bytes");
                let back = kept.split_off(5);
                std::thread::spawn(move || drop(back)).join().unwrap();
                for (number, kept) in (0..).zip(&kept) {
                    assert_eq!(kept.to_vec(), bytes_of(number, len));
                }
            }
        });
        // There are more replies at once than buffers for them: a caller that reads makes room.
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
