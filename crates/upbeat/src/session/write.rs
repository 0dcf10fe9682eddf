//! How a message is written: into its slot, into consecutive ones, or into a buffer.
//!
//! A message that does not fit its slot lies in consecutive ones while nothing is refused, up to
//! [`IN_RING_BYTES_MAX`], or [`IN_STREAMED_RING_BYTES_MAX`] over a byte stream; what is longer, and longer
//! requests while some are refused, lies in a buffer of a slab. A lane that is full too often goes on in a
//! bigger segment. Who may send, and who waits, is decided by others. Invariant: what was not committed
//! left no trace.

use super::front::{Front, Words};
use super::put::{NoMemory, Put, bad_length, bad_value, lost_progress};
use super::{Session, broken};
use crate::error::Why;
use crate::sample::Stamps;
use crate::wire::{AnyContent, Content, Output, Payload, WireError};
use rustix::io::Errno;
use upbeat_core::bill::way::Point;
use upbeat_core::frame::{Head, Placed};
use upbeat_core::limits::{
    CONTROL_SLOTS, IN_RING_BYTES_MAX, IN_STREAMED_RING_BYTES_MAX, MESSAGE_BYTES_MAX, SHORT_BYTES,
    SLOT_BYTES,
};
use upbeat_core::session::{Lack, Room, Use};
use upbeat_core::stream::{Permission, Wish};
use upbeat_memory::ring::{Claim, Refused, span_of};
use upbeat_transport::carrier::BellFault;

/// How messages of a kind are carried.
#[derive(Clone, Copy)]
pub(super) struct Domain {
    /// Slots that are left to others.
    keep: u32,
    usage: Use,
    /// Whether longer ones ask for room first where that is due.
    asks: bool,
    /// Whether longer ones go behind those of their size that wait for buffers.
    queues: bool,
}

pub(super) const REQUESTS: Domain =
    Domain { keep: CONTROL_SLOTS as u32, usage: Use::Requests, asks: true, queues: false };
pub(super) const GRANTED: Domain = Domain { usage: Use::Granted, asks: false, ..REQUESTS };
pub(super) const ANSWERS: Domain =
    Domain { keep: 0, usage: Use::Replies, asks: false, queues: true };
/// Answers that have waited, whose turn it is.
pub(super) const PENDING: Domain = Domain { queues: false, ..ANSWERS };

/// Bytes that are written as they are: what is pending, a failure's text.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl Content for Bytes<'_> {
    fn bytes_likely(&self) -> usize {
        self.0.len()
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        out.bytes(self.0);
        Ok(())
    }
}

/// The payload of a message, written apart from any lane.
pub(super) fn encoded(value: &dyn Payload) -> Result<Vec<u8>, Put> {
    let mut out = Output::own(MESSAGE_BYTES_MAX).attaching(value.context());
    value.put(&mut out).map_err(bad_value)?;
    let bytes = out.len();
    if !out.fits() {
        return Err(Put::TooLarge(bytes));
    }
    out.into_bytes().ok_or_else(|| {
        let text = "the allocator has none".into();
        Put::Memory(Box::new(NoMemory { bytes, text }))
    })
}

/// Bytes that a value takes in a message.
fn counted(value: &dyn Payload) -> Result<usize, Put> {
    let mut out = Output::counted().attaching(value.context());
    value.put(&mut out).map_err(bad_value)?;
    Ok(out.len())
}

/// The words with a length.
#[inline(always)]
fn with_len(words: Words, len: usize) -> Words {
    [words[0] | (len as u64) << 32, words[1], words[2]]
}

impl Session {
    /// Why a request does not go of which the session says that it may not.
    #[cold]
    pub(super) fn ended_or_full(&self) -> Put {
        match self.ended() {
            Some(lost) => Put::Ended(Box::new(lost.why.clone())),
            None => {
                self.carrier.found_no_room();
                Put::Full
            }
        }
    }

    /// Notes what there was none of.
    #[cold]
    pub(super) fn lacks(&self, what: Lack) -> Put {
        self.core.outbound().lacks(what);
        self.carrier.found_no_room();
        Put::Full
    }

