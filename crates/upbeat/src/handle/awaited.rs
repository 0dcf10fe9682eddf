//! Calls and one-way messages of handles that are awaited.
//!
//! The runtime may poll a future in any thread. Invariant: a poll never blocks, neither
//! for the session nor for room in it.

use super::BoundHandle;
use super::caller::{Caller, Wants};
use super::lasting::Alarm;
use super::side::{Asked, Finds, Side};
use crate::call::{
    CallFuture, Given, Open, Reads, Route, SendFuture, Split, State, Take, To, Whole,
};
use crate::error::{CallError, Callee};
use crate::metadata::Attached;
use crate::session::Answer;
use crate::wire::{Attaching, Content, Input, MessageContext, Wire, WireError};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_environment::time::now_ns;

/// A call through a handle.
pub type HandleCall<'h, A, R> = CallFuture<HandleRoute<&'h BoundHandle>, A, Whole<R>>;

/// A call through a handle of a method that returns the user's own `Result<T, E>`.
pub type HandleTryCall<'h, A, T, E> = CallFuture<HandleRoute<&'h BoundHandle>, A, Split<T, E>>;

/// A one-way message through a handle.
pub type HandleSend<'h, A> = SendFuture<HandleRoute<&'h BoundHandle>, A>;

/// The route of a handle's calls: the session that new calls use, or a session that is known.
#[derive(Clone)]
#[doc(hidden)]
pub struct HandleRoute<H>(pub(crate) H);

/// A call that was sent.
enum Begun<R> {
    /// The reply is still to come.
    Open(Arc<Side>, CallNumber),
    /// The reply came while the caller polled for it.
    Done(Result<R, CallError>),
}

impl<H: Finds> Route for HandleRoute<H> {
    type Sent = (Arc<Side>, CallNumber);
    type Sample = Infallible;
    type Rare = Option<Asked>;
    type Alarm = Alarm;

    fn send<A: Content, T: Take, F: Reads<T>>(
        call: &mut Open<Self, A>,
        context: &mut Context<'_>,
        read: F,
    ) -> Poll<Result<T::Read, CallError>> {
        let Open { route, number, method, state, rare } = call;
        let to = To { number: *number, method };
        let State::Unsent(arguments) = &*state else { return Poll::Pending };
        let until = rare.as_ref().and_then(|rare| rare.until());
        if until.is_some_and(|until| until.is_over(now_ns())) {
            return Poll::Pending;
        }
        let mut asked = rare.as_mut().and_then(|rare| rare.more.take());
        let attached = rare.as_ref().and_then(|rare| rare.attached.as_ref());
        let carried = match Attached::entries(attached) {
            Ok(carried) => carried,
            Err(error) => {
                call.fail();
                return Poll::Ready(Err(error));
            }
        };
        let given = Given { until, context: carried };
        let waker = context.waker();
        // The future of a stream never polls the lane: other futures and the thread of the session wake it.
        let waiter = (A::STREAMS || A::OPERATION || T::STREAMS).then_some(waker);
        let found = route.0.find(asked.as_ref());
        let send = |side: &Arc<Side>, caller: &mut Caller, wants: &mut Wants| {
            let context = MessageContext::caller(side, CallNumber::NONE);
            let sent = match A::STREAMS {
                false => caller.send_call((to, arguments), wants, given, waiter, waker)?,
                true => {
                    let content = Attaching { content: arguments, context };
                    caller.send_call((to, &content), wants, given, waiter, waker)?
                }
            };
            let Some(call) = sent else { return Ok(None) };
            let looked = match waiter {
                None => caller.linger(call, waker, read),
                Some(_) => None,
            };
            Ok(Some(looked.map_or_else(|| Begun::Open(Arc::clone(side), call), Begun::Done)))
        };
        let sent = found.and_then(|found| found.send(&mut asked, waker, send));
        if let Some(asked) = asked.filter(Asked::waits) {
            rare.get_or_insert_default().more = Some(asked);
        }
        match sent {
            Ok(None) => Poll::Pending,
            Ok(Some(Begun::Open(side, call))) => {
                state.has_sent((side, call), false);
                Poll::Pending
            }
            Ok(Some(Begun::Done(result))) => {
                *state = State::Over;
                Poll::Ready(result)
            }
            Err(error) => {
                call.fail();
                Poll::Ready(Err(error))
            }
        }
    }

