//! Sending: requests, answers, control; what is done when there is no room.
//!
//! A request that finds no room is not sent, and its sender waits. An answer or a control frame may
//! not be refused: it uses the slots kept for its kind, and where those are taken too it is owed, and
//! written before anything else as soon as there is room. Owed answers are bounded by the calls that
//! the peer may have open.

use super::write::{
    ANSWERS, Bytes, Content, Extensions, Front, GRANTED, Lack, Put, REQUESTS, Words, encoded,
};
use super::{Fault, Session, Waiter, misbehaved};
use crate::sample::{Answering, Stamps, Unsampled};
use std::task::Waker;
use upbeat_core::fault::Rule;
use upbeat_core::frame::{CallNumber, FailCode, Failure, Head};
use upbeat_core::limits::{CALLS_PER_SESSION_MAX, CONTROL_SLOTS, MESSAGE_BYTES_MAX};
use upbeat_memory::ring::Refused;

/// The most bytes of results that are kept for a peer that does not read; a call beyond them fails.
const OWED_BYTES_MAX: usize = 256 << 20;
const TOO_MUCH_OWED: &str = "results that the caller has not read yet take all room there is";

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
        self.put(Front { head, extensions }, value, REQUESTS, stamps)?;
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
        if !self.queue.is_in_turn() {
            return Err(Put::Full);
        }
        if self.look_ahead()? == 0 {
            return Err(self.lacks(Lack::Place));
        }
        self.put(Front { head, extensions }, value, REQUESTS, stamps)?;
        self.went_carefully();
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
        self.put(Front { head, extensions }, value, GRANTED, stamps)?;
        extensions.granted.into_iter().for_each(|number| self.transferred(number));
        Ok(())
    }

    /// Writes a frame whose payload lies ready: that of an answer or of control.
    fn put_owed(&self, head: Words, payload: &[u8]) -> Result<(), Put> {
        match Head::may_be_placed(&head) {
            true => self.put(Front::plain(head), &Bytes(payload), ANSWERS, &mut Unsampled),
            false => self.put_bytes(head, payload),
        }
    }

    /// Answers a call of the peer.
    #[inline(always)]
    pub(crate) fn reply<T: Content>(&self, call: CallNumber, value: &T, stamps: &mut impl Stamps) {
        let head = Head::reply(call, 0).with_manner(stamps.manner()).words();
        if self.barred.get() {
            return self.reply_slowly(call, value, Put::Full);
        }
        if let Err(put) = self.put(Front::plain(head), value, ANSWERS, &mut Answering(stamps)) {
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
            Put::Memory(none) => {
                let (bytes, text) = (none.bytes, none.text);
                let text = format!("no memory for {bytes} bytes of the result: {text}");
                self.fail(call, FailCode::Overloaded, &text);
            }
            Put::Ended(fault) => self.give_up(fault),
            Put::Full | Put::Ask(_) | Put::Numbers => {}
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

    pub(super) fn press(&self) {
        self.pressed.set(true);
        if !self.carrier.lanes.wants_room() {
            self.carrier.lanes.set_wants_room(true);
        }
    }

    /// Whether something is owed or a sender waits.
    #[inline(always)]
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.get()
    }

    /// Writes what is owed and wakes who waits, if the peer has made room: a good part, so that not
    /// each message waits and is woken, or any, for an owner that has nothing else to do. Then senders
    /// that were woken and have not responded lose their turns as well.
    pub(crate) fn settle(&self, part: bool) {
        if !part {
            self.pass_over();
        }
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
            self.pool.lacks_none();
            self.room.take().into_iter().for_each(Waker::wake);
            self.wake_first();
            self.room_came();
            if self.carrier.lanes.wants_room() {
                self.carrier.lanes.set_wants_room(false);
            }
        }
        self.wake_callers();
        // Who was woken may not respond: the owner looks on until it knows.
        let stand = self.queue.stands() || self.numbers.stands();
        self.pressed.set(stand || self.carrier.lanes.wants_room());
    }

    /// Wakes everybody who waits to send.
    pub(super) fn wake_senders(&self, mut wake: impl FnMut(Waiter)) {
        self.room.take().into_iter().for_each(|waker| wake(Waiter::Waker(waker)));
        self.wake_standing(|waker| wake(Waiter::Waker(waker.clone())));
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
            || self.room.borrow().is_empty() && !self.queue.stands()
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
