//! Tests of the messages that a node with a small budget accepts, and of their order.

use crate::common::server::{KINDS, Kind};
use crate::common::{Random, Watchdog, at_once, soon, until};
use crate::depot::{DepotClient, Make, Stand, bytes_of, sum};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Waiting};

/// Returns the charge of a request of so many bytes: its two arguments, and its task.
fn price(len: usize) -> u64 {
    256 + 8 + 8 + len.next_multiple_of(8) as u64
}

/// How many of these a budget holds: one begins while less than the budget is taken.
fn begun(budget: u64, lens: impl Iterator<Item = usize>) -> u64 {
    let mut held = 0;
    let fit = lens.take_while(|len| {
        let may = held < budget;
        held += price(*len);
        may
    });
    fit.count() as u64
}

/// Sends requests of these lengths: calls, and every third one-way. They are first polled in this
/// order, independent of which of them find room then.
async fn send_all(
    stand: &Stand,
    depot: &DepotClient,
    lens: &[usize],
) -> Vec<upbeat::JoinHandle<()>> {
    let mut tasks = Vec::new();
    let polled = Rc::new(Cell::new(0));
    for (number, len) in (1..).zip(lens.iter().copied()) {
        let (depot, polled) = (depot.clone(), Rc::clone(&polled));
        tasks.push(stand.node.spawn(async move {
            let bytes = bytes_of(number, len);
            assert_eq!(polled.replace(number), number - 1);
            if number % 3 == 0 {
                return depot.put(number, bytes).await.unwrap();
            }
            let sum = sum(&bytes);
            assert_eq!(depot.keep(number, bytes).await, Ok((number, sum)));
        }));
    }
    tasks
}

fn bounded(make: Make, limit: u64, client: Make, lens: &[usize]) {
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, make, client);
        stand.node.block_on(async {
            let depot = stand.client().await;
            let tasks = send_all(&stand, &depot, lens).await;
            let (began, standing, most, disorder) = stand.settled().await;
            let fit = begun(limit, lens.iter().copied());
            assert_eq!((began, standing, most, disorder), (fit, fit, fit, 0), "{kind:?} {make:?}");
            assert!(fit < lens.len() as u64);
            stand.open(true);
            for task in tasks {
                task.await.unwrap();
            }
            // A call is ordered behind the one-way messages.
            let (began, standing, _, disorder) = depot.state().await.unwrap();
            assert_eq!(
                (began, standing, disorder),
                (lens.len() as u64, 0, 0),
                "{kind:?} {make:?} {client:?}"
            );
        });
    });
}

#[test]
fn what_is_beyond_the_budget_waits_and_is_served_in_order() {
    let _watchdog = Watchdog::new("bounded");
    let short = vec![8; 200];
    let medium: Vec<usize> = (0..60).map(|at| 200 + at * 37 % 3000).collect();
    let mut random = Random::new(7);
    let mixed: Vec<usize> = (0..60)
        .map(|_| match random.below(4) {
            0 | 1 => random.below(80) as usize,
            2 => 100 + random.below(65_000) as usize,
            _ => 65_536 + random.below(200_000) as usize,
        })
        .collect();
    for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
        let make = Make::new(waiting);
        for lens in [&short, &medium, &mixed] {
            bounded(make.share(3000), 3000, make, lens);
            bounded(make.budget(2000).share(1 << 30), 2000, make, lens);
        }
        bounded(make.share(100_000), 100_000, make, &mixed);
        bounded(make.share(3000), 3000, make.conservative(), &mixed);
        bounded(make.share(3000), 3000, make.conservative(), &medium);
    }
}

/// Both sides count the refusals, and the messages for which room was asked.
#[test]
fn refusals_are_counted() {
    let _watchdog = Watchdog::new("counted");
    for kind in KINDS {
        let make = Make::new(Waiting::Adaptive);
        let stand = Stand::new(kind, make.share(1), make);
        stand.node.block_on(async {
            let depot = stand.client().await;
            // One begins; 14 short ones wait there, and 15 medium and 4 long ones here.
            let mut lens: Vec<usize> = (0..30).map(|at| [8, 6000][at % 2]).collect();
            lens.extend([100_000; 4]);
            let tasks = send_all(&stand, &depot, &lens).await;
            let refused =
                || (stand.node.counted(Counter::Refused), stand.counted(Counter::RefusedHere));
            until(|| refused().0 >= 19 && refused().1 >= 33).await;
            assert_eq!(stand.settled().await.0, 1);
            assert_eq!(stand.node.counted(Counter::RoomAsked), 0);
            assert_eq!(refused(), (19, 33));
            stand.open(true);
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(stand.counted(Counter::RefusedHere), 33);
        });
        let careful = make.conservative();
        let stand = Stand::new(kind, make, careful);
        stand.node.block_on(async {
            let depot = stand.client().await;
            stand.open(true);
            let bound = stand.node.counted(Counter::RoomAsked);
            for len in [8, 500, 60_000, 100_000] {
                let bytes = bytes_of(1, len);
                let sum = sum(&bytes);
                assert_eq!(depot.keep(1, bytes).await, Ok((1, sum)));
            }
            assert_eq!(stand.node.counted(Counter::RoomAsked) - bound, 3);
            assert_eq!(stand.node.counted(Counter::Refused), 0);
        });
    }
}

