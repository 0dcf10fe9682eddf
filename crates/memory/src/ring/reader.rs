//! The reading side of a ring: it polls one word, and reads the frame that begins there.
//!
//! Invariant: the reader checks every field that the writer has stored before it uses the field.

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

/// The reading side of a ring. The writer may change the memory at any time, so the reader loads each word of a
/// head once.
pub struct Reader {
    pub(super) ring: Ring,
    pub(super) next: Cursor,
    /// The span of the open frame, or 0 if no frame is open.
    pub(super) span: Cell<u32>,
    /// The number of slots consumed, including padding.
    taken: Cell<u64>,
}

impl Reader {
    /// Creates a reader over a ring that starts at slot `start`, as its writer does.
    ///
    /// # Panics
    /// Panics when the region is not a whole number of slots from 2 to [`SLOTS_MAX`](super::SLOTS_MAX).
    #[must_use]
    pub fn new(region: Region, start: u32) -> Reader {
        let ring = Ring::new(region);
        let next = Cursor::new(&ring, start);
        Reader { ring, next, span: Cell::new(0), taken: Cell::new(0) }
    }

    /// Returns the region of the ring, and the offset of the next frame's payload in it.
    #[cfg(not(loom))]
    pub(crate) fn payload(&self) -> (Region, usize) {
        (self.ring.region().clone(), self.next.word() * WORD + HEAD)
    }

    /// Continues in another ring, from its first slot. The count of slots continues.
    ///
    /// # Panics
    /// Panics as [`Reader::new`] does.
    pub fn continue_in(&self, region: Region) {
        self.ring.replace(region);
        self.next.restart(&self.ring);
        self.span.set(0);
    }

    /// Moves the reader to the position at which it had consumed `position` slots, in a ring that began at slot
    /// `start` when it had consumed `base` slots. The caller guarantees that a frame begins there and that its
    /// writer has not reused the slots since.
    ///
    /// # Panics
    /// Panics as [`Reader::new`] does, and when the ring began after that position.
    #[cfg(not(loom))]
    pub fn seek(&self, region: Region, start: u32, base: u64, position: u64) {
        assert!(base <= position, "slot {position} of a ring that began at slot {base}");
        self.ring.replace(region);
        self.next.seek(&self.ring, start, position - base);
        self.span.set(0);
        self.taken.set(position);
    }

    /// Replaces the open frame by padding, in a ring that this side may write. The next look finds the padding.
    ///
    /// # Panics
    /// Panics when no frame is open, or the region is read-only.
    #[cfg(not(loom))]
    pub(crate) fn blank(&self) {
        let span = self.span.take();
        assert!(span != 0, "no frame is open");
        let first = self.next.lap() | u64::from(span) << SPAN_SHIFT;
        self.ring.region().store(self.next.word(), first);
    }

    /// Returns the index of the next slot in its ring.
    #[cfg(not(loom))]
    pub(crate) fn slot(&self) -> usize {
        self.next.slot(&self.ring)
    }

    /// Closes the reader: from now on it finds no frame, whatever the writer writes.
    pub fn close(&self) {
        self.next.close();
    }

    /// Returns the number of slots consumed so far, including padding.
    #[inline(always)]
    pub fn consumed(&self) -> u64 {
        self.taken.get()
    }

    /// Polls for the next frame and returns its head, or none if no frame has come. Until [`Reader::advance`]
    /// passes the frame, later looks return the same frame, unless the peer breaks the rules: the result of a
    /// check does not hold after the next look.
    #[inline(always)]
    pub fn look(&self) -> Result<Option<[u64; 3]>, RingFault> {
        let first = self.first_word();
        if first & LAP != self.next.lap() {
            return Ok(None);
        }
        self.arrived(first)
    }

