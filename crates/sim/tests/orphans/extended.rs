//! Deadlines that callees ask to have extended.

use crate::chain::{Stand, in_worlds, ms, took};
use upbeat::{CallError, Counter};
use upbeat_environment::time::Instant;
use upbeat_environment::waiting;

/// The deadline of calls, in milliseconds.
const HAS: u64 = 2_000;
/// The time that handlers need.
const NEEDS: u64 = 2_500;
/// The time that handlers ask for.
const WANTS: u64 = 30_000;

const FIXED: &str = "the deadline is fixed: its caller did not say `extendable`";
const NO_MORE: &str = "the caller grants no more time";

fn refused(text: &str) -> Result<u64, CallError<String>> {
    Err(CallError::Method(text.to_owned()))
}

#[test]
fn what_was_extended_runs_on_and_answers() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 3);
        stand.node.block_on(async {
            let (chain, last) = (stand.client(0).await, stand.client(2).await);
            // The last of a chain asks, or one whose caller is this node; or there is a deadline in between.
            let own = Some((HAS, Some(WANTS)));
            for (chain, behind, own) in [
                (&last, vec![], None),
                (&chain, stand.behind(), None),
                (&chain, stand.behind(), own),
            ] {
                let began = Instant::now();
                let call = chain.more(behind, own, WANTS, NEEDS).deadline(ms(HAS));
                let left = call.extendable(ms(60_000)).await.unwrap();
                assert!(HAS < left && left <= WANTS, "{left}");
                took(began, ms(NEEDS));
            }
        });
    });
}

#[test]
fn who_may_not_is_told() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 2);
        stand.node.block_on(async {
            let (chain, last) = (stand.client(0).await, stand.client(1).await);
            let more = |own| chain.more(stand.behind(), own, WANTS, 0);
            // The call has no deadline.
            assert_eq!(last.more(vec![], None, WANTS, 0).await, Ok(WANTS));
            let fixed = last.more(vec![], None, WANTS, 0).deadline(ms(HAS));
            assert_eq!(fixed.await, refused(FIXED));
            let no_more = last.more(vec![], None, WANTS, 0).deadline(ms(HAS)).extendable(ms(1));
            assert_eq!(no_more.await, refused(NO_MORE));
            // Each caller that has set a deadline may refuse.
            assert_eq!(more(None).deadline(ms(HAS)).await, refused(FIXED));
            let inner = more(Some((HAS, None))).deadline(ms(HAS)).extendable(ms(WANTS));
            assert_eq!(inner.await, refused(FIXED));
            let outer = more(Some((HAS, Some(WANTS)))).deadline(ms(HAS));
            assert_eq!(outer.await, refused(FIXED));
            let above = more(Some((HAS, Some(WANTS)))).deadline(ms(HAS)).extendable(ms(1));
            assert_eq!(above.await, refused(NO_MORE));
            // A handler does not ask for time that it has already.
            let enough = last.more(vec![], None, 1, 0).deadline(ms(WANTS)).extendable(ms(WANTS));
            assert!(enough.await.unwrap() > 1);
            // A part of what is asked is granted.
            let call = last.more(vec![], None, WANTS, 0).deadline(ms(HAS)).extendable(ms(10_000));
            let left = call.await.unwrap();
            assert!(HAS < left && left <= 10_000, "{left}");
        });
    });
}

#[test]
fn nothing_lasts_longer_than_its_caller_said() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 2);
        stand.node.block_on(async {
            let (chain, last) = (stand.client(0).await, stand.client(1).await);
            for (chain, behind) in [(chain, stand.behind()), (last, vec![])] {
                let began = Instant::now();
                let call = chain.more(behind, None, 60_000, 60_000).deadline(ms(HAS));
                assert_eq!(call.extendable(ms(2 * HAS)).await, Err(CallError::deadline(true)));
                stand.standing(0..2, 0).await;
                took(began, ms(2 * HAS));
            }
        });
    });
}

/// A caller that is silent grants nothing, and what it says later is heard by nobody.
#[test]
fn a_silent_caller_extends_nothing() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            // The handler does not begin, and asks for nothing, before this node has become silent.
            chain.hold_up(HAS / 2).await.unwrap();
            let call = chain.more(vec![], None, WANTS, 60_000).deadline(ms(HAS));
            let call = call.extendable(ms(60_000)).try_send().unwrap();
            upbeat::sleep(ms(1)).await;
            waiting::sleep(ms(WANTS / 2));
            assert_eq!(stand.counted(0, Counter::OrphansExpired).await, 1);
            assert_eq!(call.await, Err(CallError::deadline(true)));
            for value in 0..100 {
                assert_eq!(chain.nap(0, value).await, Ok(value));
            }
            assert_eq!(stand.node.counted(Counter::SessionsLost), 0);
        });
    });
}

#[test]
fn a_caller_that_dies_takes_what_it_extended_along() {
    in_worlds(|sim, kind| {
        let stand = Stand::new(sim, kind, 1);
        stand.caller("caller", |chain| async move {
            let call = chain.more(vec![], None, 60_000, 60_000).deadline(ms(20_000));
            let told = call.extendable(ms(60_000)).await;
            panic!("{told:?}");
        });
        stand.node.block_on(async {
            stand.standing([0], 1).await;
            sim.kill("caller");
            let died = Instant::now();
            stand.standing([0], 0).await;
            took(died, kind.death_is_known_after());
            assert_eq!(stand.counted(0, Counter::OrphansEnded).await, 1);
        });
    });
}
