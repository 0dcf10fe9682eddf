//! Senders that are polled once, while there is no room, and then kept without being polled, or
//! forgotten. They hold up no other sender of their session, and go on when they are polled again.

use crate::common::server::KINDS;
use crate::common::{Watchdog, soon};
use crate::depot::{DepotClient, Make, Stand, bytes_of};
use crate::long::begin;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Waiting};

/// Fills the lane of a depot that does not look for a while, and gives how many messages that took. Where
/// filling takes as long as the depot looks away, it looks away for longer.
async fn fill(depot: &DepotClient, len: usize) -> u64 {
    depot.open(true).await.unwrap();
    let (mut taken, mut away) = (0, Duration::from_millis(200));
    loop {
        let began = Instant::now();
        // Nobody waits for the reply to this call, which stalls anyway.
        std::mem::forget(depot.stall(away.as_millis() as u64).try_send().unwrap());
        let mut refused = 0;
        // Lanes that are full too often grow.
        while refused < 20 {
            match depot.put(taken + 1, bytes_of(taken + 1, len)).try_send() {
                Ok(()) => (taken, refused) = (taken + 1, 0),
                Err(error) => {
                    assert_eq!(error, CallError::Full);
                    refused += 1;
                }
            }
        }
        if began.elapsed() < away / 2 {
            return taken;
        }
        away *= 2;
        depot.state().await.unwrap();
    }
}

#[test]
fn a_sender_that_is_kept_holds_up_no_other() {
    let _watchdog = Watchdog::new("kept");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for len in [8, 500] {
                let make = Make::new(waiting);
                let stand = Stand::new(kind, make, make);
                stand.node.block_on(async {
                    let depot = stand.client().await;
                    let taken = fill(&depot, len).await;
                    let mut kept = Box::pin(depot.put(taken + 1, bytes_of(taken + 1, len)));
                    begin(kept.as_mut()).await;
                    let mut called = Box::pin(depot.keep(taken + 2, bytes_of(taken + 2, len)));
                    begin(called.as_mut()).await;
                    // Two more calls: one waits behind the dropped calls, and one comes later.
                    let other = depot.clone();
                    let behind =
                        stand.node.spawn(async move { other.echo(bytes_of(1, len)).await });
                    assert_eq!(soon(behind).await.unwrap(), Ok(bytes_of(1, len)));
                    assert_eq!(soon(depot.echo(bytes_of(2, len))).await, Ok(bytes_of(2, len)));
                    assert_eq!(depot.state().await.unwrap().0, taken, "these were not polled");
                    assert_eq!(soon(kept).await, Ok(()));
                    assert_eq!(soon(called).await.map(|(number, _)| number), Ok(taken + 2));
                    assert_eq!(depot.state().await.unwrap().0, taken + 2);
                });
            }
        }
    }
}

#[test]
fn what_within_gives_back_holds_up_no_other() {
    let _watchdog = Watchdog::new("within");
    for kind in KINDS {
        let make = Make::new(Waiting::Adaptive);
        let stand = Stand::new(kind, make, make);
        stand.node.block_on(async {
            let depot = stand.client().await;
            fill(&depot, 8).await;
            let late = upbeat::within(Duration::from_millis(1), depot.echo(vec![1])).await;
            let late = late.expect_err("there is no room for it").pending;
            assert_eq!(soon(depot.echo(vec![2])).await, Ok(vec![2]));
            assert_eq!(soon(late).await, Ok(vec![1]));
        });
    }
}

/// More than are awake at once.
#[test]
fn forgotten_senders_cost_memory_alone() {
    const FORGOTTEN: u64 = 3000;
    let _watchdog = Watchdog::new("forgotten");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let make = Make::new(waiting);
            let stand = Stand::new(kind, make, make);
            stand.node.block_on(async {
                let depot = stand.client().await;
                let taken = fill(&depot, 8).await;
                for number in 0..FORGOTTEN {
                    let mut forgotten = Box::pin(depot.put(number, vec![]));
                    begin(forgotten.as_mut()).await;
                    std::mem::forget(forgotten);
                }
                assert_eq!(soon(depot.echo(vec![1])).await, Ok(vec![1]));
                for number in taken + 1..taken + 1000 {
                    soon(depot.put(number, bytes_of(number, 8))).await.unwrap();
                }
                assert_eq!(soon(depot.state()).await.unwrap().0, taken + 999);
            });
        }
    }
}

/// Room that was granted to a sender that is not polled is given back. The sender asks again.
#[test]
fn a_grant_that_nobody_uses_holds_up_no_other() {
    let _watchdog = Watchdog::new("grants");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            let make = Make::new(waiting);
            let stand = Stand::new(kind, make, make.conservative());
            stand.node.block_on(async {
                let depot = stand.client().await;
                depot.open(true).await.unwrap();
                let mut kept = Box::pin(depot.keep(1, bytes_of(1, 5000)));
                begin(kept.as_mut()).await;
                for number in 2..20 {
                    let mut forgotten = Box::pin(depot.keep(number, bytes_of(number, 5000)));
                    begin(forgotten.as_mut()).await;
                    std::mem::forget(forgotten);
                }
                // A long one, a short one, and a one-way message behind them all.
                assert_eq!(soon(depot.echo(bytes_of(3, 9000))).await, Ok(bytes_of(3, 9000)));
                assert_eq!(soon(depot.echo(vec![])).await, Ok(vec![]));
                assert_eq!(soon(depot.put(2, bytes_of(2, 700))).await, Ok(()));
                assert_eq!(soon(depot.state()).await.unwrap().0, 1);
                assert_eq!(soon(kept).await.map(|(number, _)| number), Ok(1));
                assert!(stand.node.counted(Counter::RoomAsked) > 20);
            });
            assert_eq!(stand.counted(Counter::PeerFaults), 0);
            assert_eq!(stand.node.counted(Counter::PeerFaults), 0);
        }
    }
}
