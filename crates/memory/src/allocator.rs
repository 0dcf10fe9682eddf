//! An allocator that counts, for tests that assert how often a program allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// A counting wrapper around the system's allocator, for use as a `#[global_allocator]`.
#[derive(Default)]
pub struct CountingAllocator {
    allocations: AtomicU64,
    bytes: AtomicU64,
}

impl CountingAllocator {
    /// Creates an allocator with all counts 0.
    pub const fn new() -> CountingAllocator {
        CountingAllocator { allocations: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// Returns the number of allocations of all threads, including reallocations.
    pub fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that are allocated now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn uncount(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

// SAFETY: every method passes its arguments to the system's allocator and returns its result
// unchanged. Counting allocates nothing and does not unwind.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: the caller guarantees the same conditions that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: the caller guarantees the same conditions that the system's allocator requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.count(bytes);
        self.uncount(layout.size());
        // SAFETY: the caller guarantees the same conditions, and the memory came from the same
        // allocator.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.uncount(layout.size());
        // SAFETY: the caller guarantees the same conditions, and the memory came from the same
        // allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}
