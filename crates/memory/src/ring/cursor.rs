//! Where a side of a ring stands: its next slot, and the lap in which it reads or writes it.
//!
//! The position is kept as the word at which the slot begins, with a count of the slots from there to
//! the end of the ring, so that the common path neither multiplies nor compares with the ring's size.
//! Invariant: `word` is the first word of a slot of the ring, and `left` is at least 1.

use super::SLOT_WORDS;
use super::words::Ring;
use std::cell::Cell;

/// The first lap of a ring. Laps run from 1 to 255, so zeroed memory matches none.
const FIRST_LAP: u64 = 1;
const LAST_LAP: u64 = 255;
/// The lap of a cursor that is closed: no frame has it, nor one that comes behind it.
const NO_LAP: u64 = 1 << 32;

pub(super) struct Cursor {
    word: Cell<usize>,
    /// Slots from this one to the end of the ring.
    left: Cell<u32>,
    lap: Cell<u64>,
}

impl Cursor {
    /// Stands at slot `start`, counted round the ring.
    pub(super) fn new(ring: &Ring, start: u32) -> Cursor {
        let slot = start % ring.slots();
        Cursor {
            word: Cell::new(slot as usize * SLOT_WORDS),
            left: Cell::new(ring.slots() - slot),
            lap: Cell::new(FIRST_LAP),
        }
    }

    /// Goes to the first slot of a ring that replaces the one before.
    pub(super) fn restart(&self, ring: &Ring) {
        self.word.set(0);
        self.left.set(ring.slots());
        self.lap.set(FIRST_LAP);
    }

    /// Stands in a lap that no frame has.
    pub(super) fn close(&self) {
        self.lap.set(NO_LAP);
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
        self.lap.get()
    }

    /// The slot's index in the ring.
    pub(super) fn slot(&self, ring: &Ring) -> usize {
        (ring.slots() - self.left.get()) as usize
    }

    /// The first word of the slot that lies `span` slots ahead, and its lap.
    pub(super) fn behind(&self, ring: &Ring, span: u32) -> (usize, u64) {
        match span < self.left.get() && span < ring.slots() {
            true => (self.word.get() + span as usize * SLOT_WORDS, self.lap.get()),
            false => (0, next_lap(self.lap.get())),
        }
    }

    /// Passes `span` slots, which do not go beyond the end of the ring.
    #[inline(always)]
    pub(super) fn pass(&self, ring: &Ring, span: u32) {
        if span >= self.left.get() {
            self.word.set(0);
            self.left.set(ring.slots());
            self.lap.set(next_lap(self.lap.get()));
        } else {
            self.word.set(self.word.get() + span as usize * SLOT_WORDS);
            self.left.set(self.left.get() - span);
        }
    }
}

/// The lap behind `lap`.
#[inline]
pub(super) const fn next_lap(lap: u64) -> u64 {
    if lap == LAST_LAP { FIRST_LAP } else { lap + 1 }
}