/// A call that waits in its place is given up: it never runs, and what waits behind it does.
#[test]
fn what_is_given_up_in_its_place_never_runs() {
    let _watchdog = Watchdog::new("given up");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let make = Make::new(waiting);
            let stand = Stand::new(kind, make.share(1), make);
            stand.node.block_on(async {
                let depot = stand.client().await;
                let first = {
                    let depot = depot.clone();
                    stand.node.spawn(async move { depot.keep(1, vec![]).await })
                };
                assert_eq!(stand.settled().await.0, 1);
                let lens = [0, 70, 500, 60_000, 65_537, 300_000];
                for len in lens {
                    let late = depot.keep(77, vec![1; len]).deadline(Duration::from_millis(30));
                    assert!(matches!(late.await, Err(CallError::Deadline(_))), "{len}");
                    // Dropped once it has gone as far as it goes.
                    let dropped = depot.keep(78, vec![1; len]);
                    assert!(upbeat::within(Duration::from_millis(20), dropped).await.is_err());
                }
                let behind = {
                    let depot = depot.clone();
                    stand.node.spawn(async move { depot.keep(2, vec![9; 2000]).await })
                };
                assert_eq!(stand.settled().await.0, 1);
                stand.open(true);
                assert_eq!(first.await.unwrap(), Ok((1, 0)));
                assert_eq!(behind.await.unwrap(), Ok((2, 18_000)));
                let (began, standing, most, disorder) = depot.state().await.unwrap();
                assert_eq!((began, standing, most, disorder), (2, 0, 1, 0), "{kind:?}");
                // A busy machine may send some so late that they are given up before they have gone.
                let cancels = stand.counted(Counter::CancelsHonoured);
                assert!((1..=2 * lens.len() as u64).contains(&cancels), "{kind:?}: {cancels}");
                assert_eq!(stand.counted(Counter::PeerFaults), 0);
            });
            whole(&stand, 1);
        }
    }
}

/// A call that has waited for room brings what is left of its time: its handler ends by itself.
#[test]
fn what_has_waited_brings_the_time_that_is_left() {
    let _watchdog = Watchdog::new("left");
    let make = Make::new(Waiting::Adaptive);
    let stand = Stand::new(Kind::Local, make.share(1), make.conservative());
    stand.node.block_on(async {
        let depot = stand.client().await;
        let first = {
            let depot = depot.clone();
            stand.node.spawn(async move { depot.keep(1, vec![]).await })
        };
        assert_eq!(stand.settled().await.0, 1);
        let time = Duration::from_secs(6);
        let mut late = pin!(depot.keep(2, vec![1; 100_000]).deadline(time));
        crate::long::begin(late.as_mut()).await;
        upbeat::sleep(time / 2).await;
        let waited = Instant::now();
        stand.open(true);
        assert_eq!(first.await.unwrap(), Ok((1, 0)));
        stand.open(false);
        while stand.state().0 < 2 {
            crate::long::begin(late.as_mut()).await;
            upbeat::sleep(Duration::from_millis(1)).await;
        }
        // The caller's node is not driven, so it cannot be the one that ends the call.
        while stand.state().1 > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A handler with all of the time would begin after the wait, and end no sooner.
        assert!(waited.elapsed() < time, "{:?}", waited.elapsed());
        assert!(matches!(late.await, Err(CallError::Deadline(_))));
    });
}

/// The depot holds nothing: it begins as many as one that was never used.
pub(crate) fn whole(stand: &Stand, limit: u64) {
    stand.open(false);
    stand.node.block_on(async {
        let depot = stand.client().await;
        let before = stand.state().0;
        let lens = vec![40; 40];
        let tasks = send_all(stand, &depot, &lens).await;
        let now = stand.settled().await.0 - before;
        assert_eq!(now, begun(limit, lens.into_iter()), "its budget is not whole");
        stand.open(true);
        for task in tasks {
            task.await.unwrap();
        }
        depot.state().await.unwrap();
    });
}

