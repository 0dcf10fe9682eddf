//! Connecting: who is reached under a name, what happens when many connect at once, what dead nodes
//! leave behind, and what is said where a limit of the process ends it.

mod crowd;
mod leftovers;
mod limits;
mod names;
mod namespaces;
mod variables;

use std::path::Path;

/// Plays a part of the tests here. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    crowd::play(part, place)
        || leftovers::play(part, place)
        || limits::play(part, place)
        || names::play(part, place)
        || namespaces::play(part, place)
        || variables::play(part, place)
}
