//! The writing side of a ring: claims of slots, and what it keeps to write them.
//!
//! Invariant: slots are claimed only where the reader's progress has left them free.

use super::cursor::Cursor;
use super::words::Ring;
use super::{HEAD, KIND, OWNED, SLOT, SPAN_SHIFT, fits_a_slot, span_of};
use crate::probe;
use crate::region::{Region, WORD};
use crate::sync::{Ordering, fence};
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;

/// A writer asks for the slot that is so many behind the one that it publishes. The reader has had its line since
/// the last lap; a writer that has more to say need not wait for each line in turn.
const AHEAD: usize = 4;

/// Fewer free slots than any message needs.
const CLAIMED: i32 = -1;

/// The writing side.
pub struct Writer {
    pub(super) ring: Ring,
    pub(super) next: Cursor,
    /// Slots that the reader is known to have left free; [`CLAIMED`] while a message is being written, so
    /// that one compare finds whether a message may be begun.
    pub(super) free: Cell<i32>,
    /// Slots written, padding included.
    out: Cell<u64>,
    /// What had been written when this ring began: progress below it is of the rings before.
    floor: Cell<u64>,
    /// Per slot, whether its first word may be payload of an earlier lap.
    dirty: UnsafeCell<Box<[Cell<bool>]>>,
    /// How many of them are.
    dirty_slots: Cell<u32>,
}

impl Writer {
    /// A writer over a zeroed region, starting at slot `start`.
    ///
    /// # Panics
    /// When the region is read-only or not a whole number of slots from 2 to [`SLOTS_MAX`](super::SLOTS_MAX).
    #[must_use]
    pub fn new(region: Region, start: u32) -> Writer {
        assert!(region.is_writable(), "a ring is written in a region of one's own");
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

    /// Goes on in another ring, zeroed, from its first slot. The writer has it to itself: what is
    /// still unread lies in the old one.
    ///
    /// # Panics
    /// As [`Writer::new`], and when a message is being written.
    pub fn continue_in(&self, region: Region) {
        assert!(region.is_writable(), "a ring is written in a region of one's own");
        assert!(!self.is_claimed(), "a ring is left between messages");
        self.ring.replace(region);
        // SAFETY: no reference into the notes outlives the method that takes it.
        unsafe { *self.dirty.get() = clean(self.ring.slots()) };
        self.dirty_slots.set(0);
        self.next.restart(&self.ring);
        // Progress is counted over all rings of a lane. Until the reader has left the old ring it
        // says less than this, and that is no fault.
        self.free.set(self.ring.slots() as i32);
        self.floor.set(self.out.get());
    }

    /// The number of slots of the ring.
    pub fn slots(&self) -> u32 {
        self.ring.slots()
    }

    /// Whether a message is being written.
    pub fn is_claimed(&self) -> bool {
        self.free.get() == CLAIMED
    }

    /// Slots written so far, padding included.
    #[inline(always)]
    pub fn out(&self) -> u64 {
        self.out.get()
    }

    /// The longest span that finds room sooner or later wherever the ring stands, when `keep`
    /// slots are to stay free behind it: half of the ring, or less if those are many. A longer one
    /// is granted only where it happens to fit.
    #[must_use]
    pub fn longest(&self, keep: u32) -> u32 {
        // At worst a span is one slot too long for the end of the ring, and all the rest before
        // it is padded: twice the span less one, and what is kept.
        (self.ring.slots() / 2).min((self.ring.slots().saturating_sub(keep)).div_ceil(2))
    }

    /// Claims `span` slots, leaving at least `keep` free behind them. `progress` is asked for the
    /// slots that the reader has consumed, and only when the room that is known does not suffice.
    #[inline(always)]
    pub fn claim(
        &self,
        span: u32,
        keep: u32,
        progress: impl Fn() -> u64,
    ) -> Result<Claim<'_>, Refused> {
        let need = i64::from(span) + i64::from(keep);
        // There is always one slot before the end of the ring.
        let leaves_ring = span != 1 && span.wrapping_sub(1) >= self.next.left();
        let mut free = self.free.get();
        if need > i64::from(free) || leaves_ring {
            free = self.make_room(span, keep, progress)?;
        }
        if span > 1 {
            self.soil(span);
        }
        self.free.set(CLAIMED);
        probe::claimed(self.next.word() * WORD);
        Ok(Claim { writer: self, span, free })
    }

    /// Notes that no head stands in these slots behind the first: whatever is written there, or
    /// left there from an earlier lap, must not be taken for one.
    fn soil(&self, span: u32) {
        let first = self.next.slot(&self.ring);
        // SAFETY: the notes are replaced only by `continue_in`, which does not run meanwhile.
        let dirty = unsafe { &*self.dirty.get() };
        let inner = dirty.get(first + 1..first + span as usize);
        let newly = inner.into_iter().flatten().filter(|slot| !slot.replace(true)).count();
        self.dirty_slots.set(self.dirty_slots.get() + newly as u32);
    }

    /// Wipes the first word of the next slot, if payload may have lain there.
    #[cold]
    fn wipe_next(&self) {
        let next = self.next.slot(&self.ring);
        // SAFETY: as in `soil`.
        let dirty = unsafe { &*self.dirty.get() };
        if dirty.get(next).is_some_and(|slot| slot.replace(false)) {
            self.dirty_slots.set(self.dirty_slots.get() - 1);
            // SAFETY: the cursor stands at a slot of the ring, which is writable, as was checked
            // when it was taken.
            unsafe { self.ring.store(self.next.word(), 0) };
            probe::wiped();
        }
    }

