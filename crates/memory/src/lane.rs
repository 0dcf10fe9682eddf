//! A pair of lanes: one side of a session writes the first and reads the second.
//!
//! A lane begins with eight lines of header that its writer maintains: the session number, how far the writer has
//! read the other lane, whether it polls the other lane each turn, and which buffers of the other side's slabs it
//! has returned. The ring follows the header. Each side writes only its own lane, so a peer can damage its own
//! messages and never the state of this side.

#[cfg(not(loom))]
mod mirror;

#[cfg(not(loom))]
pub use mirror::{Mirror, NextItem, PublishedState, RewindError};

use crate::page::NodePage;
use crate::probe::{Count, Watched};
use crate::region::{OwnWord, Region, Word};
use crate::ring::{Claim, Reader, Refused, RingFault, SLOT, Writer};
use crate::sync::{FenceProof, fence_full};
use std::cell::Cell;

/// The bytes of a session's first lane: two pages.
pub const LANE_BYTES: usize = 8192;
/// The lines of the header before the ring.
pub const HEAD_LINES: usize = 8;

const LINE_WORDS: usize = 8;
const SESSION: usize = 0;
/// The owner's progress in the other lane: the slots consumed and the requests accepted.
const IN: usize = LINE_WORDS;
const ACCEPTED: usize = LINE_WORDS + 1;
/// Whether the owner polls the other lane each turn.
const ATTENTION: usize = 2 * LINE_WORDS;
/// Whether the owner found its ring full and waits for room.
const WANTS_ROOM: usize = 2 * LINE_WORDS + 1;
/// Whether the owner has ended the session in order.
const ENDED: usize = 2 * LINE_WORDS + 2;
/// One word for each slab of the peer, in which the owner records the buffers that it returns.
const RETURNS: usize = 4 * LINE_WORDS;

/// An odd number without a pattern, which mixes words into a digest.
const DIGEST: u64 = 0x9E37_79B9_7F4A_7C15;

/// The largest number of slabs that one side of a session has at a time.
pub const SLABS_MAX: usize = 32;

const _: () = assert!(RETURNS + SLABS_MAX <= HEAD_LINES * LINE_WORDS);

/// Returns the slot at which the ring of session `session` starts. If all rings started at one offset of a page,
/// they would share one set of the cache.
#[must_use]
pub fn first_slot(session: u64) -> u32 {
    let slots = (LANE_BYTES - HEAD_LINES * LINE_WORDS * 8) / SLOT;
    (session.wrapping_mul(7) % slots as u64) as u32
}

/// The sizes of the segments in which a lane continues when its ring is too small. A ring fills such a segment
/// completely; the header stays in the first segment.
pub const GROWN_BYTES: [usize; 2] = [64 << 10, 2 << 20];

/// The two lanes of a session, from the view of one side.
pub struct Lanes {
    ours: Region,
    theirs: Region,
    writer: Writer,
    reader: Reader,
    /// The number of segments in which each lane has continued.
    writer_grown: Cell<u8>,
    reader_grown: Cell<u8>,
    /// Whether this side's request for room is set.
    wants_room: Cell<bool>,
    /// This side's progress in the other lane.
    own_progress: OwnWord,
    /// The words of the peer's header that each turn loads.
    peer_attention: Word,
    peer_wants_room: Word,
    progress: Watched,
    returned: [Watched; SLABS_MAX],
}

impl Lanes {
    /// Joins this side's lane, which is zeroed and writable, with the peer's lane. The session numbers are those
    /// that the sides exchanged when they connected.
    ///
    /// # Panics
    /// Panics when a region is too small to be a lane.
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

