//! The writing side of a ring: claims of slots, and the notes that it keeps to write them.
//!
//! Invariant: the writer claims slots only where the reader's progress has left them free.

use super::cursor::Cursor;
use super::words::Ring;
use super::{HEAD, KIND, OWNED, SLOT, SPAN_SHIFT, fits_a_slot, span_of};
use crate::probe;
use crate::region::{Region, WORD};
use crate::sync::{Ordering, fence};
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;

/// How many slots ahead of the published one the writer prefetches. The reader has had that slot's line since the
/// last lap, so a writer with several messages does not wait for each line in turn.
const AHEAD: usize = 4;

/// The value of `free` while a claim is open: fewer slots than any message needs.
const CLAIMED: i32 = -1;

/// The writing side of a ring.
pub struct Writer {
    pub(super) ring: Ring,
    pub(super) next: Cursor,
    /// The number of slots that are known to be free, or [`CLAIMED`] while a claim is open, so that one compare
    /// tells whether a message may begin.
    pub(super) free: Cell<i32>,
    /// The number of slots written, including padding.
    out: Cell<u64>,
    /// The number of slots that were written before this ring began. Smaller values of progress belong to earlier
    /// rings.
    floor: Cell<u64>,
    /// For each slot, whether its first word may be payload of an earlier lap.
    dirty: UnsafeCell<Box<[Cell<bool>]>>,
    /// The number of dirty slots.
    dirty_slots: Cell<u32>,
}

impl Writer {
    /// Creates a writer over a zeroed region that starts at slot `start`.
    ///
    /// # Panics
    /// Panics when the region is read-only or not a whole number of slots from 2 to
    /// [`SLOTS_MAX`](super::SLOTS_MAX).
    #[must_use]
    pub fn new(region: Region, start: u32) -> Writer {
        assert!(region.is_writable(), "the region of a ring's writer must be writable");
        let ring = Ring::new(region);
        Writer {
            next: Cursor::new(&ring, start),
            free: Cell::new(ring.slots() as i32),
            out: Cell::new(0),
            floor: Cell::new(0),
            dirty: UnsafeCell::new(clean(ring.slots())),
            dirty_slots: Cell::new(0),
            ring,
        }
    }

    /// Continues in another, zeroed ring, from its first slot. All slots of the new ring are free: unread frames
    /// lie in the old one.
    ///
    /// # Panics
    /// Panics as [`Writer::new`] does, and when a claim is open.
    pub fn continue_in(&self, region: Region) {
        assert!(region.is_writable(), "the region of a ring's writer must be writable");
        assert!(!self.is_claimed(), "a writer cannot change its ring while a claim is open");
        self.ring.replace(region);
        // SAFETY: no reference into the notes outlives the method that takes it.
        unsafe { *self.dirty.get() = clean(self.ring.slots()) };
        self.dirty_slots.set(0);
        self.next.restart(&self.ring);
        // Progress is counted over all rings of a lane. Until the reader has left the old ring, its progress is
        // smaller than `floor`, which is correct.
        self.free.set(self.ring.slots() as i32);
        self.floor.set(self.out.get());
    }

    /// Returns the number of slots of the ring.
    pub fn slots(&self) -> u32 {
        self.ring.slots()
    }

    /// Returns whether a claim is open.
    pub fn is_claimed(&self) -> bool {
        self.free.get() == CLAIMED
    }

    /// Returns the number of slots written so far, including padding.
    #[inline(always)]
    pub fn out(&self) -> u64 {
        self.out.get()
    }

    /// Returns the longest span that a claim gets sooner or later at any position of the ring, when `keep` slots
    /// must stay free behind it: half of the ring, or less if `keep` is large. A longer span is granted only where
    /// it happens to fit.
    #[must_use]
    pub fn longest(&self, keep: u32) -> u32 {
        // In the worst case the span is one slot longer than the rest of the ring, and that rest is padded: the
        // claim takes twice the span less one, and `keep`.
        (self.ring.slots() / 2).min((self.ring.slots().saturating_sub(keep)).div_ceil(2))
    }

