//! Several nodes of one process behind one name: which node gets a session, what becomes of the name, and threads that
//! start and end together.

#[path = "../common/mod.rs"]
mod common;

mod groups;
mod threads;

use common::process::part;

/// The other process's parts. Without one this is a test of nothing.
#[test]
fn other() {
    let Some((part, place)) = part() else { return };
    let played = groups::play(&part, &place) || threads::play(&part, &place);
    assert!(played, "there is no part {part}");
}
