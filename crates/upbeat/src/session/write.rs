//! Writing a message: into its slot, into consecutive slots, or into a buffer.
//!
//! A message that does not fit a slot is written into consecutive slots while no request is refused, up to
//! [`IN_RING_BYTES_MAX`], or [`IN_STREAMED_RING_BYTES_MAX`] over a byte stream. A longer message, and a long request
//! while some are refused, is written into a buffer of a slab. A lane that is full too often continues in a larger
//! segment. Other modules decide who may send and who waits. Invariant: an uncommitted message leaves no trace.

use super::Session;
use super::front::{Header, Words};
use super::send_error::{SendError, bad_length, bad_value, lost_progress};
use crate::sample::Stamps;
use crate::wire::{AnyContent, Content, Output, Payload};
use upbeat_core::bill::way::Point;
use upbeat_core::frame::{Head, Placed};
use upbeat_core::limits::{
    CONTROL_SLOTS, IN_RING_BYTES_MAX, IN_STREAMED_RING_BYTES_MAX, MESSAGE_BYTES_MAX, SHORT_BYTES,
    SLOT_BYTES,
};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::session::{MissingResource, RequestPlacement, Use};
use upbeat_core::stream::{Permission, SegmentRequest};
use upbeat_memory::ring::{Claim, Refused, span_of};
use upbeat_memory::slab::{Buffer, Slab};

/// The rules by which messages of a kind are carried.
#[derive(Clone, Copy)]
pub(super) struct SendRules {
    /// The slots that are left to other kinds.
    keep: u32,
    usage: Use,
    /// Whether longer messages ask for room first where that is due.
    asks: bool,
    /// Whether longer messages queue behind those of their size that wait for buffers.
    queues: bool,
}

pub(super) const REQUESTS: SendRules =
    SendRules { keep: CONTROL_SLOTS as u32, usage: Use::Requests, asks: true, queues: false };
pub(super) const GRANTED: SendRules = SendRules { usage: Use::Granted, asks: false, ..REQUESTS };
pub(super) const ANSWERS: SendRules =
    SendRules { keep: 0, usage: Use::Replies, asks: false, queues: true };
/// The rules of queued replies, whose turn has come.
pub(super) const PENDING: SendRules = SendRules { queues: false, ..ANSWERS };

/// Encodes the payload of a message outside of any lane.
pub(super) fn encoded(head: &Words, value: &dyn Payload) -> Result<Vec<u8>, SendError> {
    let mut out = of_head(Output::own(MESSAGE_BYTES_MAX), head, value);
    value.put(&mut out).map_err(bad_value)?;
    let bytes = out.len();
    if !out.fits() {
        return Err(SendError::TooLarge(bytes));
    }
    out.into_bytes().ok_or_else(|| SendError::no_memory(bytes, "the allocator has none"))
}

/// Returns the bytes that a value takes in a message.
pub(super) fn counted(head: &Words, value: &dyn Payload) -> Result<usize, SendError> {
    let mut out = of_head(Output::counted(), head, value);
    value.put(&mut out).map_err(bad_value)?;
    Ok(out.len())
}

/// Returns the output of a payload, in the form that the head of its message says.
#[inline(always)]
fn of_head<'a, P: Payload + ?Sized>(out: Output<'a>, head: &Words, value: &'a P) -> Output<'a> {
    let is_tolerant = value.is_tolerant() && Head::is_tolerant_in(head);
    out.attaching(value.context()).tolerating(is_tolerant)
}

/// Returns the words with a length.
#[inline(always)]
fn with_len(words: Words, len: usize) -> Words {
    [words[0] | (len as u64) << 32, words[1], words[2]]
}

impl Session {
    /// Returns why a request may not be sent that the session's state machine has refused.
    #[cold]
    pub(super) fn ended_or_full(&self) -> SendError {
        match self.ended() {
            Some(lost) => SendError::Ended(Box::new(lost.why.clone())),
            None => {
                self.carrier.found_no_room();
                SendError::Full
            }
        }
    }

    /// Notes which resource was missing.
    #[cold]
    pub(super) fn missing(&self, what: MissingResource) -> SendError {
        self.core.outbound().record_missing(what);
        self.carrier.found_no_room();
        SendError::Full
    }

    /// Notes that too few slots in a row were free for a message of these rules. A reply is written again whenever its
    /// owner settles the session, so only the span of a request is remembered.
    #[cold]
    pub(super) fn missing_slots(&self, span: u32, keep: u32) -> SendError {
        if keep != 0 {
            self.core.outbound().record_missing_slots(span);
        }
        self.carrier.found_no_room();
        SendError::Full
    }

