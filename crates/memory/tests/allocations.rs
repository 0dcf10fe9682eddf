//! The test that writing a sample allocates nothing.

#![cfg(not(loom))]

use upbeat_memory::allocator::CountingAllocator;
use upbeat_memory::samples::{Record, STAMPS_MAX, Samples};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

#[test]
fn a_sample_is_written_without_an_allocation() {
    let samples = Samples::heap("a/1", 7);
    let stamps = [1; STAMPS_MAX];
    let (kind, rung, flags, note, doubt) = (1, 0, 0, 0, 0);
    let record = Record { subject: 0, kind, rung, flags, note, doubt, peer: 8, stamps };
    // The threads of the test harness may allocate, but not during every try.
    let held = (0..20).any(|_| {
        let before = ALLOCATOR.allocations();
        for _ in 0..100 {
            samples.write(&record);
            samples.subject("a text");
        }
        ALLOCATOR.allocations() == before
    });
    assert!(held && samples.written() >= 100);
}
