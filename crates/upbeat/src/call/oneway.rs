//! One-way messages: the futures that send them.

#![expect(private_bounds, reason = "the routes are those of this crate")]

use super::node::NodeRare;
use super::open::Rare;
use super::reconnect::{Reconnect, may_reconnect};
use super::waits::{Waits, not_sent, not_waiting, still_asks};
use super::{Bound, MISSING, NodeRoute, Route, To};
use crate::error::CallError;
use crate::metadata::{Attached, Context as CallContext};
use crate::sample::{Reason, Stamps, Unsampled};
use crate::session::{Extensions, Front, Plain, SendError, SenderTurn};
use crate::wire::Content;
use std::borrow::Borrow;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use upbeat_core::bill::way::{MessageEvents, ONEWAY, Point};
use upbeat_core::context::Context as Entries;
use upbeat_core::frame::Head;

/// A one-way message on its way into the lane: see [`Send`](super::Send) and
/// [`HandleSend`](crate::handle::HandleSend).
#[must_use = "nothing is sent until it is awaited"]
pub struct SendFuture<W: Route, A> {
    pub(crate) route: W,
    pub(crate) number: u16,
    pub(crate) method: &'static str,
    pub(crate) arguments: A,
    /// This is dropped where the message is, so that a message without it costs one comparison.
    pub(crate) rare: ManuallyDrop<Option<Box<Rare<W>>>>,
}

// Nothing in the future is pinned: the arguments are moved into the lane.
impl<W: Route, A> Unpin for SendFuture<W, A> {}

impl<W: Route, A> Drop for SendFuture<W, A> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.rare.is_some() {
            self.drop_rare();
        }
    }
}

impl<W: Route, A> SendFuture<W, A> {
    #[inline(always)]
    pub(crate) fn new(route: W, to: To, arguments: A) -> Self {
        let To { number, method } = to;
        SendFuture { route, number, method, arguments, rare: ManuallyDrop::new(None) }
    }

    #[cold]
    #[inline(never)]
    fn drop_rare(&mut self) {
        drop(self.rare.take());
    }

    /// Returns the error of a message that was not sent.
    #[cold]
    #[inline(never)]
    fn failed(&self, error: CallError) -> CallError {
        let rare = self.rare.as_deref().map(|rare| &rare.more);
        error.at(|| self.route.callee(rare, self.method))
    }
}

impl<W: Route, A: Content> SendFuture<W, A> {
    /// Sends a value with the message: see [`CallFuture::with`](super::CallFuture::with).
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Serialize, Deserialize, upbeat::Wire)]
    /// struct Tenant(u64);
    ///
    /// impl upbeat::Context for Tenant {
    ///     const KEY: &'static str = "tenant";
    /// }
    ///
    /// # async fn of(counter: &CounterClient) -> Result<(), upbeat::CallError> {
    /// counter.reset().with(&Tenant(7)).await
    /// # }
    /// ```
    pub fn with<C: CallContext>(mut self, value: &C) -> Self {
        self.rare.get_or_insert_default().attached.get_or_insert_default().add(value);
        self
    }

    /// Leaves out the context of the handler that sends the message. Values given by [`with`](Self::with) still travel.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # async fn of(counter: &CounterClient) -> Result<(), upbeat::CallError> {
    /// counter.reset().without_context().await
    /// # }
    /// ```
    pub fn without_context(mut self) -> Self {
        let rare = self.rare.get_or_insert_default();
        rare.attached.get_or_insert_default().leave_inherited();
        self
    }
}

impl<W: Route, A: Content> Future for SendFuture<W, A> {
    type Output = Result<(), CallError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match W::send_oneway(&mut self, context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.failed(error))),
            sent => sent,
        }
    }
}

impl<B: Borrow<Bound>, A: Content> SendFuture<NodeRoute<B>, A> {
    /// Sends the message over the session that is reached again, if its client has lost its own.
    pub(super) fn over(mut self, reconnect: Option<Reconnect>) -> Self {
        if reconnect.is_some() {
            self.rare.get_or_insert_default().more.reconnect = reconnect;
        }
        self
    }

    /// Sends the message now, or fails with [`CallError::Full`] if it would have to wait.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn of(counter: &CounterClient) -> Result<(), upbeat::CallError> {
    /// counter.reset().try_send()
    /// # }
    /// ```
    pub fn try_send(mut self) -> Result<(), CallError> {
        self.try_write().map_err(|error| self.failed(error))
    }

    fn try_write(&mut self) -> Result<(), CallError> {
        let carried = self.context()?;
        loop {
            let front = (Extensions::NONE, carried.as_deref());
            let Err(put) = self.put(self.bound(), front, &mut Unsampled)? else { return Ok(()) };
            let is_lost = matches!(put, SendError::Ended(_));
            let Bound { node, session, .. } = self.bound();
            let error = not_waiting(node, session, put);
            let mut context = Context::from_waker(Waker::noop());
            if !is_lost {
                return Err(error);
            }
            match self.poll_reconnect(&mut context) {
                Poll::Pending => return Err(error),
                Poll::Ready(reached) => reached?,
            }
        }
    }

    /// Returns the session over which the message goes.
    fn bound(&self) -> &Bound {
        self.route.session_of(self.rare.as_deref().map(|rare| &rare.more))
    }