    /// Writes a message: a short one into its slot, a longer one into consecutive slots or a buffer.
    #[inline(always)]
    pub(super) fn put<T: Content>(
        &self,
        front: Header,
        value: &T,
        domain: SendRules,
        stamps: &mut impl Stamps,
    ) -> Result<(), SendError> {
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

    /// Writes a message that does not fit a slot. Only this function is compiled for each type, so that the common
    /// path passes one pointer; the functions that it calls are compiled once.
    #[inline(never)]
    fn put_long<T: Content>(
        &self,
        front: Header,
        value: &T,
        likely: usize,
        domain: SendRules,
        stamps: &mut impl Stamps,
    ) -> Result<(), SendError> {
        self.put_longer(front, AnyContent::of(value), likely, domain, stamps)
    }

    /// Does what [`Session::put_long`] does, for a value behind a pointer.
    pub(super) fn put_any(
        &self,
        front: Header,
        value: AnyContent<'_>,
        domain: SendRules,
        stamps: &mut dyn Stamps,
    ) -> Result<(), SendError> {
        let likely = value.payload.bytes_likely();
        if front.extensions.bytes() + likely > SHORT_BYTES {
            return self.put_longer(front, value, likely, domain, stamps);
        }
        match self.put_in_slots(front, value.payload, 1, domain, stamps)? {
            Ok(()) => Ok(()),
            Err(len) => self.put_longer(front, value, len, domain, stamps),
        }
    }

    /// Writes a message that does not fit a slot, and whose type knows its length, into as many slots as it needs.
    /// Returns None if the usual way has to decide.
    #[inline(always)]
    fn put_exact<T: Content>(
        &self,
        front: Header,
        value: &T,
        bytes: usize,
        domain: SendRules,
        stamps: &mut impl Stamps,
    ) -> Option<Result<(), SendError>> {
        let in_slots = front.extensions.bytes() + bytes;
        if T::IN_PLACE || !self.may_lie_in_ring(in_slots) || domain.usage == Use::Granted {
            return None;
        }
        let waits = domain.queues && self.goes_behind(bytes);
        if waits || domain.asks && !self.goes_in_ring(bytes) {
            return None;
        }
        match self.put_in_slots(front, value, span_of(in_slots), domain, stamps) {
            Ok(Ok(())) if domain.asks => self.core.outbound().record_in_ring(bytes),
            Ok(Ok(())) => {}
            Err(SendError::Full) if domain.usage == Use::Replies => {
                if mutated(Mutant::RingReplyLost) {
                    return Some(Ok(()));
                }
                return Some(self.put_in_buffer(front, value, bytes, domain, stamps));
            }
            // The lane has no ring for this length, and gets none.
            Err(SendError::TooLarge(_)) => {
                return Some(self.put_in_buffer(front, value, bytes, domain, stamps));
            }
            Err(put) => return Some(Err(put)),
            Ok(Err(_)) => return None,
        }
        Some(Ok(()))
    }

    /// Returns whether a message of this many bytes, extensions included, may lie in consecutive slots.
    #[inline(always)]
    fn may_lie_in_ring(&self, bytes: usize) -> bool {
        bytes <= IN_STREAMED_RING_BYTES_MAX
            || bytes <= IN_RING_BYTES_MAX && self.carrier.caps().shares_memory
    }

    /// Writes a message that finds no slots.
    #[cold]
    #[inline(never)]
    fn put_in_buffer(
        &self,
        front: Header,
        value: &dyn Payload,
        bytes: usize,
        domain: SendRules,
        stamps: &mut dyn Stamps,
    ) -> Result<(), SendError> {
        let placed = self.put_placed(front, value, bytes, domain, stamps)?;
        placed.map_err(|again| bad_length(bytes, again))
    }

    /// Writes a message that does not fit a slot: first with its likely length, then with its true one.
    #[inline(never)]
    fn put_longer(
        &self,
        front: Header,
        value: AnyContent<'_>,
        likely: usize,
        domain: SendRules,
        stamps: &mut dyn Stamps,
    ) -> Result<(), SendError> {
        if domain.queues && self.goes_behind(likely) {
            return Err(self.missing(MissingResource::Buffer));
        }
        match self.put_of(front, value, likely, domain, stamps)? {
            Ok(()) => Ok(()),
            Err(exact) if mutated(Mutant::LikelyTrusted) => Err(bad_length(likely, exact)),
            Err(exact) => match self.put_of(front, value, exact, domain, stamps)? {
                Ok(()) => Ok(()),
                Err(again) => Err(bad_length(exact, again)),
            },
        }
    }

    /// Writes a message of this many bytes: into consecutive slots if it is not long and no request is refused, else
    /// into a buffer. Returns the true length if the message is longer.
    fn put_of(
        &self,
        front: Header,
        value: AnyContent<'_>,
        bytes: usize,
        domain: SendRules,
        stamps: &mut dyn Stamps,
    ) -> Result<Result<(), usize>, SendError> {
        let AnyContent { payload, in_place } = value;
        let mut len = bytes;
        let mut room = if domain.asks { self.room_for(len)? } else { RequestPlacement::Ring };
        if room == RequestPlacement::Ask || len > MESSAGE_BYTES_MAX {
            // Room is asked for only if the true length needs it.
            len = counted(&front.head, payload)?;
            if len > MESSAGE_BYTES_MAX {
                return Err(SendError::TooLarge(len));
            }
            if domain.asks {
                room = self.room_for(len)?;
            }
            if room == RequestPlacement::Ask {
                return Err(SendError::Ask(len));
            }
        }
        // A payload that is read in place needs a buffer that can be held; a granted request must not wait again.
        let in_ring = room == RequestPlacement::Ring && !in_place && domain.usage != Use::Granted;
        let in_slots = front.extensions.bytes() + len;
        if in_ring && self.may_lie_in_ring(in_slots) {
            match self.put_in_slots(front, payload, span_of(in_slots), domain, stamps) {
                // A reply may find a single slot where there are no consecutive ones.
                Err(SendError::Full) if domain.usage == Use::Replies => {
                    if mutated(Mutant::RingReplyLost) {
                        return Ok(Ok(()));
                    }
                }
                // The lane has no ring for this length, and gets none.
                Err(SendError::TooLarge(_)) => {}
                written => {
                    if domain.asks && matches!(written, Ok(Ok(()))) {
                        self.core.outbound().record_in_ring(len);
                    }
                    return written;
                }
            }
        }
        self.put_placed(front, payload, len, domain, stamps)
    }

    /// Writes a message into this many slots. Returns the true length if the message does not fit them.
    #[inline(always)]
    fn put_in_slots(
        &self,
        front: Header,
        value: &(impl Payload + ?Sized),
        span: u32,
        domain: SendRules,
        stamps: &mut (impl Stamps + ?Sized),
    ) -> Result<Result<(), usize>, SendError> {
        let mut claim = self.slots(span, domain.keep)?;
        stamps.at(Point::Claimed);
        let (head, at) = front.extensions.write(front.head, None, &mut claim);
        let mut out = of_head(Output::frame(claim, at), &front.head, value);
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

    /// Writes a message into a buffer, which its frame names. Returns the true length if the message is longer than
    /// `len`.
    fn put_placed(
        &self,
        front: Header,
        value: &dyn Payload,
        len: usize,
        domain: SendRules,
        stamps: &mut dyn Stamps,
    ) -> Result<Result<(), usize>, SendError> {
        if let Some(built) = value.built().filter(|built| built.lies_in(self)) {
            let claim = self.slots(1, domain.keep)?;
            self.put_built(front, built, claim, stamps);
            return Ok(Ok(()));
        }
        let number = self.slab_for(domain.usage, len)?;
        let memory = self.pool.memory();
        let buffer = self.buffer(&memory, number)?;
        let claim = self.slots(1, domain.keep)?;
        stamps.at(Point::Claimed);
        let mut out = of_head(Output::lent(buffer), &front.head, value);
        value.put(&mut out).map_err(bad_value)?;
        if !out.fits() {
            return Ok(Err(out.len()));
        }
        self.pool.used(number);
        let len = out.len();
        stamps.at(Point::Marshalled);
        let placed = Placed { slab: number as u16, index: out.lend() as u16, len: len as u32 };
        self.commit_placed(front, placed, claim, stamps);
        Ok(Ok(()))
    }

    /// Claims a buffer of the slab of this number.
    pub(super) fn buffer<'a>(
        &self,
        memory: &'a [Option<Slab>],
        number: usize,
    ) -> Result<Buffer<'a>, SendError> {
        let returned = || self.carrier.writer().peer_returned(number);
        let slab = memory.get(number).and_then(Option::as_ref);
        let buffer = slab.and_then(|slab| slab.claim(returned));
        buffer.ok_or_else(|| self.missing(MissingResource::Buffer))
    }

