//! Streams of results and of arguments: all of them, in order, held back by their readers, and gone
//! when either side is.

#[path = "../common/mod.rs"]
mod common;

#[allow(dead_code, reason = "the tests of hostile peers use the rest of it")]
#[path = "../hostile/raw.rs"]
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

/// The other processes' parts. Without one this is a test of nothing.
#[test]
fn other() {
    if let Some((part, place)) = common::process::part()
        && !forks::play(&part, &place)
    {
        shelf::play(&part, &place);
    }
}
