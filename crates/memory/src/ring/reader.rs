//! The reading side of a ring: it looks at one word, and takes the frame that begins there.
//!
//! Invariant: what a writer has stored is believed only as far as it was checked.

use super::cursor::Cursor;
#[cfg(not(loom))]
use super::fits_a_slot;
use super::words::Ring;
use super::{HEAD, KIND, KIND_SHIFT, LAP, LOW, SLOT, SPAN_SHIFT};
use crate::probe;
use crate::region::{Region, WORD};
use crate::sync::{Ordering, fence};
use std::cell::Cell;
use std::fmt;

/// The reading side. What it reads may change under it at any time; it loads each word of a head once.
pub struct Reader {
    pub(super) ring: Ring,
    pub(super) next: Cursor,
    /// Slots of the frame that was last seen, 0 when none is open.
    pub(super) span: Cell<u32>,
    /// Slots consumed, padding included.
    taken: Cell<u64>,
}

impl Reader {
    /// A reader over a ring, starting at slot `start`, like its writer.
    ///
    /// # Panics
    /// When the region is not a whole number of slots from 2 to [`SLOTS_MAX`](super::SLOTS_MAX).
    #[must_use]
    pub fn new(region: Region, start: u32) -> Reader {
        let ring = Ring::new(region);
        let next = Cursor::new(&ring, start);
        Reader { ring, next, span: Cell::new(0), taken: Cell::new(0) }
    }

    /// Returns the ring, and the byte of it at which the payload of the next frame lies.
    #[cfg(not(loom))]
    pub(crate) fn payload(&self) -> (Region, usize) {
        (self.ring.region().clone(), self.next.word() * WORD + HEAD)
    }

    /// Goes on in another ring, from its first slot. Slots are counted on.
    ///
    /// # Panics
    /// As [`Reader::new`].
    pub fn continue_in(&self, region: Region) {
        self.ring.replace(region);
        self.next.restart(&self.ring);
        self.span.set(0);
    }

    /// Goes back to where it stood when it had consumed so many slots, in a ring that it began at slot
    /// `start`, when it had consumed `base` slots. The caller knows that a frame begins there, and that its
    /// writer has not reused the slots since.
    ///
    /// # Panics
    /// As [`Reader::new`], and when that ring began later.
    #[cfg(not(loom))]
    pub fn stand(&self, region: Region, start: u32, base: u64, position: u64) {
        assert!(base <= position, "slot {position} of a ring that began at slot {base}");
        self.ring.replace(region);
        self.next.stand(&self.ring, start, position - base);
        self.span.set(0);
        self.taken.set(position);
    }

    /// Puts padding in the place of the frame that lies open, in a ring of one's own. The next look finds it.
    ///
    /// # Panics
    /// When no frame is open, or the region is read-only.
    #[cfg(not(loom))]
    pub(crate) fn blank(&self) {
        let span = self.span.take();
        assert!(span != 0, "no frame lies open");
        let first = self.next.lap() | u64::from(span) << SPAN_SHIFT;
        self.ring.region().store(self.next.word(), first);
    }

    /// The index in its ring of the slot that comes next.
    #[cfg(not(loom))]
    pub(crate) fn slot(&self) -> usize {
        self.next.slot(&self.ring)
    }

    /// Finds no frame from now on, whatever the writer writes.
    pub fn close(&self) {
        self.next.close();
    }

    /// Slots consumed so far, padding included.
    #[inline(always)]
    pub fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// Looks for the next frame: its head, or None when nothing has come. Until it is passed by
    /// [`Reader::advance`], looking again gives the same frame, unless the peer breaks the rules:
    /// what was checked of one look's head is worth nothing after the next look.
    #[inline(always)]
    pub fn look(&self) -> Result<Option<[u64; 3]>, RingFault> {
        let first = self.first_word();
        if first & LAP != self.next.lap() {
            return Ok(None);
        }
        self.arrived(first)
    }

    /// Looks for the next frame as [`Reader::look`] does, by a shorter way for a frame of one slot.
    #[inline(always)]
    pub fn look_short(&self) -> Look {
        // SAFETY: the cursor stands at a slot of the ring. Nothing below goes on in another.
        let words = unsafe { self.ring.head(self.next.word()) };
        let first = words.first();
        // All bits fall away that the ring owns in a frame of one slot of this lap.
        let rest = (first & LOW) ^ self.next.mark();
        if rest & LAP != 0 {
            return Look::Nothing;
        }
        // Padding, whose kind is 0, wraps round to more than any kind.
        if rest.wrapping_sub(1) >= KIND {
            return Look::Long;
        }
        fence(Ordering::Acquire);
        let seen = self.span.replace(1) != 0;
        if !seen {
            probe::head_loaded(self.next.word() * WORD);
        }
        let (second, third) = words.rest();
        Look::Short { kind: (rest >> KIND_SHIFT) as u8, head: [first, second, third] }
    }

    /// Whether a frame has come, or something that a peer may not write.
    #[inline(always)]
    pub fn has_frame(&self) -> bool {
        self.first_word() & LAP == self.next.lap()
    }

    /// The frame that was looked at is not taken over now: the next look finds it again.
    pub fn put_back(&self) {
        self.span.set(0);
    }

    /// Whether a frame was looked at and not passed.
    pub fn is_open(&self) -> bool {
        self.span.get() != 0
    }