    /// Claims `span` slots and leaves at least `keep` free behind them. The method calls `progress` for the number
    /// of slots that the reader has consumed only if too few slots are known to be free.
    #[inline(always)]
    pub fn claim(
        &self,
        span: u32,
        keep: u32,
        progress: impl Fn() -> u64,
    ) -> Result<Claim<'_>, Refused> {
        let need = i64::from(span) + i64::from(keep);
        // At least one slot is left before the end of the ring.
        let leaves_ring = span != 1 && span.wrapping_sub(1) >= self.next.left();
        let mut free = self.free.get();
        if need > i64::from(free) || leaves_ring {
            free = self.make_room(span, keep, progress)?;
        }
        if span > 1 {
            self.mark_dirty(span);
        }
        self.free.set(CLAIMED);
        probe::claimed(self.next.word() * WORD);
        Ok(Claim { writer: self, span, free })
    }

    /// Marks the slots of a frame behind its first as dirty: bytes that are written there, or left there from an
    /// earlier lap, must not be taken for a head.
    fn mark_dirty(&self, span: u32) {
        let first = self.next.slot(&self.ring);
        // SAFETY: only `continue_in` replaces the notes, and it does not run meanwhile.
        let dirty = unsafe { &*self.dirty.get() };
        let inner = dirty.get(first + 1..first + span as usize);
        let newly = inner.into_iter().flatten().filter(|slot| !slot.replace(true)).count();
        self.dirty_slots.set(self.dirty_slots.get() + newly as u32);
    }

    /// Wipes the first word of the next slot if payload may lie there.
    #[cold]
    fn wipe_next(&self) {
        let next = self.next.slot(&self.ring);
        // SAFETY: as in `mark_dirty`.
        let dirty = unsafe { &*self.dirty.get() };
        if dirty.get(next).is_some_and(|slot| slot.replace(false)) {
            self.dirty_slots.set(self.dirty_slots.get() - 1);
            // SAFETY: the cursor points at a slot of the ring, which is writable: that was checked when the ring
            // was set.
            unsafe { self.ring.store(self.next.word(), 0) };
            probe::wiped();
        }
    }

    /// Handles the rare part of a claim: loads the progress, and pads up to the end of the ring. Returns the
    /// number of slots that are then known to be free.
    #[cold]
    #[inline(never)]
    fn make_room(&self, span: u32, keep: u32, progress: impl Fn() -> u64) -> Result<i32, Refused> {
        if self.is_claimed() {
            return Err(Refused::Claimed);
        }
        let most = self.longest(keep);
        if span == 0 || span > most {
            return Err(Refused::TooLong { span, most });
        }
        let rest = self.next.left();
        let pad = if span > rest { rest } else { 0 };
        let need = i64::from(span) + i64::from(keep) + i64::from(pad);
        if need > i64::from(self.free.get()) {
            // The claim stays marked as open while `progress` runs, so that `progress` cannot change this ring.
            let free = self.free.replace(CLAIMED);
            let now = progress();
            self.free.set(free);
            self.update_free(now)?;
            if need > i64::from(self.free.get()) {
                probe::refused();
                return Err(Refused::Full);
            }
        }
        if pad != 0 {
            self.mark_dirty(pad);
            self.publish([0, 0, 0], pad, self.free.get());
        }
        Ok(self.free.get())
    }

    /// Pads `span` slots, as the writer that this one replicates has done.
    #[cfg(not(loom))]
    pub(crate) fn pad(&self, span: u32, progress: impl Fn() -> u64) -> Result<(), Refused> {
        let rest = self.next.left();
        // A span of 0 wraps around to one that is too long.
        if span.wrapping_sub(1) >= rest {
            return Err(Refused::TooLong { span, most: rest });
        }
        self.find_free(span, progress)?;
        self.mark_dirty(span);
        self.publish([0, 0, 0], span, self.free.get());
        Ok(())
    }

    /// Makes a claim possible that was granted before, for a span that may be longer than [`Writer::longest`]: pads up to
    /// the end of the ring if the span does not fit before it, and learns whether the reader has made room. Fails with
    /// [`Refused::Full`] if it has not: the caller asks again later.
    #[cfg(not(loom))]
    pub(crate) fn make_way(
        &self,
        span: u32,
        keep: u32,
        progress: impl Fn() -> u64,
    ) -> Result<(), Refused> {
        if self.is_claimed() {
            return Err(Refused::Claimed);
        }
        let rest = self.next.left();
        if span > rest {
            self.pad(rest, &progress)?;
        }
        self.find_free(span + keep, progress)
    }

    /// Ensures that `span` slots are known to be free, for the replica of a claim that another writer was granted.
    #[cfg(not(loom))]
    pub(crate) fn find_free(&self, span: u32, progress: impl Fn() -> u64) -> Result<(), Refused> {
        if i64::from(span) > i64::from(self.free.get()) {
            self.update_free(progress())?;
        }
        if i64::from(span) > i64::from(self.free.get()) { Err(Refused::Full) } else { Ok(()) }
    }

    /// Updates the number of free slots from the reader's progress.
    #[inline(always)]
    fn update_free(&self, progress: u64) -> Result<(), Refused> {
        let now = progress.max(self.floor.get());
        // The fence keeps later writes into the freed slots behind the reads that emptied them.
        fence(Ordering::Acquire);
        let (slots, out) = (u64::from(self.ring.slots()), self.out.get());
        let known = out - (slots - self.free.get() as u64);
        if now < known || now > out {
            return Err(Refused::Progress { now, known, out });
        }
        self.free.set((slots - (out - now)) as i32);
        Ok(())
    }

    /// Publishes a frame when `free` slots were free before it. Nothing that this method calls writes another
    /// frame.
    #[inline(always)]
    fn publish(&self, head: [u64; 3], span: u32, free: i32) {
        self.free.set(free - span as i32);
        let at = self.next.word();
        let owned = self.next.mark() + (u64::from(span - 1) << SPAN_SHIFT);
        let first = head[0] & !OWNED | owned;
        match span {
            1 => self.next.pass_one(&self.ring),
            span => self.next.pass(&self.ring, span),
        }
        self.out.set(self.out.get() + u64::from(span));
        if self.dirty_slots.get() != 0 {
            self.wipe_next();
        }
        self.ring.prefetch_slot(at, AHEAD);
        // SAFETY: the cursor pointed at a slot of the ring, which is writable: that was checked when the ring was
        // set. A slot has more than three words.
        unsafe { self.ring.publish_head(at, [first, head[1], head[2]]) }
    }
}