    /// What a segment that could not be sent means for the message that needs it.
    #[cold]
    pub(super) fn growth_error(&self, fault: BellFault) -> Put {
        match fault {
            BellFault::System { error: Errno::AGAIN | Errno::NOBUFS, .. } => self.lacks(Lack::Slot),
            BellFault::System { .. } => Put::Ended(Box::new(Why::Died)),
            fault => Put::Ended(broken(&fault)),
        }
    }

    /// Writes a message: short, into its slot; longer, into consecutive ones or a buffer.
    #[inline(always)]
    pub(super) fn put<T: Content>(
        &self,
        front: Front,
        value: &T,
        domain: Domain,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        let likely = value.bytes_likely();
        if front.extensions.bytes() + likely > SHORT_BYTES {
            if let Some(bytes) = T::EXACT
                && let Some(done) = self.put_exact(front, value, bytes, domain, stamps)
            {
                return done;
            }
            return self.put_long(front, value, likely, domain, stamps);
        }
        match self.put_in_slots(front, value, 1, domain, stamps)? {
            Ok(()) => Ok(()),
            Err(len) => self.put_long(front, value, len, domain, stamps),
        }
    }

    /// Writes a message that does not fit a slot. What is called from here does not depend on the type, and is
    /// compiled once; this function alone is compiled for each type, so that the common way passes one pointer.
    #[inline(never)]
    fn put_long<T: Content>(
        &self,
        front: Front,
        value: &T,
        likely: usize,
        domain: Domain,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        self.put_longer(front, AnyContent::of(value), likely, domain, stamps)
    }

    /// The same for a value of any type.
    pub(super) fn put_any(
        &self,
        front: Front,
        value: AnyContent<'_>,
        domain: Domain,
        stamps: &mut dyn Stamps,
    ) -> Result<(), Put> {
        let likely = value.payload.bytes_likely();
        if front.extensions.bytes() + likely > SHORT_BYTES {
            return self.put_longer(front, value, likely, domain, stamps);
        }
        match self.put_in_slots(front, value.payload, 1, domain, stamps)? {
            Ok(()) => Ok(()),
            Err(len) => self.put_longer(front, value, len, domain, stamps),
        }
    }

    /// Writes a message that does not fit a slot and whose type says how many bytes it takes into as many
    /// slots as it needs. None if that is to be found out in the usual way.
    #[inline(always)]
    fn put_exact<T: Content>(
        &self,
        front: Front,
        value: &T,
        bytes: usize,
        domain: Domain,
        stamps: &mut impl Stamps,
    ) -> Option<Result<(), Put>> {
        let in_slots = front.extensions.bytes() + bytes;
        if T::IN_PLACE || !self.may_lie_in_ring(in_slots) || domain.usage == Use::Granted {
            return None;
        }
        let waits = domain.queues && self.goes_behind(bytes);
        if waits || domain.asks && !self.goes_in_ring(bytes) {
            return None;
        }
        match self.put_in_slots(front, value, span_of(in_slots), domain, stamps) {
            Ok(Ok(())) if domain.asks => self.core.outbound().went_in_ring(bytes),
            Ok(Ok(())) => {}
            Err(Put::Full) if domain.usage == Use::Replies => {
                return Some(self.put_in_buffer(front, value, bytes, domain, stamps));
            }
            // The lane has no ring for it, and gets none.
            Err(Put::TooLarge(_)) => {
                return Some(self.put_in_buffer(front, value, bytes, domain, stamps));
            }
            Err(put) => return Some(Err(put)),
            Ok(Err(_)) => return None,
        }
        Some(Ok(()))
    }

    /// Whether a message of so many bytes, extensions included, may lie in consecutive slots.
    #[inline(always)]
    fn may_lie_in_ring(&self, bytes: usize) -> bool {
        bytes <= IN_STREAMED_RING_BYTES_MAX
            || bytes <= IN_RING_BYTES_MAX && !self.carrier.is_stream()
    }

    /// Writes a message that finds no slots.
    #[cold]
    #[inline(never)]
    fn put_in_buffer(
        &self,
        front: Front,
        value: &dyn Payload,
        bytes: usize,
        domain: Domain,
        stamps: &mut dyn Stamps,
    ) -> Result<(), Put> {
        let placed = self.put_placed(front, value, bytes, domain, stamps)?;
        placed.map_err(|again| bad_length(bytes, again))
    }

