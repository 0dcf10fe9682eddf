//! Lanes whose peer is reached by bytes alone: ours, to be shipped, and a replica of the peer's.
//!
//! What stands above writes and reads [`Lanes`] as everywhere. A mirror reads our ring a second time, to
//! ship what was written, and writes what was shipped here into the replica, by the ring's own writer: the
//! same spans, the same padding, the same counts on both sides. So the peer's credit is checked by the ring,
//! and the count of slots that the peer shows is the true reader's. How frames become bytes is decided
//! elsewhere. Invariant: the replica holds nothing that its peer was not allowed to write.

use super::{
    ACCEPTED, HEAD_LINES, IN, LINE_WORDS, Lanes, RETURNS, SLABS_MAX, WANTS_ROOM, first_slot,
};
use crate::region::Region;
use crate::ring::{Claim, Reader, Refused, RingFault, Writer};
use crate::sync::{Ordering, fence};

/// Both lanes of a session, as they are shipped.
pub struct Mirror {
    ours: Region,
    replica: Region,
    /// Where shipping stands in our lane.
    reader: Reader,
    writer: Writer,
}

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
    /// Padding of so many slots, up to the end of the ring. It was passed.
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
        let reader = Reader::new(ring(&ours), first_slot(our_session));
        let writer = Writer::new(ring(&replica), first_slot(their_session));
        let lanes = Lanes::new(ours.clone(), our_session, replica.read_only(), their_session);
        (Mirror { ours, replica, reader, writer }, lanes)
    }

    /// Looks for what comes next in our lane.
    pub fn look(&self) -> Result<Came, RingFault> {
        let before = self.reader.taken();
        let found = self.reader.look()?;
        let padding = self.reader.taken() - before;
        Ok(match found {
            _ if padding != 0 => {
                // The frame behind it is found again.
                self.reader.put_back();
                Came::Padding(padding as u32)
            }
            None => Came::Nothing,
            Some(words) => Came::Frame(words),
        })
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

    /// It was shipped.
    pub fn pass(&self) {
        self.reader.advance();
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
        self.reader.continue_in(region);
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

    /// Takes over what the peer shows.
    pub fn show(&self, shown: Shown) {
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

    /// The peer has padded the rest of its ring.
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
