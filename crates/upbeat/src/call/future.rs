//! The future of a call.

#![expect(private_bounds, reason = "the routes are those of this crate")]

use super::again::Refusals;
use super::open::{Open, Route, State};
use super::reconnect::Reconnect;
use super::take::{Fill, Split, Take, TryFill, Whole};
use super::{Bound, NodeRoute, To, Until};
use crate::error::CallError;
use crate::metadata::{Attached, Context as CallContext};
use crate::wire::{Content, Fills};
use std::borrow::Borrow;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use upbeat_core::channel::Operation;

/// A call with any route (`W`) and any way to read its result (`T`): see [`Call`](super::Call),
/// [`TryCall`](super::TryCall), [`HandleCall`](crate::handle::HandleCall) and
/// [`HandleTryCall`](crate::handle::HandleTryCall).
///
/// Nothing happens before the first poll, which sends the request. If the call is dropped before its reply, it is
/// cancelled at the callee.
#[must_use = "a call does nothing until it is awaited"]
pub struct CallFuture<W: Route, A, T> {
    pub(super) open: Open<W, A>,
    take: T,
}

// Nothing in a call is pinned: its arguments move into the lane, and its result moves out of it.
impl<W: Route, A, T> Unpin for CallFuture<W, A, T> {}

impl<W: Route, A: Content, T: Take> Future for CallFuture<W, A, T> {
    type Output = T::Output;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T::Output> {
        T::poll(&mut self, context)
    }
}

impl<W: Route, A: Content, T: Take> CallFuture<W, A, T> {
    #[inline(always)]
    pub(crate) fn new(route: W, to: To, arguments: A, take: T) -> Self {
        CallFuture { open: Open::new(route, to, arguments), take }
    }

    /// Requests an operation of a channel other than calls. The operation's code belongs to the arguments.
    pub(crate) fn operation(route: W, operation: Operation, arguments: A, take: T) -> Self {
        const { assert!(A::OPERATION, "the arguments are those of an operation") };
        let to = To { number: operation.code(), method: operation.name() };
        CallFuture::new(route, to, arguments, take)
    }

    /// Begins the call anew, after its end.
    pub(crate) fn again(&mut self, arguments: A) {
        self.open.state = State::Unsent(arguments);
    }

    /// Sets the deadline of the call.
    pub(crate) fn until(mut self, until: Option<Until>) -> Self {
        self.open.lasts(until);
        self
    }

    /// Gives the call this context.
    pub(crate) fn attached(mut self, attached: Option<Attached>) -> Self {
        if attached.is_some() {
            self.open.rare.get_or_insert_default().attached = attached;
        }
        self
    }

    /// Polls the call, and returns the part of its result that `take` reads.
    #[inline(always)]
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<T::Read, CallError>> {
        self.open.poll::<T, _>(context, self.take.reader())
    }

    /// Gives the call up after `after` from now, here and at the callee, to which the deadline travels. The deadline holds
    /// while the call waits for the session, for room, or for the reply. Under `#[method(nack)]` it covers all attempts
    /// together.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # async fn of(counter: &CounterClient) -> Result<u64, upbeat::CallError> {
    /// use std::time::Duration;
    ///
    /// counter.add(1).deadline(Duration::from_millis(100)).await
    /// # }
    /// ```
    pub fn deadline(self, after: Duration) -> Self {
        let until = Until::after(self.open.route.now_ns(), after);
        self.until(Some(until))
    }

    /// Sends a value with the call, for its handler and for the calls of that handler: see [`Context`](crate::Context).
    /// Values of several types travel together. Of two values with one key the later one travels, and each replaces
    /// the value that a handler has from its own caller. If a value cannot travel, the call is not sent and ends with
    /// [`CallError::Context`].
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Serialize, Deserialize, upbeat::Wire)]
    /// struct Tenant(u64);
    ///
    /// impl upbeat::Context for Tenant {
    ///     const KEY: &'static str = "tenant";
    /// }
    ///
    /// # async fn of(counter: &CounterClient) -> Result<u64, upbeat::CallError> {
    /// counter.add(1).with(&Tenant(7)).await
    /// # }
    /// ```
    pub fn with<C: CallContext>(mut self, value: &C) -> Self {
        self.open.rare.get_or_insert_default().attached.get_or_insert_default().add(value);
        self
    }

    /// Leaves out the context of the handler that makes the call. Values given by [`with`](Self::with) still travel.
    /// Calls through handles inherit no context.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # async fn of(counter: &CounterClient) -> Result<u64, upbeat::CallError> {
    /// counter.add(1).without_context().await
    /// # }
    /// ```
    pub fn without_context(mut self) -> Self {
        let rare = self.open.rare.get_or_insert_default();
        rare.attached.get_or_insert_default().leave_inherited();
        self
    }

    /// Lets the callee ask to have the deadline extended, by [`extend`](crate::extend), until `total`
    /// from now is over. Without a deadline set before, this has no effect.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # async fn of(counter: &CounterClient) -> Result<u64, upbeat::CallError> {
    /// use std::time::Duration;
    ///
    /// let (usually, at_most) = (Duration::from_millis(100), Duration::from_secs(5));
    /// counter.add(1).deadline(usually).extendable(at_most).await
    /// # }
    /// ```
    pub fn extendable(self, total: Duration) -> Self {
        let until = self.open.rare.as_ref().and_then(|rare| rare.until());
        let now = self.open.route.now_ns();
        self.until(until.map(|until| until.extendable(now, total)))
    }
}

