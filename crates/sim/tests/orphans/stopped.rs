//! Callees that are stopped: what they find when they go on is run only if there is time left for it.

use crate::chain::{Kind, Stand, in_worlds, ms};
use upbeat::CallError;

/// So many calls are made while their callee is stopped.
const CALLS: u64 = 40;

#[test]
fn a_call_whose_deadline_passed_while_its_callee_was_stopped_never_runs() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            let begun = chain.standing().await.unwrap().1;
            sim.stop("1");
            let call = |deadline| {
                let chain = chain.clone();
                stand.node.spawn(async move { chain.reach(vec![], false).deadline(deadline).await })
            };
            let calls: Vec<_> = (0..CALLS).map(|_| call(ms(20))).collect();
            // The short calls lie among calls that have time enough.
            let honest = |value| {
                let chain = chain.clone();
                stand.node.spawn(async move { chain.nap(0, value).deadline(ms(20_000)).await })
            };
            let honest: Vec<_> = (0..CALLS).map(honest).collect();
            for call in calls {
                assert_eq!(call.await.unwrap(), Err(CallError::deadline(true)));
            }
            // A callee at another host knows its caller's clock to half of a round trip, and gives a call the benefit
            // of that.
            if kind == Kind::Distant {
                upbeat::sleep(ms(1_000)).await;
            }
            sim.go_on("1");
            for (value, call) in (0..).zip(honest) {
                assert_eq!(call.await.unwrap(), Ok(value), "there was time for it");
            }
            // The handlers that have napped stood as well.
            let (stands, ran) = chain.standing().await.unwrap();
            assert_eq!((stands, ran - begun), (0, CALLS), "a call ran that was over");
        });
    });
}
