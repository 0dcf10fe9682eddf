//! A pair of lanes: what one side of a session writes, and what it reads.
//!
//! A lane begins with eight lines that its writer keeps about itself (who it is; how far it has
//! read the other lane; whether it looks at the other lane each turn; which buffers of the other
//! side's slabs it has returned), then comes the ring. Each side writes its own lane alone, so a peer can spoil what it says and never what we hold.

#[cfg(not(loom))]
mod mirror;

#[cfg(not(loom))]
pub use mirror::{AgainFault, Came, Mirror, Shown};

use crate::page::NodePage;
use crate::probe::{Count, Watched};
use crate::region::{OwnWord, Region, Word};
use crate::ring::{Claim, Reader, Refused, RingFault, SLOT, Writer};
use crate::sync::{Fenced, fence_full};
use std::cell::Cell;

/// Bytes of a session's first lane: two pages.
pub const LANE_BYTES: usize = 8192;
/// Lines of a lane that stand before its ring.
pub const HEAD_LINES: usize = 8;

const LINE_WORDS: usize = 8;
const SESSION: usize = 0;
/// The owner's progress in the other lane: slots consumed, requests accepted.
const IN: usize = LINE_WORDS;
const ACCEPTED: usize = LINE_WORDS + 1;
/// Whether the owner looks at the other lane each turn.
const ATTENTION: usize = 2 * LINE_WORDS;
/// Whether the owner found the ring full and wants to hear of room.
const WANTS_ROOM: usize = 2 * LINE_WORDS + 1;
/// A word for each slab of the peer's, in which the owner notes the buffers that it returns.
const RETURNS: usize = 4 * LINE_WORDS;

/// An odd number without a pattern, by which words are mixed.
const DIGEST: u64 = 0x9E37_79B9_7F4A_7C15;

/// The most slabs that a side of a session has at a time.
pub const SLABS_MAX: usize = 32;

const _: () = assert!(RETURNS + SLABS_MAX <= HEAD_LINES * LINE_WORDS);

/// The slot at which the ring of session `session` starts. Rings that all started at one offset
/// of a page would fall into one set of the cache.
#[must_use]
pub fn first_slot(session: u64) -> u32 {
    let slots = (LANE_BYTES - HEAD_LINES * LINE_WORDS * 8) / SLOT;
    (session.wrapping_mul(7) % slots as u64) as u32
}

/// The segments that a lane may go on in when its first ring is too small. They are rings from end
/// to end; the lane's header stays where it is.
pub const GROWN_BYTES: [usize; 2] = [64 << 10, 2 << 20];

/// Both lanes of a session, as one side sees them.
pub struct Lanes {
    ours: Region,
    theirs: Region,
    writer: Writer,
    reader: Reader,
    /// The segments that each lane has gone on in.
    writer_grown: Cell<u8>,
    reader_grown: Cell<u8>,
    /// Whether our request for room is set.
    wants_room: Cell<bool>,
    /// Our progress in the other lane.
    own_progress: OwnWord,
    /// Words of the peer's header that each turn loads.
    peer_attention: Word,
    peer_wants_room: Word,
    progress: Watched,
    returned: [Watched; SLABS_MAX],
}

impl Lanes {
    /// Joins our lane, zeroed and ours to write, with the peer's. The numbers are each side's own
    /// for the session, as they were exchanged on connecting.
    ///
    /// # Panics
    /// When a region is too small to be a lane.
    #[must_use]
    pub fn new(ours: Region, our_session: u64, theirs: Region, their_session: u64) -> Lanes {
        let ring = |lane: &Region| {
            let head = HEAD_LINES * LINE_WORDS;
            lane.part(head, lane.words() - head)
        };
        ours.store(SESSION, our_session);
        ours.store(ATTENTION, 1);
        let writer = Writer::new(ring(&ours), first_slot(our_session));
        let reader = Reader::new(ring(&theirs), first_slot(their_session));
        let own_progress = ours.own_word_at(IN);
        let peer_attention = theirs.word_at(ATTENTION);
        let peer_wants_room = theirs.word_at(WANTS_ROOM);
        Lanes {
            ours,
            theirs,
            writer,
            reader,
            writer_grown: Cell::new(0),
            reader_grown: Cell::new(0),
            wants_room: Cell::new(false),
            own_progress,
            peer_attention,
            peer_wants_room,
            progress: Watched::default(),
            returned: Default::default(),
        }
    }

