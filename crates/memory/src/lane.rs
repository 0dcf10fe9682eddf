//! A pair of lanes: what one side of a session writes, and what it reads.
//!
//! A lane begins with eight lines that its writer keeps about itself (who it is; how far it has
//! read the other lane; whether it looks at the other lane each turn), then comes the ring. Each
//! side writes its own lane alone, so a peer can spoil what it says and never what we hold.

use crate::region::Region;
use crate::ring::{Claim, Reader, Refused, RingFault, SLOT, Writer};
use crate::sync::fence_full;
use std::cell::Cell;

/// Bytes of a session's first lane: two pages.
pub const LANE_BYTES: usize = 8192;
/// Lines of a lane that stand before its ring.
pub const HEAD_LINES: usize = 8;

const LINE_WORDS: usize = 8;
const SESSION: usize = 0;
/// The owner's progress in the other lane: slots consumed, one-way messages finished.
const IN: usize = LINE_WORDS;
const FINISHED: usize = LINE_WORDS + 1;
/// Whether the owner looks at the other lane each turn.
const ATTENTION: usize = 2 * LINE_WORDS;

/// The slot at which the ring of session `session` starts. Rings that all started at one offset
/// of a page would fall into one set of the cache.
#[must_use]
pub fn first_slot(session: u64) -> u32 {
    (session.wrapping_mul(7) % ((LANE_BYTES / SLOT - HEAD_LINES) as u64)) as u32
}

/// Both lanes of a session, as one side sees them.
pub struct Lanes {
    ours: Region,
    theirs: Region,
    writer: Writer,
    reader: Reader,
    published_in: Cell<u64>,
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
        Lanes { ours, theirs, writer, reader, published_in: Cell::new(0) }
    }

    /// Claims `span` slots of our lane, leaving `keep` free behind them.
    #[inline]
    pub fn claim(&self, span: u32, keep: u32) -> Result<Claim<'_>, Refused> {
        self.writer.claim(span, keep, || self.theirs.load(IN))
    }

    /// Looks for the next frame of the peer's lane.
    #[inline]
    pub fn look(&self) -> Result<Option<[u64; 3]>, RingFault> {
        self.reader.look()
    }

    /// The reading side, for the open frame's payload.
    #[inline]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The writing side.
    #[inline]
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Tells the peer how far we have read. Once per drained batch.
    #[inline]
    pub fn publish_progress(&self) {
        let taken = self.reader.taken();
        if taken != self.published_in.replace(taken) {
            self.ours.publish(IN, taken);
        }
    }

    /// Tells the peer how many of its one-way messages are done with.
    #[inline]
    pub fn publish_finished(&self, finished: u64) {
        self.ours.publish(FINISHED, finished);
    }

    /// How many of our one-way messages the peer says are done with.
    #[inline]
    pub fn peer_finished(&self) -> u64 {
        self.theirs.load(FINISHED)
    }

    /// Says whether we look at the peer's lane each turn. Having said no, look once more: what the
    /// peer wrote before it could see that is not noted on the board.
    pub fn set_attention(&self, attentive: bool) {
        self.ours.publish(ATTENTION, u64::from(attentive));
        fence_full();
    }

    /// Whether the peer looks at our lane each turn, or wants a note on its board. Ask after a
    /// fence that stands behind what was written.
    #[inline]
    pub fn peer_is_attentive(&self) -> bool {
        self.theirs.load(ATTENTION) != 0
    }
}