/// Handlers that panic, at once and later, of requests that had to wait.
#[test]
fn a_panic_of_what_had_to_wait_costs_itself_alone() {
    let _watchdog = Watchdog::new("panics");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let make = Make::new(waiting);
            let stand = Stand::new(kind, make.share(1), make);
            stand.node.block_on(async {
                let depot = stand.client().await;
                let tasks: Vec<_> = (1..=24)
                    .map(|number| {
                        let depot = depot.clone();
                        stand.node.spawn(async move {
                            let len = [0, 300, 70_000][number as usize % 3];
                            let (late, bytes) = (number % 2 == 0, vec![1; len]);
                            let panicked = match number % 5 {
                                1 => return assert!(depot.keep(number, bytes).await.is_ok()),
                                2 => depot.panics_in_place(number, late, bytes.into()).await,
                                _ => depot.panics(number, late, bytes).await,
                            };
                            let text = panicked.unwrap_err().to_string();
                            assert!(text.contains(&format!("{number} panics")), "{text}");
                        })
                    })
                    .collect();
                assert_eq!(stand.settled().await.0, 1);
                stand.open(true);
                for task in tasks {
                    task.await.unwrap();
                }
                let (began, standing, _, disorder) = depot.state().await.unwrap();
                assert_eq!((began, standing, disorder), (24, 0, 0), "{kind:?}");
            });
            whole(&stand, 1);
        }
    }
}

/// A node that is full of one peer's requests serves others whose handlers end at once.
#[test]
fn who_overloads_a_node_delays_nobody_else() {
    let _watchdog = Watchdog::new("others");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let make = Make::new(waiting);
            let stand = Stand::new(kind, make.budget(1000).share(1000), make);
            let other = make.node(&format!("other/{}", stand.id), &stand.place);
            let name = format!("third/{}", stand.id);
            let _third = crate::depot::started(kind, &name, &stand.place, make);
            let tasks = stand.node.block_on(async {
                let depot = stand.client().await;
                let third: DepotClient = stand.node.connect(&name).await.unwrap();
                let tasks = send_all(&stand, &depot, &[700; 50]).await;
                let before = stand.settled().await;
                assert_eq!(before.0, 2);
                // Neither its tasks that wait nor that node concern a third one.
                for len in [8, 600, 60_000, 500_000] {
                    let bytes = bytes_of(3, len);
                    assert_eq!(soon(third.echo(bytes.clone())).await, Ok(bytes));
                }
                assert_eq!(stand.state(), before, "the node is full all the time");
                tasks
            });
            // Another client is served while the node is full, unless it asks for much.
            other.block_on(async {
                let depot: DepotClient = other.connect(&stand.name()).await.unwrap();
                for len in [8, 600, 60_000] {
                    let bytes = bytes_of(3, len);
                    assert_eq!(soon(depot.echo(bytes.clone())).await, Ok(bytes));
                }
                assert_eq!(stand.state().0, 2);
                let long = upbeat::within(Duration::from_millis(50), depot.echo(vec![1; 100_000]));
                assert!(long.await.is_err());
            });
            stand.open(true);
            stand.node.block_on(async {
                for task in tasks {
                    task.await.unwrap();
                }
            });
        }
    }
}

/// Calls and one-way messages of all lengths, more than a lane has room for: they are begun in the
/// order in which they were first polled.
#[test]
fn a_crowd_keeps_its_order() {
    let _watchdog = Watchdog::new("crowd");
    let lens: Vec<usize> = (0..600)
        .map(|at| match at * 7 % 11 {
            0..=5 => at % 90,
            6 | 7 => 200 + at * 3,
            8 | 9 => 6000 + at * 100,
            _ => 65_537 + at * 100,
        })
        .collect();
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for (share, client) in [(1 << 30, 0), (3000, 0), (1 << 30, 1), (3000, 1)] {
                let make = Make::new(waiting);
                let client = if client == 0 { make } else { make.conservative() };
                let stand = Stand::new(kind, make.share(share), client);
                stand.open(true);
                stand.node.block_on(async {
                    let depot = stand.client().await;
                    for task in send_all(&stand, &depot, &lens).await {
                        task.await.unwrap();
                    }
                    let (began, standing, _, disorder) = depot.state().await.unwrap();
                    assert_eq!((began, standing, disorder), (lens.len() as u64, 0, 0));
                    let waited = [Counter::LaneFull, Counter::RoomAsked];
                    assert!(waited.iter().any(|counter| stand.node.counted(*counter) > 0));
                });
            }
        }
    }
}
