//! Answers: taken where they lie in the lane, or kept for later.
//!
//! The bet: whoever waits for an answer is a task of this node, so the dispatcher polls it while the
//! answer lies open, and it reads its result in place. Lost when the waiter is somebody else, or
//! polls something else first; then the payload is copied into the call's entry.

use super::{Fault, Session, Waiter, misbehaved};
use crate::error::CallError;
use crate::wake::TaskId;
use crate::wire::{Input, Wire};
use std::cell::Cell;
use std::convert::Infallible;
use std::task::Waker;
use upbeat_core::call::{Abandon, Answered, TableFull};
use upbeat_core::frame::{CallNumber, Failure, Head, Kind};

/// An open call, as its caller's table keeps it.
pub(crate) enum Waiting {
    /// Nobody asks now: the waiter was woken, or will be.
    Nobody,
    /// A task of the node that looks.
    Task(TaskId),
    /// Anybody else.
    Waker(Waker),
    /// The answer has come and was copied.
    Kept(Kind, Box<[u8]>),
}

impl Waiting {
    pub(super) fn into_waiter(self) -> Option<Waiter> {
        match self {
            Waiting::Task(task) => Some(Waiter::Task(task)),
            Waiting::Waker(waker) => Some(Waiter::Waker(waker)),
            Waiting::Nobody | Waiting::Kept(..) => None,
        }
    }
}

impl From<Waiter> for Waiting {
    #[inline(always)]
    fn from(waiter: Waiter) -> Waiting {
        match waiter {
            Waiter::Task(task) => Waiting::Task(task),
            Waiter::Waker(waker) => Waiting::Waker(waker),
        }
    }
}

/// The answer that lies open in the lane while its waiter is polled: its call, or none, and what it
/// is.
#[derive(Default)]
pub(super) struct Arrived {
    call: Cell<CallNumber>,
    is_reply: Cell<bool>,
    skip: Cell<u32>,
    len: Cell<u32>,
}

/// What has become of a call.
pub(crate) enum Answer<R> {
    /// Nothing yet.
    Open,
    /// It has ended.
    Here(Result<R, CallError<Infallible>>),
}

impl Session {
    /// Opens a call.
    #[inline(always)]
    pub(crate) fn open_call(&self, waiter: Waiter) -> Result<CallNumber, TableFull> {
        self.calls.borrow_mut().open(waiter.into())
    }

    /// Closes a call whose frame was not sent.
    pub(crate) fn close_unsent(&self, call: CallNumber) {
        self.calls.borrow_mut().close(call);
    }

    /// Calls that are open.
    pub(crate) fn calls_open(&self) -> usize {
        self.calls.borrow().len()
    }

    /// An answer lies open: who is to be polled for it? When that has been done,
    /// [`Session::keep_answer`] takes over what was not taken.
    #[inline(always)]
    pub(crate) fn answer_arrived(&self, head: &Head) -> Result<Option<Waiter>, Fault> {
        if let Some(Waiting::Task(task)) = self.calls.borrow_mut().waiter_mut(head.call) {
            let arrived = &self.arrived;
            arrived.call.set(head.call);
            arrived.is_reply.set(head.kind == Kind::Reply);
            arrived.skip.set(head.flags.extension_bytes());
            arrived.len.set(head.len);
            return Ok(Some(Waiter::Task(*task)));
        }
        self.keep(head.call, head.kind, head.flags.extension_bytes(), head.len)
    }

    /// Copies the answer that was not taken where it lay. Gives whether there was one.
    #[inline(always)]
    pub(crate) fn keep_answer(&self) -> Result<bool, Fault> {
        if self.arrived.call.get() == CallNumber::NONE { Ok(false) } else { self.keep_arrived() }
    }

    #[cold]
    #[inline(never)]
    fn keep_arrived(&self) -> Result<bool, Fault> {
        let arrived = &self.arrived;
        let call = arrived.call.take();
        let kind = if arrived.is_reply.get() { Kind::Reply } else { Kind::Failed };
        self.keep(call, kind, arrived.skip.get(), arrived.len.get()).map(|_| true)
    }