    fn send_oneway<A: Content>(
        message: &mut SendFuture<Self, A>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CallError>> {
        let SendFuture { route, number, method, arguments, rare } = &mut *message;
        let to = To { number: *number, method };
        let mut asked = rare.as_mut().and_then(|rare| rare.more.take());
        let carried = Attached::entries(rare.as_ref().and_then(|rare| rare.attached.as_ref()))?;
        let waker = context.waker();
        let found = route.0.find(asked.as_ref())?;
        let sent = found.send(&mut asked, waker, |_, caller, wants| {
            Ok(caller.try_send((to, &*arguments), wants, carried, waker)?.then_some(()))
        });
        if let Some(asked) = asked.filter(Asked::waits) {
            rare.get_or_insert_default().more = Some(asked);
        }
        match sent? {
            Some(()) => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }

    fn poll_answer<T>(
        &self,
        _: Option<&Option<Asked>>,
        (side, call): &Self::Sent,
        _: Option<Infallible>,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Answer<T> {
        side.poll(*call, context.waker(), take)
    }

    fn attached<'a>(
        &'a self,
        _: Option<&'a Option<Asked>>,
        (side, call): &'a Self::Sent,
    ) -> MessageContext<'a> {
        MessageContext::caller(side, *call)
    }

    fn take_back(&self, _: Option<&Option<Asked>>, (side, call): &Self::Sent) {
        side.take_back(Head::cancel(*call));
    }

    fn abandon(&self, _: Option<&Option<Asked>>, (side, call): &Self::Sent, gives_streams: bool) {
        side.abandon(*call, gives_streams);
    }

    fn service(&self, _: Option<&Option<Asked>>) -> &'static str {
        self.0.service()
    }

    fn callee(&self, _: Option<&Option<Asked>>, method: &'static str) -> Callee {
        self.0.callee(method)
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn end_of(&self, _: Option<&Option<Asked>>, (side, call): &Self::Sent) -> Option<u64> {
        side.end_of(*call)
    }

    fn wake_at(
        &self,
        at: u64,
        alarm: &mut Option<Alarm>,
        (sent, asked): (Option<&Self::Sent>, &Option<Asked>),
        waker: &Waker,
    ) {
        let asked = asked.as_ref().map(Asked::side);
        if let Some(side) = sent.map(|(side, _)| side).or(asked) {
            side.wake_at(alarm, at, waker);
        }
    }
}

impl BoundHandle {
    /// Calls the method at `index` in the service.
    pub fn call<A: Content, R: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> HandleCall<'_, A, R> {
        self.calling(index, method, arguments, Whole::default())
    }

    /// Calls a method that returns the user's own `Result`.
    pub fn try_call<A: Content, T: Wire, E: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> HandleTryCall<'_, A, T, E> {
        self.calling(index, method, arguments, Split::default())
    }

    /// Calls a method whose result is read by `take`.
    pub(super) fn calling<A: Content, T: Take>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
        take: T,
    ) -> CallFuture<HandleRoute<&BoundHandle>, A, T> {
        let call = CallFuture::new(HandleRoute(self), To::new(index, method), arguments, take);
        match self.shared.target.call_deadline {
            Some(after) => call.deadline(after),
            None => call,
        }
    }

    /// Sends a one-way message.
    pub fn send<A: Content>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> HandleSend<'_, A> {
        const { assert!(!A::STREAMS, "nobody goes on with the streams of a one-way message") };
        SendFuture::new(HandleRoute(self), To::new(index, method), arguments)
    }
}