    /// Writes a message that does not fit a slot, of as many bytes as is likely, or as it then takes.
    #[inline(never)]
    fn put_longer(
        &self,
        front: Front,
        value: AnyContent<'_>,
        likely: usize,
        domain: Domain,
        stamps: &mut dyn Stamps,
    ) -> Result<(), Put> {
        if domain.queues && self.goes_behind(likely) {
            return Err(self.lacks(Lack::Buffer));
        }
        match self.put_of(front, value, likely, domain, stamps)? {
            Ok(()) => Ok(()),
            Err(exact) => match self.put_of(front, value, exact, domain, stamps)? {
                Ok(()) => Ok(()),
                Err(again) => Err(bad_length(exact, again)),
            },
        }
    }

    /// Writes a message of so many bytes: into consecutive slots if it is not long and nothing is
    /// refused, else into a buffer. Gives its length if it is longer.
    fn put_of(
        &self,
        front: Front,
        value: AnyContent<'_>,
        bytes: usize,
        domain: Domain,
        stamps: &mut dyn Stamps,
    ) -> Result<Result<(), usize>, Put> {
        let AnyContent { payload, in_place } = value;
        let mut len = bytes;
        let mut room = if domain.asks { self.room_for(len)? } else { Room::Ring };
        if room == Room::Ask || len > MESSAGE_BYTES_MAX {
            // What is only likely too long is not asked for.
            len = counted(payload)?;
            if len > MESSAGE_BYTES_MAX {
                return Err(Put::TooLarge(len));
            }
            if domain.asks {
                room = self.room_for(len)?;
            }
            if room == Room::Ask {
                return Err(Put::Ask(len));
            }
        }
        // What is to be read in place has a buffer that can be held; what waited must not wait again.
        let in_ring = room == Room::Ring && !in_place && domain.usage != Use::Granted;
        let in_slots = front.extensions.bytes() + len;
        if in_ring && self.may_lie_in_ring(in_slots) {
            match self.put_in_slots(front, payload, span_of(in_slots), domain, stamps) {
                // An answer may find a slot where it finds no row of them.
                Err(Put::Full) if domain.usage == Use::Replies => {}
                // The lane has no ring for it, and gets none.
                Err(Put::TooLarge(_)) => {}
                written => {
                    if domain.asks && matches!(written, Ok(Ok(()))) {
                        self.core.outbound().went_in_ring(len);
                    }
                    return written;
                }
            }
        }
        self.put_placed(front, payload, len, domain, stamps)
    }

    /// Writes a message into so many slots. Gives its length if it does not fit them.
    #[inline(always)]
    fn put_in_slots(
        &self,
        front: Front,
        value: &(impl Payload + ?Sized),
        span: u32,
        domain: Domain,
        stamps: &mut (impl Stamps + ?Sized),
    ) -> Result<Result<(), usize>, Put> {
        let mut claim = self.slots(span, domain.keep)?;
        stamps.at(Point::Claimed);
        let (head, at) = front.extensions.write(front.head, None, &mut claim);
        let mut out = Output::lane(claim, at).attaching(value.context());
        value.put(&mut out).map_err(bad_value)?;
        if !out.fits() {
            return Ok(Err(out.len() - at));
        }
        let len = out.len();
        stamps.at(Point::Marshalled);
        out.commit(stamps.on_head(with_len(head, len)), len);
        stamps.at(Point::Published);
        stamps.published(&self.carrier);
        Ok(Ok(()))
    }

