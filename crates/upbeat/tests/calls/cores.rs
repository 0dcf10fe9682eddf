//! Several nodes of one process behind one name: which node gets a session, what becomes of the name, and threads that
//! start and end together.

mod groups;
mod threads;

use std::path::Path;

/// Plays a part of the tests here. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    groups::play(part, place) || threads::play(part, place)
}
