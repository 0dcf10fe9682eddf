//! How handlers are run: as active messages, optimistically, as tasks, as it pays; and for how long.

#[path = "../common/mod.rs"]
mod common;

mod bank;
mod shop;
mod modes;
mod budget;
mod compute;
#[cfg(feature = "tokio")]
mod driven;
mod blocking;
mod needs;
mod statistics;
mod sync;
mod tasks;

use upbeat_memory::allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// Returns the first line about something that has run for too long. A busy machine may make a run ten times as long as
/// the one before, which is worth another line.
fn warning<'t>(text: &'t str, about: &str) -> &'t str {
    let order = |line: &&str| {
        let (_, ran) = line.split_once(" ran for ").unwrap();
        let (number, unit) = ran.split_at(ran.find(|c: char| !c.is_ascii_digit()).unwrap());
        let microseconds = match unit {
            unit if unit.starts_with("µs") => 1,
            unit if unit.starts_with("ms") => 1_000,
            _ => 1_000_000,
        };
        (number.parse::<u64>().unwrap() * microseconds).ilog10()
    };
    let lines: Vec<_> = text.lines().filter(|line| line.contains(about)).collect();
    assert!(lines.is_sorted_by(|one, next| order(one) < order(next)), "{about}: {text}");
    lines.first().unwrap_or_else(|| panic!("{about}: {text}"))
}

/// The other processes' parts. Without one this is a test of nothing.
#[test]
fn other() {
    common::process::play(&[shop::play, sync::play]);
}
