//! Clients and handles: how they wait for their node, how they learn of its end, and what they have in common.

#[path = "../common/mod.rs"]
mod common;

mod anonymous;
mod caller;
mod clashes;
mod ends;
mod last;
mod named;
mod options;
mod reconnect;
mod wait;

use common::process::part;

/// The other process's parts. Without one this is a test of nothing.
#[test]
fn other() {
    let Some((part, place)) = part() else { return };
    let played = anonymous::play(&part, &place) || ends::play(&part, &place);
    let played = played || last::play(&part, &place) || reconnect::play(&part, &place);
    let played = played || common::server::play(&part, &place);
    assert!(played, "there is no part {part}");
}
