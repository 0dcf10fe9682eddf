//! Where a side of a ring stands: its next slot, and the lap in which it reads or writes it.
//!
//! The position is kept as the word at which the slot begins, with a count of the slots from there to
//! the end of the ring, so that the common path neither multiplies nor compares with the ring's size.
//! Invariant: `word` is the first word of a slot of the ring, and `left` is at least 1.

use super::words::Ring;
use super::{LAP, SLOT_WORDS, SPAN_SHIFT};
use std::cell::Cell;

/// The first lap of a ring. Laps run from 1 to 255, so zeroed memory matches none.
const FIRST_LAP: u64 = 1;
const LAST_LAP: u64 = 255;
/// Set in the mark of a cursor that is closed, and in the low half of no word.
const CLOSED: u64 = 1 << 32;

pub(super) struct Cursor {
    word: Cell<usize>,
    /// Slots from this one to the end of the ring.
    left: Cell<u32>,
    /// The lap, and the span of a frame of one slot, as they stand in such a frame's first word.
    mark: Cell<u64>,
}

impl Cursor {
    /// Stands at slot `start`, counted round the ring.
    pub(super) fn new(ring: &Ring, start: u32) -> Cursor {
        let slot = start % ring.slots();
        Cursor {
            word: Cell::new(slot as usize * SLOT_WORDS),
            left: Cell::new(ring.slots() - slot),
            mark: Cell::new(marked(FIRST_LAP)),
        }
    }

    /// Stands where a cursor stands that began at slot `start` of this ring and has passed so many slots.
    #[cfg(not(loom))]
    pub(super) fn stand(&self, ring: &Ring, start: u32, passed: u64) {
        let at = u64::from(start % ring.slots()) + passed;
        let (lap, slot) = (at / u64::from(ring.slots()), (at % u64::from(ring.slots())) as u32);
        self.word.set(slot as usize * SLOT_WORDS);
        self.left.set(ring.slots() - slot);
        self.mark.set(marked(FIRST_LAP + lap % LAST_LAP));
    }

    /// Goes to the first slot of a ring that replaces the one before.
    pub(super) fn restart(&self, ring: &Ring) {
        self.word.set(0);
        self.left.set(ring.slots());
        self.mark.set(marked(FIRST_LAP));
    }

    /// Stands in a lap that no frame has.
    pub(super) fn close(&self) {
        self.mark.set(self.mark.get() | CLOSED);
    }

    /// The first word of a frame of one slot here, but for its kind and length.
    #[inline(always)]
    pub(super) fn mark(&self) -> u64 {
        self.mark.get()
    }

    /// The word at which the slot begins.
    #[inline(always)]
    pub(super) fn word(&self) -> usize {
        self.word.get()
    }

    /// Slots from this one to the end of the ring.
    #[inline(always)]
    pub(super) fn left(&self) -> u32 {
        self.left.get()
    }

    /// The lap that a frame in this slot has.
    #[inline(always)]
    pub(super) fn lap(&self) -> u64 {
        self.mark.get() & (CLOSED | LAP)
    }

    /// The slot's index in the ring.
    pub(super) fn slot(&self, ring: &Ring) -> usize {
        (ring.slots() - self.left.get()) as usize
    }

    /// The first word of the slot that lies `span` slots ahead, and its lap.
    pub(super) fn behind(&self, ring: &Ring, span: u32) -> (usize, u64) {
        match span < self.left.get() && span < ring.slots() {
            true => (self.word.get() + span as usize * SLOT_WORDS, self.lap()),
            false => (0, next_mark(self.mark.get()) & (CLOSED | LAP)),
        }
    }

    /// Passes `span` slots, which do not go beyond the end of the ring.
    #[inline(always)]
    pub(super) fn pass(&self, ring: &Ring, span: u32) {
        self.word.set(self.word.get() + span as usize * SLOT_WORDS);
        let left = self.left.get().saturating_sub(span);
        self.left.set(left);
        if left == 0 {
            self.wrap(ring);
        }
    }

    /// Passes one slot, as [`Cursor::pass`] does.
    #[inline(always)]
    pub(super) fn pass_one(&self, ring: &Ring) {
        self.word.set(self.word.get() + SLOT_WORDS);
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.wrap(ring);
        }
    }

    /// Goes to the first slot of the ring, in the next lap.
    #[cold]
    #[inline(never)]
    fn wrap(&self, ring: &Ring) {
        self.word.set(0);
        self.left.set(ring.slots());
        self.mark.set(next_mark(self.mark.get()));
    }
}

/// The mark of this lap.
const fn marked(lap: u64) -> u64 {
    lap | 1 << SPAN_SHIFT
}

/// The mark of the lap behind that of `mark`.
#[inline]
const fn next_mark(mark: u64) -> u64 {
    mark & CLOSED | marked(next_lap(mark & LAP))
}

/// The lap behind `lap`.
#[inline]
pub(super) const fn next_lap(lap: u64) -> u64 {
    if lap == LAST_LAP { FIRST_LAP } else { lap + 1 }
}
