//! Writing: requests, answers, control; what is done when there is no room.
//!
//! A message lies in its slot, or in consecutive ones, or, if it is longer or while requests are
//! refused, in a buffer of a slab. A request that finds no room
//! is not sent, and its sender waits. An answer or a control frame
//! may not be refused: it uses the slots kept for its kind, and where those are taken too it is
//! owed, and written before anything else as soon as there is room. Owed answers are bounded by the
//! calls that the peer may have open.

use super::pool::Use;
use super::{Fault, Session, Waiter, broken, misbehaved};
use crate::error::{CallError, Lost, Why};
use crate::sample::{Answering, Stamps, Unsampled};
use crate::wire::{Output, Wire, WireError};
use rustix::io::Errno;
use std::task::Waker;
use upbeat_core::bill::way::Point;
use upbeat_core::fault::Rule;
use upbeat_core::frame::{CallNumber, FailCode, Failure, Flags, Head, Placed};
use upbeat_core::limits::{
    CALLS_PER_SESSION_MAX, CONTROL_SLOTS, EXTENSION_BYTES, IN_RING_BYTES_MAX, MEDIUM_BYTES_MAX,
    MESSAGE_BYTES_MAX, SHORT_BYTES, SLOT_BYTES,
};
use upbeat_memory::ring::{Claim, Refused, span_of};
use upbeat_memory::segment::{Segment, Writers};
use upbeat_transport::carrier::BellFault;

/// The most bytes of results that are kept for a peer that does not read; a call beyond them fails.
const OWED_BYTES_MAX: usize = 256 << 20;
const TOO_MUCH_OWED: &str = "results that the caller has not read yet take all room there is";

/// Refusals after which a lane grows although every message would fit.
const REFUSALS_BEFORE_GROWTH: u32 = 4;

/// Why a message was not sent.
#[derive(Debug)]
pub(crate) enum Put {
    /// There is no room now.
    Full,
    /// It may not go before room was asked for, for so many bytes.
    Ask(usize),
    /// The value cannot be carried.
    Value(Box<WireError>),
    /// It is longer than messages may be.
    TooLarge(usize),
    /// There is no memory for it.
    Memory {
        /// Bytes that were wanted.
        bytes: usize,
        /// What the system says.
        text: Box<str>,
    },
    /// The session has ended, or ends with this.
    Ended(Fault),
}

impl Put {
    /// The error of a message that does not wait; `end` ends the session.
    #[cold]
    pub(crate) fn into_error(self, end: impl FnOnce(Fault) -> Lost) -> CallError {
        match self {
            Put::Full | Put::Ask(_) => CallError::Full,
            Put::Value(error) => CallError::Value { text: error.to_string().into() },
            Put::TooLarge(bytes) => CallError::TooLarge { bytes, most: MESSAGE_BYTES_MAX },
            Put::Memory { bytes, text } => CallError::NoMemory { bytes, text },
            Put::Ended(why) => CallError::NotSent(Box::new(end(why))),
        }
    }
}

/// What a message that has to wait waits for.
#[derive(Clone, Copy)]
pub(super) enum Lack {
    /// A slot of the lane.
    Slot = 1,
    /// A buffer.
    Buffer = 2,
    /// A place at the receiver.
    Place = 4,
}

/// What is written behind a head.
pub(crate) trait Content {
    /// Bytes that it will likely take.
    fn bytes_likely(&self) -> usize;

    /// Writes it.
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError>;
}

impl<T: Wire> Content for T {
    #[inline(always)]
    fn bytes_likely(&self) -> usize {
        Wire::bytes_likely(self)
    }

    #[inline(always)]
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        Wire::put(self, out)
    }
}

/// What stands before a payload, in its slot.
#[derive(Clone, Copy)]
pub(crate) struct Extensions {
    /// The microseconds until the deadline.
    pub(crate) deadline: Option<u64>,
    /// The number of the request, for which room was granted.
    pub(crate) granted: Option<u64>,
}

