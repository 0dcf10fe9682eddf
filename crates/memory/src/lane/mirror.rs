//! The mirror of a session over a byte stream: it ships this side's lane, and keeps a replica of the peer's lane.
//!
//! The layers above read and write [`Lanes`] as over shared memory. A mirror reads this side's ring a second time
//! to ship the frames, and writes the received frames into the replica with the writer of a ring: spans, padding
//! and counts are the same on both sides. The ring therefore checks the peer's credit, and the count of slots that
//! the peer publishes is that of the real reader. Another module decides how frames become bytes.
//!
//! A connection may be lost and the session continue over another. This side's ring still holds every frame that
//! the peer has not reported as read, so a mirror can go back and ship frames [again](Mirror::rewind). A ring that
//! the lane has left is kept until the peer has read it.
//!
//! Invariant: the replica holds nothing that the peer was not allowed to write, and shipping again starts at a
//! frame or at padding that was shipped before.

use super::{
    ACCEPTED, HEAD_LINES, IN, LINE_WORDS, Lanes, RETURNS, SLABS_MAX, WANTS_ROOM, first_slot,
};
use crate::region::{Region, WORD};
use crate::ring::{Claim, Look, Reader, Refused, RingFault, SLOT, Writer};
use crate::sync::{Ordering, fence};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

const BITS: usize = u64::BITS as usize;

/// The two lanes of a session over a byte stream.
pub struct Mirror {
    ours: Region,
    replica: Region,
    /// The reader of this side's lane, whose position is the next slot to ship.
    reader: Reader,
    writer: Writer,
    /// The rings of this side's lane from which frames may have to be shipped again. The last one is being
    /// shipped.
    rings: RefCell<VecDeque<ShippedRing>>,
}

/// One ring of this side's lane, with the frames that were shipped.
struct ShippedRing {
    region: Region,
    /// The slot at which the ring began, and how many slots of the lane had been shipped then.
    start: u32,
    base: u64,
    /// One bit for each slot: whether a frame or padding begins there.
    heads: Box<[u64]>,
}

impl ShippedRing {
    fn new(region: Region, start: u32, base: u64) -> ShippedRing {
        let slots = (region.words() * WORD / SLOT).max(1);
        let heads = vec![0; slots.div_ceil(BITS)].into_boxed_slice();
        ShippedRing { start: start % slots as u32, region, base, heads }
    }

    /// Records that a frame of `span` slots begins at this slot.
    fn note(&mut self, slot: usize, span: usize) {
        let mut set = |slot: usize, bit: u64| {
            let word = &mut self.heads[slot / BITS];
            *word = *word & !(1 << (slot % BITS)) | bit << (slot % BITS);
        };
        set(slot, 1);
        (slot + 1..slot + span).for_each(|inner| set(inner, 0));
    }

    /// Returns whether a frame begins at this position of the lane, which must lie in the ring.
    fn begins(&self, position: u64) -> bool {
        let slots = (self.region.words() * WORD / SLOT) as u64;
        let slot = ((u64::from(self.start) + position - self.base) % slots) as usize;
        self.heads[slot / BITS] >> (slot % BITS) & 1 == 1
    }
}

/// The reason why a position is no place to ship again from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewindError {
    /// The position is ahead of what was shipped.
    Ahead {
        /// The number of slots that were shipped.
        shipped: u64,
    },
    /// The position is behind what the peer has read.
    Behind {
        /// The number of slots that the peer has read.
        taken: u64,
    },
    /// The position is inside a frame.
    Within,
}

impl fmt::Display for RewindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RewindError::Ahead { shipped } => write!(f, "only {shipped} slots were shipped"),
            RewindError::Behind { taken } => write!(f, "{taken} slots were read already"),
            RewindError::Within => f.write_str("no frame begins there"),
        }
    }
}

impl std::error::Error for RewindError {}

/// The words of a lane's header that one side sends to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishedState {
    /// The number of slots of the other lane that were read.
    pub taken: u64,
    /// The number of requests that were accepted.
    pub accepted: u64,
    /// Whether the owner waits for room in its lane.
    pub wants_room: bool,
}

/// The next item of this side's lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextItem {
    /// Nothing has been written.
    Nothing,
    /// Padding of this many slots, which was passed.
    Padding(u32),
    /// A frame with this head.
    Frame([u64; 3]),
}

