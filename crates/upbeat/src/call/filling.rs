//! Calls whose result goes into a buffer of the caller's.
//!
//! Nothing is written before the result lies there to be read, and then from where the callee wrote it:
//! a call that is dropped leaves its buffer as it was.

use super::{Call, flatten};
use crate::error::CallError;
use crate::wire::{Content, Input, Sequence, Wire, WireError, fill, try_fill};
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

impl<A: Content, R: Sequence> Call<'_, A, R> {
    /// Has the result written into `buffer`, straight from where the callee wrote it, with no vector
    /// in between, and gives how many items it has. Where the buffer has no room for all of them none
    /// is written, and [`CallError::NoRoom`] says both numbers; the call has run.
    ///
    /// ```
    /// #[upbeat::service]
    /// pub trait Sensor {
    ///     async fn samples(&self, count: u64) -> Vec<f32>;
    /// }
    ///
    /// async fn loudest(sensor: &SensorClient) -> Result<f32, upbeat::CallError> {
    ///     let mut samples = [0.0; 1024];
    ///     let count = sensor.samples(1000).into(&mut samples).await?;
    ///     Ok(samples[..count].iter().copied().fold(0.0, f32::max))
    /// }
    /// ```
    pub fn into(self, buffer: &mut [R::Item]) -> Filling<'_, Self, R> {
        Filling::new(self, buffer)
    }
}

/// A call whose result goes into a buffer of the caller's: see [`Call::into`].
#[must_use = "a call does nothing until it is awaited"]
pub struct Filling<'b, C, R: Sequence> {
    call: C,
    buffer: &'b mut [R::Item],
}

impl<'b, C, R: Sequence> Filling<'b, C, R> {
    pub(crate) fn new(call: C, buffer: &'b mut [R::Item]) -> Self {
        Filling { call, buffer }
    }
}

impl<C: Asks, R: Sequence> Future for Filling<'_, C, R> {
    type Output = Result<usize, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Filling { call, buffer } = &mut *self;
        call.poll_with(context, |input| fill(input, buffer))
    }
}

/// The same of a method that returns a `Result` of the user's: see
/// [`Trying::into`](super::Trying::into).
#[must_use = "a call does nothing until it is awaited"]
pub struct TryFilling<'b, C, T: Sequence, E> {
    call: C,
    buffer: &'b mut [T::Item],
    error: PhantomData<fn() -> E>,
}

impl<'b, C, T: Sequence, E> TryFilling<'b, C, T, E> {
    pub(crate) fn new(call: C, buffer: &'b mut [T::Item]) -> Self {
        TryFilling { call, buffer, error: PhantomData }
    }
}

impl<C: Asks, T: Sequence, E: Wire> Future for TryFilling<'_, C, T, E> {
    type Output = Result<usize, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let TryFilling { call, buffer, .. } = &mut *self;
        let result = ready!(call.poll_with(context, |input| try_fill(input, buffer)));
        Poll::Ready(flatten(result))
    }
}
