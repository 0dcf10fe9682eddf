//! Tests of the settings that a node has if the application sets none. `cargo xtask tidy` compares their constants with
//! docs/settings.md.

use crate::Node;
use upbeat_core::admission;
use upbeat_core::limits::{
    ACCEPTS_PER_SECOND, BUDGET_BYTES, MESSAGE_BYTES_MAX, PEER_TIMEOUT_MS, REMOTE_BYTES,
    REMOTE_SESSIONS_MAX, RESUME_WITHIN_MS, SESSION_BUDGET_BYTES, SESSIONS_PER_ADDRESS,
    TAKEN_BYTES_MAX,
};

#[test]
fn a_node_without_settings_has_the_documented_ones() {
    let node = Node::builder("defaults").local_only().build().unwrap();
    let settings = &node.inner.settings;
    assert_eq!((settings.budget, settings.terms.share), (BUDGET_BYTES, SESSION_BUDGET_BYTES));
    assert_eq!(settings.terms.longest, TAKEN_BYTES_MAX);

    let remote = &settings.remote;
    let connections = remote.terms();
    assert_eq!(connections.peer_timeout_ms, PEER_TIMEOUT_MS);
    assert_eq!(connections.resume_within_ms, RESUME_WITHIN_MS);
    let gate = admission::Terms {
        accepts_per_second: ACCEPTS_PER_SECOND,
        sessions_per_address: SESSIONS_PER_ADDRESS,
    };
    assert_eq!((remote.gate, remote.sessions()), (gate, REMOTE_SESSIONS_MAX));
    assert_eq!(remote.quota(settings.terms.longest).most(), REMOTE_BYTES);
    let longest = 4 * MESSAGE_BYTES_MAX as u64;
    assert_eq!(remote.quota(MESSAGE_BYTES_MAX).most(), longest, "four of the longest messages");
}