impl Mirror {
    /// Joins this side's lane with a replica of the peer's, both zeroed.
    ///
    /// # Panics
    /// Panics when a region is too small to be a lane, or read-only.
    #[must_use]
    pub fn new(
        ours: Region,
        our_session: u64,
        replica: Region,
        their_session: u64,
    ) -> (Mirror, Lanes) {
        let ring = |lane: &Region| {
            let head = HEAD_LINES * LINE_WORDS;
            lane.part(head, lane.words() - head)
        };
        let start = first_slot(our_session);
        let reader = Reader::new(ring(&ours), start);
        let rings = RefCell::new(VecDeque::from([ShippedRing::new(ring(&ours), start, 0)]));
        let writer = Writer::new(ring(&replica), first_slot(their_session));
        let lanes = Lanes::new(ours.clone(), our_session, replica.read_only(), their_session);
        (Mirror { ours, replica, reader, writer, rings }, lanes)
    }

    /// Polls this side's lane for the next item.
    pub fn look(&self) -> Result<NextItem, RingFault> {
        let (before, slot) = (self.reader.consumed(), self.reader.slot());
        let found = self.reader.look()?;
        let padding = self.reader.consumed() - before;
        Ok(match found {
            _ if padding != 0 => {
                self.note(slot, padding);
                // The next look finds the frame behind the padding again.
                self.reader.put_back();
                NextItem::Padding(padding as u32)
            }
            None => NextItem::Nothing,
            Some(words) => NextItem::Frame(words),
        })
    }

    /// Polls this side's lane for the next item, with a shorter path for a frame of one slot.
    #[inline(always)]
    pub fn look_short(&self) -> Look {
        self.reader.look_short()
    }

    /// Copies the word at byte `at` of the payload of the frame that [`Mirror::look_short`] has found.
    ///
    /// # Panics
    /// Panics as [`Reader::read_value`] does.
    #[inline(always)]
    pub fn copy_word(&self, at: usize) -> u64 {
        u64::from_le(self.reader.read_value(at))
    }

    /// Passes the frame that [`Mirror::look_short`] has found, after it was shipped.
    #[inline(always)]
    pub fn pass_short(&self) {
        let slot = self.reader.slot();
        self.reader.advance_short();
        if let Some(ring) = self.rings.borrow_mut().back_mut() {
            ring.heads[slot / BITS] |= 1 << (slot % BITS);
        }
    }

    /// Returns whether something in this side's lane is still to be shipped.
    pub fn has_more(&self) -> bool {
        self.reader.has_frame()
    }