impl Extensions {
    pub(crate) const NONE: Extensions = Extensions { deadline: None, granted: None };

    /// Writes them, in the order of their flags: the head with those, and the bytes written.
    #[inline(always)]
    fn write(self, head: Words, placed: Option<Placed>, claim: &mut Claim<'_>) -> (Words, usize) {
        let (mut head, mut at) = (head, 0);
        let mut write = |word: Option<u64>, flag| {
            if let Some(word) = word {
                claim.write(at, &word.to_le_bytes());
                head = Head::flagged(head, flag);
                at += EXTENSION_BYTES;
            }
        };
        write(self.deadline, Flags::DEADLINE);
        write(placed.map(Placed::as_u64), Flags::PLACED);
        write(self.granted, Flags::GRANTED);
        (head, at)
    }

    #[inline(always)]
    fn bytes(self) -> usize {
        (usize::from(self.deadline.is_some()) + usize::from(self.granted.is_some()))
            * EXTENSION_BYTES
    }
}

/// How messages of a kind are carried.
#[derive(Clone, Copy)]
struct Domain {
    /// Slots that are left to others.
    keep: u32,
    usage: Use,
    /// Whether longer ones ask for room first where that is due.
    asks: bool,
}

const REQUESTS: Domain = Domain { keep: CONTROL_SLOTS as u32, usage: Use::Requests, asks: true };
const GRANTED: Domain = Domain { asks: false, ..REQUESTS };
const ANSWERS: Domain = Domain { keep: 0, usage: Use::Answers, asks: false };

/// Bytes that are written as they are: what is owed, a failure's text.
struct Bytes<'a>(&'a [u8]);

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
fn encoded<T: Content>(value: &T) -> Result<Vec<u8>, Put> {
    let mut out = Output::own(MESSAGE_BYTES_MAX);
    value.put(&mut out).map_err(bad_value)?;
    if out.fits() { Ok(out.into_bytes()) } else { Err(Put::TooLarge(out.len())) }
}

#[cold]
fn bad_value(error: WireError) -> Put {
    Put::Value(Box::new(error))
}

#[cold]
fn bad_length(said: usize, is: usize) -> Put {
    let text = format!("it took {said} bytes when it was counted and {is} when it was written");
    bad_value(WireError::Serde { text })
}

#[cold]
fn lost_progress(now: u64, known: u64, out: u64) -> Put {
    Put::Ended(broken(&format_args!("its progress went from {known} to {now} of {out} slots")))
}

/// What a segment that could not be sent means for the message that needs it.
pub(super) fn growth_error(fault: BellFault) -> Put {
    match fault {
        BellFault::System { error: Errno::AGAIN | Errno::NOBUFS, .. } => Put::Full,
        BellFault::System { .. } => Put::Ended(Box::new(Why::Died)),
        fault => Put::Ended(broken(&fault)),
    }
}

/// Bytes that a value takes in a message.
fn counted<T: Content>(value: &T) -> Result<usize, Put> {
    let mut out = Output::counted();
    value.put(&mut out).map_err(bad_value)?;
    Ok(out.len())
}

/// The words of a head whose length is not known yet.
type Words = [u64; 3];

/// The words with a length.
#[inline(always)]
fn with_len(words: Words, len: usize) -> Words {
    [words[0] | (len as u64) << 32, words[1], words[2]]
}

/// A frame that is owed: the words of its head, without a length, and its payload.
pub(super) struct Owed {
    head: Words,
    payload: Vec<u8>,
}

impl Session {
    /// Sends a request, in order behind those before it.
    #[inline(always)]
    pub(crate) fn request<T: Content>(
        &self,
        head: Words,
        extensions: Extensions,
        value: &T,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        if !self.flow.may_go() || self.barred.get() {
            return self.request_carefully(head, extensions, value, stamps);
        }
        self.put(head, extensions, value, REQUESTS, stamps)?;
        self.flow.went();
        Ok(())
    }

