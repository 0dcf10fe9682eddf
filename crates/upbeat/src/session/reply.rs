//! Answers: taken where they lie in the lane, or kept for later.
//!
//! The bet: whoever waits for an answer is a task of this node, so the dispatcher polls it while the
//! answer lies open, and it reads its result in place. Lost when the waiter is somebody else, or
//! polls something else first; then the payload is copied into the call's entry.

use super::{Session, Waiter};
use crate::error::{CallError, Why};
use crate::wire::{Input, Wire};
use std::convert::Infallible;
use upbeat_core::call::{Abandon, Answered, TableFull};
use upbeat_core::frame::{CallNumber, Failure, Head, Kind};

/// An open call, as its caller's table keeps it.
pub(crate) struct Waiting {
    pub(super) waiter: Option<Waiter>,
    kept: Option<(Kind, Box<[u8]>)>,
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
    #[inline]
    pub(crate) fn open_call(&self, waiter: Waiter) -> Result<CallNumber, TableFull> {
        self.calls.borrow_mut().open(Waiting { waiter: Some(waiter), kept: None })
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
    #[inline]
    pub(crate) fn answer_arrived(&self, head: Head) -> Result<Option<Waiter>, Why> {
        let mut calls = self.calls.borrow_mut();
        if let Some(waiting) = calls.waiter_mut(head.call)
            && let Some(Waiter::Task(task)) = waiting.waiter
            && waiting.kept.is_none()
        {
            self.arrived.set(Some(head));
            return Ok(Some(Waiter::Task(task)));
        }
        drop(calls);
        self.keep(head)
    }

    /// Copies the answer that was not taken where it lay.
    #[inline]
    pub(crate) fn keep_answer(&self) -> Result<bool, Why> {
        match self.arrived.take() {
            None => Ok(false),
            Some(head) => self.keep(head).map(|_| true),
        }
    }

    /// Copies an answer that comes when the session is about to end.
    pub(crate) fn keep_late(&self, head: Head) -> Result<Option<Waiter>, Why> {
        self.keep(head)
    }

    /// Copies an answer into its call's entry and gives who waits for it.
    #[cold]
    #[inline(never)]
    fn keep(&self, head: Head) -> Result<Option<Waiter>, Why> {
        let mut calls = self.calls.borrow_mut();
        match calls.answer(head.call).map_err(Why::Misbehaved)? {
            Answered::Abandoned => Ok(None),
            Answered::Waiting(waiting) => {
                let skip = head.flags.extension_bytes() as usize;
                let mut payload = vec![0; head.len as usize - skip].into_boxed_slice();
                self.carrier.lanes.reader().read(skip, &mut payload);
                waiting.kept = Some((head.kind, payload));
                Ok(waiting.waiter.take())
            }
        }
    }

    /// Asks for a call's answer on behalf of its future.
    #[inline]
    pub(crate) fn poll_answer<R: Wire>(
        &self,
        call: CallNumber,
        waiter: impl FnOnce() -> Waiter,
    ) -> Answer<R> {
        if let Some(head) = self.arrived.get()
            && head.call == call
        {
            self.arrived.set(None);
            return match self.calls.borrow_mut().take(call) {
                Ok(_) => Answer::Here(read(head.kind, &mut self.payload(&head))),
                Err(rule) => Answer::Here(Err(self.unknown(Why::Misbehaved(rule)))),
            };
        }
        self.poll_kept(call, waiter)
    }

    #[inline(never)]
    fn poll_kept<R: Wire>(&self, call: CallNumber, waiter: impl FnOnce() -> Waiter) -> Answer<R> {
        let mut calls = self.calls.borrow_mut();
        let Some(waiting) = calls.waiter_mut(call) else {
            return Answer::Here(Err(self.unknown(Why::Died)));
        };
        let Some((kind, payload)) = waiting.kept.take() else {
            waiting.waiter = Some(waiter());
            return Answer::Open;
        };
        calls.close(call);
        drop(calls);
        Answer::Here(read(kind, &mut Input::own(&payload)))
    }

    /// The error of a call that was sent and has no answer.
    fn unknown(&self, why: Why) -> CallError<Infallible> {
        let lost = self.ended().cloned();
        CallError::Unknown(lost.unwrap_or(crate::error::Lost { peer: self.peer_text(), why }))
    }

    /// Gives up a call whose frame was sent. The callee is told, unless it has answered.
    pub(crate) fn abandon(&self, call: CallNumber) -> bool {
        if let Some(head) = self.arrived.get()
            && head.call == call
        {
            self.arrived.set(None);
            let _ = self.calls.borrow_mut().take(call);
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

#[inline]
fn read<R: Wire>(kind: Kind, input: &mut Input<'_>) -> Result<R, CallError<Infallible>> {
    if kind != Kind::Reply {
        return Err(read_failure(input));
    }
    let value = R::take(input).and_then(|value| input.finish().map(|()| value));
    value.map_err(|error| CallError::Value { text: error.to_string() })
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
