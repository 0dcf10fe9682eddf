//! Clients and handles: how they wait for their node, how they learn of its end, and what they have in common.

#[path = "../common/mod.rs"]
mod common;

mod caller;
mod ends;
mod reconnect;
mod wait;

use common::process::part;

/// The other process's parts. Without one this is a test of nothing.
#[test]
fn other() {
    let Some((part, place)) = part() else { return };
    let played = ends::play(&part, &place) || reconnect::play(&part, &place);
    let played = played || common::server::play(&part, &place);
    assert!(played, "there is no part {part}");
}