    /// Claims `span` slots of our lane, leaving `keep` free behind them.
    #[inline(always)]
    pub fn claim(&self, span: u32, keep: u32) -> Result<Claim<'_>, Refused> {
        self.writer.claim(span, keep, || {
            let progress = self.theirs.load(IN);
            self.progress.loaded(Count::ProgressLines, progress);
            progress
        })
    }

    /// Looks for the next frame of the peer's lane.
    #[inline(always)]
    pub fn look(&self) -> Result<Option<[u64; 3]>, RingFault> {
        self.reader().look()
    }

    /// Whether a frame of the peer's has come.
    #[inline(always)]
    pub fn has_frame(&self) -> bool {
        self.reader().has_frame()
    }

    /// The reading side, for the open frame's payload.
    #[inline(always)]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The writing side.
    #[inline(always)]
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// The generation of the segment that our lane would grow into, and its bytes; None when it
    /// is as large as lanes get.
    pub fn next_growth(&self) -> Option<(u8, usize)> {
        next(&self.writer_grown)
    }

    /// Goes on writing in a larger segment of ours. The last frame in the old ring has told the
    /// peer so.
    ///
    /// # Panics
    /// When the lane does not grow further, or a message is being written.
    pub fn grow_writer(&self, region: Region) {
        assert!(self.next_growth().is_some(), "the lane is as large as lanes get");
        self.writer.continue_in(region);
        self.writer_grown.set(self.writer_grown.get() + 1);
    }

    /// The generation that the peer's lane would go on in, and its bytes.
    pub fn next_peer_growth(&self) -> Option<(u8, usize)> {
        next(&self.reader_grown)
    }

    /// Goes on reading in a larger segment of the peer's. The frame that said so has been passed.
    ///
    /// # Panics
    /// When lanes do not grow further.
    pub fn grow_reader(&self, region: Region) {
        assert!(self.next_peer_growth().is_some(), "the lane is as large as lanes get");
        self.reader.continue_in(region);
        self.reader_grown.set(self.reader_grown.get() + 1);
    }

    /// Tells the peer how far we have read. Once per drained batch, and not where nothing was read.
    #[inline(always)]
    pub fn publish_progress(&self) {
        self.own_progress.publish(self.reader().taken());
    }

    /// Tells the peer how many of its requests were accepted, in their order: all of them up to
    /// this number.
    #[inline(always)]
    pub fn publish_accepted(&self, accepted: u64) {
        self.ours.publish(ACCEPTED, accepted);
    }

    /// How many of our requests, in their order, the peer says it has accepted.
    #[inline(always)]
    pub fn peer_accepted(&self) -> u64 {
        self.theirs.load(ACCEPTED)
    }

    /// The word of our lane in which we note the buffers of the peer's slab `slab` that go back.
    ///
    /// # Panics
    /// When there are no more than `slab` slabs.
    #[must_use]
    pub fn returns_for(&self, slab: usize) -> Region {
        assert!(slab < SLABS_MAX, "slab {slab} of {SLABS_MAX}");
        self.ours.part(RETURNS + slab, 1)
    }

    /// What the peer has been shown of the room that we make for it: slots that we have read, requests
    /// that we have accepted, and a digest of the buffers that went back. While it stays the same
    /// there is nothing to tell: a buffer that goes back twice was lent in a slot in between.
    #[must_use]
    pub fn shown(&self) -> [u64; 3] {
        let digest = |sum: u64, slab| {
            (sum.rotate_left(5) ^ self.ours.load(RETURNS + slab)).wrapping_mul(DIGEST)
        };
        [self.ours.load(IN), self.ours.load(ACCEPTED), (0..SLABS_MAX).fold(0, digest)]
    }

    /// The peer's word on the buffers of our slab `slab` that have come back. It says anything.
    ///
    /// # Panics
    /// When there are no more than `slab` slabs.
    #[inline]
    pub fn peer_returned(&self, slab: usize) -> u64 {
        assert!(slab < SLABS_MAX, "slab {slab} of {SLABS_MAX}");
        let returned = self.theirs.load(RETURNS + slab);
        self.returned[slab].loaded(Count::ProgressLines, returned);
        returned
    }

    /// Says whether we look at the peer's lane each turn. Having said no, look once more: what the
    /// peer wrote before it could see that is not noted on the board.
    pub fn set_attention(&self, attentive: bool) {
        self.ours.publish(ATTENTION, u64::from(attentive));
        fence_full();
    }

    /// Whether the peer looks at our lane each turn, or wants a note on its board. The fence stands
    /// behind what was written.
    #[inline(always)]
    pub fn peer_is_attentive(&self, _: Fenced) -> bool {
        self.peer_attention.load() != 0
    }

    /// Says whether we wait for room in our lane. Having said yes, try once more: what the peer
    /// has read before it could see that, it does not tell.
    pub fn set_wants_room(&self, wants: bool) {
        self.wants_room.set(wants);
        self.ours.publish(WANTS_ROOM, u64::from(wants));
        fence_full();
    }

    /// Whether our request for room is set.
    #[inline(always)]
    pub fn wants_room(&self) -> bool {
        self.wants_room.get()
    }

    /// Withdraws the promise of `page` and looks for the last time before a sleep. Returns whether the
    /// owner may sleep: no frame has come, and a request for room that was set is still set. `settle`
    /// looks for room if it is asked for, and clears the request if it finds some; the owner must use
    /// that room instead of sleeping, for the peer wakes nobody whose request is cleared.
    pub fn may_sleep(&self, page: &NodePage, settle: impl FnOnce()) -> bool {
        page.withdraw();
        let asked = self.wants_room();
        settle();
        asked == self.wants_room() && !self.has_frame()
    }

    /// The word in which the peer says whether it waits for room: 0 if not.
    #[must_use]
    pub fn peer_wish(&self) -> Region {
        self.theirs.part(WANTS_ROOM, 1)
    }

    /// Whether the peer waits for room in its lane, and wants a ring if it sleeps.
    #[inline(always)]
    pub fn peer_wants_room(&self) -> bool {
        self.peer_wants_room.load() != 0
    }
}

/// The generation behind this one and its bytes.
fn next(grown: &Cell<u8>) -> Option<(u8, usize)> {
    let grown = grown.get();
    Some((grown + 1, *GROWN_BYTES.get(grown as usize)?))
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