impl<W: Route, A: Content, R> CallFuture<W, A, Whole<R>> {
    /// Writes the result into `buffer`, straight from the memory where the callee wrote it, with no value in
    /// between. A sequence goes into a slice, an array or a vector, and the call returns the number of its
    /// items. If the buffer has no room for all of them, none is written, and [`CallError::NoRoom`] has
    /// both numbers; the call has run. Plain data (an array, a `#[wire(plain)]` struct) goes into a value
    /// of its own type.
    ///
    /// ```
    /// #[upbeat::service]
    /// pub trait Sensor {
    ///     async fn samples(&self, count: u64) -> Vec<f32>;
    ///     async fn digest(&self) -> [u8; 32];
    /// }
    ///
    /// async fn loudest(sensor: &SensorClient) -> Result<f32, upbeat::CallError> {
    ///     let mut samples = [0.0; 1024];
    ///     let count = sensor.samples(1000).into(&mut samples).await?;
    ///     let mut digest = [0; 32];
    ///     sensor.digest().into(&mut digest).await?;
    ///     println!("{digest:x?}");
    ///     Ok(samples[..count].iter().copied().fold(0.0, f32::max))
    /// }
    /// ```
    pub fn into<B: ?Sized>(self, buffer: &mut B) -> CallFuture<W, A, Fill<'_, R, B>>
    where
        R: Fills<B>,
    {
        CallFuture { open: self.open, take: Fill::new(buffer) }
    }
}

impl<W: Route, A: Content, T, E> CallFuture<W, A, Split<T, E>> {
    /// Writes the result into `buffer`, unless the result is the method's error.
    ///
    /// ```
    /// #[upbeat::service]
    /// pub trait Files {
    ///     async fn read(&self, name: String, from: u64) -> Result<Vec<u8>, String>;
    /// }
    ///
    /// async fn head(files: &FilesClient) -> Result<Vec<u8>, upbeat::CallError<String>> {
    ///     let mut page = vec![0; 4096];
    ///     let bytes = files.read("notes".into(), 0).into(&mut page).await?;
    ///     page.truncate(bytes);
    ///     Ok(page)
    /// }
    /// ```
    pub fn into<B: ?Sized>(self, buffer: &mut B) -> CallFuture<W, A, TryFill<'_, T, E, B>>
    where
        T: Fills<B>,
    {
        CallFuture { open: self.open, take: TryFill::new(buffer) }
    }
}

impl<B: Borrow<Bound>, A: Content, T: Take> CallFuture<NodeRoute<B>, A, T> {
    /// Sends the call over the session that is reached again, if its client has lost its own.
    pub(super) fn over(mut self, reconnect: Option<Reconnect>) -> Self {
        if reconnect.is_some() {
            self.open.rare.get_or_insert_default().more.reconnect = reconnect;
        }
        self
    }

    /// Lets the callee send the call back, so that it is sent again after a while.
    pub(super) fn refusable(mut self) -> Self {
        self.open.rare.get_or_insert_default().more.refusals = Some(Refusals::default());
        self
    }

    /// Sends the call now, or fails with [`CallError::Full`] if it would have to wait. The returned
    /// call is to be awaited for its reply. A call under `#[method(nack)]` that its callee sends back is sent again
    /// when it is awaited.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # async fn of(counter: &CounterClient) -> Result<u64, upbeat::CallError> {
    /// counter.add(1).try_send()?.await
    /// # }
    /// ```
    pub fn try_send(mut self) -> Result<Self, CallError> {
        self.open.notes_streams::<T>();
        match self.open.try_send() {
            Ok(()) => Ok(self),
            Err(error) => Err(self.open.failed(error)),
        }
    }
}