    /// Polls for the next frame as [`Reader::look`] does, with a shorter path for a frame of one slot.
    #[inline(always)]
    pub fn look_short(&self) -> Look {
        // SAFETY: the cursor points at a slot of the ring, and nothing below replaces the ring.
        let words = unsafe { self.ring.head(self.next.word()) };
        let first = words.first();
        // The XOR clears all bits that the ring owns in a frame of one slot of this lap.
        let rest = (first & LOW) ^ self.next.mark();
        if rest & LAP != 0 {
            return Look::Nothing;
        }
        // The kind of padding, 0, wraps around to more than any kind.
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

    /// Returns whether a frame has come, or a word that breaks the rules.
    #[inline(always)]
    pub fn has_frame(&self) -> bool {
        self.first_word() & LAP == self.next.lap()
    }

    /// Closes the open frame without passing it. The next look finds it again.
    pub fn put_back(&self) {
        self.span.set(0);
    }

    /// Returns whether a frame is open: looked at and not passed.
    pub fn is_open(&self) -> bool {
        self.span.get() != 0
    }

    /// Returns whether another frame, or a word that breaks the rules, has come behind the open frame.
    #[inline]
    pub fn has_another(&self) -> bool {
        let (word, lap) = self.next.ahead(&self.ring, self.span.get());
        // SAFETY: `behind` returns the first word of a slot of the ring.
        let first = unsafe { self.ring.load(word) };
        first & LAP == lap
    }

    #[inline(always)]
    fn first_word(&self) -> u64 {
        // SAFETY: the cursor points at a slot of the ring.
        unsafe { self.ring.load(self.next.word()) }
    }

    #[inline(always)]
    fn arrived(&self, first: u64) -> Result<Option<[u64; 3]>, RingFault> {
        fence(Ordering::Acquire);
        let span = (first >> SPAN_SHIFT) as u32 & 0xffff;
        let rest = self.next.left();
        // A span of 0 wraps around to one that is too long.
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
        // Further padding is left to the next look, so that one look never loops around the ring.
        let first = self.first_word();
        if first & LAP != self.next.lap() || first & KIND == 0 {
            return Ok(None);
        }
        self.arrived(first)
    }

    /// Returns the number of payload bytes that the open frame's slots hold.
    #[inline(always)]
    pub fn room(&self) -> usize {
        (self.span.get() as usize * SLOT).saturating_sub(HEAD)
    }

    /// Copies payload bytes of the open frame, from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when no frame is open, or the bytes are not all inside the frame.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) {
        assert!(at <= self.room() && to.len() <= self.room() - at);
        let start = self.next.word() * WORD + HEAD;
        probe::loaded(start + at, to.len());
        self.ring.region().read(start + at, to);
    }

    /// Loads a value of plain data from the open frame's payload, at byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when no frame is open, or the value is not inside the frame.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn read_value<T: zerocopy::FromBytes>(&self, at: usize) -> T {
        let start = self.next.word() * WORD + HEAD;
        probe::loaded(start + at, size_of::<T>());
        if self.span.get() != 0 && at.is_multiple_of(WORD) && fits_a_slot(at, size_of::<T>()) {
            // SAFETY: the value lies within the first slot of the frame, at which the cursor points.
            return unsafe { self.ring.read_value(start + at) };
        }
        assert!(at <= self.room() && size_of::<T>() <= self.room() - at);
        self.ring.region().read_value(start + at)
    }

    /// Copies items of plain data out of the open frame's payload, from byte `at`, which must begin a word.
    /// Returns none if there is no memory for them.
    ///
    /// # Panics
    /// Panics when no frame is open, or the items are not inside the frame.
    #[cfg(not(loom))]
    pub fn read_items<T: zerocopy::FromBytes>(&self, at: usize, count: usize) -> Option<Vec<T>> {
        let bytes = count.saturating_mul(size_of::<T>());
        assert!(at <= self.room() && bytes <= self.room() - at);
        let start = self.next.word() * WORD + HEAD;
        probe::loaded(start + at, bytes);
        self.ring.region().read_items(start + at, count)
    }

    /// Loads a word of the open frame that describes the payload, at byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when no frame is open, the word is not inside the frame, or `at` does not begin a word.
    #[inline]
    pub fn read_word(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(WORD) && at < self.room());
        let start = self.next.word() * WORD + HEAD + at;
        probe::loaded(start, WORD);
        u64::from_le(self.ring.region().load(start / WORD))
    }

    /// Passes the open frame, which [`Reader::look_short`] has found.
    #[inline(always)]
    pub fn advance_short(&self) {
        self.span.set(0);
        self.next.pass_one(&self.ring);
        self.taken.set(self.taken.get() + 1);
    }

    /// Passes the open frame, if there is one.
    #[inline(always)]
    pub fn advance(&self) {
        let span = self.span.replace(0);
        self.next.pass(&self.ring, span);
        self.taken.set(self.taken.get() + u64::from(span));
    }
}

/// The result of [`Reader::look_short`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// No frame has come.
    Nothing,
    /// A frame of one slot has come.
    Short {
        /// The frame's kind, which is byte 1 of its first word.
        kind: u8,
        /// The frame's head.
        head: [u64; 3],
    },
    /// A longer frame, padding, or a word that breaks the rules has come; [`Reader::look`] tells which.
    Long,
}

/// A writer broke the rule of spans: the span is 0, or leaves the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFault {
    /// The span in the head.
    pub span: u32,
    /// The number of slots from there to the end of the ring.
    pub rest: u32,
}

impl fmt::Display for RingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a span of {} slots where 1 to {} are left in the ring", self.span, self.rest)
    }
}

impl std::error::Error for RingFault {}
