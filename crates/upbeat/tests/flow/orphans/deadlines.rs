//! Deadlines over several hops: each callee has no more time than its caller has left.

use crate::common::server::Kind;
use crate::common::{Watchdog, first};
use crate::orphans::chain::Stand;
use std::time::Duration;
use upbeat::{CallError, Counter};

#[test]
fn a_deadline_that_has_passed_ends_the_whole_chain() {
    let _watchdog = Watchdog::new("chain");
    let stand = Stand::new(Kind::Shared, 4);
    stand.node.block_on(async {
        let chain = stand.client(0).await;
        for waits in [false, true] {
            // Each finds the next one first.
            let call = chain.reach(stand.behind(), waits).deadline(Duration::from_millis(1000));
            let all = async {
                stand.standing(0..4, 1).await;
                std::future::pending::<()>().await;
            };
            assert_eq!(first(call, all).await, Ok(Err(CallError::deadline(true))));
            stand.standing(0..4, 0).await;
        }
        for at in 0..4 {
            let expired = stand.counted(at, Counter::OrphansExpired).await;
            let dropped = stand.counted(at, Counter::OrphansEnded).await;
            assert_eq!(expired + dropped, 2, "{at}");
        }
        assert_eq!(chain.nap(0, 3).await, Ok(3));
    });
}
