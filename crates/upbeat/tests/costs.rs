//! What a null call costs in the steady state: no allocation, no system call, one copy each way.

mod common;

use common::server::{Kind, Stand};
use common::work::WorkClient;
use upbeat::{Counter, Waiting};

/// A reply is read where the peer wrote it: what `poll` of the call gives is decoded from the slot.
/// With the write into the slot that is one copy each way; a reply put aside would be another.
#[test]
fn one_copy_each_way() {
    const CALLS: u64 = 1000;
    let stand = Stand::new(Kind::Local, Waiting::Polling);
    let name = stand.name();
    stand.node.clone().block_on(async {
        let work: WorkClient = stand.node.connect(&name).await.unwrap();
        let count = |counter| stand.node.counted(counter);
        let before = (count(Counter::RepliesInPlace), count(Counter::RepliesStashed));
        for _ in 0..CALLS {
            work.null().await.unwrap();
        }
        let after = (count(Counter::RepliesInPlace), count(Counter::RepliesStashed));
        assert_eq!((after.0 - before.0, after.1 - before.1), (CALLS, 0));
    });
}