    /// Copies an answer that comes when the session is about to end.
    pub(crate) fn keep_late(&self, head: &Head) -> Result<Option<Waiter>, Fault> {
        self.keep(head.call, head.kind, head.flags.extension_bytes(), head.len)
    }

    /// Copies an answer into its call's entry and gives who waits for it.
    #[cold]
    #[inline(never)]
    fn keep(
        &self,
        call: CallNumber,
        kind: Kind,
        skip: u32,
        len: u32,
    ) -> Result<Option<Waiter>, Fault> {
        let mut calls = self.calls.borrow_mut();
        match calls.answer(call).map_err(misbehaved)? {
            Answered::Abandoned => Ok(None),
            Answered::Waiting(waiting) => {
                let mut payload = vec![0; (len - skip) as usize].into_boxed_slice();
                self.carrier.lanes.reader().read(skip as usize, &mut payload);
                Ok(std::mem::replace(waiting, Waiting::Kept(kind, payload)).into_waiter())
            }
        }
    }

    /// Asks for a call's answer on behalf of its future.
    #[inline(always)]
    pub(crate) fn poll_answer<R: Wire>(
        &self,
        call: CallNumber,
        waiter: impl FnOnce() -> Waiter,
    ) -> Answer<R> {
        if self.arrived.call.get() != call {
            return self.poll_kept(call, waiter);
        }
        let arrived = &self.arrived;
        arrived.call.set(CallNumber::NONE);
        self.calls.borrow_mut().close(call);
        let reader = self.carrier.lanes.reader();
        let (skip, len) = (arrived.skip.get() as usize, arrived.len.get() as usize);
        Answer::Here(read(arrived.is_reply.get(), &mut Input::lane(reader, skip, len)))
    }

    #[inline(never)]
    fn poll_kept<R: Wire>(&self, call: CallNumber, waiter: impl FnOnce() -> Waiter) -> Answer<R> {
        let mut calls = self.calls.borrow_mut();
        let Some(waiting) = calls.waiter_mut(call) else {
            return Answer::Here(Err(self.unknown()));
        };
        if !matches!(waiting, Waiting::Kept(..)) {
            *waiting = waiter().into();
            return Answer::Open;
        }
        let Some(Waiting::Kept(kind, payload)) = calls.close(call) else {
            return Answer::Open;
        };
        drop(calls);
        Answer::Here(read(kind == Kind::Reply, &mut Input::own(&payload)))
    }

    /// The error of a call that was sent and has no answer.
    fn unknown(&self) -> CallError<Infallible> {
        CallError::Unknown(self.lost())
    }

    /// Gives up a call whose frame was sent. The callee is told, unless it has answered.
    pub(crate) fn abandon(&self, call: CallNumber) -> bool {
        if self.arrived.call.get() == call {
            self.arrived.call.set(CallNumber::NONE);
            self.calls.borrow_mut().close(call);
            return false;
        }
        let abandoned = self.calls.borrow_mut().abandon(call);
        if matches!(abandoned, Abandon::Cancel(_)) && self.ended().is_none() {
            self.send_surely(Head::cancel(call), Vec::new());
            return true;
        }
        false
    }
}

#[inline(always)]
fn read<R: Wire>(is_reply: bool, input: &mut Input<'_>) -> Result<R, CallError<Infallible>> {
    if !is_reply {
        return Err(read_failure(input));
    }
    let value = R::take(input).and_then(|value| input.finish().map(|()| value));
    value.map_err(|error| unreadable(&error))
}

#[cold]
fn unreadable(error: &dyn std::fmt::Display) -> CallError<Infallible> {
    CallError::Value { text: error.to_string() }
}

#[cold]
fn read_failure(input: &mut Input<'_>) -> CallError<Infallible> {
    let mut payload = vec![0; input.remaining()];
    if let Err(error) = input.bytes(&mut payload) {
        return CallError::Value { text: error.to_string() };
    }
    match Failure::parse(&payload) {
        Ok(failure) => CallError::Failed { code: failure.code(), text: failure.text().to_owned() },
        Err(rule) => CallError::Value { text: rule.to_string() },
    }
}