/// Creates notes for slots that are all clean.
fn clean(slots: u32) -> Box<[Cell<bool>]> {
    (0..slots).map(|_| Cell::new(false)).collect()
}

/// Claimed slots that the writer may fill. A dropped claim has no effect on the reader.
pub struct Claim<'a> {
    writer: &'a Writer,
    span: u32,
    /// The number of slots that were free before the claim.
    free: i32,
}

impl Claim<'_> {
    /// Returns the region of the ring, and the offset of the payload in it. Bytes that are written there without a
    /// commit are never taken for a frame.
    #[cfg(not(loom))]
    pub(crate) fn payload(&self) -> (Region, usize) {
        (self.writer.ring.region().clone(), self.writer.next.word() * WORD + HEAD)
    }

    /// Returns the number of payload bytes that fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.span as usize * SLOT - HEAD
    }

    /// Writes payload bytes at `at`, counted from the payload's start.
    ///
    /// # Panics
    /// Panics when the bytes do not fit.
    #[inline(always)]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let start = self.writer.next.word() * WORD + HEAD;
        probe::stored(start + at, bytes.len());
        if fits_a_slot(at, bytes.len()) {
            // SAFETY: the bytes lie within the first of the claimed slots, at which the cursor points.
            return unsafe { self.writer.ring.write(start + at, bytes) };
        }
        assert!(at <= self.room() && bytes.len() <= self.room() - at);
        self.writer.ring.region().write(start + at, bytes);
    }

    /// Writes a word that describes the payload, at byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when the word does not fit, or `at` does not begin a word.
    #[inline(always)]
    pub fn write_word(&mut self, at: usize, word: u64) {
        assert!(at.is_multiple_of(WORD) && at < self.room());
        let start = self.writer.next.word() * WORD + HEAD + at;
        self.writer.ring.region().store(start / WORD, word.to_le());
        probe::stored(start, WORD);
    }

    /// Publishes the frame with the first `payload` bytes of payload and this head. The ring sets lap and span in
    /// the head's first word. The kind in that word must not be 0.
    ///
    /// # Panics
    /// Panics when `payload` is larger than the claim, or the kind is that of padding.
    #[inline(always)]
    pub fn commit(self, head: [u64; 3], payload: usize) {
        assert!(payload <= self.room() && head[0] & KIND != 0);
        // `publish` ends the claim, so the claim's drop must not run.
        let claim = ManuallyDrop::new(self);
        claim.writer.publish(head, span_of(payload), claim.free);
        probe::committed(payload);
    }
}

impl Drop for Claim<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.writer.free.set(self.free);
    }
}

/// The reason why slots were not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too few slots are free now: the reader has to consume first.
    Full,
    /// The span is longer than this ring can ever take.
    TooLong {
        /// The requested number of slots.
        span: u32,
        /// The largest number of slots that this ring can take.
        most: u32,
    },
    /// Another claim is open.
    Claimed,
    /// The reader's progress went backwards, or is ahead of what was written.
    Progress {
        /// The progress now.
        now: u64,
        /// The progress before.
        known: u64,
        /// The number of slots written.
        out: u64,
    },
}
