//! Blocking calls whose results go into a buffer of the caller's.

use super::{Blocking, wait};
use crate::call::{Fill, Take, To, TryFill};
use crate::error::CallError;
use crate::wire::{Content, Fills, Wire};
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
        blocking.taking(index, method, arguments, Fill::<R, B>::new(buffer))
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
        blocking.taking(index, method, arguments, TryFill::<R, E, B>::new(buffer))
    }
}

impl Blocking<'_> {
    /// Calls, and has `take` read the result where it lies.
    #[inline]
    pub(super) fn taking<A: Content, T: Take>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
        mut take: T,
    ) -> T::Output {
        let until = self.until();
        if A::STREAMS || T::STREAMS {
            // Streams go on over the session that several may use.
            let mut call = self.handle.calling(index, method, arguments, take).until(until);
            return T::output(wait(poll_fn(|context| call.poll_read(context))));
        }
        let to = To::new(index, method);
        let read = take.reader();
        T::output(self.with(until, |caller| caller.call(to, arguments, until, read)))
    }
}
