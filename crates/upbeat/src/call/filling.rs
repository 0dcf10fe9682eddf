//! Calls whose result goes into a buffer of the caller's.
//!
//! Nothing is written before the result lies there to be read, and then from where the callee wrote it:
//! a call that is dropped leaves its buffer as it was.

use super::{Call, flatten};
use crate::error::CallError;
use crate::wire::{Content, Fills, Input, Wire, WireError, try_fill};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A call that can be told how long it may last, and whose result can be taken in another way than its
/// type's. All kinds of calls are such, and say so by methods of their own.
pub trait Asks: Unpin + Sized {
    /// Gives it up after `after`.
    #[doc(hidden)]
    fn bounded(self, after: Duration) -> Self;

    /// Lets that be extended.
    #[doc(hidden)]
    fn lent(self, total: Duration) -> Self;

    /// Polls it; `take` reads the result where it lies.
    #[doc(hidden)]
    fn poll_with<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnMut(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Poll<Result<T, CallError>>;
}

impl<A: Content, R: Wire> Asks for Call<'_, A, R> {
    fn bounded(self, after: Duration) -> Self {
        self.deadline(after)
    }

    fn lent(self, total: Duration) -> Self {
        self.extendable(total)
    }

    fn poll_with<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnMut(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Poll<Result<T, CallError>> {
        if A::STREAMS || R::STREAMS {
            return self.poll_streams(context, take, |_, _| {});
        }
        self.poll_taking(context, take)
    }
}

impl<A: Content, R: Wire> Call<'_, A, R> {
    /// Has the result written into `buffer`, straight from where the callee wrote it, with no value in
    /// between. A sequence goes into a slice, an array or a vector, and the call gives how many items it
    /// has. Where the buffer has no room for all of them none is written, and [`CallError::NoRoom`] says
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
    pub fn into<B: ?Sized>(self, buffer: &mut B) -> Filling<'_, Self, R, B>
    where
        R: Fills<B>,
    {
        Filling::new(self, buffer)
    }
}

/// A call whose result goes into a buffer of the caller's: see [`Call::into`].
#[must_use = "a call does nothing until it is awaited"]
pub struct Filling<'b, C, R, B: ?Sized> {
    call: C,
    buffer: &'b mut B,
    result: PhantomData<fn() -> R>,
}

impl<'b, C, R, B: ?Sized> Filling<'b, C, R, B> {
    pub(crate) fn new(call: C, buffer: &'b mut B) -> Self {
        Filling { call, buffer, result: PhantomData }
    }
}

impl<C: Asks, R: Fills<B>, B: ?Sized> Future for Filling<'_, C, R, B> {
    type Output = Result<R::Filled, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Filling { call, buffer, .. } = &mut *self;
        call.poll_with(context, |input| R::fill(input, buffer))
    }
}

/// The same of a method that returns a `Result` of the user's: see
/// [`Trying::into`](super::Trying::into).
#[must_use = "a call does nothing until it is awaited"]
pub struct TryFilling<'b, C, T, E, B: ?Sized> {
    call: C,
    buffer: &'b mut B,
    result: PhantomData<fn() -> Result<T, E>>,
}

impl<'b, C, T, E, B: ?Sized> TryFilling<'b, C, T, E, B> {
    pub(crate) fn new(call: C, buffer: &'b mut B) -> Self {
        TryFilling { call, buffer, result: PhantomData }
    }
}

impl<C: Asks, T: Fills<B>, E: Wire, B: ?Sized> Future for TryFilling<'_, C, T, E, B> {
    type Output = Result<T::Filled, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let TryFilling { call, buffer, .. } = &mut *self;
        let result = ready!(call.poll_with(context, |input| try_fill::<T, B, E>(input, buffer)));
        error_received(&result);
        Poll::Ready(flatten(result))
    }
}

/// An error of the user's was read in the place of a result that fills a buffer, with its streams.
pub(crate) fn error_received<T, E: Wire>(result: &Result<Result<T, E>, CallError>) {
    if let Ok(Err(error)) = result {
        error.streams(&mut |stream| stream.received());
    }
}
