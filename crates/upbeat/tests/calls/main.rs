//! Calls as their users rely on them, between threads and between processes.

#[path = "../common/mod.rs"]
mod common;

mod callbacks;
mod closing;
mod drops;
mod ends;
mod flow;
mod forks;
mod into;
mod meeting;
mod nodes;
mod panics;
mod samples;
mod values;
mod wakers;

/// The other process's parts. Without one this is a test of nothing.
#[test]
fn other() {
    if let Some((part, place)) = common::process::part() {
        let known = common::server::play(&part, &place)
            || drops::play(&part, &place)
            || forks::play(&part, &place);
        assert!(known, "there is no part {part}");
    }
}
