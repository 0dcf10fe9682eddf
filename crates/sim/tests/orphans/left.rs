//! Handlers that go on though their callers are gone, and end in time.

use crate::chain::{Stand, first, in_worlds, ms, took};
use upbeat::{CallError, Counter};
use upbeat_environment::time::Instant;

/// The bound that the method declares, in milliseconds.
const OUTLIVES: u64 = 2_000;
const LONG: u64 = 60_000;

#[test]
fn a_handler_goes_on_without_its_caller_if_its_method_says_so() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            for round in 1..=5 {
                let call = first(chain.finish(300), stand.standing([0], 1)).await;
                assert!(call.is_err(), "it was dropped");
                assert_eq!(chain.standing().await, Ok((1, round)));
                stand.finished(round).await;
                assert_eq!(stand.counted(0, Counter::OrphansLeft).await, round);
            }
            // No caller has got the results of these handlers, and later calls have their numbers.
            for value in 0..100 {
                assert_eq!(chain.nap(0, value).await, Ok(value));
            }
            assert_eq!(chain.finish(1).await, Ok(()));
            stand.finished(6).await;
            for counter in [Counter::OrphansEnded, Counter::OrphansExpired] {
                assert_eq!(stand.counted(0, counter).await, 0, "{counter}");
            }
            assert_eq!(stand.node.counted(Counter::SessionsLost), 0);
        });
    });
}

#[test]
fn no_handler_outlives_its_bound() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            assert!(first(chain.finish(LONG), stand.standing([0], 1)).await.is_err());
            let left = Instant::now();
            stand.standing([0], 0).await;
            took(left, ms(OUTLIVES));
            assert_eq!(stand.counted(0, Counter::OrphansExpired).await, 1);
            // The caller's deadline holds where it is nearer.
            let began = Instant::now();
            let call = chain.finish(LONG).deadline(ms(300));
            assert!(first(call, stand.standing([0], 1)).await.is_err());
            stand.standing([0], 0).await;
            took(began, ms(300));
            assert_eq!(stand.counted(0, Counter::OrphansExpired).await, 2);
            assert_eq!(stand.counted(0, Counter::OrphansLeft).await, 2);
            let began = Instant::now();
            let call = chain.finish(LONG).deadline(ms(20));
            assert_eq!(call.await, Err(CallError::deadline(true)));
            stand.standing([0], 0).await;
            took(began, ms(20));
            assert_eq!(chain.finished().await, Ok(0));
        });
    });
}

#[test]
fn a_handler_goes_on_where_its_caller_has_died() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        stand.caller("caller", |chain| async move { chain.finish(1_500).await.unwrap() });
        stand.node.block_on(async {
            stand.standing([0], 1).await;
            sim.kill("caller");
            stand.finished(1).await;
            assert_eq!(stand.counted(0, Counter::OrphansLeft).await, 1);
            assert_eq!(stand.counted(0, Counter::OrphansEnded).await, 0);
        });
    });
}
