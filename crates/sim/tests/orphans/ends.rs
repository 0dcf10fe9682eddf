//! Callers that give up or die, and nodes in the middle that do.

use crate::chain::{Stand, first, in_worlds, took};
use std::time::Duration;
use upbeat::{CallError, Counter};
use upbeat_environment::time::Instant;

#[test]
fn a_call_that_is_dropped_ends_all_that_it_led_to() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 4);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            for round in 1..=4 {
                let all = stand.standing(0..4, 1);
                let reach = chain.reach(stand.behind(), round % 2 == 0);
                assert!(first(reach, all).await.is_err(), "it never ends by itself");
                let dropped = Instant::now();
                stand.standing(0..4, 0).await;
                took(dropped, Duration::ZERO);
                for at in 0..4 {
                    let (ended, expired) = (Counter::OrphansEnded, Counter::OrphansExpired);
                    assert_eq!(stand.counted(at, ended).await, round, "{at}");
                    assert_eq!(stand.counted(at, expired).await, 0, "{at}");
                    assert_eq!(stand.counted(at, Counter::CancelsHonoured).await, round, "{at}");
                }
                // Of the first the caller is this node.
                assert_eq!(stand.node.counted(Counter::CancelsSent), round);
                assert_eq!(stand.counted(3, Counter::CancelsSent).await, 0);
            }
            assert_eq!(chain.nap(0, 7).await, Ok(7));
        });
    });
}

#[test]
fn a_caller_that_dies_leaves_nothing_behind() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 3);
        let behind = stand.behind();
        stand.caller("caller", move |chain| {
            let behind = behind.clone();
            async move { chain.reach(behind, true).await.unwrap() }
        });
        for round in 1..=3 {
            stand.node.block_on(async {
                stand.standing(0..3, 1).await;
                sim.kill("caller");
                let died = Instant::now();
                stand.standing(0..3, 0).await;
                took(died, kind.death_is_known_after());
                for at in 0..3 {
                    assert_eq!(stand.counted(at, Counter::OrphansEnded).await, round, "{at}");
                }
            });
            sim.restart("caller");
        }
    });
}

#[test]
fn a_node_in_the_middle_that_dies_is_an_error_to_its_caller_and_ends_what_is_behind() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 4);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            let behind = stand.behind();
            let reach = stand.node.spawn(async move { chain.reach(behind, true).await });
            stand.standing(0..4, 1).await;
            sim.kill("2");
            let died = Instant::now();
            // The first one's handler panics over the error that it gets.
            let error = reach.await.unwrap().unwrap_err();
            assert!(matches!(error, CallError::Failed { .. }), "{error}");
            stand.standing([0, 2, 3], 0).await;
            took(died, kind.death_is_known_after());
            for at in [2, 3] {
                assert_eq!(stand.counted(at, Counter::OrphansEnded).await, 1, "{at}");
            }
        });
    });
}
