//! Tests of the memory that a method keeps for its arguments: enough to allocate none, and no more than a bound.

use crate::ALLOCATOR;
use crate::common::process::{Other, say};
use crate::common::server::{KINDS, Kind};
use crate::common::{Directory, Watchdog, alone, assert_free, in_plaintext, node};
use crate::references::service::{Reading, StoreClient};
use crate::references::{name, server};
use std::path::Path;
use upbeat::Waiting;

const CALLS: u64 = 300;

#[test]
fn nobody_allocates_in_the_steady_state() {
    if !in_plaintext("every record takes memory") {
        return;
    }
    let (_alone, _watchdog) = (alone(), Watchdog::new("allocations"));
    for kind in KINDS {
        let directory = Directory::new();
        let mut caller = Other::start(&format!("count {kind:?}"), &directory.path());
        caller.expect("done");
        caller.end();
    }
}

/// Calls, in a process of its own, and asserts that neither side allocates.
pub(crate) fn count(kind: Kind, place: &Path) {
    let _server = server(kind, place, Waiting::Polling);
    let node = node(&name("client", place), place, Waiting::Polling);
    // The allocations of a sampled message are tested in the program `costs`.
    node.set_sampling(0);
    node.block_on(async {
        let store: StoreClient = node.connect(&name("store", place)).await.unwrap();
        let (key, value, block) = ("a key".repeat(10), vec![1; 1024], [3; 1024]);
        let readings = [Reading { at: 1, values: [1.0; 6] }; 40];
        let run = async |calls| {
            let theirs = store.allocations().await.unwrap();
            let ours = ALLOCATOR.allocations();
            for at in 0..calls {
                let short = at as usize % 3;
                store.put(&key[short..], &value[100 * short..]).await.unwrap();
                store.digest(&block).await.unwrap();
                store.mean(&readings[short..], &readings[0], 1.0).await.unwrap();
                store.note("").await.unwrap();
            }
            let ours = ALLOCATOR.allocations() - ours;
            (ours, store.allocations().await.unwrap() - theirs)
        };
        run(CALLS).await;
        let none = run(0).await;
        assert_free(CALLS, &none, run).await;
    });
    say("done");
}