    /// The rare part of a claim: asks for progress, pads up to the end of the ring. Returns the slots that are
    /// then known to be free.
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
            // Nothing moves under us, should the question come back to this ring.
            let free = self.free.replace(CLAIMED);
            let now = progress();
            self.free.set(free);
            self.learn(now)?;
            if need > i64::from(self.free.get()) {
                probe::refused();
                return Err(Refused::Full);
            }
        }
        if pad != 0 {
            self.soil(pad);
            self.publish([0, 0, 0], pad, self.free.get());
        }
        Ok(self.free.get())
    }

    /// Pads `span` slots, as the writer of which this one is a copy has done.
    #[cfg(not(loom))]
    pub(crate) fn pad(&self, span: u32, progress: impl Fn() -> u64) -> Result<(), Refused> {
        let rest = self.next.left();
        // A span of 0 wraps round to one that is too long.
        if span.wrapping_sub(1) >= rest {
            return Err(Refused::TooLong { span, most: rest });
        }
        self.find_free(span, progress)?;
        self.soil(span);
        self.publish([0, 0, 0], span, self.free.get());
        Ok(())
    }

    /// Sees that so many slots are known to be free, for a copy of what another writer was granted.
    #[cfg(not(loom))]
    pub(crate) fn find_free(&self, span: u32, progress: impl Fn() -> u64) -> Result<(), Refused> {
        if i64::from(span) > i64::from(self.free.get()) {
            self.learn(progress())?;
        }
        if i64::from(span) > i64::from(self.free.get()) { Err(Refused::Full) } else { Ok(()) }
    }

    /// Takes note of how far the reader is.
    #[inline(always)]
    fn learn(&self, progress: u64) -> Result<(), Refused> {
        let now = progress.max(self.floor.get());
        // What is written into those slots must stay behind the reads that emptied them.
        fence(Ordering::Acquire);
        let (slots, out) = (u64::from(self.ring.slots()), self.out.get());
        let known = out - (slots - self.free.get() as u64);
        if now < known || now > out {
            return Err(Refused::Progress { now, known, out });
        }
        self.free.set((slots - (out - now)) as i32);
        Ok(())
    }

    /// Publishes a frame in slots of which `free` were free before. Nothing that is called here writes another.
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
        // SAFETY: the cursor stood at a slot of the ring, which is writable, as was checked when
        // it was taken; a slot has more words than three.
        unsafe { self.ring.publish_head(at, [first, head[1], head[2]]) }
    }
}

/// Notes on slots that hold nothing yet.
fn clean(slots: u32) -> Box<[Cell<bool>]> {
    (0..slots).map(|_| Cell::new(false)).collect()
}

/// Slots that the writer may fill. Dropped, it leaves no trace.
pub struct Claim<'a> {
    writer: &'a Writer,
    span: u32,
    /// Slots that were free before.
    free: i32,
}

impl Claim<'_> {
    /// Returns the ring, and the byte of it at which the payload lies. What is written there and not committed
    /// is never taken for a frame.
    #[cfg(not(loom))]
    pub(crate) fn payload(&self) -> (Region, usize) {
        (self.writer.ring.region().clone(), self.writer.next.word() * WORD + HEAD)
    }

    /// Bytes of payload that fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.span as usize * SLOT - HEAD
    }

    /// Writes payload bytes at `at`, counted from the payload's start.
    ///
    /// # Panics
    /// When they do not fit.
    #[inline(always)]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let start = self.writer.next.word() * WORD + HEAD;
        probe::stored(start + at, bytes.len());
        if fits_a_slot(at, bytes.len()) {
            // SAFETY: the bytes lie within the first of the claimed slots, at which the cursor stands.
            return unsafe { self.writer.ring.write(start + at, bytes) };
        }
        assert!(at <= self.room() && bytes.len() <= self.room() - at);
        self.writer.ring.region().write(start + at, bytes);
    }

    /// Writes a word that is no payload but says something about it, at byte `at`, which must begin
    /// a word.
    ///
    /// # Panics
    /// When it does not fit, or `at` does not begin a word.
    #[inline(always)]
    pub fn write_word(&mut self, at: usize, word: u64) {
        assert!(at.is_multiple_of(WORD) && at < self.room());
        let start = self.writer.next.word() * WORD + HEAD + at;
        self.writer.ring.region().store(start / WORD, word.to_le());
        probe::stored(start, WORD);
    }

    /// Publishes the frame: its first `payload` bytes of payload and this head, in whose first
    /// word the ring sets lap and span. The kind in that word must not be 0.
    ///
    /// # Panics
    /// When `payload` is more than was claimed, or the kind is that of padding.
    #[inline(always)]
    pub fn commit(self, head: [u64; 3], payload: usize) {
        assert!(payload <= self.room() && head[0] & KIND != 0);
        // The claim ends by this, and not behind it.
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

/// Why slots were not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No room now: the reader has to consume first.
    Full,
    /// Longer than this ring can ever take.
    TooLong {
        /// Slots asked for.
        span: u32,
        /// Slots that this ring takes at most.
        most: u32,
    },
    /// Another claim is open: a message is being written while one was begun.
    Claimed,
    /// The reader's progress went backwards, or is ahead of what was written.
    Progress {
        /// What it says now.
        now: u64,
        /// What it said before.
        known: u64,
        /// What was written.
        out: u64,
    },
}
