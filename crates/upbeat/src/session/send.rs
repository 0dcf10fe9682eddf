//! Sending: requests, replies and control frames, and what happens when there is no room.
//!
//! A request that finds no room is not sent, and its sender waits. A reply or a control frame may not be refused: it
//! uses the slots reserved for its kind, and waits in a queue if those are taken too. Control frames and short
//! replies are written before anything else as soon as there is room; a longer reply waits for a buffer, and other
//! frames pass it. Queued replies are bounded in number by the calls that the peer may have open, and in bytes by the
//! node's budget for them and the session's share. A session with many queued replies accepts no requests, so a peer
//! that does not read cannot make this side run handlers.

use super::front::{Extensions, Front, Header, Words};
use super::kinds::Frame;
use super::payload::{Behind, Bytes};
use super::send_error::{SendError, bad_value};
use super::write::{ANSWERS, GRANTED, PENDING, REQUESTS, counted, encoded};
use super::{Fault, Session, Waiter, misbehaved};
use crate::sample::{ReplyStamper, Stamps, Unsampled};
use crate::wake::{ForeignWaker, HoldWakers};
use crate::wire::{AnyContent, Built, Content, Payload};
use std::task::Waker;
use upbeat_core::context::Context;
use upbeat_core::fault::Rule;
use upbeat_core::frame::{CallNumber, FailCode, Failure, Flags, Head};
use upbeat_core::limits::{CONTROL_SLOTS, MESSAGE_BYTES_MAX};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::session::SendOutcome;
use upbeat_memory::ring::Refused;
use upbeat_transport::transfers;

const TOO_MUCH_PENDING: &str = "unread replies to this peer use up the budget for queued replies, \
                                of the session or of the node";

impl Session {
    /// Sends a request behind those before it.
    #[inline(always)]
    pub(crate) fn request<T: Content>(
        &self,
        head: Words,
        front: impl Front,
        value: &T,
        stamps: &mut impl Stamps,
    ) -> Result<(), SendError> {
        let extensions = front.extensions();
        let is_rare = extensions.granted.is_some() || front.context().is_some();
        if is_rare || !self.core.outbound().has_credit() {
            // The words are passed one by one, because an array would go through memory on the common path too.
            let [first, second, third] = head;
            return self.request_carefully((first, second, third), front, value, stamps);
        }
        // This lets the compiler leave out the code that writes the number of a grant.
        let extensions = Extensions { granted: None, ..extensions };
        self.put(Header { head, extensions }, value, REQUESTS, stamps)?;
        self.core.outbound().went();
        Ok(())
    }

    /// Sends a request that has a context or for which the peer granted room, or asks the session's flow control
    /// whether the request may go.
    #[cold]
    #[inline(never)]
    fn request_carefully<T: Content>(
        &self,
        (first, second, third): (u64, u64, u64),
        front: impl Front,
        value: &T,
        stamps: &mut impl Stamps,
    ) -> Result<(), SendError> {
        let header = Header { head: [first, second, third], extensions: front.extensions() };
        let value = AnyContent::of(value);
        match front.context() {
            None => self.request_any(header, value, stamps),
            Some(context) => self.request_behind(context, header, value, stamps),
        }
    }

    /// Sends a request with a context.
    fn request_behind(
        &self,
        context: &Context,
        Header { head, extensions }: Header,
        AnyContent { payload, in_place }: AnyContent<'_>,
        stamps: &mut dyn Stamps,
    ) -> Result<(), SendError> {
        let block = context.as_bytes();
        payload.built().map_or(Ok(()), Built::detach).map_err(bad_value)?;
        let payload = &Behind { block, payload };
        let extensions = Extensions { context: Some(block.len() as u64), ..extensions };
        self.request_any(Header { head, extensions }, AnyContent { payload, in_place }, stamps)
    }

    fn request_any(
        &self,
        front: Header,
        value: AnyContent<'_>,
        stamps: &mut dyn Stamps,
    ) -> Result<(), SendError> {
        let Some(number) = front.extensions.granted else {
            self.may_go_carefully()?;
            self.put_any(front, value, REQUESTS, stamps)?;
            self.core.outbound().record_sent_slowly();
            return Ok(());
        };
        if !self.core.outbound().admits_granted() {
            return Err(self.ended_or_full());
        }
        let bytes = counted(&front.head, value.payload)?;
        if bytes > MESSAGE_BYTES_MAX {
            return Err(SendError::TooLarge(bytes));
        }
        if bytes > self.core.outbound().reserved(number) {
            // The message has another context than when it asked, or its value has grown.
            return Err(SendError::Ask(bytes));
        }
        self.put_any(front, value, GRANTED, stamps)?;
        self.transferred(number);
        Ok(())
    }

