//! Blocking calls whose results go into a buffer of the caller's.

use super::caller::To;
use super::{Blocking, wait};
use crate::call::{Asks, error_received, flatten};
use crate::error::CallError;
use crate::wire::{Content, Fills, Input, Wire, WireError, try_fill};
use std::future::poll_fn;

/// A call that blocks the calling thread, and whose result goes into a buffer: see [`Blocking::filling`].
#[must_use = "nothing is called until a method is"]
pub struct BlockingFilling<'b, B: ?Sized> {
    blocking: &'b Blocking<'b>,
    buffer: &'b mut B,
}

impl Blocking<'_> {
    /// Has the result of the method that is called next written into `buffer`, straight from where the
    /// callee wrote it: see [`Call::into`](crate::call::Call::into).
    ///
    /// ```
    /// #[upbeat::service]
    /// pub trait Sensor {
    ///     async fn samples(&self, count: u64) -> Vec<f32>;
    /// }
    ///
    /// fn first(sensor: &SensorBlocking) -> Result<f32, upbeat::CallError> {
    ///     let mut samples = [0.0; 16];
    ///     sensor.filling(&mut samples).samples(16)?;
    ///     Ok(samples[0])
    /// }
    /// ```
    #[inline]
    pub fn filling<'b, B: ?Sized>(&'b self, buffer: &'b mut B) -> BlockingFilling<'b, B> {
        BlockingFilling { blocking: self, buffer }
    }
}

impl<B: ?Sized> BlockingFilling<'_, B> {
    /// Calls the method that stands at `index` in the service, waits, and gives what is known of its result: how many items a sequence has.
    #[inline]
    pub fn call<A: Content, R: Fills<B>>(
        self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Result<R::Filled, CallError> {
        let BlockingFilling { blocking, buffer } = self;
        blocking.taking::<A, R, _>(index, method, arguments, |input| R::fill(input, buffer))
    }

    /// The same of a method whose result is the user's `Result`.
    #[inline]
    pub fn try_call<A: Content, R: Fills<B>, E: Wire>(
        self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Result<R::Filled, CallError<E>> {
        let BlockingFilling { blocking, buffer } = self;
        let take = |input: &mut Input<'_>| try_fill::<R, B, E>(input, buffer);
        let result = blocking.taking::<A, Result<R, E>, _>(index, method, arguments, take);
        error_received(&result);
        flatten(result)
    }
}

impl Blocking<'_> {
    /// Calls, and has `take` read the result where it lies.
    #[inline]
    fn taking<A: Content, R: Wire, T>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
        mut take: impl FnMut(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Result<T, CallError> {
        let until = self.until();
        if A::STREAMS || R::STREAMS {
            // As in any call with streams.
            let mut call = self.handle.call::<A, R>(index, method, arguments).until(until);
            return wait(poll_fn(|context| call.poll_with(context, &mut take)));
        }
        self.with(until, |caller| caller.call(To { index, method }, arguments, until, take))
    }
}
