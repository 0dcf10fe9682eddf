//! Clients and handles: how they wait for their node, how they learn of its end, and what they have in common.

mod anonymous;
mod caller;
mod clashes;
mod ends;
mod last;
mod named;
mod options;
mod reconnect;
mod wait;

use std::path::Path;

/// Plays a part of the tests here. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    anonymous::play(part, place)
        || ends::play(part, place)
        || last::play(part, place)
        || reconnect::play(part, place)
}
