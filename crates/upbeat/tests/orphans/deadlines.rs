//! Deadlines over several hops: each callee has no more time than its caller has left.

use crate::chain::Stand;
use crate::common::server::{KINDS, Kind};
use crate::common::{Watchdog, at_once, first};
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, time_left};

const SECOND: u64 = 1_000_000;

#[test]
fn what_a_handler_calls_has_no_more_time_than_is_left() {
    let _watchdog = Watchdog::new("left");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 4);
        stand.node.block_on(async {
            assert_eq!(time_left(), None);
            let chain = stand.client(0).await;
            for waits in [false, true] {
                // Nobody has said anything.
                let none = chain.left(stand.behind(), None, waits).await;
                assert_eq!(none, Ok(vec![None; 4]));
                // The caller has.
                let call = chain.left(stand.behind(), None, waits);
                let left = call.deadline(Duration::from_secs(10)).await.unwrap();
                let left: Vec<u64> = left.into_iter().map(Option::unwrap).collect();
                assert!(left.is_sorted_by(|before, behind| before >= behind), "{left:?}");
                assert!(left[0] <= 10 * SECOND && left[3] > SECOND, "{left:?}");
                if waits {
                    assert!(left[0] >= left[3] + 300, "{left:?}");
                }
                // A handler gives less than it has.
                let call = chain.left(stand.behind(), Some(5 * SECOND), waits);
                let left = call.deadline(Duration::from_secs(10)).await.unwrap();
                let left: Vec<u64> = left.into_iter().map(Option::unwrap).collect();
                assert!(left[0] > 5 * SECOND, "{left:?}");
                assert!(left[1..].iter().all(|left| *left <= 5 * SECOND), "{left:?}");
                // The handler gives its call more time than it has itself, which has no effect.
                let call = chain.left(stand.behind(), Some(60 * SECOND), waits);
                let left = call.deadline(Duration::from_secs(10)).await.unwrap();
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
    let _watchdog = Watchdog::new("stuck");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 3);
        stand.node.block_on(async {
            let began = Instant::now();
            let chain = stand.client(0).await;
            // The first stops its whole node: it can tell nobody anything. There is time for all to be
            // called before the deadline, also on a busy machine.
            let (stall, deadline) = (3_000, Duration::from_millis(700));
            let call = chain.reach_and_stall(stand.behind(), stall).deadline(deadline);
            assert_eq!(call.await, Err(CallError::deadline(true)));
            stand.standing([1, 2], 0).await;
            let ended = began.elapsed();
            assert!(ended >= deadline && ended.as_millis() < u128::from(stall), "{ended:?}");
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
