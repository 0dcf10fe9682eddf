//! The form of arrays, of plain data and of all other types.
//!
//! An array of plain data is plain data. Such arrays are read with one copy, whatever stands in them: the type of the
//! numbers, which alone knows that any bytes are a value, is asked for the reads of all arrays around it.

use super::{Carried, Describe, Input, Output, Plain, Wire, WireError};
use std::marker::PhantomData;
use std::rc::Rc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The arrays around a type, which are plain data if the type is.
#[doc(hidden)]
pub trait Around {
    /// The type in these arrays.
    type Of<T>;

    /// Returns the reads of plain data in these arrays.
    fn reads<T: FromBytes + IntoBytes + Immutable + Copy>() -> PlainReads<Self::Of<T>>;
}

/// No array around a type.
pub(super) struct Alone;

/// An array directly around a type, within further arrays.
struct InArray<A, const N: usize>(PhantomData<A>);

impl Around for Alone {
    type Of<T> = T;

    #[inline(always)]
    fn reads<T: FromBytes + IntoBytes + Immutable + Copy>() -> PlainReads<T> {
        PlainReads {
            value: |input| input.plain(),
            again: |items, count, input| input.refill(items, count),
            over: |place, input| input.replace(place),
        }
    }
}

impl<A: Around, const N: usize> Around for InArray<A, N> {
    type Of<T> = A::Of<[T; N]>;

    #[inline(always)]
    fn reads<T: FromBytes + IntoBytes + Immutable + Copy>() -> PlainReads<Self::Of<T>> {
        A::reads::<[T; N]>()
    }
}

/// The reads of a type that is plain data.
#[doc(hidden)]
pub struct PlainReads<T> {
    /// Reads a value.
    pub(super) value: fn(&mut Input<'_>) -> Result<T, WireError>,
    /// Reads so many values in place of those of a vector.
    pub(super) again: fn(&mut Vec<T>, usize, &mut Input<'_>) -> Result<(), WireError>,
    /// Reads a value in place of another.
    pub(super) over: fn(&mut Option<T>, &mut Input<'_>) -> Result<(), WireError>,
}

impl<T: Plain, const N: usize> Plain for [T; N] {}

impl<T: Wire, const N: usize> Wire for [T; N] {
    const PLAIN: bool = T::PLAIN;
    const IN_PLACE: bool = T::IN_PLACE;
    const STREAMS: bool = T::STREAMS;
    const TOLERANT: bool = T::TOLERANT;
    const BYTES_LIKELY: usize = match T::PLAIN {
        true => size_of::<Self>(),
        false => N * T::BYTES_LIKELY.next_multiple_of(8),
    };

    #[inline]
    fn bytes_likely(&self) -> usize {
        match T::PLAIN {
            true => size_of::<Self>(),
            false => self.iter().map(|item| item.bytes_likely().next_multiple_of(8)).sum(),
        }
    }

    fn describe(out: &mut Describe) {
        out.text("[");
        out.elements::<T>();
        out.text(&format!("; {N}]"));
    }

    #[inline(always)]
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        T::put_all(self, out)
    }

    #[inline(always)]
    fn put_all(items: &[Self], out: &mut Output<'_>) -> Result<(), WireError> {
        T::put_all(items.as_flattened(), out)
    }

    #[inline]
    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match Self::plain_reads::<Alone>() {
            Some(reads) => (reads.value)(input),
            None => input.sequence(|input| take_each(input)),
        }
    }

    fn streams(&self, show: &mut dyn FnMut(&Rc<dyn Carried>)) {
        self.iter().for_each(|item| item.streams(show));
    }

    #[inline(always)]
    fn plain_reads<A: Around>() -> Option<PlainReads<A::Of<Self>>> {
        T::plain_reads::<InArray<A, N>>()
    }
}

/// Reads elements that are not plain data, one after another.
fn take_each<T: Wire, const N: usize>(input: &mut Input<'_>) -> Result<[T; N], WireError> {
    let mut items = [const { None }; N];
    for item in &mut items {
        // The array was charged by what holds it. Only elements without any size could be any number.
        if size_of::<T>() == 0 {
            input.charge(0)?;
        }
        *item = Some(T::take(input)?);
    }
    Ok(items.map(|item| item.expect("each item was read")))
}