    /// Writes a message into a buffer, of which its frame tells. Gives its length if it is longer
    /// than `len`.
    fn put_placed(
        &self,
        front: Front,
        value: &dyn Payload,
        len: usize,
        domain: Domain,
        stamps: &mut dyn Stamps,
    ) -> Result<Result<(), usize>, Put> {
        let number = self.slab_for(domain.usage, len)?;
        let memory = self.pool.memory();
        let slab = memory.get(number).and_then(Option::as_ref);
        let returned = || self.carrier.lanes.peer_returned(number);
        let Some(buffer) = slab.and_then(|slab| slab.claim(returned)) else {
            return Err(self.lacks(Lack::Buffer));
        };
        let mut claim = self.slots(1, domain.keep)?;
        stamps.at(Point::Claimed);
        let mut out = Output::lent(buffer).attaching(value.context());
        value.put(&mut out).map_err(bad_value)?;
        if !out.fits() {
            return Ok(Err(out.len()));
        }
        self.pool.used(number);
        let len = out.len();
        stamps.at(Point::Marshalled);
        let placed = Placed { slab: number as u16, index: out.lend() as u16, len: len as u32 };
        let (head, bytes) = front.extensions.write(front.head, Some(placed), &mut claim);
        claim.commit(stamps.on_head(with_len(head, bytes)), bytes);
        stamps.at(Point::Published);
        stamps.published(&self.carrier);
        self.wrote_long(len);
        Ok(Ok(()))
    }

    /// Claims slots of our lane.
    #[inline(always)]
    pub(super) fn slots(&self, span: u32, keep: u32) -> Result<Claim<'_>, Put> {
        let lanes = &self.carrier.lanes;
        match lanes.claim(span, keep) {
            Ok(claim) => Ok(claim),
            // Claimed here, so that it is known here which writer has claimed.
            Err(refused) => match self.make_way(span, keep, refused) {
                Ok(()) => lanes.claim(span, keep).map_err(|_| Put::Full),
                Err(put) => Err(put),
            },
        }
    }

    /// Has the lane grow if it is full too often or too small, until slots can be claimed of it.
    #[cold]
    #[inline(never)]
    fn make_way(&self, span: u32, keep: u32, refused: Refused) -> Result<(), Put> {
        let mut refused = refused;
        loop {
            match refused {
                Refused::Full | Refused::Claimed => {
                    if !self.growth.refused() {
                        return Err(self.lacks(Lack::Slot));
                    }
                    match self.grow() {
                        Ok(true) => self.growth.grew(),
                        Ok(false) | Err(Put::Full) => return Err(self.lacks(Lack::Slot)),
                        Err(put) => return Err(put),
                    }
                }
                Refused::TooLong { span, .. } => {
                    if !self.grow()? {
                        return Err(Put::TooLarge(span as usize * SLOT_BYTES));
                    }
                }
                Refused::Progress { now, known, out } => {
                    return Err(lost_progress(now, known, out));
                }
            }
            match self.carrier.lanes.claim(span, keep) {
                Ok(_) => return Ok(()),
                Err(again) => refused = again,
            }
        }
    }

    /// Writes a frame with its payload into consecutive slots.
    pub(super) fn put_bytes(&self, head: Words, payload: &[u8]) -> Result<(), Put> {
        let span = span_of(payload.len());
        let mut claim = self.slots(span, 0)?;
        claim.write(0, payload);
        claim.commit(with_len(head, payload.len()), payload.len());
        Ok(())
    }

    /// Goes on in a larger segment. False where lanes do not grow further, or the peer has no room for it; Full
    /// where there is no room even to say so, or the peer has not answered.
    fn grow(&self) -> Result<bool, Put> {
        let lanes = &self.carrier.lanes;
        let Some((generation, bytes)) = lanes.next_growth() else { return Ok(false) };
        if !self.growth.asks() {
            return Ok(false);
        }
        match self.carrier.permission(Wish::ring(bytes as u32)) {
            Permission::Granted => {}
            Permission::Declined => {
                self.growth.declined();
                return Ok(false);
            }
            // Slots may be free, and are not what it waits for.
            Permission::Awaited => return Err(self.lacks(Lack::Buffer)),
        }
        // Claimed first: once the segment has been sent it must be announced.
        let Ok(claim) = lanes.claim(1, 0) else { return Err(self.lacks(Lack::Slot)) };
        let segment = self.carrier.make_segment("upbeat-lane", bytes);
        let segment = segment.map_err(|error| Put::Ended(broken(&error)))?;
        if let Err(error) = self.carrier.send_segment(u32::from(generation), &segment) {
            return Err(self.growth_error(error));
        }
        claim.commit(Head::switch(u32::from(generation)).words(), 0);
        lanes.grow_writer(segment.into_region());
        Ok(true)
    }
}
