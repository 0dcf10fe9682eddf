//! Callers that give up or die, and nodes in the middle that do.

use crate::common::process::Other;
use crate::common::server::{KINDS, Kind};
use crate::common::{Watchdog, at_once, first};
use crate::orphans::chain::Stand;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter};

/// Within this time of a death everything that it leaves behind is gone, on a machine that has other
/// things to do as well.
const SOON: Duration = Duration::from_secs(2);

#[test]
fn a_call_that_is_dropped_ends_all_that_it_led_to() {
    let _watchdog = Watchdog::new("dropped");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 4);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            for round in 1..=10 {
                let all = stand.standing(0..4, 1);
                let reach = chain.reach(stand.behind(), round % 2 == 0);
                assert!(first(reach, all).await.is_err(), "it never ends by itself");
                stand.standing(0..4, 0).await;
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
            // The handlers that waited were polled as tasks, in vain.
            assert!(stand.counted(3, Counter::OrphanTime).await > 0);
            assert_eq!(chain.nap(0, 7).await, Ok(7));
        });
    });
}

#[test]
fn a_caller_that_dies_leaves_nothing_behind() {
    let _watchdog = Watchdog::new("dies");
    at_once(KINDS, |kind| {
        let stand = Stand::new(kind, 3);
        for round in 1..=3 {
            let part = format!("chain call caller/{round} {}", stand.names.join(" "));
            let mut caller = Other::start(&part, &stand.place);
            caller.expect("calling");
            stand.node.block_on(stand.standing(0..3, 1));
            caller.kill();
            let died = Instant::now();
            stand.node.block_on(async {
                stand.standing(0..3, 0).await;
                assert!(died.elapsed() < SOON, "{:?}", died.elapsed());
                for at in 0..3 {
                    assert_eq!(stand.counted(at, Counter::OrphansEnded).await, round, "{at}");
                }
            });
        }
    });
}

#[test]
fn a_node_in_the_middle_that_dies_is_an_error_to_its_caller_and_ends_what_is_behind() {
    let _watchdog = Watchdog::new("middle");
    let mut stand = Stand::new(Kind::Shared, 4);
    let node = stand.node.clone();
    let chain = node.block_on(stand.client(0));
    let reach = node.spawn({
        let behind = stand.behind();
        async move { chain.reach(behind, true).await }
    });
    node.block_on(stand.standing(0..4, 1));
    stand.servers[1].other().kill();
    let died = Instant::now();
    node.block_on(async {
        // The first one's handler panics over the error that it gets.
        let error = reach.await.unwrap().unwrap_err();
        assert!(error.to_string().contains("has died"), "{error}");
        stand.standing([0, 2, 3], 0).await;
        assert!(died.elapsed() < SOON, "{:?}", died.elapsed());
        match stand.client(0).await.reach(stand.behind(), false).await {
            // Nobody is there under that name.
            Err(CallError::Failed { text, .. }) => assert!(text.contains("is dead"), "{text}"),
            other => panic!("{other:?}"),
        }
        for at in [2, 3] {
            assert_eq!(stand.counted(at, Counter::OrphansEnded).await, 1, "{at}");
        }
    });
}