    /// Whether a frame has come, or something that a peer may not write, besides the one that was
    /// looked at and not passed.
    #[inline]
    pub fn has_another(&self) -> bool {
        let (word, lap) = self.next.behind(&self.ring, self.span.get());
        // SAFETY: `behind` gives the first word of a slot of the ring.
        let first = unsafe { self.ring.load(word) };
        first & LAP == lap
    }

    #[inline(always)]
    fn first_word(&self) -> u64 {
        // SAFETY: the cursor stands at a slot of the ring.
        unsafe { self.ring.load(self.next.word()) }
    }

    #[inline(always)]
    fn arrived(&self, first: u64) -> Result<Option<[u64; 3]>, RingFault> {
        fence(Ordering::Acquire);
        let span = (first >> SPAN_SHIFT) as u32 & 0xffff;
        let rest = self.next.left();
        // A span of 0 wraps round to one that is too long.
        if span.wrapping_sub(1) >= rest {
            return Err(RingFault { span, rest });
        }
        let seen = self.span.replace(span) != 0;
        if first & KIND == 0 {
            return self.pass_padding();
        }
        let at = self.next.word();
        if !seen {
            probe::head_loaded(at * WORD);
        }
        // SAFETY: as in `first_word`.
        let (second, third) = unsafe { self.ring.head(at) }.rest();
        Ok(Some([first, second, third]))
    }

    #[cold]
    #[inline(never)]
    fn pass_padding(&self) -> Result<Option<[u64; 3]>, RingFault> {
        probe::padding_loaded();
        self.advance();
        // More padding is found by the next look, so that one look never goes round.
        let first = self.first_word();
        if first & LAP != self.next.lap() || first & KIND == 0 {
            return Ok(None);
        }
        self.arrived(first)
    }

    /// Bytes of payload that the frame's slots hold.
    #[inline(always)]
    pub fn room(&self) -> usize {
        (self.span.get() as usize * SLOT).saturating_sub(HEAD)
    }

    /// Copies payload bytes of the open frame, from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// When no frame is open or the bytes are not all its own.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) {
        assert!(at <= self.room() && to.len() <= self.room() - at);
        let start = self.next.word() * WORD + HEAD;
        probe::loaded(start + at, to.len());
        self.ring.region().read(start + at, to);
    }

    /// Loads a value of plain data from the open frame's payload, at byte `at`, which must begin a
    /// word.
    ///
    /// # Panics
    /// When no frame is open or the value is not all its own.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn read_value<T: zerocopy::FromBytes>(&self, at: usize) -> T {
        let start = self.next.word() * WORD + HEAD;
        probe::loaded(start + at, size_of::<T>());
        if self.span.get() != 0 && at.is_multiple_of(WORD) && fits_a_slot(at, size_of::<T>()) {
            // SAFETY: the value lies within the first of the frame's slots, at which the cursor stands.
            return unsafe { self.ring.read_value(start + at) };
        }
        assert!(at <= self.room() && size_of::<T>() <= self.room() - at);
        self.ring.region().read_value(start + at)
    }

    /// Copies items of plain data out of the open frame's payload, from byte `at`, which must begin
    /// a word. None if there is no memory for them.
    ///
    /// # Panics
    /// When no frame is open or the items are not all its own.
    #[cfg(not(loom))]
    pub fn read_items<T: zerocopy::FromBytes>(&self, at: usize, count: usize) -> Option<Vec<T>> {
        let bytes = count.saturating_mul(size_of::<T>());
        assert!(at <= self.room() && bytes <= self.room() - at);
        let start = self.next.word() * WORD + HEAD;
        probe::loaded(start + at, bytes);
        self.ring.region().read_items(start + at, count)
    }

    /// Loads a word of the open frame that is no payload but says something about it, at byte `at`,
    /// which must begin a word.
    ///
    /// # Panics
    /// When no frame is open, the word is not all its own, or `at` does not begin a word.
    #[inline]
    pub fn read_word(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(WORD) && at < self.room());
        let start = self.next.word() * WORD + HEAD + at;
        probe::loaded(start, WORD);
        u64::from_le(self.ring.region().load(start / WORD))
    }

    /// Passes the frame that [`Reader::look_short`] has found, which lies open.
    #[inline(always)]
    pub fn advance_short(&self) {
        self.span.set(0);
        self.next.pass_one(&self.ring);
        self.taken.set(self.taken.get() + 1);
    }

    /// Passes the open frame. Without one, nothing happens.
    #[inline(always)]
    pub fn advance(&self) {
        let span = self.span.replace(0);
        self.next.pass(&self.ring, span);
        self.taken.set(self.taken.get() + u64::from(span));
    }
}

/// What [`Reader::look_short`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing has come.
    Nothing,
    /// A frame of one slot.
    Short {
        /// Its kind, which its first word has in byte 1.
        kind: u8,
        /// Its head.
        head: [u64; 3],
    },
    /// A longer frame, padding, or something that a peer may not write: [`Reader::look`] says what.
    Long,
}

/// A writer broke the ring's own rule: a span of 0, or one that leaves the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFault {
    /// The span that was found.
    pub span: u32,
    /// Slots from there to the end of the ring.
    pub rest: u32,
}

impl fmt::Display for RingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a span of {} slots where 1 to {} are left in the ring", self.span, self.rest)
    }
}

impl std::error::Error for RingFault {}
