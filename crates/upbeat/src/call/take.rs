//! How the result of a call is read in place: as a value, or into a buffer of the caller.
//!
//! A buffer is written only when the whole result is there, directly from the memory where the callee
//! wrote it: a call that is dropped leaves its buffer unchanged.

#![expect(private_bounds, reason = "the routes are those of this crate")]

use super::{CallFuture, Route};
use crate::error::CallError;
use crate::wire::{Arguments, CalledMethod, Content, Fills, Input, Wire, WireError, try_fill};
use std::marker::PhantomData;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use upbeat_core::limits::SHORT_BYTES;

/// How the result of a call is read.
#[doc(hidden)]
pub trait Take {
    /// The value that is read.
    type Read;
    /// The value that the caller gets.
    type Output;
    /// Whether the result may have streams.
    const STREAMS: bool;

    /// Returns the function that reads the result. A function that captures nothing costs nothing to pass on.
    fn reader(&mut self) -> impl FnMut(&mut Input<'_>) -> Result<Self::Read, WireError>;

    /// Continues the streams of a result that was read to its end, together with those of the arguments.
    fn received<A: Content>(_read: &Self::Read, _arguments: Option<&A>, _of: CalledMethod) {}

    /// Returns the value that the caller gets.
    fn output(read: Result<Self::Read, CallError>) -> Self::Output;

    /// Polls a call for the value that the caller gets.
    #[inline(always)]
    fn poll<W: Route, A: Content>(
        call: &mut CallFuture<W, A, Self>,
        context: &mut Context<'_>,
    ) -> Poll<Self::Output>
    where
        Self: Sized,
    {
        call.poll_read(context).map(Self::output)
    }
}

/// Reads the result as a value.
#[doc(hidden)]
pub struct Whole<R>(PhantomData<fn() -> R>);

impl<R> Default for Whole<R> {
    #[inline(always)]
    fn default() -> Whole<R> {
        Whole(PhantomData)
    }
}

impl<R: Wire> Take for Whole<R> {
    type Read = R;
    type Output = Result<R, CallError>;
    const STREAMS: bool = R::STREAMS;

    #[inline(always)]
    fn reader(&mut self) -> impl FnMut(&mut Input<'_>) -> Result<R, WireError> {
        R::take
    }

    fn received<A: Content>(result: &R, arguments: Option<&A>, of: CalledMethod) {
        hand_over(arguments, result, of);
    }

    #[inline(always)]
    fn output(read: Result<R, CallError>) -> Self::Output {
        read
    }

    #[inline(always)]
    fn poll<W: Route, A: Content>(
        call: &mut CallFuture<W, A, Self>,
        context: &mut Context<'_>,
    ) -> Poll<Self::Output> {
        // A long result is written into its place once, instead of being moved through every return.
        if matches!(R::EXACT, Some(bytes) if bytes > SHORT_BYTES) && !R::STREAMS {
            let mut place = None;
            let mut long = Long(&mut place);
            ready!(call.open.poll::<Long<'_, R>, _>(context, long.reader()))?;
            return Poll::Ready(Ok(place.expect("a result that was read")));
        }
        call.poll_read(context)
    }
}

/// Reads a long result into a place.
struct Long<'p, R>(&'p mut Option<R>);

impl<R: Wire> Take for Long<'_, R> {
    type Read = ();
    type Output = Result<(), CallError>;
    const STREAMS: bool = false;

    #[inline(always)]
    fn reader(&mut self) -> impl FnMut(&mut Input<'_>) -> Result<(), WireError> {
        |input| R::take_over(self.0, input)
    }

    fn output(read: Result<(), CallError>) -> Self::Output {
        read
    }
}

