//! Calls and messages at full speed, receivers that fall asleep meanwhile, and waiting where processors are few.

#[path = "../common/mod.rs"]
mod common;

mod full_speed;
mod pace;
mod wakes;

/// The other processes' parts. Without one this is a test of nothing.
#[test]
fn other() {
    common::process::play(&[pace::play]);
}
