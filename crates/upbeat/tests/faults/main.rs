//! Processes that are killed, peers that break the rules, and calls that are dropped at any moment.

#[path = "../common/mod.rs"]
mod common;

mod drops;
mod hostile;
mod kills;

use upbeat_memory::allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// The other processes' parts. Without one this is a test of nothing.
#[test]
fn other() {
    common::process::play(&[drops::mill::play, hostile::play, kills::play]);
}
