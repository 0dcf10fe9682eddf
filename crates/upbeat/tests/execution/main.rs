//! How handlers are run: as active messages, optimistically, as tasks, as it pays; and for how long.

#[path = "../common/mod.rs"]
mod common;

mod bank;
mod shop;
mod modes;
mod budget;
#[cfg(feature = "tokio")]
mod driven;
mod blocking;
mod needs;
mod statistics;

/// The other process's parts. Without one this is a test of nothing.
#[test]
fn other() {
    if let Some((part, place)) = common::process::part() {
        assert!(shop::play(&part, &place), "there is no part {part}");
    }
}
