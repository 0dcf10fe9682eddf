//! Channels: arguments by reference, streams of values, and exports that other nodes read.

#[path = "../common/mod.rs"]
mod common;

mod exports;
mod references;
mod streams;

use upbeat_memory::allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// The other processes' parts. Without one this is a test of nothing.
#[test]
fn other() {
    common::process::play(&[exports::play, references::play, streams::play]);
}