    /// Polls the message.
    #[inline(always)]
    pub(super) fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if self.route.bound().node.sampling().is_due() || self.rare.is_some() {
            return self.poll_rarely(context);
        }
        self.write(context, Plain, &mut Unsampled)
    }

    /// Returns the context that travels with the message.
    fn context(&self) -> Result<Option<Arc<Entries>>, CallError> {
        let attached = self.rare.as_ref().and_then(|rare| rare.attached.as_ref());
        Attached::outgoing(attached, self.route.bound().node.inherited_context())
    }

    #[inline(always)]
    fn write(
        &mut self,
        context: &mut Context<'_>,
        front: impl Front,
        stamps: &mut impl Stamps,
    ) -> Poll<Result<(), CallError>> {
        match self.put(self.route.bound(), front, stamps) {
            Ok(Ok(())) => Poll::Ready(Ok(())),
            Ok(Err(put)) => self.must_wait(put, context),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Has a message wait that was not written.
    #[cold]
    #[inline(never)]
    fn must_wait(
        &mut self,
        put: SendError,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CallError>> {
        let SendFuture { route, rare, .. } = self;
        let NodeRare { waits, reconnect, .. } = &mut rare.get_or_insert_default().more;
        let moved = reconnect.as_ref().and_then(Reconnect::moved);
        let bound = moved.unwrap_or(route.bound());
        if !matches!(put, SendError::Ended(_)) {
            not_sent(bound, put, waits, context)?;
            bound.node.waits_for(Reason::Full);
            return Poll::Pending;
        }
        let error = not_waiting(&bound.node, &bound.session, put);
        if !self.may_reconnect() {
            return Poll::Ready(Err(error));
        }
        ready!(self.poll_reconnect(context))?;
        self.poll_rarely(context)
    }

    /// Returns whether the message may be sent over another session than the lost one. A message that waits in a
    /// session, or that was built in a buffer of a session, ends with that session.
    fn may_reconnect(&self) -> bool {
        let waits = self.rare.as_ref().is_some_and(|rare| rare.more.waits.is_any());
        !waits && self.arguments.built().is_none() && may_reconnect(self.route.bound())
    }

    /// Polls for a session over which the message goes.
    #[cold]
    fn poll_reconnect(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if !self.may_reconnect() {
            return Poll::Pending;
        }
        let SendFuture { route, number, method, rare, .. } = self;
        let rare = &mut rare.get_or_insert_default().more;
        *number = ready!(route.poll_reconnect(rare, method, context))?;
        Poll::Ready(Ok(()))
    }

    /// Writes the message.
    #[inline(always)]
    fn put(
        &self,
        bound: &Bound,
        front: impl Front,
        stamps: &mut impl Stamps,
    ) -> Result<Result<(), SendError>, CallError> {
        let Bound { node, session, .. } = bound;
        if self.number == MISSING {
            return Err(bound.unbound(self.method));
        }
        stamps.at(Point::Opened);
        let manner = stamps.sample().map(|sample| sample.manner);
        let words = stamps.on_oneway(Head::oneway(self.number, 0).with_manner(manner).words());
        let written = session.request(words, front, &self.arguments, stamps);
        if written.is_ok() {
            if let Some(sample) = stamps.sample().filter(|sample| sample.needs_frame()) {
                node.oneway_written(session, sample);
            }
            node.sent_oneway(session);
        }
        Ok(written)
    }

    #[cold]
    #[inline(never)]
    fn poll_rarely(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if self.waits(context)? {
            self.route.bound().node.sampling().put_off();
            return Poll::Pending;
        }
        let waited = self.rare.as_mut().and_then(|rare| rare.more.waits.sample.take());
        let Bound { node, session, .. } = self.bound();
        let Some(mut sample) = node.sampling().begin(waited, ONEWAY, session) else {
            return self.write_in_turn(context, &mut Unsampled);
        };
        let sent = self.write_in_turn(context, &mut *sample);
        if sent.is_pending() {
            sample.note(MessageEvents::FULL);
            self.rare.get_or_insert_default().more.waits.sample = Some(sample);
        } else {
            self.route.bound().node.sampling().free(sample);
        }
        sent
    }

    /// Returns whether the message waits for another session, or for a grant.
    fn waits(&mut self, context: &mut Context<'_>) -> Result<bool, CallError> {
        let Some(rare) = &*self.rare else { return Ok(false) };
        if rare.more.reconnect.as_ref().is_some_and(Reconnect::waits) {
            match self.poll_reconnect(context) {
                Poll::Pending => return Ok(true),
                Poll::Ready(reached) => reached?,
            }
        }
        let SendFuture { route, rare, .. } = self;
        let Some(rare) = &mut **rare else { return Ok(false) };
        let NodeRare { waits, reconnect, .. } = &mut rare.more;
        let moved = reconnect.as_ref().and_then(Reconnect::moved);
        still_asks(moved.unwrap_or(route.bound()), waits, context)
    }

    /// Writes the message from its place in the queue, if it has one, and gives that place up.
    fn write_in_turn(
        &mut self,
        context: &mut Context<'_>,
        stamps: &mut impl Stamps,
    ) -> Poll<Result<(), CallError>> {
        let carried = self.context()?;
        let waits = self.rare.as_ref().map(|rare| &rare.more.waits);
        let granted = waits.and_then(Waits::number);
        let extensions = Extensions { granted, ..Extensions::NONE };
        let turn = SenderTurn::begin(&self.bound().session, waits.and_then(Waits::admission));
        let put = self.put(self.bound(), (extensions, carried.as_deref()), stamps);
        let sent = match put {
            Err(error) => Poll::Ready(Err(error)),
            Ok(Ok(())) => Poll::Ready(Ok(())),
            Ok(Err(put @ SendError::Ended(_))) => {
                drop(turn);
                return self.must_wait(put, context);
            }
            Ok(Err(put)) => self.must_wait(put, context),
        };
        drop(turn);
        if sent.is_ready() {
            *self.rare = None;
        }
        sent
    }
}
