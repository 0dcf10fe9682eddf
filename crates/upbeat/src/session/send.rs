//! Writing: requests, answers, control; what is done when there is no room.
//!
//! A request that finds no room is not sent, and its sender waits. An answer or a control frame
//! may not be refused: it uses the slots kept for its kind, and where those are taken too it is
//! owed, and written before anything else as soon as there is room. Owed answers are bounded by the
//! calls that the peer may have open.

use super::{Fault, Session, broken, misbehaved};
use crate::error::Why;
use crate::sample::{Answering, Stamps};
use crate::wire::{Output, Wire, WireError};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::task::Waker;
use upbeat_core::bill::way::Point;
use upbeat_core::fault::Rule;
use upbeat_core::frame::{CallNumber, FailCode, Failure, Head};
use upbeat_core::limits::{
    CALLS_PER_SESSION_MAX, CONTROL_SLOTS, MESSAGE_BYTES_MAX, ONEWAYS_UNFINISHED_MAX,
};
use upbeat_memory::lane::Lanes;
use upbeat_memory::ring::{Refused, span_of};
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
    /// The value cannot be carried.
    Value(Box<WireError>),
    /// It is longer than messages may be.
    TooLarge(usize),
    /// The session has ended, or ends with this.
    Ended(Fault),
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

/// A value behind an extension of its frame.
pub(crate) struct Prefixed<'a, T> {
    /// The extension.
    pub(crate) word: u64,
    /// The value.
    pub(crate) value: &'a T,
}

impl<T: Wire> Content for Prefixed<'_, T> {
    fn bytes_likely(&self) -> usize {
        8 + self.value.bytes_likely()
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        Wire::put(&self.word, out)?;
        Wire::put(self.value, out)
    }
}

/// The payload of a message, written apart from any lane.
fn encoded<T: Content>(value: &T) -> Result<Vec<u8>, Put> {
    let mut out = Output::buffer(MESSAGE_BYTES_MAX);
    value.put(&mut out).map_err(bad_value)?;
    if out.fits() { Ok(out.into_bytes()) } else { Err(Put::TooLarge(out.len())) }
}

#[cold]
fn bad_value(error: WireError) -> Put {
    Put::Value(Box::new(error))
}

#[cold]
fn lost_progress(now: u64, known: u64, out: u64) -> Put {
    Put::Ended(broken(&format_args!("its progress went from {known} to {now} of {out} slots")))
}

