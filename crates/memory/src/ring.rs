//! A ring of 128-byte slots with one writer and one reader, over a [`Region`].
//!
//! The writer claims consecutive slots, writes in place and commits, or drops the claim; nothing
//! is seen before the commit, which stores the first word last. The reader looks at one word: the
//! very line that brings the message. The ring owns two fields of that word, the lap in byte 0 and
//! the span in bytes 2 and 3; kind 0 in byte 1 marks padding up to the end of the ring. The rest
//! belongs to the frame.
//!
//! What the ring leaves to others: where the reader's progress travels. The writer is told it when
//! it runs low, and checks that it is monotone and not ahead of what was written.
//!
//! Invariant: a reader never takes stale bytes for a head. Laps run from 1 to 255, so zeroed memory
//! matches none; and before a head is published the writer wipes the word in which the next head
//! will stand, if payload has lain there. It knows that from notes of its own: to read the next
//! slot's line at this moment doubles the round trip.

mod words;

mod cursor;

use crate::probe;
use crate::region::{Region, WORD};
use crate::sync::{Ordering, fence};
use cursor::Cursor;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::mem::ManuallyDrop;
use words::Ring;

/// Bytes in a slot: two cache lines. Processors fetch lines in pairs, so with slots of one line
/// the reader that waits for the next message steals part of this one's (120 to 148 ns a round trip
/// where two lines take 61 to 66). A short frame is in the first line alone.
pub const SLOT: usize = 128;
/// Bytes of a frame's head.
pub const HEAD: usize = 24;
/// The most slots a ring may have: a span must fit 16 bits.
pub const SLOTS_MAX: u32 = u16::MAX as u32;

const SLOT_WORDS: usize = SLOT / WORD;
const LAP: u64 = 0xff;
const KIND: u64 = 0xff00;
const KIND_SHIFT: u32 = 8;
/// The half of a first word in which lap, kind and span stand.
const LOW: u64 = 0xffff_ffff;
const SPAN_SHIFT: u32 = 16;
const OWNED: u64 = LAP | 0xffff << SPAN_SHIFT;
/// Bytes of payload that fit one slot.
pub const SHORT: usize = SLOT - HEAD;

/// The number of slots that a frame with `payload` bytes takes.
#[inline]
#[must_use]
pub const fn span_of(payload: usize) -> u32 {
    (HEAD + payload).div_ceil(SLOT) as u32
}

/// The writing side.
pub struct Writer {
    ring: Ring,
    next: Cursor,
    /// Slots that the reader is known to have left free.
    free: Cell<u32>,
    /// Slots written, padding included.
    out: Cell<u64>,
    /// What had been written when this ring began: progress below it is of the rings before.
    floor: Cell<u64>,
    claimed: Cell<bool>,
    /// Per slot, whether its first word may be payload of an earlier lap.
    dirty: UnsafeCell<Box<[Cell<bool>]>>,
    /// How many of them are.
    dirty_slots: Cell<u32>,
}

