//! Calls with streams in their arguments or in their results.
//!
//! The streams of the arguments go on where the call is polled, and end with it, unless the result has
//! streams too: then they go on where any of those is read. Invariant: whatever streams a result
//! that nobody took had in it, the callee is told that nobody will.

use super::{Bound, Call, State};
use crate::error::CallError;
use crate::passage::{Carrier, Passage, Side, within};
use crate::session::Answer;
use crate::wire::{Arguments, Content, Input, Wire, WireError};
use std::rc::Rc;
use std::task::{Context, Poll};
use upbeat_core::frame::{CallNumber, Head};

impl Bound {
    fn passage(&self, call: CallNumber) -> Passage {
        let carrier = Carrier::Node(Rc::clone(&self.node), Rc::clone(&self.session));
        Passage { side: Side::Caller, carrier, call }
    }

    /// Tells the callee that a stream is wanted no more, or whatever of them it opened in answering a call.
    #[cold]
    pub(crate) fn take_back(&self, head: Head) {
        if self.session.ended().is_none() && self.session.is_here() {
            self.session.send_surely(head, Vec::new());
            self.node.sent(&self.session);
        }
    }
}

impl<A: Content, R: Wire> Call<'_, A, R> {
    /// The call was sent: the streams of its arguments can go on.
    #[cold]
    pub(super) fn feeds(&mut self, call: CallNumber) {
        if let State::Unsent(arguments) = std::mem::replace(&mut self.state, State::Over) {
            arguments.streams(&mut |stream| stream.sent());
            self.state = State::Feeding(call, arguments);
        }
    }

    /// The number under which it was sent, while it is open.
    fn number(&self) -> Option<CallNumber> {
        match self.state {
            State::Sent(call) | State::Sampled(call, _) | State::Feeding(call, _) => Some(call),
            State::Unsent(_) | State::Over => None,
        }
    }

    /// Polls it where streams may stand in it; those of its arguments are handed on to what is taken.
    #[inline(never)]
    pub(super) fn poll_streams<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Input<'_>) -> Result<T, WireError>,
        hand: impl FnOnce(&A, &T),
    ) -> Poll<Result<T, CallError>> {
        if R::STREAMS {
            self.rare.get_or_insert_default().gives_streams = true;
        }
        let (bound, polled) = (self.bound, self.number());
        let polled = match polled {
            None => within(bound.passage(CallNumber::NONE), || self.poll_taking(context, take)),
            Some(call) => self.poll_sent(call, context, take, hand),
        };
        if polled.is_pending()
            && let State::Feeding(_, arguments) = &self.state
        {
            arguments.streams(&mut |stream| stream.feed(context));
            bound.node.awaits_answer();
        }
        polled
    }

    fn poll_sent<T>(
        &mut self,
        call: CallNumber,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Input<'_>) -> Result<T, WireError>,
        hand: impl FnOnce(&A, &T),
    ) -> Poll<Result<T, CallError>> {
        let Bound { node, session, .. } = self.bound;
        let answer = within(self.bound.passage(call), || {
            session.poll_answer(call, || node.waiter(context), take)
        });
        let result = match answer {
            Answer::Open if self.rare.is_some() => return self.poll_deadline(context),
            Answer::Open => return Poll::Pending,
            Answer::Here(value) => Ok(value),
            Answer::Failed(error) => Err(*error),
        };
        let state = std::mem::replace(&mut self.state, State::Over);
        match (&result, state) {
            (Ok(value), State::Feeding(_, arguments)) => hand(&arguments, value),
            (Err(_), _) if R::STREAMS => self.bound.take_back(Head::cancel(call)),
            _ => {}
        }
        Poll::Ready(result)
    }
}

/// The streams of the arguments go on where the first of the result is read.
pub(crate) fn hand_over(arguments: &impl Content, result: &impl Wire) {
    let mut left = Arguments::default();
    arguments.streams(&mut |stream| left.streams.push(Rc::clone(stream)));
    if left.streams.is_empty() {
        return;
    }
    let left = Rc::new(left);
    result.streams(&mut |stream| stream.adopt(&left));
}