    /// Writes a frame whose payload is encoded already: a reply or a control frame.
    fn put_ready(&self, head: Words, payload: &[u8]) -> Result<(), SendError> {
        match Head::may_be_placed(&head) {
            true => {
                transfers::moved(payload.len());
                let payload = Bytes(payload);
                let payload = AnyContent::of(&payload);
                self.put_any(Header::plain(head), payload, PENDING, &mut Unsampled)
            }
            false => self.put_bytes(head, payload),
        }
    }

    /// Replies to a call of the peer.
    #[inline(always)]
    pub(crate) fn reply<T: Content>(&self, call: CallNumber, value: &T, stamps: &mut impl Stamps) {
        let head = Head::reply(call, 0).with_manner(stamps.manner()).words();
        let head = if T::TOLERANT { self.in_form(call, head) } else { head };
        let sent = match self.core.outbound().is_barred() {
            true => Err(SendError::Full),
            false => self.put(Header::plain(head), value, ANSWERS, &mut ReplyStamper(stamps)),
        };
        if let Err(error) = sent {
            self.reply_slowly(call, value, error);
        }
    }

    /// Replies to a call with a value behind a pointer, for tasks, whose calls take far longer than this dynamic
    /// dispatch.
    pub(crate) fn reply_any(
        &self,
        call: CallNumber,
        value: AnyContent<'_>,
        stamps: &mut dyn Stamps,
    ) {
        let head = Head::reply(call, 0).with_manner(stamps.manner()).words();
        let is_tolerant = value.payload.is_tolerant();
        let front = Header::plain(if is_tolerant { self.in_form(call, head) } else { head });
        if self.core.outbound().is_barred() {
            return self.reply_later(call, value.payload, SendError::Full);
        }
        if let Err(put) = self.put_any(front, value, ANSWERS, &mut ReplyStamper(stamps)) {
            self.reply_later(call, value.payload, put);
        }
    }

    /// Returns the head of a reply in the form of its call.
    fn in_form(&self, call: CallNumber, head: Words) -> Words {
        match self.answers.tolerant.has(call) {
            true if !mutated(Mutant::FormForgotten) => Head::flagged(head, Flags::TOLERANT),
            true => head,
            false => head,
        }
    }

    #[cold]
    #[inline(never)]
    fn reply_slowly<T: Content>(&self, call: CallNumber, value: &T, put: SendError) {
        self.reply_later(call, value, put);
    }

    #[cold]
    fn reply_later(&self, call: CallNumber, value: &dyn Payload, put: SendError) {
        let refused = || {
            if !mutated(Mutant::OverloadUntold) {
                self.fail(call, FailCode::Overloaded, TOO_MUCH_PENDING);
            }
        };
        let put = match put {
            SendError::Full if !self.core.admits_reply(value.bytes_likely()) => return refused(),
            SendError::Full => {
                let head = self.in_form(call, Head::reply(call, 0).words());
                match encoded(&head, value) {
                    Ok(payload) if !self.core.admits_reply(payload.len()) => return refused(),
                    Ok(payload) => return self.queue_reply(head, payload),
                    Err(put) => put,
                }
            }
            put => put,
        };
        self.has_no_result(call, put);
    }

    /// Tells the caller why a call's result cannot be sent.
    fn has_no_result(&self, call: CallNumber, put: SendError) {
        match put {
            SendError::Value(error) => self.fail(call, FailCode::BadResult, &error.to_string()),
            SendError::TooLarge(bytes) => {
                let text = format!("{bytes} bytes; at most {MESSAGE_BYTES_MAX} are carried");
                self.fail(call, FailCode::TooLarge, &text);
            }
            SendError::Memory(none) => {
                let (bytes, text) = (none.bytes, none.text);
                let text = format!("no memory for {bytes} bytes of the result: {text}");
                self.fail(call, FailCode::Overloaded, &text);
            }
            SendError::Ended(fault) => self.give_up(fault),
            SendError::Full | SendError::Ask(_) | SendError::Numbers => {}
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
        if !self.core.outbound().is_barred() && self.put_ready(head, &payload).is_ok() {
            return;
        }
        self.waits(self.core.queue_frame(Frame { head, payload }));
    }

    /// Queues a reply that finds no room. While many replies are queued, requests of the session are not accepted.
    fn queue_reply(&self, head: Words, payload: Vec<u8>) {
        let bytes = payload.len();
        self.waits(self.core.queue_reply(Frame { head, payload }, bytes));
    }

    /// Handles the result of queueing a frame: it waits, or the peer has broken a rule.
    fn waits(&self, queued: Result<bool, Rule>) {
        match queued {
            Ok(true) => self.press(),
            Ok(false) => {}
            Err(rule) => self.give_up(misbehaved(rule)),
        }
    }

    /// Returns whether a reply of this size queues behind others that wait for buffers.
    #[inline]
    pub(super) fn goes_behind(&self, bytes: usize) -> bool {
        self.core.goes_behind(bytes)
    }

    /// Ends the session for this reason: both sides see the end of the socket, and the owner takes the reason.
    #[cold]
    fn give_up(&self, fault: Fault) {
        let first = self.ending.fault.take().unwrap_or(fault);
        self.ending.fault.set(Some(first));
        self.carrier.close();
    }

    /// Stores a waker that is woken when there may be room.
    pub(crate) fn wait_for_room(&self, waker: &Waker) {
        self.core.outbound().wait_for_room(&waker.into(), |other| other.will_wake(waker));
        self.press();
    }

    pub(super) fn press(&self) {
        self.pressed.set(true);
        if !self.carrier.writer().wants_room() {
            self.carrier.writer().set_wants_room(true);
        }
    }

    /// Returns whether frames or replies wait in queues, or a sender waits.
    #[inline(always)]
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.get()
    }

