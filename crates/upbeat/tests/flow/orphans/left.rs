//! Handlers that go on though their callers are gone, and end in time.

use crate::common::process::Other;
use crate::common::server::KINDS;
use crate::common::{Watchdog, at_once, first};
use crate::orphans::chain::Stand;
use std::time::{Duration, Instant};
use upbeat::Counter;

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
fn a_handler_goes_on_where_its_caller_has_died() {
    let _watchdog = Watchdog::new("died");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 1);
        let part = format!("chain call caller {} finish", stand.names[0]);
        let mut caller = Other::start(&part, &stand.place);
        caller.expect("calling");
        stand.node.block_on(stand.standing([0], 1));
        caller.kill();
        stand.node.block_on(async {
            finished(&stand, 1).await;
            assert_eq!(stand.counted(0, Counter::OrphansLeft).await, 1);
            assert_eq!(stand.counted(0, Counter::OrphansEnded).await, 0);
            assert!(stand.counted(0, Counter::OrphanTime).await > 0);
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