    /// The same where it has to be found out whether it may go.
    #[cold]
    #[inline(never)]
    fn request_carefully<T: Content>(
        &self,
        head: Words,
        extensions: Extensions,
        value: &T,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        if self.barred.get() {
            return Err(self.not_now());
        }
        self.look_ahead()?;
        if !self.flow.may_go() {
            return Err(self.lacks(Lack::Place));
        }
        self.put(head, extensions, value, REQUESTS, stamps)?;
        self.flow.went();
        Ok(())
    }

    /// Sends a request for which room was granted.
    pub(crate) fn request_granted<T: Content>(
        &self,
        head: Words,
        extensions: Extensions,
        value: &T,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        if self.barred.get() {
            return Err(self.not_now());
        }
        self.put(head, extensions, value, GRANTED, stamps)?;
        extensions.granted.into_iter().for_each(|number| self.transferred(number));
        Ok(())
    }

    #[cold]
    pub(super) fn not_now(&self) -> Put {
        match self.ended() {
            Some(lost) => Put::Ended(Box::new(lost.why.clone())),
            None => self.lacks(Lack::Slot),
        }
    }

    /// Notes what there was none of.
    #[cold]
    pub(super) fn lacks(&self, what: Lack) -> Put {
        self.lacking.set(self.lacking.get() | what as u8);
        Put::Full
    }

    /// Writes a message: short, into its slot; longer, into a buffer.
    #[inline(always)]
    fn put<T: Content>(
        &self,
        head: Words,
        extensions: Extensions,
        value: &T,
        domain: Domain,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        let likely = value.bytes_likely();
        if extensions.bytes() + likely > SHORT_BYTES {
            return self.put_longer(head, extensions, value, likely, domain, stamps);
        }
        let mut claim = self.slot(domain.keep)?;
        stamps.at(Point::Claimed);
        let (head, at) = extensions.write(head, None, &mut claim);
        let mut out = Output::lane(claim, at);
        value.put(&mut out).map_err(bad_value)?;
        if !out.fits() {
            let len = out.len() - at;
            drop(out);
            return self.put_longer(head, extensions, value, len, domain, stamps);
        }
        let len = out.len();
        stamps.at(Point::Marshalled);
        out.commit(stamps.on_head(with_len(head, len)), len);
        stamps.at(Point::Published);
        self.unflushed.set(self.unflushed.get() + 1);
        Ok(())
    }

