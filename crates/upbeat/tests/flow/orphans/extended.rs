//! Deadlines that callees ask to have extended.

use crate::common::Watchdog;
use crate::common::process::Other;
use crate::common::server::Kind;
use crate::orphans::chain::Stand;
use std::time::Duration;
use upbeat::Counter;

/// The deadline of calls, in milliseconds: long enough for a busy machine.
const HAS: u64 = 2_000;
/// The time that handlers ask for.
const WANTS: u64 = 30_000;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
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

#[test]
fn a_caller_that_dies_takes_what_it_extended_along() {
    let _watchdog = Watchdog::new("a caller that dies");
    let stand = Stand::new(Kind::Shared, 1);
    let part =
        format!("chain call caller/{} {} more", stand.names[0].replace('/', "-"), stand.names[0]);
    let mut other = Other::start(&part, &stand.place);
    other.expect("calling");
    stand.node.block_on(async {
        stand.standing([0], 1).await;
        other.kill();
        stand.standing([0], 0).await;
        assert_eq!(stand.counted(0, Counter::OrphansEnded).await, 1);
    });
}