    /// Publishes the frame of a payload that lies in a buffer.
    pub(super) fn commit_placed(
        &self,
        front: Header,
        placed: Placed,
        mut claim: Claim<'_>,
        stamps: &mut dyn Stamps,
    ) {
        let (head, bytes) = front.extensions.write(front.head, Some(placed), &mut claim);
        claim.commit(stamps.on_head(with_len(head, bytes)), bytes);
        stamps.at(Point::Published);
        stamps.published(&self.carrier);
        self.wrote_long(placed.len as usize);
    }

    /// Claims slots of our lane.
    #[inline(always)]
    pub(super) fn slots(&self, span: u32, keep: u32) -> Result<Claim<'_>, SendError> {
        let writer = self.carrier.writer();
        match writer.claim(span, keep) {
            Ok(claim) => Ok(claim),
            // The claim is made in this function, so that the compiler knows its writer.
            Err(refused) => match self.make_way(span, keep, refused) {
                Ok(()) => writer.claim(span, keep).map_err(|_| SendError::Full),
                Err(put) => Err(put),
            },
        }
    }

    /// Lets the lane grow if it is full too often or too small, until slots can be claimed.
    #[cold]
    #[inline(never)]
    fn make_way(&self, span: u32, keep: u32, refused: Refused) -> Result<(), SendError> {
        let mut refused = refused;
        loop {
            match refused {
                Refused::Full | Refused::Claimed => {
                    if !self.growth.refused() {
                        return Err(self.missing_slots(span, keep));
                    }
                    match self.grow(keep) {
                        Ok(true) => self.growth.grew(),
                        // The lane serves as it is.
                        Ok(false) | Err(SendError::Full) => {
                            return Err(self.missing_slots(span, keep));
                        }
                        Err(put) => return Err(put),
                    }
                }
                Refused::TooLong { span, .. } => {
                    if !self.grow(keep)? {
                        return Err(SendError::TooLarge(span as usize * SLOT_BYTES));
                    }
                }
                Refused::Progress { now, known, out } => {
                    return Err(lost_progress(now, known, out));
                }
            }
            match self.carrier.writer().claim(span, keep) {
                Ok(_) => return Ok(()),
                Err(again) => refused = again,
            }
        }
    }

    /// Writes a frame with its payload into consecutive slots.
    pub(super) fn put_bytes(&self, head: Words, payload: &[u8]) -> Result<(), SendError> {
        let span = span_of(payload.len());
        let mut claim = self.slots(span, 0)?;
        claim.write(0, payload);
        claim.commit(with_len(head, payload.len()), payload.len());
        Ok(())
    }

    /// Continues the lane in a larger segment. Returns false if lanes do not grow further, or the peer has no room
    /// for the segment, or this process has no memory or descriptor for it, and `Full` if there is no slot for the frame
    /// that announces it, or the peer has not answered.
    fn grow(&self, keep: u32) -> Result<bool, SendError> {
        let writer = self.carrier.writer();
        let Some((generation, bytes)) = writer.next_growth() else { return Ok(false) };
        if !self.growth.asks() {
            return Ok(false);
        }
        match self.carrier.permission(SegmentRequest::ring(bytes as u32)) {
            Permission::Granted => {}
            Permission::Declined => {
                self.growth.declined();
                return Ok(false);
            }
            // The lane may have free slots: it waits for the peer's permission.
            Permission::Awaited => return Err(self.missing(MissingResource::Buffer)),
        }
        // The slot is claimed first, because a segment that has been sent must be announced.
        let Ok(claim) = writer.claim(1, 0) else { return Err(self.missing_slots(1, keep)) };
        let Ok(segment) = self.carrier.make_segment("upbeat-lane", bytes) else {
            self.growth.declined();
            return Ok(false);
        };
        if let Err(fault) = self.carrier.send_segment(u32::from(generation), &segment) {
            return match self.growth_error(bytes, fault) {
                SendError::Memory(_) => {
                    self.growth.declined();
                    Ok(false)
                }
                error => Err(error),
            };
        }
        match mutated(Mutant::GrowthUntold) {
            true => drop(claim),
            false => claim.commit(Head::switch(u32::from(generation)).words(), 0),
        }
        writer.grow(segment.into_region());
        Ok(true)
    }
}