    /// Writes a message that does not fit a slot: into consecutive ones if it is not long and nothing
    /// is refused, else into a buffer.
    #[inline(never)]
    fn put_longer<T: Content>(
        &self,
        head: Words,
        extensions: Extensions,
        value: &T,
        likely: usize,
        domain: Domain,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        let (mut most, mut in_ring) = (MESSAGE_BYTES_MAX, true);
        if domain.asks {
            let (may_go, calm) = self.may_go_longer()?;
            (most, in_ring) = (if may_go { MEDIUM_BYTES_MAX } else { SHORT_BYTES }, calm);
        }
        let mut len = likely;
        if len > most {
            // What is only likely too long is not asked for.
            len = counted(value)?;
            match len {
                _ if len > MESSAGE_BYTES_MAX => return Err(Put::TooLarge(len)),
                _ if len > most => return Err(Put::Ask(len)),
                _ => {}
            }
        }
        if in_ring && extensions.bytes() + len <= IN_RING_BYTES_MAX {
            match self.put_in_ring(head, extensions, value, len, domain, stamps) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(exact)) => len = exact,
                // An answer may find a slot where it finds no row of them.
                Err(Put::Full) if domain.usage == Use::Answers => {}
                Err(put) => return Err(put),
            }
        }
        match self.put_placed(head, extensions, value, len, domain, stamps)? {
            Ok(()) => Ok(()),
            Err(exact) if exact > most => {
                self.put_longer(head, extensions, value, exact, domain, stamps)
            }
            Err(exact) => match self.put_placed(head, extensions, value, exact, domain, stamps)? {
                Ok(()) => Ok(()),
                Err(again) => Err(bad_length(exact, again)),
            },
        }
    }

    /// Writes a message into consecutive slots. Gives its length if it is longer than `len`.
    #[inline(always)]
    fn put_in_ring<T: Content>(
        &self,
        head: Words,
        extensions: Extensions,
        value: &T,
        len: usize,
        domain: Domain,
        stamps: &mut impl Stamps,
    ) -> Result<Result<(), usize>, Put> {
        let span = span_of(extensions.bytes() + len);
        let claim = self.carrier.lanes.claim(span, domain.keep);
        let mut claim = match claim {
            Ok(claim) => claim,
            Err(refused) => self.slots_slowly(span, domain.keep, refused)?,
        };
        stamps.at(Point::Claimed);
        let (head, at) = extensions.write(head, None, &mut claim);
        let mut out = Output::lane(claim, at);
        value.put(&mut out).map_err(bad_value)?;
        if !out.fits() {
            return Ok(Err(out.len() - at));
        }
        let len = out.len();
        stamps.at(Point::Marshalled);
        out.commit(stamps.on_head(with_len(head, len)), len);
        stamps.at(Point::Published);
        self.unflushed.set(self.unflushed.get() + 1);
        Ok(Ok(()))
    }

    /// Writes a message into a buffer, of which its frame tells. Gives its length if it is longer
    /// than `len`.
    #[inline(always)]
    fn put_placed<T: Content>(
        &self,
        head: Words,
        extensions: Extensions,
        value: &T,
        len: usize,
        domain: Domain,
        stamps: &mut impl Stamps,
    ) -> Result<Result<(), usize>, Put> {
        let number = self.slab_for(domain.usage, len)?;
        let slabs = self.pool.slabs();
        let own = slabs.get(number).and_then(Option::as_ref);
        let returned = || self.carrier.lanes.peer_returned(number);
        let Some((own, buffer)) = own.and_then(|own| Some((own, own.slab.claim(returned)?))) else {
            return Err(self.lacks(Lack::Buffer));
        };
        let mut claim = self.slot(domain.keep)?;
        stamps.at(Point::Claimed);
        let mut out = Output::lent(buffer);
        value.put(&mut out).map_err(bad_value)?;
        if !out.fits() {
            return Ok(Err(out.len()));
        }
        own.touch();
        let len = out.len();
        stamps.at(Point::Marshalled);
        let placed = Placed { slab: number as u16, index: out.lend() as u16, len: len as u32 };
        let (head, bytes) = extensions.write(head, Some(placed), &mut claim);
        claim.commit(stamps.on_head(with_len(head, bytes)), bytes);
        stamps.at(Point::Published);
        self.unflushed.set(self.unflushed.get() + 1);
        Ok(Ok(()))
    }

    /// Claims a slot of our lane.
    #[inline(always)]
    pub(super) fn slot(&self, keep: u32) -> Result<Claim<'_>, Put> {
        match self.carrier.lanes.claim(1, keep) {
            Ok(claim) => Ok(claim),
            Err(refused) => self.slots_slowly(1, keep, refused),
        }
    }

    /// Has the lane grow if it is full too often, and claims slots of it.
    #[cold]
    #[inline(never)]
    fn slots_slowly(&self, span: u32, keep: u32, refused: Refused) -> Result<Claim<'_>, Put> {
        match refused {
            Refused::Full | Refused::Claimed => {
                let refusals = self.refusals.get() + 1;
                self.refusals.set(refusals);
                if refusals < REFUSALS_BEFORE_GROWTH || !self.grow()? {
                    return Err(self.lacks(Lack::Slot));
                }
                self.refusals.set(0);
            }
            Refused::TooLong { span, .. } => {
                if !self.grow()? {
                    return Err(Put::TooLarge(span as usize * SLOT_BYTES));
                }
            }
            Refused::Progress { now, known, out } => return Err(lost_progress(now, known, out)),
        }
        self.carrier.lanes.claim(span, keep).map_err(|_| self.lacks(Lack::Slot))
    }

    /// Writes a frame whose payload lies ready: that of an answer or of control.
    fn put_owed(&self, head: Words, payload: &[u8]) -> Result<(), Put> {
        match Head::may_be_placed(&head) {
            true => self.put(head, Extensions::NONE, &Bytes(payload), ANSWERS, &mut Unsampled),
            false => self.put_bytes(head, payload),
        }
    }

    /// Writes a frame with its payload into consecutive slots.
    fn put_bytes(&self, head: Words, payload: &[u8]) -> Result<(), Put> {
        let span = span_of(payload.len());
        let claim = self.carrier.lanes.claim(span, 0);
        let mut claim = claim.or_else(|refused| self.slots_slowly(span, 0, refused))?;
        claim.write(0, payload);
        claim.commit(with_len(head, payload.len()), payload.len());
        self.unflushed.set(self.unflushed.get() + 1);
        Ok(())
    }

    /// Goes on in a larger segment. False where lanes do not grow further; Full where there is no
    /// room even to say so.
    fn grow(&self) -> Result<bool, Put> {
        let lanes = &self.carrier.lanes;
        let Some((generation, bytes)) = lanes.next_growth() else { return Ok(false) };
        // Claimed first: once the segment has been sent it must be announced.
        let Ok(claim) = lanes.claim(1, 0) else { return Err(self.lacks(Lack::Slot)) };
        let segment = Segment::create("upbeat-lane", bytes, Writers::Owner)
            .and_then(Segment::reserve)
            .map_err(|error| Put::Ended(broken(&error)))?;
        if let Err(error) = self.carrier.bell.send_segment(u32::from(generation), &segment) {
            return Err(growth_error(error));
        }
        claim.commit(Head::switch(u32::from(generation)).words(), 0);
        lanes.grow_writer(segment.into_region());
        self.unflushed.set(self.unflushed.get() + 1);
        Ok(true)
    }

    /// Answers a call of the peer.
    #[inline(always)]
    pub(crate) fn reply<T: Content>(&self, call: CallNumber, value: &T, stamps: &mut impl Stamps) {
        let head = Head::reply(call, 0).with_manner(stamps.manner()).words();
        if self.barred.get() {
            return self.reply_slowly(call, value, Put::Full);
        }
        let none = Extensions::NONE;
        if let Err(put) = self.put(head, none, value, ANSWERS, &mut Answering(stamps)) {
            self.reply_slowly(call, value, put);
        }
    }

    #[cold]
    #[inline(never)]
    fn reply_slowly<T: Content>(&self, call: CallNumber, value: &T, put: Put) {
        let put = match put {
            Put::Full => match encoded(value) {
                Ok(payload) if self.owed_bytes.get() + payload.len() > OWED_BYTES_MAX => {
                    return self.fail(call, FailCode::Overloaded, TOO_MUCH_OWED);
                }
                Ok(payload) => return self.owe(Head::reply(call, 0).words(), payload),
                Err(put) => put,
            },
            put => put,
        };
        match put {
            Put::Value(error) => self.fail(call, FailCode::BadResult, &error.to_string()),
            Put::TooLarge(bytes) => {
                let text = format!("{bytes} bytes; at most {MESSAGE_BYTES_MAX} are carried");
                self.fail(call, FailCode::TooLarge, &text);
            }
            Put::Memory { bytes, text } => {
                let text = format!("no memory for {bytes} bytes of the result: {text}");
                self.fail(call, FailCode::Overloaded, &text);
            }
            Put::Ended(fault) => self.give_up(fault),
            Put::Full | Put::Ask(_) => {}
        }
    }

    /// Tells the caller that a call has no result.
    pub(crate) fn fail(&self, call: CallNumber, code: FailCode, text: &str) {
        let mut payload = Vec::new();
        Failure::new(code, text).write(&mut payload);
        self.send_surely(Head::failed(call, 0), payload);
    }

    /// Sends a frame that may not be refused.
    pub(crate) fn send_surely(&self, head: Head, payload: Vec<u8>) {
        let head = head.words();
        if !self.barred.get() && self.put_owed(head, &payload).is_ok() {
            return;
        }
        self.owe(head, payload);
    }

    fn owe(&self, head: Words, payload: Vec<u8>) {
        if self.ended().is_some() {
            return;
        }
        let mut owed = self.owed.borrow_mut();
        if owed.len() + self.serving.borrow().len() >= 2 * CALLS_PER_SESSION_MAX {
            let (index, max) = (owed.len() as u32, CALLS_PER_SESSION_MAX as u32);
            return self.give_up(misbehaved(Rule::TooManyCalls { index, max }));
        }
        self.owed_bytes.set(self.owed_bytes.get() + payload.len());
        owed.push_back(Owed { head, payload });
        drop(owed);
        self.barred.set(true);
        self.press();
    }

    /// Has the session end for this reason where it is looked after: both sides see the end of the
    /// socket.
    #[cold]
    fn give_up(&self, fault: Fault) {
        let first = self.fault.take().unwrap_or(fault);
        self.fault.set(Some(first));
        self.carrier.bell.close();
    }

    /// Wakes this one when there may be room.
    pub(crate) fn wait_for_room(&self, waker: &Waker) {
        let mut room = self.room.borrow_mut();
        if !room.iter().any(|other| other.will_wake(waker)) {
            room.push(waker.clone());
        }
        drop(room);
        self.press();
    }

    fn press(&self) {
        if !self.pressed.replace(true) {
            self.carrier.lanes.set_wants_room(true);
        }
    }

    /// Whether something is owed or somebody waits for room.
    #[inline(always)]
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.get()
    }

    /// Writes what is owed and wakes who waits, if the peer has made room: a good part, so that not
    /// each message waits and is woken, or any, for who has nothing else to do.
    pub(crate) fn settle(&self, part: bool) {
        while let Some(owed) = self.next_owed() {
            if let Err(put) = self.put_owed(owed.head, &owed.payload) {
                if let Put::Ended(fault) = put {
                    self.give_up(fault);
                }
                return self.owed.borrow_mut().push_front(owed);
            }
            self.owed_bytes.set(self.owed_bytes.get() - owed.payload.len());
        }
        self.barred.set(self.ended().is_some());
        if self.has_room(part) {
            self.lacking.set(0);
            self.room.take().into_iter().for_each(Waker::wake);
            self.pressed.set(false);
            self.carrier.lanes.set_wants_room(false);
        }
    }

    /// Wakes everybody who waits to send.
    pub(super) fn wake_senders(&self, mut wake: impl FnMut(Waiter)) {
        self.room.take().into_iter().for_each(|waker| wake(Waiter::Waker(waker)));
        self.wake_asking(wake);
    }

    fn next_owed(&self) -> Option<Owed> {
        self.owed.borrow_mut().pop_front()
    }

    /// Whether any of what is lacking may be there now.
    fn has_room(&self, part: bool) -> bool {
        let lacks = |what: Lack| self.lacking.get() & what as u8 != 0;
        let lanes = &self.carrier.lanes;
        lacks(Lack::Slot) && self.has_slots()
            || lacks(Lack::Buffer) && self.pool.has_more(part, lanes)
            || lacks(Lack::Place) && self.places_came(part)
            || self.room.borrow().is_empty()
    }

    /// Whether a good part of the lane is free.
    fn has_slots(&self) -> bool {
        let lanes = &self.carrier.lanes;
        let keep = CONTROL_SLOTS as u32;
        let enough = (lanes.writer().slots() / 4).clamp(1, lanes.writer().longest(keep));
        match lanes.claim(enough, keep) {
            // A fault is told to the one that tries again.
            Ok(_) | Err(Refused::Progress { .. } | Refused::TooLong { .. }) => true,
            Err(Refused::Full | Refused::Claimed) => false,
        }
    }
}