impl Writer {
    /// A writer over a zeroed region, starting at slot `start`.
    ///
    /// # Panics
    /// When the region is read-only or not a whole number of slots from 2 to [`SLOTS_MAX`].
    #[must_use]
    pub fn new(region: Region, start: u32) -> Writer {
        assert!(region.is_writable(), "a ring is written in a region of one's own");
        let ring = Ring::new(region);
        Writer {
            next: Cursor::new(&ring, start),
            free: Cell::new(ring.slots()),
            out: Cell::new(0),
            floor: Cell::new(0),
            claimed: Cell::new(false),
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
        assert!(!self.claimed.get(), "a ring is left between messages");
        self.ring.replace(region);
        // SAFETY: no reference into the notes outlives the method that takes it.
        unsafe { *self.dirty.get() = clean(self.ring.slots()) };
        self.dirty_slots.set(0);
        self.next.restart(&self.ring);
        // Progress is counted over all rings of a lane. Until the reader has left the old ring it
        // says less than this, and that is no fault.
        self.free.set(self.ring.slots());
        self.floor.set(self.out.get());
    }

    /// The number of slots of the ring.
    pub fn slots(&self) -> u32 {
        self.ring.slots()
    }

    /// Whether a message is being written.
    pub fn is_claimed(&self) -> bool {
        self.claimed.get()
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
        let need = u64::from(span) + u64::from(keep);
        // There is always one slot before the end of the ring.
        let leaves_ring = span != 1 && span.wrapping_sub(1) >= self.next.left();
        if need > u64::from(self.free.get()) || leaves_ring || self.claimed.get() {
            self.make_room(span, keep, progress)?;
        }
        if span > 1 {
            self.soil(span);
        }
        self.claimed.set(true);
        probe::claimed(self.next.word() * WORD);
        Ok(Claim { writer: self, span })
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

    /// The rare part of a claim: asks for progress, pads up to the end of the ring.
    #[cold]
    #[inline(never)]
    fn make_room(&self, span: u32, keep: u32, progress: impl Fn() -> u64) -> Result<(), Refused> {
        if self.claimed.get() {
            return Err(Refused::Claimed);
        }
        let most = self.longest(keep);
        if span == 0 || span > most {
            return Err(Refused::TooLong { span, most });
        }
        let rest = self.next.left();
        let pad = if span > rest { rest } else { 0 };
        let need = u64::from(span) + u64::from(keep) + u64::from(pad);
        if need > u64::from(self.free.get()) {
            // Nothing moves under us, should the question come back to this ring.
            self.claimed.set(true);
            let now = progress();
            self.claimed.set(false);
            self.learn(now)?;
            if need > u64::from(self.free.get()) {
                probe::refused();
                return Err(Refused::Full);
            }
        }
        if pad != 0 {
            self.soil(pad);
            self.publish([0, 0, 0], pad);
        }
        Ok(())
    }

    /// Pads the rest of the ring, of `span` slots, as the writer of which this one is a copy has done.
    #[cfg(not(loom))]
    pub(crate) fn pad(&self, span: u32, progress: impl Fn() -> u64) -> Result<(), Refused> {
        let rest = self.next.left();
        if span != rest {
            return Err(Refused::TooLong { span, most: rest });
        }
        self.find_free(span, progress)?;
        self.soil(span);
        self.publish([0, 0, 0], span);
        Ok(())
    }

    /// Sees that so many slots are known to be free, for a copy of what another writer was granted.
    #[cfg(not(loom))]
    pub(crate) fn find_free(&self, span: u32, progress: impl Fn() -> u64) -> Result<(), Refused> {
        if span > self.free.get() {
            self.learn(progress())?;
        }
        if span > self.free.get() { Err(Refused::Full) } else { Ok(()) }
    }

    /// Takes note of how far the reader is.
    #[inline(always)]
    fn learn(&self, progress: u64) -> Result<(), Refused> {
        let now = progress.max(self.floor.get());
        // What is written into those slots must stay behind the reads that emptied them.
        fence(Ordering::Acquire);
        let (slots, out) = (u64::from(self.ring.slots()), self.out.get());
        let known = out - (slots - u64::from(self.free.get()));
        if now < known || now > out {
            return Err(Refused::Progress { now, known, out });
        }
        self.free.set((slots - (out - now)) as u32);
        Ok(())
    }

    #[inline(always)]
    fn publish(&self, head: [u64; 3], span: u32) {
        let at = self.next.word();
        let owned = self.next.mark() + (u64::from(span - 1) << SPAN_SHIFT);
        let first = head[0] & !OWNED | owned;
        match span {
            1 => self.next.pass_one(&self.ring),
            span => self.next.pass(&self.ring, span),
        }
        self.free.set(self.free.get() - span);
        self.out.set(self.out.get() + u64::from(span));
        // What was written above is whole, and nothing that is called below writes a message.
        self.claimed.set(false);
        if self.dirty_slots.get() != 0 {
            self.wipe_next();
        }
        // SAFETY: the cursor stood at a slot of the ring, which is writable, as was checked when
        // it was taken; a slot has more words than three.
        unsafe { self.ring.publish_head(at, [first, head[1], head[2]]) }
    }
}

/// Whether so many bytes of payload, from byte `at`, lie in the first slot of a frame.
const fn fits_a_slot(at: usize, bytes: usize) -> bool {
    at <= SHORT && bytes <= SHORT - at
}

/// Notes on slots that hold nothing yet.
fn clean(slots: u32) -> Box<[Cell<bool>]> {
    (0..slots).map(|_| Cell::new(false)).collect()
}

/// Slots that the writer may fill. Dropped, it leaves no trace.
pub struct Claim<'a> {
    writer: &'a Writer,
    span: u32,
}

impl Claim<'_> {
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
        ManuallyDrop::new(self).writer.publish(head, span_of(payload));
        probe::committed(payload);
    }
}

impl Drop for Claim<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.writer.claimed.set(false);
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

/// The reading side. What it reads may change under it at any time; it loads each word of a head once.
pub struct Reader {
    ring: Ring,
    next: Cursor,
    /// Slots of the frame that was last seen, 0 when none is open.
    span: Cell<u32>,
    /// Slots consumed, padding included.
    taken: Cell<u64>,
}

impl Reader {
    /// A reader over a ring, starting at slot `start`, like its writer.
    ///
    /// # Panics
    /// When the region is not a whole number of slots from 2 to [`SLOTS_MAX`].
    #[must_use]
    pub fn new(region: Region, start: u32) -> Reader {
        let ring = Ring::new(region);
        let next = Cursor::new(&ring, start);
        Reader { ring, next, span: Cell::new(0), taken: Cell::new(0) }
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
        let first = self.first_word();
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
        let at = self.next.word();
        if !seen {
            probe::head_loaded(at * WORD);
        }
        // SAFETY: as in `first_word`; a slot has more words than three.
        let (second, third) = unsafe { self.ring.load_rest(at) };
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
            return self.pass_padding(span, rest);
        }
        let at = self.next.word();
        if !seen {
            probe::head_loaded(at * WORD);
        }
        // SAFETY: as in `first_word`; a slot has more words than three.
        let (second, third) = unsafe { self.ring.load_rest(at) };
        Ok(Some([first, second, third]))
    }

    #[cold]
    #[inline(never)]
    fn pass_padding(&self, span: u32, rest: u32) -> Result<Option<[u64; 3]>, RingFault> {
        if span != rest {
            return Err(RingFault { span, rest });
        }
        probe::padding_loaded();
        self.advance();
        // What follows padding stands at slot 0, which is no padding unless the peer is hostile;
        // then the next look finds it, so that one look never goes round.
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

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
