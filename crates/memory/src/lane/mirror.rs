//! Lanes whose peer is reached by bytes alone: ours, to be shipped, and a replica of the peer's.
//!
//! What stands above writes and reads [`Lanes`] as everywhere. A mirror reads our ring a second time, to
//! ship what was written, and writes what was shipped here into the replica, by the ring's own writer: the
//! same spans, the same padding, the same counts on both sides. So the peer's credit is checked by the ring,
//! and the count of slots that the peer shows is the true reader's. How frames become bytes is decided
//! elsewhere.
//!
//! A connection may be lost and the session go on over another. Our ring still has every frame that the peer does
//! not say to have read, so a mirror can go back and ship frames [again](Mirror::again): also in a
//! ring that the lane has left, which is kept until the peer has read it.
//!
//! Invariant: the replica holds nothing that its peer was not allowed to write, and what is shipped again begins
//! with a frame, or with padding, as it was shipped before.

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

/// Both lanes of a session, as they are shipped.
pub struct Mirror {
    ours: Region,
    replica: Region,
    /// Where shipping stands in our lane.
    reader: Reader,
    writer: Writer,
    /// The rings of our lane from which something may have to be shipped again; the last is being shipped.
    rings: RefCell<VecDeque<Shipped>>,
}

/// A ring of our lane, as far as it was shipped.
struct Shipped {
    region: Region,
    /// The slot at which it began, when so many slots of the lane were shipped.
    start: u32,
    base: u64,
    /// A bit for each slot: whether a frame, or padding, begins there.
    heads: Box<[u64]>,
}

impl Shipped {
    fn new(region: Region, start: u32, base: u64) -> Shipped {
        let slots = (region.words() * WORD / SLOT).max(1);
        let heads = vec![0; slots.div_ceil(BITS)].into_boxed_slice();
        Shipped { start: start % slots as u32, region, base, heads }
    }

    /// Notes that a frame of so many slots begins at this slot, and none within it.
    fn note(&mut self, slot: usize, span: usize) {
        let mut set = |slot: usize, bit: u64| {
            let word = &mut self.heads[slot / BITS];
            *word = *word & !(1 << (slot % BITS)) | bit << (slot % BITS);
        };
        set(slot, 1);
        (slot + 1..slot + span).for_each(|inner| set(inner, 0));
    }

    /// Whether a frame begins at this position of the lane, of those that lie in the ring.
    fn begins(&self, position: u64) -> bool {
        let slots = (self.region.words() * WORD / SLOT) as u64;
        let slot = ((u64::from(self.start) + position - self.base) % slots) as usize;
        self.heads[slot / BITS] >> (slot % BITS) & 1 == 1
    }
}

/// Why nothing is shipped again from a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgainFault {
    /// It is ahead of what was shipped.
    Ahead {
        /// Slots that were shipped.
        shipped: u64,
    },
    /// It is behind what the peer has said to have read.
    Behind {
        /// Slots that the peer has read.
        taken: u64,
    },
    /// It lies within a frame.
    Within,
}

impl fmt::Display for AgainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgainFault::Ahead { shipped } => write!(f, "only {shipped} slots were shipped"),
            AgainFault::Behind { taken } => write!(f, "{taken} slots were read already"),
            AgainFault::Within => f.write_str("no frame begins there"),
        }
    }
}

impl std::error::Error for AgainFault {}

/// Words of a lane's header that its owner shows the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Slots of the other lane that were read.
    pub taken: u64,
    /// Requests that were accepted.
    pub accepted: u64,
    /// Whether the owner waits for room.
    pub wants_room: bool,
}

/// What comes next in our lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Nothing.
    Nothing,
    /// Padding of so many slots. It was passed.
    Padding(u32),
    /// A frame with this head.
    Frame([u64; 3]),
}