    /// Copies payload bytes of the next frame.
    ///
    /// # Panics
    /// Panics as [`Reader::read`] does.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        self.reader.read(at, to);
    }

    /// Loads a word of the next frame's payload.
    ///
    /// # Panics
    /// Panics as [`Reader::read_word`] does.
    pub fn read_word(&self, at: usize) -> u64 {
        self.reader.read_word(at)
    }

    /// Returns the number of payload bytes that the next frame's slots hold.
    pub fn room(&self) -> usize {
        self.reader.room()
    }

    /// Returns the region of the ring with the next frame's payload, and the payload's offset in it. The payload
    /// stays there until the peer has read it.
    pub fn payload(&self) -> (Region, usize) {
        self.reader.payload()
    }

    /// Passes the next frame, after it was shipped.
    pub fn pass(&self) {
        let (before, slot) = (self.reader.consumed(), self.reader.slot());
        self.reader.advance();
        self.note(slot, self.reader.consumed() - before);
    }

    /// Replaces the next frame by padding, because it is not shipped on this stream. The padding is the next item.
    ///
    /// # Panics
    /// Panics when the last look has found no frame.
    pub fn blank(&self) {
        self.reader.blank();
    }

    /// Records that a frame or padding begins at this slot of the ring that is being shipped.
    fn note(&self, slot: usize, span: u64) {
        if let Some(ring) = self.rings.borrow_mut().back_mut() {
            ring.note(slot, span as usize);
        }
    }

    /// Returns the number of slots of this side's lane that were shipped, including padding. The peer has read no
    /// more.
    pub fn shipped(&self) -> u64 {
        self.reader.consumed()
    }

    /// Continues shipping in the larger segment in which this side's lane continues.
    ///
    /// # Panics
    /// Panics as [`Reader::continue_in`] does.
    pub fn ship_from(&self, region: Region) {
        self.reader.continue_in(region.clone());
        self.rings.borrow_mut().push_back(ShippedRing::new(region, 0, self.shipped()));
    }

    /// Returns the number of slots of the peer's lane that were received, including padding. A frame begins there,
    /// and the peer continues from there if it ships again.
    pub fn received(&self) -> u64 {
        self.writer.out()
    }

    /// Goes back to this position of this side's lane, up to which the peer has received everything. All later
    /// frames are shipped again, from the segment in which the position lies.
    pub fn rewind(&self, position: u64) -> Result<(), RewindError> {
        let (shipped, taken) = (self.shipped(), self.peer_shown().taken);
        if position > shipped {
            return Err(RewindError::Ahead { shipped });
        }
        if position < taken {
            return Err(RewindError::Behind { taken });
        }
        let mut rings = self.rings.borrow_mut();
        // The first ring begins at the beginning of the lane, or with what the peer has not read.
        let at = rings.iter().rposition(|ring| ring.base <= position).unwrap_or(0);
        let ring = &rings[at];
        if position != shipped && !ring.begins(position) {
            return Err(RewindError::Within);
        }
        self.reader.seek(ring.region.clone(), ring.start, ring.base, position);
        rings.truncate(at + 1);
        Ok(())
    }

    /// Returns what this side publishes to the peer.
    pub fn shown(&self) -> PublishedState {
        let (taken, accepted) = (self.ours.load(IN), self.ours.load(ACCEPTED));
        PublishedState { taken, accepted, wants_room: self.ours.load(WANTS_ROOM) != 0 }
    }

    /// Returns this side's word about the returned buffers of the peer's slab. All reads under those loans, on
    /// whichever thread, happened before this returns.
    ///
    /// # Panics
    /// Panics when `slab` is not below [`SLABS_MAX`].
    pub fn returned(&self, slab: usize) -> u64 {
        assert!(slab < SLABS_MAX, "slab {slab} of {SLABS_MAX}");
        let returned = self.ours.load(RETURNS + slab);
        fence(Ordering::Acquire);
        returned
    }

    /// Returns what the peer has published.
    pub fn peer_shown(&self) -> PublishedState {
        let (taken, accepted) = (self.replica.load(IN), self.replica.load(ACCEPTED));
        PublishedState { taken, accepted, wants_room: self.replica.load(WANTS_ROOM) != 0 }
    }

    /// Stores what the peer has published. A ring that the peer has read to its end is dropped.
    pub fn show(&self, shown: PublishedState) {
        let mut rings = self.rings.borrow_mut();
        while rings.get(1).is_some_and(|next| next.base <= shown.taken) {
            rings.pop_front();
        }
        self.replica.publish(ACCEPTED, shown.accepted);
        self.replica.publish(WANTS_ROOM, u64::from(shown.wants_room));
        self.replica.publish(IN, shown.taken);
    }

    /// Stores the peer's word about the returned buffers of this side's slab.
    ///
    /// # Panics
    /// Panics when `slab` is not below [`SLABS_MAX`].
    pub fn give_back(&self, slab: usize, returned: u64) {
        assert!(slab < SLABS_MAX, "slab {slab} of {SLABS_MAX}");
        self.replica.publish(RETURNS + slab, returned);
    }

    /// Returns the number of slots of the ring in which the peer writes now.
    pub fn slots(&self) -> u32 {
        self.writer.slots()
    }

    /// Claims slots of the replica, for a frame of the peer.
    pub fn claim(&self, span: u32) -> Result<Claim<'_>, Refused> {
        let taken = || self.ours.load(IN);
        // The peer's writer may have granted a longer span than every position grants, where it happened to fit.
        self.writer.find_free(span, taken)?;
        self.writer.claim(span, 0, taken)
    }

    /// Returns the region of the ring for a frame of `span` slots that arrives in parts, and the offset of its
    /// payload. The frame is claimed once it is whole.
    pub fn place(&self, span: u32) -> Result<(Region, usize), Refused> {
        // A claim marks the slots behind its first as dirty, even if it is then dropped.
        Ok(self.claim(span)?.payload())
    }

    /// Pads `span` slots, as the peer has done in its ring.
    pub fn pad(&self, span: u32) -> Result<(), Refused> {
        self.writer.pad(span, || self.ours.load(IN))
    }

    /// Continues in the larger segment in which the peer's lane continues. The frame that announced it was
    /// written.
    ///
    /// # Panics
    /// Panics as [`Writer::continue_in`] does.
    pub fn grow(&self, region: Region) {
        self.writer.continue_in(region);
    }
}

#[cfg(test)]
mod tests;
