//! One-way messages: the futures that send them.

use super::waits::{Waits, not_sent, not_waiting, still_asks};
use super::{Bound, MISSING};
use crate::error::CallError;
use crate::sample::{Reason, Stamps, Unsampled};
use crate::session::{Extensions, Put};
use crate::wire::Content;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};
use upbeat_core::bill::way::{Happened, ONEWAY, Point};
use upbeat_core::frame::{CallNumber, Head};

/// A one-way message on its way into the lane.
#[must_use = "nothing is sent until it is awaited"]
pub struct Send<'c, A> {
    pub(super) bound: &'c Bound,
    pub(super) number: u16,
    pub(super) method: &'static str,
    pub(super) arguments: A,
    /// Dropped where the message is, so that one without costs one look.
    pub(super) rare: ManuallyDrop<Option<Box<Waits>>>,
}

// Nothing in it is pinned: the arguments are moved into the lane.
impl<A> Unpin for Send<'_, A> {}

impl<A> Drop for Send<'_, A> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.rare.is_some() {
            self.drop_rare();
        }
    }
}

impl<A> Send<'_, A> {
    #[cold]
    #[inline(never)]
    fn drop_rare(&mut self) {
        drop(self.rare.take());
    }
}

impl<A: Content> Future for Send<'_, A> {
    type Output = Result<(), CallError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.bound.node.sampling().is_due() || self.rare.is_some() {
            return self.poll_rarely(context);
        }
        self.write(context, &mut Unsampled)
    }
}

impl<A: Content> Send<'_, A> {
    /// Sends the message now, or says [`CallError::Full`] where it would have to wait.
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
        let Bound { node, session, .. } = self.bound;
        self.put(&mut Unsampled)?.map_err(|put| not_waiting(node, session, put))
    }

    #[inline(always)]
    fn write(
        &mut self,
        context: &mut Context<'_>,
        stamps: &mut impl Stamps,
    ) -> Poll<Result<(), CallError>> {
        match self.put(stamps) {
            Ok(Ok(())) => Poll::Ready(Ok(())),
            Ok(Err(put)) => {
                let waits = self.rare.get_or_insert_default();
                match not_sent(self.bound, put, waits, context) {
                    Ok(()) => {
                        self.bound.node.waits_for(Reason::Full);
                        Poll::Pending
                    }
                    Err(error) => Poll::Ready(Err(error)),
                }
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Has the message written.
    #[inline(always)]
    fn put(&self, stamps: &mut impl Stamps) -> Result<Result<(), Put>, CallError> {
        let Bound { node, session, .. } = self.bound;
        if self.number == MISSING {
            return Err(CallError::NoSuchMethod { method: self.method });
        }
        stamps.at(Point::Opened);
        let manner = stamps.sample().map(|sample| sample.manner);
        let words = stamps.on_oneway(Head::oneway(self.number, 0).with_manner(manner).words());
        let granted = self.rare.as_ref().and_then(|waits| waits.number());
        let written = match granted {
            None => session.request(words, Extensions::NONE, &self.arguments, stamps),
            Some(_) => {
                let extensions = Extensions { granted, ..Extensions::NONE };
                session.request_granted(words, extensions, &self.arguments, stamps)
            }
        };
        if written.is_ok() {
            if let Some(sample) = stamps.sample().filter(|sample| sample.needs_frame()) {
                session.send_stamps(CallNumber::NONE, sample);
            }
            node.sent_oneway(session);
        }
        Ok(written)
    }

    #[cold]
    #[inline(never)]
    fn poll_rarely(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if let Some(waits) = &mut *self.rare
            && still_asks(self.bound, waits, context)?
        {
            self.bound.node.sampling().put_off();
            return Poll::Pending;
        }
        let waited = self.rare.as_mut().and_then(|rare| rare.sample.take());
        let Some(mut sample) = self.bound.node.sampling().begin(waited, ONEWAY) else {
            return self.write_in_turn(context, &mut Unsampled);
        };
        let sent = self.write_in_turn(context, &mut *sample);
        if sent.is_pending() {
            sample.note(Happened::FULL);
            self.rare.get_or_insert_default().sample = Some(sample);
        } else {
            self.bound.node.sampling().free(sample);
        }
        sent
    }

    /// Writes the message from its place in the queue, if it has one, and leaves that.
    fn write_in_turn(
        &mut self,
        context: &mut Context<'_>,
        stamps: &mut impl Stamps,
    ) -> Poll<Result<(), CallError>> {
        let session = &self.bound.session;
        session.take_turn(self.rare.as_ref().and_then(|waits| waits.standing.as_ref()));
        let sent = self.write(context, stamps);
        session.take_turn(None);
        if sent.is_ready() {
            *self.rare = None;
        }
        sent
    }
}
