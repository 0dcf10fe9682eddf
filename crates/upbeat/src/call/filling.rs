//! Calls whose result goes into a buffer of the caller's.
//!
//! Nothing is written before the result lies there to be read, and then from where the callee wrote it:
//! a call that is dropped leaves its buffer as it was.

use super::{Call, TryCall, flatten};
use crate::error::CallError;
use crate::wire::{Sequence, Wire, fill, try_fill};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

impl<'c, A: Wire, R: Sequence> Call<'c, A, R> {
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
    pub fn into(self, buffer: &mut [R::Item]) -> Filling<'c, '_, A, R> {
        Filling { call: self, buffer }
    }
}

/// A call whose result goes into a buffer of the caller's: see [`Call::into`].
#[must_use = "a call does nothing until it is awaited"]
pub struct Filling<'c, 'b, A, R: Sequence> {
    call: Call<'c, A, R>,
    buffer: &'b mut [R::Item],
}

impl<A: Wire, R: Sequence> Future for Filling<'_, '_, A, R> {
    type Output = Result<usize, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Filling { call, buffer } = &mut *self;
        call.poll_with(context, |input| fill(input, buffer))
    }
}

impl<'c, A: Wire, T: Sequence, E: Wire> TryCall<'c, A, T, E> {
    /// Has the result written into `buffer`, unless it is the method's error: see [`Call::into`].
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
    pub fn into(self, buffer: &mut [T::Item]) -> TryFilling<'c, '_, A, T, E> {
        TryFilling { call: self.call, buffer }
    }
}

/// The same of a method that returns a `Result` of the user's: see [`TryCall::into`].
#[must_use = "a call does nothing until it is awaited"]
pub struct TryFilling<'c, 'b, A, T: Sequence, E> {
    call: Call<'c, A, Result<T, E>>,
    buffer: &'b mut [T::Item],
}

impl<A: Wire, T: Sequence, E: Wire> Future for TryFilling<'_, '_, A, T, E> {
    type Output = Result<usize, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let TryFilling { call, buffer } = &mut *self;
        let result = ready!(call.poll_with(context, |input| try_fill(input, buffer)));
        Poll::Ready(flatten(result))
    }
}
