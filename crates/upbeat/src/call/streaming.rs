//! Calls with streams in their arguments or in their results.
//!
//! The streams of the arguments go on where the call is polled, and end with it, unless the result has
//! streams too: then they go on where any of those is read. Invariant: whatever streams a result
//! that nobody took had in it, the callee is told that nobody will.

use super::{Bound, Call, State};
use crate::error::CallError;
use crate::sample::Stamps;
use crate::session::{Answer, Extensions, Put};
use crate::wire::{Arguments, Attaching, Content, Input, MessageContext, Wire, WireError};
use std::rc::Rc;
use std::task::{Context, Poll};
use upbeat_core::frame::{CallNumber, Head};

impl Bound {
    /// Writes a request, whose attachments go with it.
    #[inline(always)]
    pub(super) fn request<A: Content>(
        &self,
        words: [u64; 3],
        extensions: Extensions,
        arguments: &A,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        match A::STREAMS {
            false => self.session.request(words, extensions, arguments, stamps),
            true => {
                let arguments = self.attaching(words, arguments);
                self.session.request(words, extensions, &arguments, stamps)
            }
        }
    }

    /// Writes a request for which room was granted.
    pub(super) fn request_granted<A: Content>(
        &self,
        words: [u64; 3],
        extensions: Extensions,
        arguments: &A,
        stamps: &mut impl Stamps,
    ) -> Result<(), Put> {
        let arguments = self.attaching(words, arguments);
        self.session.request_granted(words, extensions, &arguments, stamps)
    }

    fn attaching<'a, A>(&'a self, words: [u64; 3], content: &'a A) -> Attaching<'a, A> {
        let context = MessageContext::caller(self, CallNumber::from_u64(words[1]));
        Attaching { content, context }
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

    /// Notes whether streams may stand in the result, before the call is sent.
    #[inline(always)]
    pub(super) fn notes_streams(&mut self) {
        if R::STREAMS {
            self.rare.get_or_insert_default().gives_streams = true;
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
        hand: impl FnOnce(Option<&A>, &T),
    ) -> Poll<Result<T, CallError>> {
        self.notes_streams();
        let (bound, polled) = (self.bound, self.number());
        let polled = match polled {
            None => self.poll_taking(context, take),
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
        hand: impl FnOnce(Option<&A>, &T),
    ) -> Poll<Result<T, CallError>> {
        let Bound { node, session, .. } = self.bound;
        let attached = MessageContext::caller(self.bound, call);
        let take = |input: &mut Input<'_>| input.within(&attached, take);
        let answer = session.poll_answer(call, || node.waiter(context), take);
        let result = match answer {
            Answer::Open if self.rare.is_some() => return self.poll_deadline(context),
            Answer::Open => return Poll::Pending,
            Answer::Here(value) => Ok(value),
            Answer::Failed(error) => Err(*error),
        };
        let state = std::mem::replace(&mut self.state, State::Over);
        match (&result, state) {
            (Ok(value), State::Feeding(_, arguments)) => hand(Some(&arguments), value),
            (Ok(value), _) => hand(None, value),
            (Err(_), _) if R::STREAMS => self.bound.take_back(Head::cancel(call)),
            _ => {}
        }
        Poll::Ready(result)
    }
}

/// A result was read, with its streams. Those of the arguments go on where the first of the result is read.
pub(crate) fn hand_over<A: Content, R: Wire>(arguments: Option<&A>, result: &R) {
    result.streams(&mut |stream| stream.received());
    let Some(arguments) = arguments else { return };
    let mut left = Arguments::default();
    arguments.streams(&mut |stream| left.streams.push(Rc::clone(stream)));
    if left.streams.is_empty() {
        return;
    }
    let left = Rc::new(left);
    result.streams(&mut |stream| stream.adopt(&left));
}