    /// Claims `span` slots of this side's lane and leaves `keep` free behind them.
    #[inline(always)]
    pub fn claim(&self, span: u32, keep: u32) -> Result<Claim<'_>, Refused> {
        self.writer.claim(span, keep, || self.peer_progress())
    }

    /// Makes such a claim possible again that was granted before. Fails until the peer has made room.
    #[cfg(not(loom))]
    pub fn make_way(&self, span: u32, keep: u32) -> Result<(), Refused> {
        self.writer.make_way(span, keep, || self.peer_progress())
    }

    #[inline(always)]
    fn peer_progress(&self) -> u64 {
        let progress = self.theirs.load(IN);
        self.progress.loaded(Count::ProgressLines, progress);
        progress
    }

    /// Polls the peer's lane for the next frame.
    #[inline(always)]
    pub fn look(&self) -> Result<Option<[u64; 3]>, RingFault> {
        self.reader().look()
    }

    /// Returns whether a frame of the peer has come.
    #[inline(always)]
    pub fn has_frame(&self) -> bool {
        self.reader().has_frame()
    }

    /// Returns the reading side, for the open frame's payload.
    #[inline(always)]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the writing side.
    #[inline(always)]
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Returns the generation and the size of the next segment of this side's lane, or none when the lane has its
    /// largest size.
    pub fn next_growth(&self) -> Option<(u8, usize)> {
        next(&self.writer_grown)
    }

    /// Continues writing in a larger segment. The last frame in the old ring has announced the segment to the
    /// peer.
    ///
    /// # Panics
    /// Panics when the lane does not grow further, or a claim is open.
    pub fn grow_writer(&self, region: Region) {
        assert!(self.next_growth().is_some(), "the lane has its largest size");
        self.writer.continue_in(region);
        self.writer_grown.set(self.writer_grown.get() + 1);
    }

    /// Returns the generation and the size of the next segment of the peer's lane.
    pub fn next_peer_growth(&self) -> Option<(u8, usize)> {
        next(&self.reader_grown)
    }

    /// Continues reading in a larger segment of the peer. The frame that announced the segment was passed.
    ///
    /// # Panics
    /// Panics when the lane does not grow further.
    pub fn grow_reader(&self, region: Region) {
        assert!(self.next_peer_growth().is_some(), "the lane has its largest size");
        self.reader.continue_in(region);
        self.reader_grown.set(self.reader_grown.get() + 1);
    }

    /// Publishes how far this side has read. The caller does so once per drained batch, and only if it has read
    /// something.
    #[inline(always)]
    pub fn publish_progress(&self) {
        self.own_progress.publish(self.reader().consumed());
    }

    /// Publishes how many of the peer's requests were accepted. Requests are accepted in their order, so the
    /// number covers all earlier ones.
    #[inline(always)]
    pub fn publish_accepted(&self, accepted: u64) {
        self.ours.publish(ACCEPTED, accepted);
    }

    /// Returns how many requests of this side the peer has accepted, according to the peer.
    #[inline(always)]
    pub fn peer_accepted(&self) -> u64 {
        self.theirs.load(ACCEPTED)
    }

    /// Returns the word of this side's lane that records the returned buffers of the peer's slab `slab`.
    ///
    /// # Panics
    /// Panics when `slab` is not below [`SLABS_MAX`].
    #[must_use]
    pub fn returns_for(&self, slab: usize) -> Region {
        assert!(slab < SLABS_MAX, "slab {slab} of {SLABS_MAX}");
        self.ours.part(RETURNS + slab, 1)
    }

    /// Returns what this side has published about room for the peer: the slots read, the requests accepted, and a
    /// digest of the returned buffers. While the result is unchanged, there is nothing new for the peer: a buffer
    /// can be returned twice only if a slot with its second loan was read in between.
    #[must_use]
    pub fn shown(&self) -> [u64; 3] {
        let digest = |sum: u64, slab| {
            (sum.rotate_left(5) ^ self.ours.load(RETURNS + slab)).wrapping_mul(DIGEST)
        };
        [self.ours.load(IN), self.ours.load(ACCEPTED), (0..SLABS_MAX).fold(0, digest)]
    }

    /// Returns the peer's word about the returned buffers of this side's slab `slab`. The word may have any value.
    ///
    /// # Panics
    /// Panics when `slab` is not below [`SLABS_MAX`].
    #[inline]
    pub fn peer_returned(&self, slab: usize) -> u64 {
        assert!(slab < SLABS_MAX, "slab {slab} of {SLABS_MAX}");
        let returned = self.theirs.load(RETURNS + slab);
        self.returned[slab].loaded(Count::ProgressLines, returned);
        returned
    }

    /// Publishes whether this side polls the peer's lane each turn. After setting it to false the caller must poll
    /// once more, since the peer does not note on the board what it wrote before it could see the change.
    pub fn set_attention(&self, attentive: bool) {
        self.ours.publish(ATTENTION, u64::from(attentive));
        fence_full();
    }

    /// Returns whether the peer polls this side's lane each turn; otherwise the peer wants a note on its board.
    /// The proof shows that a fence was executed after the write.
    #[inline(always)]
    pub fn peer_is_attentive(&self, _: FenceProof) -> bool {
        self.peer_attention.load() != 0
    }

    /// Publishes whether this side waits for room in its lane. After setting it to true the caller must try once
    /// more, since the peer does not announce what it has read before it could see the request.
    pub fn set_wants_room(&self, wants: bool) {
        self.wants_room.set(wants);
        self.ours.publish(WANTS_ROOM, u64::from(wants));
        fence_full();
    }

    /// Returns whether this side's request for room is set.
    #[inline(always)]
    pub fn wants_room(&self) -> bool {
        self.wants_room.get()
    }

    /// Publishes that this side ends the session in order. The peer reads it after it has seen the end of the socket, so
    /// the owner publishes before that.
    pub fn set_ended(&self) {
        self.ours.publish(ENDED, 1);
    }

    /// Returns whether the peer has ended the session in order.
    #[must_use]
    pub fn peer_has_ended(&self) -> bool {
        self.theirs.load(ENDED) != 0
    }

    /// Clears the polling flag of `page` and polls for the last time before a sleep. Returns whether the owner may
    /// sleep: no frame has come, and a request for room that was set is still set. The callback `settle` checks
    /// for room if a request is set, and clears the request if it finds some. The owner must then use that room
    /// instead of sleeping, since the peer wakes nobody whose request is cleared.
    pub fn may_sleep(&self, page: &NodePage, settle: impl FnOnce()) -> bool {
        page.clear_polling();
        let asked = self.wants_room();
        settle();
        asked == self.wants_room() && !self.has_frame()
    }

    /// Returns the peer's request for room, for another thread.
    #[must_use]
    pub fn peer_room_request(&self) -> RoomRequest {
        RoomRequest(self.theirs.word_at(WANTS_ROOM))
    }

    /// Returns whether the peer waits for room in its lane; it must then be woken if it sleeps.
    #[inline(always)]
    pub fn peer_wants_room(&self) -> bool {
        self.peer_wants_room.load() != 0
    }
}

/// The request for room of a peer, as another thread sees it that makes room: it gives buffers back.
pub struct RoomRequest(Word);

impl RoomRequest {
    /// Returns whether the peer waits for room. The proof shows that a fence was executed after the room was made.
    #[must_use]
    pub fn is_set(&self, _: FenceProof) -> bool {
        self.0.load() != 0
    }
}

/// Returns the generation that follows this one, and its size.
fn next(grown: &Cell<u8>) -> Option<(u8, usize)> {
    let grown = grown.get();
    Some((grown + 1, *GROWN_BYTES.get(grown as usize)?))
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