/// Reads the result as a value without streams, by a function of code that knows how the type travels.
pub(crate) struct By<R>(pub(crate) fn(&mut Input<'_>) -> Result<R, WireError>);

impl<R> Take for By<R> {
    type Read = R;
    type Output = Result<R, CallError>;
    const STREAMS: bool = false;

    fn reader(&mut self) -> impl FnMut(&mut Input<'_>) -> Result<R, WireError> {
        self.0
    }

    fn output(read: Result<R, CallError>) -> Self::Output {
        read
    }
}

/// Reads the user's own `Result<T, E>`, and joins its error with `CallError` in one level.
#[doc(hidden)]
pub struct Split<T, E>(PhantomData<fn() -> Result<T, E>>);

impl<T, E> Default for Split<T, E> {
    #[inline(always)]
    fn default() -> Split<T, E> {
        Split(PhantomData)
    }
}

impl<T: Wire, E: Wire> Take for Split<T, E> {
    type Read = Result<T, E>;
    type Output = Result<T, CallError<E>>;
    const STREAMS: bool = T::STREAMS || E::STREAMS;

    #[inline(always)]
    fn reader(&mut self) -> impl FnMut(&mut Input<'_>) -> Result<Self::Read, WireError> {
        <Result<T, E> as Wire>::take
    }

    fn received<A: Content>(result: &Self::Read, arguments: Option<&A>, of: CalledMethod) {
        hand_over(arguments, result, of);
    }

    #[inline]
    fn output(read: Result<Self::Read, CallError>) -> Self::Output {
        flatten(read)
    }
}

/// Writes the result into a buffer of the caller.
#[doc(hidden)]
pub struct Fill<'b, R, B: ?Sized> {
    buffer: &'b mut B,
    result: PhantomData<fn() -> R>,
}

impl<'b, R, B: ?Sized> Fill<'b, R, B> {
    #[inline]
    pub(crate) fn new(buffer: &'b mut B) -> Self {
        Fill { buffer, result: PhantomData }
    }
}

impl<R: Fills<B>, B: ?Sized> Take for Fill<'_, R, B> {
    type Read = R::Filled;
    type Output = Result<R::Filled, CallError>;
    const STREAMS: bool = R::STREAMS;

    #[inline]
    fn reader(&mut self) -> impl FnMut(&mut Input<'_>) -> Result<R::Filled, WireError> {
        |input| R::fill(input, self.buffer)
    }

    fn output(read: Result<R::Filled, CallError>) -> Self::Output {
        read
    }
}

/// Writes the result into a buffer of the caller, unless it is the method's error.
#[doc(hidden)]
pub struct TryFill<'b, T, E, B: ?Sized> {
    buffer: &'b mut B,
    result: PhantomData<fn() -> Result<T, E>>,
}

impl<'b, T, E, B: ?Sized> TryFill<'b, T, E, B> {
    #[inline]
    pub(crate) fn new(buffer: &'b mut B) -> Self {
        TryFill { buffer, result: PhantomData }
    }
}

impl<T: Fills<B>, E: Wire, B: ?Sized> Take for TryFill<'_, T, E, B> {
    type Read = Result<T::Filled, E>;
    type Output = Result<T::Filled, CallError<E>>;
    const STREAMS: bool = T::STREAMS || E::STREAMS;

    #[inline]
    fn reader(&mut self) -> impl FnMut(&mut Input<'_>) -> Result<Self::Read, WireError> {
        |input| try_fill::<T, B, E>(input, self.buffer)
    }

    fn received<A: Content>(result: &Self::Read, _: Option<&A>, of: CalledMethod) {
        if let Err(error) = result {
            error.streams(&mut |stream| stream.received(of));
        }
    }

    fn output(read: Result<Self::Read, CallError>) -> Self::Output {
        flatten(read)
    }
}

/// Joins the user's error and `CallError` in one level.
#[inline]
fn flatten<T, E>(result: Result<Result<T, E>, CallError>) -> Result<T, CallError<E>> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(CallError::Method(error)),
        Err(error) => Err(error.widen()),
    }
}

/// Hands the streams of the arguments on to a result that was read: they continue where the first of its streams is
/// read.
fn hand_over<A: Content, R: Wire>(arguments: Option<&A>, result: &R, of: CalledMethod) {
    result.streams(&mut |stream| stream.received(of));
    let Some(arguments) = arguments else { return };
    let mut left = Arguments::default();
    arguments.streams(&mut |stream| left.streams.push(Rc::clone(stream)));
    if left.streams.is_empty() {
        return;
    }
    let left = Rc::new(left);
    result.streams(&mut |stream| stream.adopt(&left));
}
