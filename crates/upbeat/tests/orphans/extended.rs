//! Deadlines that callees ask to have extended.

use crate::chain::{A_WHILE, ChainClient, Stand};
use crate::common::process::Other;
use crate::common::server::{KINDS, Kind};
use crate::common::{Watchdog, at_once, node, over_streams};
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Waiting};

/// The deadline of calls, in milliseconds: long enough for a busy machine.
const HAS: u64 = 2_000;
/// The time that handlers need.
const NEEDS: u64 = 2_500;
/// The time that handlers ask for.
const WANTS: u64 = 30_000;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const FIXED: &str = "the deadline is fixed: its caller did not say `extendable`";
const NO_MORE: &str = "the caller grants no more time";

fn refused(text: &str) -> Result<u64, CallError<String>> {
    Err(CallError::Method(text.to_owned()))
}

#[test]
fn what_was_extended_runs_on_and_answers() {
    let _watchdog = Watchdog::new("what was extended");
    at_once(KINDS.into_iter().flat_map(|kind| [(kind, 1), (kind, 3)]), |(kind, hops)| {
        let stand = Stand::new(kind, hops);
        stand.node.block_on(async {
            let chain = stand.client(0).await;
            let call = chain.more(stand.behind(), None, WANTS, NEEDS).deadline(ms(HAS));
            let left = call.extendable(ms(60_000)).await.unwrap();
            assert!(HAS < left && left <= WANTS, "{left}");
            // So does a deadline of a caller's in between, and the answer comes from the first.
            if hops > 1 {
                let own = Some((HAS, Some(WANTS)));
                let call = chain.more(stand.behind(), own, WANTS, NEEDS).deadline(ms(HAS));
                let left = call.extendable(ms(60_000)).await.unwrap();
                assert!(HAS < left && left <= WANTS, "{left}");
            }
        });
    });
}

#[test]
fn who_may_not_is_told() {
    let _watchdog = Watchdog::new("who may not");
    let stand = Stand::new(Kind::Local, 2);
    stand.node.block_on(async {
        let (chain, last) = (stand.client(0).await, stand.client(1).await);
        let more = |own| chain.more(stand.behind(), own, WANTS, 0);
        // Nobody bounded it.
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
    });
}

#[test]
fn nothing_lasts_longer_than_its_caller_said() {
    let _watchdog = Watchdog::new("no longer");
    at_once(KINDS.into_iter().flat_map(|kind| [(kind, 1), (kind, 2)]), |(kind, hops)| {
        let stand = Stand::new(kind, hops);
        stand.node.block_on(async {
            let (chain, began) = (stand.client(0).await, Instant::now());
            let call = chain.more(stand.behind(), None, 60_000, 60_000).deadline(ms(HAS));
            assert_eq!(call.extendable(ms(2 * HAS)).await, Err(CallError::deadline(true)));
            assert!(ms(2 * HAS) <= began.elapsed() && began.elapsed() < A_WHILE);
            stand.standing(0..hops, 0).await;
        });
    });
}

#[test]
fn a_part_of_what_is_asked_is_granted() {
    let _watchdog = Watchdog::new("a part");
    let stand = Stand::new(Kind::Local, 1);
    stand.node.block_on(async {
        let chain = stand.client(0).await;
        let call = chain.more(vec![], None, WANTS, 0).deadline(ms(HAS)).extendable(ms(10_000));
        let left = call.await.unwrap();
        assert!(HAS < left && left <= 10_000, "{left}");
    });
}

/// A caller that is silent grants nothing, and what it says later is heard by nobody.
#[test]
fn a_silent_caller_extends_nothing() {
    let _watchdog = Watchdog::new("a silent caller");
    let stand = Stand::new(Kind::Local, 1);
    stand.node.block_on(async {
        let chain = stand.client(0).await;
        if over_streams() {
            // The request is sent when the turn ends, which a task may see twice. Its handler does not begin, and asks
            // for nothing, before this node has become silent.
            chain.hold_up(HAS / 2).try_send().unwrap();
        }
        let call = chain.more(vec![], None, WANTS, 60_000).deadline(ms(HAS));
        // The request lies in the lane, and this node does not poll any more until the callee has given up.
        // The callee, whose doorbell nobody has rung, finds the request when the other node connects.
        let call = call.extendable(ms(60_000)).try_send().unwrap();
        if over_streams() {
            upbeat::sleep(ms(1)).await;
        }
        let silent = Instant::now();
        let (name, place) = (stand.names[0].clone(), stand.place.clone());
        let other = std::thread::spawn(move || {
            let node =
                node(&format!("other/{}", name.replace('/', "-")), &place, Waiting::Adaptive);
            node.block_on(async {
                let chain: ChainClient = node.connect(&name).await.unwrap();
                while chain.counted(Counter::OrphansExpired as u64).await != Ok(1) {
                    upbeat::sleep(ms(1)).await;
                }
            });
        });
        other.join().unwrap();
        assert!(silent.elapsed() < ms(WANTS / 2), "the deadline was extended");
        assert_eq!(call.await, Err(CallError::deadline(true)));
        for value in 0..100 {
            assert_eq!(chain.nap(0, value).await, Ok(value));
        }
        assert_eq!(stand.node.counted(Counter::SessionsLost), 0);
    });
}

#[test]
fn a_caller_that_dies_takes_what_it_extended_along() {
    let _watchdog = Watchdog::new("a caller that dies");
    let stand = Stand::new(Kind::Shared, 1);
    let part = format!("call caller/{} {} more", stand.names[0].replace('/', "-"), stand.names[0]);
    let mut other = Other::start(&part, &stand.place);
    other.expect("calling");
    stand.node.block_on(async {
        stand.standing([0], 1).await;
        other.kill();
        stand.standing([0], 0).await;
        assert_eq!(stand.counted(0, Counter::OrphansEnded).await, 1);
    });
}
