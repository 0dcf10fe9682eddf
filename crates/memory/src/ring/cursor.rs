//! The position of one side of a ring: its next slot, and the lap in which it reads or writes that slot.
//!
//! The cursor stores the word at which the slot begins, and the number of slots from there to the end of the ring,
//! so that the common path neither multiplies nor compares with the size of the ring. Invariant: `word` is the
//! first word of a slot of the ring, and `left` is at least 1.

use super::words::Ring;
use super::{LAP, SLOT_WORDS, SPAN_SHIFT};
use std::cell::Cell;

/// The first lap of a ring. Laps run from 1 to 255, so zeroed memory matches no lap.
const FIRST_LAP: u64 = 1;
const LAST_LAP: u64 = 255;
/// A bit of a closed cursor's mark, which no lower half of a word has.
const CLOSED: u64 = 1 << 32;

pub(super) struct Cursor {
    word: Cell<usize>,
    /// The number of slots from this one to the end of the ring.
    left: Cell<u32>,
    /// The lap and the span of a frame of one slot, as in the frame's first word.
    mark: Cell<u64>,
}

impl Cursor {
    /// Creates a cursor at slot `start` modulo the size of the ring.
    pub(super) fn new(ring: &Ring, start: u32) -> Cursor {
        let slot = start % ring.slots();
        Cursor {
            word: Cell::new(slot as usize * SLOT_WORDS),
            left: Cell::new(ring.slots() - slot),
            mark: Cell::new(marked(FIRST_LAP)),
        }
    }

    /// Moves the cursor to where a cursor is that began at slot `start` of this ring and has passed `passed`
    /// slots.
    #[cfg(not(loom))]
    pub(super) fn seek(&self, ring: &Ring, start: u32, passed: u64) {
        let at = u64::from(start % ring.slots()) + passed;
        let (lap, slot) = (at / u64::from(ring.slots()), (at % u64::from(ring.slots())) as u32);
        self.word.set(slot as usize * SLOT_WORDS);
        self.left.set(ring.slots() - slot);
        self.mark.set(marked(FIRST_LAP + lap % LAST_LAP));
    }

    /// Moves the cursor to the first slot of a ring that replaces the old one.
    pub(super) fn restart(&self, ring: &Ring) {
        self.word.set(0);
        self.left.set(ring.slots());
        self.mark.set(marked(FIRST_LAP));
    }

    /// Closes the cursor: its lap is one that no frame has.
    pub(super) fn close(&self) {
        self.mark.set(self.mark.get() | CLOSED);
    }

    /// Returns the first word of a frame of one slot here, without its kind and length.
    #[inline(always)]
    pub(super) fn mark(&self) -> u64 {
        self.mark.get()
    }

    /// Returns the word at which the slot begins.
    #[inline(always)]
    pub(super) fn word(&self) -> usize {
        self.word.get()
    }

    /// Returns the number of slots from this one to the end of the ring.
    #[inline(always)]
    pub(super) fn left(&self) -> u32 {
        self.left.get()
    }

    /// Returns the lap of a frame in this slot.
    #[inline(always)]
    pub(super) fn lap(&self) -> u64 {
        self.mark.get() & (CLOSED | LAP)
    }

    /// Returns the slot's index in the ring.
    pub(super) fn slot(&self, ring: &Ring) -> usize {
        (ring.slots() - self.left.get()) as usize
    }

    /// Returns the first word of the slot that is `span` slots ahead, and its lap.
    pub(super) fn ahead(&self, ring: &Ring, span: u32) -> (usize, u64) {
        match span < self.left.get() && span < ring.slots() {
            true => (self.word.get() + span as usize * SLOT_WORDS, self.lap()),
            false => (0, next_mark(self.mark.get()) & (CLOSED | LAP)),
        }
    }

    /// Passes `span` slots, which do not extend beyond the end of the ring.
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

    /// Moves the cursor to the first slot of the ring, in the next lap.
    #[cold]
    #[inline(never)]
    fn wrap(&self, ring: &Ring) {
        self.word.set(0);
        self.left.set(ring.slots());
        self.mark.set(next_mark(self.mark.get()));
    }
}

/// Returns the mark of a lap.
const fn marked(lap: u64) -> u64 {
    lap | 1 << SPAN_SHIFT
}

/// Returns the mark of the lap that follows that of `mark`.
#[inline]
const fn next_mark(mark: u64) -> u64 {
    mark & CLOSED | marked(next_lap(mark & LAP))
}

/// Returns the lap that follows `lap`.
#[inline]
pub(super) const fn next_lap(lap: u64) -> u64 {
    if lap == LAST_LAP { FIRST_LAP } else { lap + 1 }
}
