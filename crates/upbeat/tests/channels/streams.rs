//! Streams of results and of arguments: all of them, in order, held back by their readers, and gone
//! when either side is.

#[allow(dead_code, reason = "the tests of hostile peers use the rest of it")]
#[path = "../faults/hostile/raw.rs"]
mod raw;

mod anywhere;
mod attached;
mod deaths;
mod ends;
mod forks;
mod into;
mod order;
mod pressure;
mod shelf;
mod strangers;

use std::path::Path;

/// Plays a part of the tests here. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    forks::play(part, place) || shelf::play(part, place)
}