    /// Writes queued frames and replies and wakes waiting senders, if the peer has made room. With `part` a good
    /// part of the lane must be free, so that not each message waits and is woken. Without `part`, for an owner
    /// that is idle, any room is enough, and woken senders that have not responded lose their turns. Returns
    /// whether requests of the peer that had to wait for this may be accepted.
    pub(crate) fn settle(&self, part: bool) -> bool {
        if !part {
            self.skip_unresponsive();
        }
        let written = self.write_replies() | self.write_frames();
        let may_accept = written && self.core.may_step();
        if self.has_room(part) {
            self.carrier.was_heard();
            self.pool.clear_missing();
            if !mutated(Mutant::SettledAsleep) {
                self.room_came();
            }
            // The wish for room remains while replies wait for buffers.
            if self.core.classes() == 0 && self.carrier.writer().wants_room() {
                self.carrier.writer().set_wants_room(false);
            }
        }
        self.wake_callers();
        // A woken sender may not respond: the owner keeps polling until it knows.
        let stand = self.core.outbound().line().has_waiters() || self.core.numbers().has_waiters();
        self.pressed.set(stand || self.carrier.writer().wants_room());
        may_accept
    }

    /// Writes the queued replies for which there are buffers. Returns whether there were any.
    fn write_replies(&self) -> bool {
        self.core.write_replies(|reply| match self.put_ready(reply.head, &reply.payload) {
            Ok(()) => SendOutcome::Sent,
            Err(SendError::Full) => SendOutcome::NoRoom,
            Err(put) => {
                self.has_no_result(reply.call(), put);
                SendOutcome::Refused
            }
        })
    }

    /// Writes the queued frames in order, as far as there is room. Returns whether there were replies among them.
    fn write_frames(&self) -> bool {
        self.core.write_frames(|frame| match self.put_ready(frame.head, &frame.payload) {
            Ok(()) => true,
            Err(SendError::Ended(fault)) => {
                self.give_up(fault);
                false
            }
            Err(_) => false,
        })
    }

    /// Wakes all senders that wait.
    pub(super) fn wake_senders(&self, mut wake: impl FnMut(Waiter)) {
        let _hold = HoldWakers::begin();
        let mut wake = |waker: &ForeignWaker| wake(Waiter::Waker(waker.clone()));
        self.core.outbound().wake_all(&mut wake);
        self.core.numbers().wake_all(wake);
    }

    /// Returns whether a resource that was missing may be available now.
    fn has_room(&self, part: bool) -> bool {
        // A sender that waits for the permission of a segment may try again once there is an answer.
        let news = || self.carrier.has_news();
        let has_buffers = || self.pool.has_more(part, self.carrier.writer()) || news();
        let accepted = || self.peer_accepted();
        self.core.outbound().has_room(part, accepted, || self.has_slots() || news(), has_buffers)
    }

    /// Returns whether the slots are free for which waiting requests wait.
    fn has_slots(&self) -> bool {
        let (writer, keep) = (self.carrier.writer(), CONTROL_SLOTS as u32);
        let (slots, longest) = (writer.slots(), writer.longest(keep));
        match writer.claim(self.core.outbound().wanted_slots(slots, longest), keep) {
            // The sender that tries again gets the fault.
            Ok(_) | Err(Refused::Progress { .. } | Refused::TooLong { .. }) => {
                !mutated(Mutant::SlotsUnnoticed)
            }
            Err(Refused::Full | Refused::Claimed) => false,
        }
    }
}
