//! The frames of a session: those of the peer, which this side reads in order, and those that it writes.
//!
//! The owner of a session looks for the next frame, reads its payload where it lies, and passes it; and it claims room
//! for a frame, writes there, and commits. Invariant: an owner reaches the slots of the lanes by these views alone.

use super::Carrier;
use upbeat_memory::lane::Lanes;
use upbeat_memory::region::Region;
use upbeat_memory::ring::{Claim, Look, Payload, Refused, RingFault};

impl Carrier {
    /// Returns the view for the frames of the peer.
    #[inline(always)]
    pub fn reader(&self) -> FrameReader<'_> {
        FrameReader(&self.lanes)
    }

    /// Returns the view for the frames of this side.
    #[inline(always)]
    pub fn writer(&self) -> FrameWriter<'_> {
        FrameWriter(&self.lanes)
    }

    /// Returns the payload of the open frame.
    #[inline(always)]
    pub fn payload(&self) -> Payload<'_> {
        Payload::of(self.lanes.reader())
    }
}

/// The frames of the peer, and what this side tells the peer about them.
#[derive(Clone, Copy)]
pub struct FrameReader<'c>(&'c Lanes);

impl FrameReader<'_> {
    /// Looks for the next frame, and returns the words of its head: see [`Reader::look`](upbeat_memory::ring::Reader::look).
    #[inline(always)]
    pub fn look(self) -> Result<Option<[u64; 3]>, RingFault> {
        self.0.reader().look()
    }

    /// Looks for the next frame, on a shorter path if that has a single slot: see
    /// [`Reader::look_short`](upbeat_memory::ring::Reader::look_short).
    #[inline(always)]
    pub fn look_short(self) -> Look {
        self.0.reader().look_short()
    }

    /// Returns whether a frame has come, or a word that breaks the rules.
    #[inline(always)]
    pub fn has_frame(self) -> bool {
        self.0.reader().has_frame()
    }

    /// Returns whether another frame, or a word that breaks the rules, has come behind the open frame.
    #[inline]
    pub fn has_another(self) -> bool {
        self.0.reader().has_another()
    }

    /// Returns whether a frame is open: looked at and not passed.
    pub fn is_open(self) -> bool {
        self.0.reader().is_open()
    }

    /// Closes the open frame without passing it. The next look finds it again.
    pub fn put_back(self) {
        self.0.reader().put_back();
    }

    /// Passes the open frame, if there is one.
    #[inline(always)]
    pub fn advance(self) {
        self.0.reader().advance();
    }

    /// Passes the open frame, which [`FrameReader::look_short`] has found.
    #[inline(always)]
    pub fn advance_short(self) {
        self.0.reader().advance_short();
    }

    /// Finds no frame from now on, whatever the peer writes.
    pub fn close(self) {
        self.0.reader().close();
    }

    /// Returns the number of slots passed so far.
    #[inline(always)]
    pub fn consumed(self) -> u64 {
        self.0.reader().consumed()
    }

    /// Tells the peer how far this side has read, once for each drained batch.
    #[inline(always)]
    pub fn publish_progress(self) {
        self.0.publish_progress();
    }

    /// Tells the peer how many of its requests were accepted.
    #[inline(always)]
    pub fn publish_accepted(self, accepted: u64) {
        self.0.publish_accepted(accepted);
    }

    /// Returns what this side has told the peer about its room: see [`Lanes::shown`].
    #[must_use]
    pub fn shown(self) -> [u64; 3] {
        self.0.shown()
    }

    /// Returns the word in which this side records the buffers of the peer's slab `slab` that it gives back.
    #[must_use]
    pub fn returns_for(self, slab: usize) -> Region {
        self.0.returns_for(slab)
    }

    /// Returns whether the peer waits for room.
    #[inline(always)]
    pub fn peer_wants_room(self) -> bool {
        self.0.peer_wants_room()
    }

    /// Returns whether the peer has ended the session in order.
    #[must_use]
    pub fn peer_has_ended(self) -> bool {
        self.0.peer_has_ended()
    }

    /// Returns the generation and the size of the next segment of the peer's frames.
    pub fn next_growth(self) -> Option<(u8, usize)> {
        self.0.next_peer_growth()
    }

    /// Continues reading in that segment. The frame that announced it was passed.
    pub fn grow(self, region: Region) {
        self.0.grow_reader(region);
    }
}

/// The room for frames of this side, and what the peer has told about it.
#[derive(Clone, Copy)]
pub struct FrameWriter<'c>(&'c Lanes);

impl<'c> FrameWriter<'c> {
    /// Claims `span` slots, and leaves `keep` free behind them.
    #[inline(always)]
    pub fn claim(self, span: u32, keep: u32) -> Result<Claim<'c>, Refused> {
        self.0.claim(span, keep)
    }

    /// Returns the number of slots that there are.
    pub fn slots(self) -> u32 {
        self.0.writer().slots()
    }

    /// Returns the longest span that can be claimed when all is free but `keep` slots.
    pub fn longest(self, keep: u32) -> u32 {
        self.0.writer().longest(keep)
    }

    /// Returns the number of slots written so far.
    #[inline(always)]
    pub fn out(self) -> u64 {
        self.0.writer().out()
    }

    /// Returns whether this side waits for room, as the peer was told.
    #[inline(always)]
    pub fn wants_room(self) -> bool {
        self.0.wants_room()
    }

    /// Tells the peer whether this side waits for room. After saying yes the owner tries once more.
    pub fn set_wants_room(self, wants: bool) {
        self.0.set_wants_room(wants);
    }

    /// Returns how many requests of this side the peer has accepted, as it says.
    #[inline(always)]
    pub fn peer_accepted(self) -> u64 {
        self.0.peer_accepted()
    }

    /// Returns the peer's word about the buffers of our slab `slab` that it has given back. It may have any value.
    #[inline]
    pub fn peer_returned(self, slab: usize) -> u64 {
        self.0.peer_returned(slab)
    }

    /// Says that this side ends the session in order.
    pub fn set_ended(self) {
        self.0.set_ended();
    }

    /// Returns the generation and the size of the next segment of this side's frames, or none at the largest size.
    pub fn next_growth(self) -> Option<(u8, usize)> {
        self.0.next_growth()
    }

    /// Continues writing in that segment. The last frame before it has announced it to the peer.
    pub fn grow(self, region: Region) {
        self.0.grow_writer(region);
    }
}
