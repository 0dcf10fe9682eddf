//! Reservations: buffers that are claimed for messages that are written later.
//!
//! Invariant: a reserved buffer stays claimed until its slab takes the reservation back.

use super::{Buffer, Slab};
use crate::probe::Lines;
use crate::region::{Region, WORD};

/// A buffer that is claimed for a message that is written later. The buffer keeps its bytes, and must be
/// [resumed](Slab::resume) before it is lent or freed.
pub struct Reservation {
    /// The words of this buffer, without those of the others.
    region: Region,
    index: u32,
    lines: Lines,
}

impl Reservation {
    /// Writes bytes at offset `at` of the buffer.
    ///
    /// # Panics
    /// Panics when the bytes do not fit.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.lines.stored(at, bytes.len());
        self.region.write(at, bytes);
    }

    /// Copies bytes out of the buffer, from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when the buffer ends before the bytes, or `at` does not begin a word.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) {
        self.region.read(at, to);
    }
}

impl Buffer<'_> {
    /// Turns the buffer into a reservation, which does not borrow the slab.
    #[must_use]
    pub fn reserve(mut self) -> Reservation {
        let (slab, index, lines) = (self.slab, self.index, std::mem::take(&mut self.lines));
        // The claim continues in the reservation.
        std::mem::forget(self);
        let words = slab.each / WORD;
        Reservation { region: slab.region.part(index as usize * words, words), index, lines }
    }
}

impl Slab {
    /// Returns the buffer of a reservation of this slab, to be lent, or freed by dropping it.
    ///
    /// # Panics
    /// Panics when the reservation belongs to another slab.
    #[must_use]
    pub fn resume(&self, reservation: Reservation) -> Buffer<'_> {
        let Reservation { region, index, lines } = reservation;
        let words = self.each / WORD;
        let is_own = index < self.count && region.is_part_of(&self.region, index as usize * words);
        assert!(
            is_own && self.claimed.get() & 1 << index != 0,
            "the reservation belongs to another slab"
        );
        Buffer { slab: self, index, lines }
    }
}