/// What a segment that could not be sent means for the message that needs it.
fn growth_error(fault: BellFault) -> Put {
    match fault {
        BellFault::System { error: Errno::AGAIN | Errno::NOBUFS, .. } => Put::Full,
        BellFault::System { .. } => Put::Ended(Box::new(Why::Died)),
        fault => Put::Ended(broken(&fault)),
    }
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

/// What is known of one-way messages in both directions.
#[derive(Default)]
pub(super) struct Oneways {
    sent: Cell<u64>,
    known_finished: Cell<u64>,
    finished: Cell<u64>,
    published: Cell<u64>,
    /// Whether the last one was refused because the peer holds so many.
    refused: Cell<bool>,
    /// Who waits until the peer has finished some.
    waiting: RefCell<Vec<Waker>>,
}

impl Oneways {
    #[inline(always)]
    pub(super) fn finished(&self) {
        self.finished.set(self.finished.get() + 1);
    }

    #[inline(always)]
    pub(super) fn publish_finished(&self, lanes: &Lanes) {
        let finished = self.finished.get();
        if finished != self.published.replace(finished) {
            lanes.publish_finished(finished);
        }
    }

    /// Whether one more may be sent: the peer holds so many unfinished ones at most.
    #[inline(always)]
    fn may_send(&self, lanes: &Lanes) -> Result<bool, Fault> {
        const MOST: u64 = ONEWAYS_UNFINISHED_MAX as u64;
        let sent = self.sent.get();
        if sent - self.known_finished.get() < MOST {
            return Ok(true);
        }
        let now = lanes.peer_finished();
        if now < self.known_finished.get() || now > sent {
            return Err(broken(&format_args!(
                "it says that {now} one-way messages are finished where {sent} were sent"
            )));
        }
        self.known_finished.set(now);
        Ok(sent - now < MOST)
    }
}

impl Session {
    /// Sends a request, in order behind those before it.
    #[inline(always)]
    pub(crate) fn request<T: Content>(
        &self,
        head: Words,
        value: &T,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        if self.barred.get() {
            return Err(self.not_now());
        }
        self.put(head, value, CONTROL_SLOTS as u32, stamps)
    }

    /// Sends a one-way message.
    #[inline(always)]
    pub(crate) fn oneway<T: Content>(
        &self,
        method: u16,
        value: &T,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        if !self.oneways.may_send(&self.carrier.lanes).map_err(Put::Ended)? {
            self.oneways.refused.set(true);
            return Err(Put::Full);
        }
        stamps.at(Point::Opened);
        let manner = stamps.sample().map(|sample| sample.manner);
        let words = Head::oneway(method, 0).with_manner(manner).words();
        self.request(stamps.on_oneway(words), value, stamps)?;
        self.oneways.sent.set(self.oneways.sent.get() + 1);
        Ok(())
    }

    #[cold]
    fn not_now(&self) -> Put {
        match self.ended() {
            Some(lost) => Put::Ended(Box::new(lost.why.clone())),
            None => Put::Full,
        }
    }

    /// Writes a frame where there is room for it.
    #[inline(always)]
    fn put<T: Content>(
        &self,
        head: Words,
        value: &T,
        keep: u32,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        let claim = match self.carrier.lanes.claim(span_of(value.bytes_likely()), keep) {
            Ok(claim) => claim,
            Err(refused) => {
                self.put_slowly(head, value, keep, Some(refused))?;
                stamps.at(Point::Published);
                return Ok(());
            }
        };
        stamps.at(Point::Claimed);
        let mut out = Output::lane(claim);
        value.put(&mut out).map_err(bad_value)?;
        if !out.fits() {
            drop(out);
            self.put_slowly(head, value, keep, None)?;
            stamps.at(Point::Published);
            return Ok(());
        }
        let len = out.len();
        stamps.at(Point::Marshalled);
        out.commit(stamps.on_head(with_len(head, len)), len);
        stamps.at(Point::Published);
        self.unflushed.set(self.unflushed.get() + 1);
        Ok(())
    }

    /// Finds out how long the message is, and makes room for it or says why there is none.
    #[cold]
    #[inline(never)]
    fn put_slowly<T: Content>(
        &self,
        head: Words,
        value: &T,
        keep: u32,
        refused: Option<Refused>,
    ) -> Result<(), Put> {
        if let Some(Refused::Progress { now, known, out }) = refused {
            return Err(lost_progress(now, known, out));
        }
        self.put_bytes(head, &encoded(value)?, keep)
    }

    /// Writes a frame whose payload lies ready.
    fn put_bytes(&self, head: Words, payload: &[u8], keep: u32) -> Result<(), Put> {
        loop {
            match self.carrier.lanes.claim(span_of(payload.len()), keep) {
                Ok(mut claim) => {
                    claim.write(0, payload);
                    let len = payload.len();
                    claim.commit(with_len(head, len), len);
                    self.unflushed.set(self.unflushed.get() + 1);
                    return Ok(());
                }
                Err(Refused::Full | Refused::Claimed) => {
                    let refusals = self.refusals.get() + 1;
                    self.refusals.set(refusals);
                    if refusals < REFUSALS_BEFORE_GROWTH || !self.grow()? {
                        return Err(Put::Full);
                    }
                    self.refusals.set(0);
                }
                Err(Refused::TooLong { .. }) => {
                    if !self.grow()? {
                        return Err(Put::TooLarge(payload.len()));
                    }
                }
                Err(Refused::Progress { now, known, out }) => {
                    return Err(lost_progress(now, known, out));
                }
            }
        }
    }

    /// Goes on in a larger segment. False where lanes do not grow further; Full where there is no
    /// room even to say so.
    fn grow(&self) -> Result<bool, Put> {
        let lanes = &self.carrier.lanes;
        let Some((generation, bytes)) = lanes.next_growth() else { return Ok(false) };
        // Claimed first: once the segment has been sent it must be announced.
        let Ok(claim) = lanes.claim(1, 0) else { return Err(Put::Full) };
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
        if let Err(put) = self.put(head, value, 0, &mut Answering(stamps)) {
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
            Put::Ended(fault) => self.give_up(fault),
            Put::Full => {}
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
        if !self.barred.get() && self.put_bytes(head, &payload, 0).is_ok() {
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
        let for_oneways = self.oneways.refused.take();
        let mut room = if for_oneways { &self.oneways.waiting } else { &self.room }.borrow_mut();
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

    /// Writes what is owed and wakes who waits, if the peer has made room.
    pub(crate) fn settle(&self) {
        while let Some(owed) = self.next_owed() {
            if let Err(put) = self.put_bytes(owed.head, &owed.payload, 0) {
                if let Put::Ended(fault) = put {
                    self.give_up(fault);
                }
                return self.owed.borrow_mut().push_front(owed);
            }
            self.owed_bytes.set(self.owed_bytes.get() - owed.payload.len());
        }
        self.barred.set(self.ended().is_some());
        let (room, oneways) = (&self.room, &self.oneways.waiting);
        // Waiters are requests: they need room beyond the slots that are kept.
        if !room.borrow().is_empty() && self.has_room() {
            room.take().into_iter().for_each(Waker::wake);
        }
        // A fault is told to the one that tries again.
        let may_send = || !matches!(self.oneways.may_send(&self.carrier.lanes), Ok(false));
        if !oneways.borrow().is_empty() && may_send() {
            oneways.take().into_iter().for_each(Waker::wake);
        }
        if room.borrow().is_empty() && oneways.borrow().is_empty() {
            self.pressed.set(false);
            self.carrier.lanes.set_wants_room(false);
        }
    }

    /// Wakes everybody who waits to send.
    pub(super) fn wake_senders(&self, mut wake: impl FnMut(Waker)) {
        self.room.take().into_iter().for_each(&mut wake);
        self.oneways.waiting.take().into_iter().for_each(&mut wake);
    }

    fn next_owed(&self) -> Option<Owed> {
        self.owed.borrow_mut().pop_front()
    }

    /// Whether a good part of the lane is free, or whatever the waiters wait for.
    fn has_room(&self) -> bool {
        let lanes = &self.carrier.lanes;
        let keep = CONTROL_SLOTS as u32;
        let enough = (lanes.writer().slots() / 4).clamp(1, lanes.writer().longest(keep));
        match lanes.claim(enough, keep) {
            Ok(_) | Err(Refused::Progress { .. } | Refused::TooLong { .. }) => true,
            Err(Refused::Full | Refused::Claimed) => false,
        }
    }
}
