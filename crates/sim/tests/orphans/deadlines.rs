//! Deadlines over several hops: each callee has no more time than its caller has left.

use crate::chain::{SOON, Stand, first, in_worlds, ms, took};
use upbeat::{CallError, Counter, time_left};
use upbeat_environment::time::Instant;

const SECOND: u64 = 1_000_000;

#[test]
fn what_a_handler_calls_has_no_more_time_than_is_left() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 4);
        stand.node.block_on(async {
            assert_eq!(time_left(), None);
            let chain = stand.client(0).await;
            for waits in [false, true] {
                // The caller has set no deadline.
                let none = chain.left(stand.behind(), None, waits).await;
                assert_eq!(none, Ok(vec![None; 4]));
                // The caller has set one.
                let call = chain.left(stand.behind(), None, waits);
                let left = call.deadline(ms(10_000)).await.unwrap();
                let left: Vec<u64> = left.into_iter().map(Option::unwrap).collect();
                assert!(left.is_sorted_by(|before, behind| before >= behind), "{left:?}");
                assert!(left[0] <= 10 * SECOND && left[3] > 9 * SECOND, "{left:?}");
                if waits {
                    assert!(left[0] >= left[3] + 300, "{left:?}");
                }
                // A handler gives less than it has.
                let call = chain.left(stand.behind(), Some(5 * SECOND), waits);
                let left = call.deadline(ms(10_000)).await.unwrap();
                let left: Vec<u64> = left.into_iter().map(Option::unwrap).collect();
                assert!(left[0] > 9 * SECOND, "{left:?}");
                assert!(left[1..].iter().all(|left| *left <= 5 * SECOND), "{left:?}");
                // The handler gives its call more time than it has itself, which has no effect.
                let call = chain.left(stand.behind(), Some(60 * SECOND), waits);
                let left = call.deadline(ms(10_000)).await.unwrap();
                assert!(left[1..].iter().all(|left| *left <= Some(10 * SECOND)), "{left:?}");
                // The handler gives its call a deadline where it has none itself.
                let left = chain.left(stand.behind(), Some(5 * SECOND), waits).await.unwrap();
                assert_eq!(left[0], None);
                assert!(left[1..].iter().all(|left| *left <= Some(5 * SECOND)), "{left:?}");
                assert!(left[1..].iter().all(Option::is_some), "{left:?}");
            }
            assert_eq!(time_left(), None);
        });
    });
}

#[test]
fn a_handler_ends_at_the_deadline_although_its_caller_is_stuck() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 3);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            let began = Instant::now();
            // The first stops its whole node: it can tell nobody anything.
            let deadline = ms(700);
            let call = chain.reach_and_stall(stand.behind(), 3_000).deadline(deadline);
            assert_eq!(call.await, Err(CallError::deadline(true)));
            stand.standing([1, 2], 0).await;
            took(began, deadline);
            for at in [1, 2] {
                let expired = stand.counted(at, Counter::OrphansExpired).await;
                let dropped = stand.counted(at, Counter::OrphansEnded).await;
                // The last one is told by the one before it as well.
                assert_eq!(expired + dropped, 1, "{at}");
                assert!(at == 2 || expired == 1, "{at}");
            }
            stand.standing([0], 0).await;
        });
    });
}

#[test]
fn a_deadline_that_has_passed_ends_the_whole_chain() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 4);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            for waits in [false, true] {
                let began = Instant::now();
                let call = chain.reach(stand.behind(), waits).deadline(ms(1_000));
                let all = async {
                    stand.standing(0..4, 1).await;
                    assert!(began.elapsed() < SOON);
                    std::future::pending::<()>().await;
                };
                assert_eq!(first(call, all).await, Ok(Err(CallError::deadline(true))));
                stand.standing(0..4, 0).await;
                took(began, ms(1_000));
            }
            for at in 0..4 {
                let expired = stand.counted(at, Counter::OrphansExpired).await;
                let dropped = stand.counted(at, Counter::OrphansEnded).await;
                assert_eq!(expired + dropped, 2, "{at}");
            }
            assert_eq!(chain.nap(0, 3).await, Ok(3));
        });
    });
}
