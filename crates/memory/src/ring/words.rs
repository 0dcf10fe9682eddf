//! The words of a ring, which a larger ring's words can replace.

use super::{SLOT_WORDS, SLOTS_MAX};
use crate::region::{Region, WordTriple};
use std::cell::{Cell, UnsafeCell};

/// The words of a ring. A lane that grows replaces them.
pub(super) struct Ring {
    region: UnsafeCell<Region>,
    slots: Cell<u32>,
}

impl Ring {
    pub(super) fn new(region: Region) -> Ring {
        let slots = Cell::new(slots_in(&region));
        Ring { region: UnsafeCell::new(region), slots }
    }

    #[inline(always)]
    pub(super) fn slots(&self) -> u32 {
        self.slots.get()
    }

    /// Returns the region, for a single access.
    #[inline(always)]
    pub(super) fn region(&self) -> &Region {
        // SAFETY: one thread uses a ring, and no caller holds the returned reference while `replace` runs, since
        // no access to a region calls back.
        unsafe { &*self.region.get() }
    }

    pub(super) fn replace(&self, region: Region) {
        self.slots.set(slots_in(&region));
        // SAFETY: as in `region`.
        let old = unsafe { std::mem::replace(&mut *self.region.get(), region) };
        drop(old);
    }

    /// Loads a value of plain data.
    ///
    /// # Safety
    /// `at` is a byte of the ring that begins a word, and the value lies in the ring's slots.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) unsafe fn read_value<T: zerocopy::FromBytes>(&self, at: usize) -> T {
        // SAFETY: the region has all words of the ring's slots.
        unsafe { self.region().read_value_unchecked(at) }
    }

    /// Copies bytes to byte `at`.
    ///
    /// # Safety
    /// The bytes lie within the slots of a ring that this side writes.
    #[inline(always)]
    pub(super) unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the region has all words of the ring's slots, and a writer's region is writable.
        unsafe { self.region().write_unchecked(at, bytes) }
    }

    /// # Safety
    /// `at` is a word of one of the ring's slots.
    #[inline(always)]
    pub(super) unsafe fn load(&self, at: usize) -> u64 {
        // SAFETY: the region has all words of the ring's slots.
        unsafe { self.region().load_unchecked(at) }
    }

    /// Returns the words of a head, to be loaded.
    ///
    /// # Safety
    /// `at` is the first word of one of the ring's slots.
    #[inline(always)]
    pub(super) unsafe fn head(&self, at: usize) -> WordTriple<'_> {
        // SAFETY: a slot has more than three words.
        unsafe { self.region().triple_unchecked(at) }
    }

    /// Stores a head, its first word last.
    ///
    /// # Safety
    /// `at` is the first word of one of the slots of a ring that this side writes.
    #[inline(always)]
    pub(super) unsafe fn publish_head(&self, at: usize, head: [u64; 3]) {
        // SAFETY: a slot has more than three words, and a writer's region is writable.
        unsafe { self.region().publish_triple_unchecked(at, head) }
    }

    /// Prefetches the slot `ahead` slots behind this word, which will be written soon. Behind the last slot of the
    /// ring the prefetch has no use and does no harm.
    #[inline(always)]
    pub(super) fn prefetch_slot(&self, at: usize, ahead: usize) {
        self.region().prefetch_for_store(at + ahead * SLOT_WORDS);
    }

    /// # Safety
    /// `at` is a word of one of the slots of a ring that this side writes.
    #[inline(always)]
    pub(super) unsafe fn store(&self, at: usize, value: u64) {
        // SAFETY: the region has all words of the ring's slots, and a writer's region is writable.
        unsafe { self.region().store_unchecked(at, value) }
    }
}

fn slots_in(region: &Region) -> u32 {
    let slots = region.words() / SLOT_WORDS;
    assert!(
        region.words().is_multiple_of(SLOT_WORDS) && (2..=SLOTS_MAX as usize).contains(&slots),
        "a ring of {} words",
        region.words()
    );
    slots as u32
}
