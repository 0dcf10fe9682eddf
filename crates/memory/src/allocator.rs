//! An allocator that counts, for tests that assert how often a program allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counting. Made to be a `#[global_allocator]`.
#[derive(Default)]
pub struct CountingAllocator {
    allocations: AtomicU64,
    bytes: AtomicU64,
}

impl CountingAllocator {
    /// One that has counted nothing.
    pub const fn new() -> CountingAllocator {
        CountingAllocator { allocations: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// How often memory was asked for, by every thread, growth included.
    pub fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::Relaxed)
    }

    /// The bytes that were asked for and not given back.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn gone(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

// SAFETY: every method hands its arguments to the system's allocator and its result back, unchanged;
// counting allocates nothing and does not unwind.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: the caller's promise is the same as the one asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: the caller's promise is the same as the one asked for here.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.count(bytes);
        self.gone(layout.size());
        // SAFETY: the caller's promise is the same, and the memory came from the same allocator.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.gone(layout.size());
        // SAFETY: the caller's promise is the same, and the memory came from the same allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}