impl Mirror {
    /// Joins our lane with a replica of the peer's, both zeroed.
    ///
    /// # Panics
    /// When a region is too small to be a lane, or read-only.
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
        let rings = RefCell::new(VecDeque::from([Shipped::new(ring(&ours), start, 0)]));
        let writer = Writer::new(ring(&replica), first_slot(their_session));
        let lanes = Lanes::new(ours.clone(), our_session, replica.read_only(), their_session);
        (Mirror { ours, replica, reader, writer, rings }, lanes)
    }

    /// Looks for what comes next in our lane.
    pub fn look(&self) -> Result<Came, RingFault> {
        let (before, slot) = (self.reader.taken(), self.reader.slot());
        let found = self.reader.look()?;
        let padding = self.reader.taken() - before;
        Ok(match found {
            _ if padding != 0 => {
                self.note(slot, padding);
                // The frame behind it is found again.
                self.reader.put_back();
                Came::Padding(padding as u32)
            }
            None => Came::Nothing,
            Some(words) => Came::Frame(words),
        })
    }

    /// Looks for what comes next in our lane by a shorter way, for a frame of one slot.
    #[inline(always)]
    pub fn look_short(&self) -> Look {
        self.reader.look_short()
    }

    /// Copies a word of the payload of the frame that [`Mirror::look_short`] has found, at byte `at` of it.
    ///
    /// # Panics
    /// As [`Reader::read_value`].
    #[inline(always)]
    pub fn copy_word(&self, at: usize) -> u64 {
        u64::from_le(self.reader.read_value(at))
    }

    /// The frame was shipped that [`Mirror::look_short`] has found.
    #[inline(always)]
    pub fn pass_short(&self) {
        let slot = self.reader.slot();
        self.reader.advance_short();
        if let Some(ring) = self.rings.borrow_mut().back_mut() {
            ring.heads[slot / BITS] |= 1 << (slot % BITS);
        }
    }

    /// Whether something in our lane is still to be shipped.
    pub fn has_more(&self) -> bool {
        self.reader.has_frame()
    }

    /// Copies payload bytes of the frame that comes next.
    ///
    /// # Panics
    /// As [`Reader::read`].
    pub fn read(&self, at: usize, to: &mut [u8]) {
        self.reader.read(at, to);
    }

    /// Loads a word of its payload.
    ///
    /// # Panics
    /// As [`Reader::read_word`].
    pub fn read_word(&self, at: usize) -> u64 {
        self.reader.read_word(at)
    }

    /// Bytes of payload that its slots hold.
    pub fn room(&self) -> usize {
        self.reader.room()
    }

    /// Returns the ring in which the payload of the frame that comes next lies, and its first byte there. It stays
    /// there until the peer has read it.
    pub fn payload(&self) -> (Region, usize) {
        self.reader.payload()
    }

    /// It was shipped.
    pub fn pass(&self) {
        let (before, slot) = (self.reader.taken(), self.reader.slot());
        self.reader.advance();
        self.note(slot, self.reader.taken() - before);
    }

    /// It is not shipped here: padding takes its place, and comes next.
    ///
    /// # Panics
    /// When the last look has found no frame.
    pub fn blank(&self) {
        self.reader.blank();
    }

    /// Notes that something of so many slots begins at this slot of the ring that is being shipped.
    fn note(&self, slot: usize, span: u64) {
        if let Some(ring) = self.rings.borrow_mut().back_mut() {
            ring.note(slot, span as usize);
        }
    }

    /// Slots of our lane that were shipped, padding included: the peer has read no more.
    pub fn shipped(&self) -> u64 {
        self.reader.taken()
    }

    /// Our lane goes on in a larger segment.
    ///
    /// # Panics
    /// As [`Reader::continue_in`].
    pub fn ship_from(&self, region: Region) {
        self.reader.continue_in(region.clone());
        self.rings.borrow_mut().push_back(Shipped::new(region, 0, self.shipped()));
    }

    /// Slots of the peer's lane that were written here, padding included: the peer goes on behind them if it has
    /// to ship anything again. It is where a frame begins, or will begin.
    pub fn received(&self) -> u64 {
        self.writer.out()
    }

    /// Goes back to this position of our lane, up to which the peer has received everything: what lies behind it
    /// is shipped again, from the segment in which the lane went on there.
    pub fn again(&self, position: u64) -> Result<(), AgainFault> {
        let (shipped, taken) = (self.shipped(), self.peer_shown().taken);
        if position > shipped {
            return Err(AgainFault::Ahead { shipped });
        }
        if position < taken {
            return Err(AgainFault::Behind { taken });
        }
        let mut rings = self.rings.borrow_mut();
        // The first ring begins where nothing was shipped, or with what the peer has not read.
        let at = rings.iter().rposition(|ring| ring.base <= position).unwrap_or(0);
        let ring = &rings[at];
        if position != shipped && !ring.begins(position) {
            return Err(AgainFault::Within);
        }
        self.reader.stand(ring.region.clone(), ring.start, ring.base, position);
        rings.truncate(at + 1);
        Ok(())
    }

    /// What we show the peer.
    pub fn shown(&self) -> Shown {
        let (taken, accepted) = (self.ours.load(IN), self.ours.load(ACCEPTED));
        Shown { taken, accepted, wants_room: self.ours.load(WANTS_ROOM) != 0 }
    }

    /// Our word on the buffers of the peer's slab that went back. What was read under their loans was read
    /// before, on whichever thread.
    ///
    /// # Panics
    /// When there are no more than `slab` slabs.
    pub fn returned(&self, slab: usize) -> u64 {
        assert!(slab < SLABS_MAX, "slab {slab} of {SLABS_MAX}");
        let returned = self.ours.load(RETURNS + slab);
        fence(Ordering::Acquire);
        returned
    }

    /// What the peer has shown.
    pub fn peer_shown(&self) -> Shown {
        let (taken, accepted) = (self.replica.load(IN), self.replica.load(ACCEPTED));
        Shown { taken, accepted, wants_room: self.replica.load(WANTS_ROOM) != 0 }
    }

    /// Takes over what the peer shows. A ring that it has read to its end is not kept.
    pub fn show(&self, shown: Shown) {
        let mut rings = self.rings.borrow_mut();
        while rings.get(1).is_some_and(|next| next.base <= shown.taken) {
            rings.pop_front();
        }
        self.replica.publish(ACCEPTED, shown.accepted);
        self.replica.publish(WANTS_ROOM, u64::from(shown.wants_room));
        self.replica.publish(IN, shown.taken);
    }

    /// Takes over the peer's word on the buffers of our slab that came back.
    ///
    /// # Panics
    /// When there are no more than `slab` slabs.
    pub fn give_back(&self, slab: usize, returned: u64) {
        assert!(slab < SLABS_MAX, "slab {slab} of {SLABS_MAX}");
        self.replica.publish(RETURNS + slab, returned);
    }

    /// Slots of the ring in which the peer writes now.
    pub fn slots(&self) -> u32 {
        self.writer.slots()
    }

    /// Claims slots of the replica, where a frame of the peer's will lie.
    pub fn claim(&self, span: u32) -> Result<Claim<'_>, Refused> {
        let taken = || self.ours.load(IN);
        // A span that is longer than is granted everywhere was granted where it fitted.
        self.writer.find_free(span, taken)?;
        self.writer.claim(span, 0, taken)
    }

    /// Returns the ring in which the payload of a frame of so many slots will lie, and its first byte there, for a
    /// frame that comes in parts: it is claimed once it is whole.
    pub fn place(&self, span: u32) -> Result<(Region, usize), Refused> {
        // Who has claimed slots notes that no head lies in those behind the first, even if it then drops them.
        Ok(self.claim(span)?.payload())
    }

    /// The peer has padded so many slots of its ring.
    pub fn pad(&self, span: u32) -> Result<(), Refused> {
        self.writer.pad(span, || self.ours.load(IN))
    }

    /// The peer's lane goes on in a larger segment. The frame that said so was written.
    ///
    /// # Panics
    /// As [`Writer::continue_in`].
    pub fn grow(&self, region: Region) {
        self.writer.continue_in(region);
    }
}

#[cfg(test)]
mod tests;
