//! Requests whose turn comes late: their deadlines, and the wake-up of their senders when there is room.

use crate::common::server::{KINDS, Kind};
use crate::common::{Watchdog, at_once, first as either, until};
use crate::depot::{DepotClient, Make, Stand, bytes_of};
use std::pin::pin;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Waiting};
use upbeat_core::limits::PLACES_MAX;

/// A long request of a session at which nothing is looked any more, and of a node that sleeps: it is
/// served when others make room, whether it waits where it is or has asked first.
#[test]
fn room_for_one_that_has_long_been_silent() {
    let _watchdog = Watchdog::new("silent");
    for kind in KINDS {
        for conservative in [false, true] {
            let make = Make::new(Waiting::Sleeping);
            let stand = Stand::new(kind, make.budget(1000).share(1000), make);
            let name = stand.name();
            // More sessions than are always looked at. Handlers stand in each, so that none of these
            // cools down.
            let others: Vec<_> = (1..=8)
                .map(|number| make.node(&format!("other/{}/{number}", stand.id), &stand.place))
                .collect();
            for (number, other) in (1..).zip(&others) {
                other.block_on(async {
                    let depot: DepotClient = other.connect(&name).await.unwrap();
                    depot.put(number, bytes_of(number, 700)).await.unwrap();
                    until(|| stand.state().0 == number).await;
                });
            }
            let asks = Make { conservative, ..make };
            let asks = asks.node(&format!("asks/{}", stand.id), &stand.place);
            let depot: DepotClient = asks.block_on(asks.connect(&name)).unwrap();
            let watcher = stand.ask(|depot| depot);
            let busy = std::thread::spawn(move || {
                let watcher = watcher.blocking();
                // That node stays awake, so that it cools down what is silent; the one that asks
                // falls asleep, and nothing but its answer wakes it.
                for _ in 0..300 {
                    watcher.state().unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
                watcher.open(true).unwrap();
            });
            let bytes = bytes_of(9, 200_000);
            assert!(asks.block_on(depot.echo(bytes.clone())) == Ok(bytes));
            busy.join().unwrap();
            asks.block_on(until(|| stand.state().1 == 0));
        }
    }
}

/// A sender that sleeps because its receiver accepts no more is not rung before that has changed,
/// although the receiver does other work, and is rung then.
#[test]
fn who_waits_for_room_is_not_rung_for_nothing() {
    let _watchdog = Watchdog::new("rung");
    for kind in KINDS {
        let make = Make::new(Waiting::Sleeping);
        let stand = Stand::new(kind, make.share(1), make);
        stand.node.block_on(async {
            let depot = stand.client().await;
            let put = |number| depot.put(number, vec![]);
            let first = PLACES_MAX as u64 + 2;
            for number in 1..first {
                put(number).await.unwrap();
            }
            let mut late = pin!(put(first));
            crate::long::begin(late.as_mut()).await;
            stand.settled().await;
            let watcher = stand.ask(|depot| depot);
            let before = stand.node.counted(Counter::Wakes);
            let busy = std::thread::spawn(move || {
                // The one whose turn it is wakes each time, and waits on.
                (0..200).for_each(|_| watcher.blocking().open(false).unwrap());
                let held = watcher.blocking().state().unwrap();
                std::thread::sleep(Duration::from_millis(50));
                watcher.blocking().open(true).unwrap();
                held
            });
            late.await.unwrap();
            let wakes = stand.node.counted(Counter::Wakes) - before;
            assert_eq!(busy.join().unwrap(), (1, 1, 1, 0));
            assert!(wakes < 50, "{wakes} wakes");
            depot.state().await.unwrap();
            assert_eq!(stand.state(), (first, 0, 1, 0));
        });
    }
}

/// The ways in which a call waits for its turn: in its place, copied out of the ring, in a buffer,
/// and at its sender.
const LENS: [usize; 5] = [0, 70, 500, 60_000, 100_000];

/// A call whose time is over when its turn comes never runs, and what stands behind it does. Its
/// caller is not driven meanwhile, so it is not the one that gives it up.
#[test]
fn what_has_waited_too_long_never_runs() {
    let _watchdog = Watchdog::new("too long");
    at_once(LENS, |len| {
        for kind in KINDS {
            for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
                let make = Make::new(waiting);
                let stand = Stand::new(kind, make.share(1), make);
                stand.node.block_on(async {
                    let depot = stand.client().await;
                    depot.put(1, vec![]).await.unwrap();
                    let late = depot.keep(2, vec![1; len]).deadline(Duration::from_millis(400));
                    let mut late = pin!(late);
                    crate::long::begin(late.as_mut()).await;
                    depot.put(3, vec![]).await.unwrap();
                    assert_eq!(stand.settled().await.0, 1);
                    std::thread::sleep(Duration::from_millis(450));
                    stand.open(true);
                    // The third comes behind the second: without it, out of order.
                    let (began, disorder) = passed(&stand, 3);
                    assert_eq!((began, disorder), (2, 1), "{kind:?} {waiting:?} {len}");
                    assert!(matches!(late.await, Err(CallError::Deadline(_))));
                });
            }
        }
    });
}

/// Returns the number of handlers that have begun, and of those that began out of order, once both together reach
/// `sum`. The client's node is not driven.
fn passed(stand: &Stand, sum: u64) -> (u64, u64) {
    loop {
        let (began, _, _, disorder) = stand.state();
        if began + disorder >= sum {
            return (began, disorder);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A call that waited has what is left of its time when its turn comes: its handler is ended when that
/// is over. Its turn comes by the end of another one's time.
#[test]
fn what_has_waited_has_the_time_that_is_left() {
    let _watchdog = Watchdog::new("time left");
    const ALL: Duration = Duration::from_millis(3000);
    const WAITED: Duration = Duration::from_millis(2000);
    at_once(LENS, |len| {
        let make = Make::new(Waiting::Adaptive);
        let stand = Stand::new(Kind::Local, make.share(1), make);
        stand.node.block_on(async {
            let depot = stand.client().await;
            let mut first = pin!(depot.keep(1, vec![]).deadline(WAITED));
            crate::long::begin(first.as_mut()).await;
            let began = Instant::now();
            let mut late = pin!(depot.keep(2, vec![1; len]).deadline(ALL));
            // Between hosts a long request asks for memory first, and is sent when its call is polled again.
            let settled = either(late.as_mut(), stand.settled()).await;
            assert_eq!(settled.unwrap_err().0, 1);
            // The caller's node is not driven from here on, so it is not the one that ends the calls.
            let nap = || std::thread::sleep(Duration::from_millis(1));
            while stand.state().0 < 2 {
                nap();
            }
            let turn = began.elapsed();
            while stand.state().1 > 0 {
                nap();
            }
            let ended = began.elapsed();
            assert!(
                turn + WAITED > ended && ended >= ALL,
                "{len}: begun {turn:?}, ended {ended:?}"
            );
            assert!(matches!(first.await, Err(CallError::Deadline(_))));
            assert!(matches!(late.await, Err(CallError::Deadline(_))));
        });
    });
}
