//! Computations whose callers are gone: they end, over every hop, and what they say is not heard.

#[path = "../common/mod.rs"]
mod common;

mod asleep;
mod chain;
mod deadlines;
mod ends;
mod extended;
mod handled;
mod knot;
mod left;
mod oneway;
mod restarts;
mod stopped;

/// The other processes' parts. Without one this is a test of nothing.
#[test]
fn other() {
    if let Some((part, place)) = common::process::part() {
        chain::play(&part, &place);
    }
}
