//! Handlers that go on though their callers are gone, and end in time.

use crate::chain::Stand;
use crate::common::process::Other;
use crate::common::server::KINDS;
use crate::common::{Watchdog, at_once, first};
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter};

/// The bound that the method declares.
const OUTLIVES: Duration = Duration::from_secs(2);
/// The bound of a method whose handler a node would notice to wait for, also on a busy machine.
const OUTLIVES_LONG: Duration = Duration::from_secs(20);
const LONG: u64 = 60_000;

async fn finished(stand: &Stand, count: u64) {
    let chain = stand.client(0).await;
    while chain.finished().await != Ok(count) {
        upbeat::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_handler_goes_on_without_its_caller_if_its_method_says_so() {
    let _watchdog = Watchdog::new("goes on");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 1);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            for round in 1..=5 {
                let call = first(chain.finish(300), stand.standing([0], 1)).await;
                assert!(call.is_err(), "it was dropped");
                assert_eq!(chain.standing().await, Ok((1, round)));
                finished(&stand, round).await;
                assert_eq!(stand.counted(0, Counter::OrphansLeft).await, round);
            }
            // Nobody was told of what they returned, and their numbers serve others.
            for value in 0..100 {
                assert_eq!(chain.nap(0, value).await, Ok(value));
            }
            assert_eq!(chain.finish(1).await, Ok(()));
            finished(&stand, 6).await;
            for counter in [Counter::OrphansEnded, Counter::OrphansExpired] {
                assert_eq!(stand.counted(0, counter).await, 0, "{counter}");
            }
            assert!(stand.counted(0, Counter::OrphanTime).await > 0);
            assert_eq!(stand.node.counted(Counter::SessionsLost), 0);
        });
    });
}

#[test]
fn no_handler_outlives_its_bound() {
    let _watchdog = Watchdog::new("bound");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 1);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            assert!(first(chain.finish(LONG), stand.standing([0], 1)).await.is_err());
            let left = Instant::now();
            stand.standing([0], 0).await;
            assert!((OUTLIVES / 2..2 * OUTLIVES).contains(&left.elapsed()), "{:?}", left.elapsed());
            assert_eq!(stand.counted(0, Counter::OrphansExpired).await, 1);
            // The caller's deadline holds where it is nearer.
            let began = Instant::now();
            let deadline = Duration::from_millis(300);
            let call = chain.finish(LONG).deadline(deadline);
            assert!(first(call, stand.standing([0], 1)).await.is_err());
            stand.standing([0], 0).await;
            assert!((deadline..OUTLIVES).contains(&began.elapsed()), "{:?}", began.elapsed());
            assert_eq!(stand.counted(0, Counter::OrphansExpired).await, 2);
            assert_eq!(stand.counted(0, Counter::OrphansLeft).await, 2);
            let call = chain.finish(LONG).deadline(Duration::from_millis(20));
            assert_eq!(call.await, Err(CallError::deadline(true)));
            stand.standing([0], 0).await;
            assert_eq!(chain.finished().await, Ok(0));
        });
    });
}

#[test]
fn a_handler_goes_on_where_its_caller_has_died() {
    let _watchdog = Watchdog::new("died");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 1);
        let part = format!("call caller {} finish", stand.names[0]);
        let mut caller = Other::start(&part, &stand.place);
        caller.expect("calling");
        stand.node.block_on(stand.standing([0], 1));
        caller.kill();
        stand.node.block_on(async {
            finished(&stand, 1).await;
            assert_eq!(stand.counted(0, Counter::OrphansLeft).await, 1);
            assert_eq!(stand.counted(0, Counter::OrphansEnded).await, 0);
        });
    });
}

#[test]
fn a_node_that_ends_leaves_no_handler() {
    let _watchdog = Watchdog::new("node ends");
    at_once(KINDS, |kind| {
        let mut stand = Stand::new(kind, 1);
        let chain = stand.node.block_on(stand.client(0));
        stand.node.block_on(async {
            assert!(first(chain.finish_late(LONG), stand.standing([0], 1)).await.is_err());
        });
        let left = Instant::now();
        stand.servers.clear();
        assert!(left.elapsed() < OUTLIVES_LONG, "{:?}", left.elapsed());
    });
}
