//! Buffers that are claimed for messages which are written later.
//!
//! Invariant: a reserved buffer stays claimed until its slab takes the reservation back.

use super::{Buffer, Slab};
use crate::probe::Lines;
use crate::region::{Region, WORD};

/// A buffer that is claimed for a message which is written later. It keeps its bytes, and must be
/// [resumed](Slab::resume) to be lent or freed.
pub struct Reservation {
    /// The words of the buffer alone.
    region: Region,
    index: u32,
    lines: Lines,
}

impl Reservation {
    /// Writes bytes at `at`, counted from the buffer's start.
    ///
    /// # Panics
    /// When they do not fit.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.lines.stored(at, bytes.len());
        self.region.write(at, bytes);
    }

    /// Copies bytes out, from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// When the buffer ends before them, or `at` does not begin a word.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) {
        self.region.read(at, to);
    }
}

impl Buffer<'_> {
    /// Keeps the buffer claimed, to be written beyond the slab's borrow.
    #[must_use]
    pub fn reserve(mut self) -> Reservation {
        let (slab, index, lines) = (self.slab, self.index, std::mem::take(&mut self.lines));
        // The claim goes on in the reservation.
        std::mem::forget(self);
        let words = slab.each / WORD;
        Reservation { region: slab.region.part(index as usize * words, words), index, lines }
    }
}

impl Slab {
    /// Returns the buffer of a reservation of this slab, to be lent, or freed by dropping it.
    ///
    /// # Panics
    /// When the reservation is of another slab.
    #[must_use]
    pub fn resume(&self, reservation: Reservation) -> Buffer<'_> {
        let Reservation { region, index, lines } = reservation;
        let words = self.each / WORD;
        let is_own = index < self.count && region.is_part_of(&self.region, index as usize * words);
        assert!(is_own && self.claimed.get() & 1 << index != 0, "a reservation of this slab");
        Buffer { slab: self, index, lines }
    }
}
