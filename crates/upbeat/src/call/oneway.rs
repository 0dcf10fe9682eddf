//! One-way messages: the futures that send them.

#![expect(private_bounds, reason = "the routes are those of this crate")]

use super::open::Rare;
use super::waits::{Waits, not_sent, not_waiting, still_asks};
use super::{Bound, MISSING, NodeRoute, Route, To};
use crate::error::CallError;
use crate::metadata::{Attached, Context as CallContext};
use crate::sample::{Reason, Stamps, Unsampled};
use crate::session::{Extensions, Front, Plain, SendError};
use crate::wire::Content;
use std::borrow::Borrow;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
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
        W::send_oneway(&mut self, context)
    }
}

impl<B: Borrow<Bound>, A: Content> SendFuture<NodeRoute<B>, A> {
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
    pub fn try_send(self) -> Result<(), CallError> {
        let Bound { node, session, .. } = self.route.bound();
        let context = self.context()?;
        let put = self.put((Extensions::NONE, context.as_deref()), &mut Unsampled)?;
        put.map_err(|put| not_waiting(node, session, put))
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
        match self.put(front, stamps) {
            Ok(Ok(())) => Poll::Ready(Ok(())),
            Ok(Err(put)) => {
                let rare = self.rare.get_or_insert_default();
                match not_sent(self.route.bound(), put, &mut rare.more.waits, context) {
                    Ok(()) => {
                        self.route.bound().node.waits_for(Reason::Full);
                        Poll::Pending
                    }
                    Err(error) => Poll::Ready(Err(error)),
                }
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Writes the message.
    #[inline(always)]
    fn put(
        &self,
        front: impl Front,
        stamps: &mut impl Stamps,
    ) -> Result<Result<(), SendError>, CallError> {
        let Bound { node, session, .. } = self.route.bound();
        if self.number == MISSING {
            return Err(CallError::NoSuchMethod { method: self.method });
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
        if let Some(rare) = &mut *self.rare
            && still_asks(self.route.bound(), &mut rare.more.waits, context)?
        {
            self.route.bound().node.sampling().put_off();
            return Poll::Pending;
        }
        let waited = self.rare.as_mut().and_then(|rare| rare.more.waits.sample.take());
        let Bound { node, session, .. } = self.route.bound();
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
        self.route.bound().session.take_turn(waits.and_then(Waits::admission));
        let sent = self.write(context, (extensions, carried.as_deref()), stamps);
        self.route.bound().session.take_turn(None);
        if sent.is_ready() {
            *self.rare = None;
        }
        sent
    }
}
