//! Connecting: who is reached under a name, what happens when many connect at once, what dead nodes
//! leave behind, and what is said where a limit of the process ends it.

#[path = "../common/mod.rs"]
mod common;

mod crowd;
mod leftovers;
mod limits;
mod names;
mod namespaces;
mod variables;

use common::process::part;

/// The other process's parts. Without one this is a test of nothing.
#[test]
fn other() {
    let Some((part, place)) = part() else { return };
    let played = crowd::play(&part, &place)
        || leftovers::play(&part, &place)
        || limits::play(&part, &place)
        || names::play(&part, &place)
        || namespaces::play(&part, &place)
        || variables::play(&part, &place)
        || common::server::play(&part, &place);
    assert!(played, "there is no part {part}");
}
