//! The costs of calls: allocations, copies, system calls, and a quote that tells them; the costs of idle sessions.

#[path = "../common/mod.rs"]
mod common;

mod idle;
mod null_calls;
mod quote;

use upbeat_memory::allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// The other processes' parts. Without one this is a test of nothing.
#[test]
fn other() {
    common::process::play(&[idle::play, null_calls::play, quote::play]);
}
