//! Calls as their users rely on them, between threads and between processes.

#[path = "../common/mod.rs"]
mod common;

mod callbacks;
mod clients;
mod closing;
mod connecting;
mod context;
mod cores;
mod drops;
mod ends;
mod flow;
mod forks;
mod handles;
mod into;
mod meeting;
mod misuse;
mod nodes;
mod panics;
mod samples;
mod values;
mod wakers;

/// The other processes' parts. Without one this is a test of nothing.
#[test]
fn other() {
    common::process::play(&[
        clients::play,
        connecting::play,
        cores::play,
        drops::play,
        forks::play,
        misuse::play,
    ]);
}
