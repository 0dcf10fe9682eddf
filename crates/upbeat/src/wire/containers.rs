//! The forms of types that hold other values: shared and borrowed values, and sequences other than `Vec`.
//!
//! In a message and in a schema, each of them has the form of the value that it holds, or of the `Vec` of its
//! elements, so that the two sides may choose different types.

use super::metered::ALLOCATED;
use super::{ByReference, Carried, Describe, Input, Output, Wire, WireError, reserved};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, LinkedList, VecDeque};
use std::num::{Saturating, Wrapping};
use std::rc::Rc;
use std::sync::Arc;

/// Carries a type that holds one value like that value. `$charge` charges for memory apart from the type's own, and
/// `$make` wraps a value that was read.
macro_rules! transparent {
    ($($type:ident: $charge:expr, $make:expr, $get:expr;)*) => {$(
        impl<T: Wire> Wire for $type<T> {
            const IN_PLACE: bool = T::IN_PLACE;
            const STREAMS: bool = T::STREAMS;
            const TOLERANT: bool = T::TOLERANT;
            const EXACT: Option<usize> = T::EXACT;
            const SPACED: bool = T::SPACED || T::PLAIN && !size_of::<T>().is_multiple_of(8);
            const BYTES_LIKELY: usize = T::BYTES_LIKELY;

            #[inline]
            fn bytes_likely(&self) -> usize {
                let get: fn(&$type<T>) -> &T = $get;
                T::bytes_likely(get(self))
            }

            fn describe(out: &mut Describe) {
                out.of::<T>();
            }

            fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
                let get: fn(&$type<T>) -> &T = $get;
                T::put(get(self), out)
            }

            fn streams(&self, show: &mut dyn FnMut(&Rc<dyn Carried>)) {
                let get: fn(&$type<T>) -> &T = $get;
                T::streams(get(self), show);
            }

            fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
                let charge: fn(&Input<'_>) -> Result<(), WireError> = $charge;
                charge(input)?;
                T::take(input).map($make)
            }
        }
    )*};
}

/// Charges for a value that is allocated by itself.
fn allocated<T>(input: &Input<'_>) -> Result<(), WireError> {
    input.charge(size_of::<T>() + ALLOCATED)
}

transparent! {
    Box: allocated::<T>, Box::new, |value| value;
    Arc: allocated::<T>, Arc::new, |value| value;
    Rc: allocated::<T>, Rc::new, |value| value;
    Wrapping: |_| Ok(()), Wrapping, |value| &value.0;
    Saturating: |_| Ok(()), Saturating, |value| &value.0;
    Reverse: |_| Ok(()), Reverse, |value| &value.0;
}

macro_rules! text {
    ($($type:ty: $make:expr;)*) => {$(
        impl Wire for $type {
            const BYTES_LIKELY: usize = 8;

            #[inline]
            fn bytes_likely(&self) -> usize {
                ByReference::likely(&**self)
            }

            fn describe(out: &mut Describe) {
                out.of::<String>();
            }

            fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
                ByReference::write(&**self, out)
            }

            fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
                let make: fn(String) -> Result<$type, WireError> = $make;
                make(String::take(input)?)
            }
        }
    )*};
}

text! {
    Box<str>: |text| Ok(text.into());
    Cow<'static, str>: |text| Ok(text.into());
    Arc<str>: |text| has_room::<u8>(text.len()).map(|()| text.into());
    Rc<str>: |text| has_room::<u8>(text.len()).map(|()| text.into());
}

/// Checks whether there is memory to move so many elements to: a container that has other memory than a vector
/// allocates it without a check.
fn has_room<T>(elements: usize) -> Result<(), WireError> {
    reserved::<T>(elements).map(drop)
}

/// Makes a container that has the memory of the vector.
fn kept<T, C: From<Vec<T>>>(items: Vec<T>) -> Result<C, WireError> {
    Ok(items.into())
}

/// Makes a container that has other memory than the vector.
fn moved<T, C: From<Vec<T>>>(items: Vec<T>) -> Result<C, WireError> {
    has_room::<T>(items.len())?;
    Ok(items.into())
}

fn linked<T>(items: Vec<T>) -> Result<LinkedList<T>, WireError> {
    has_room::<Link<T>>(items.len())?;
    Ok(items.into_iter().collect())
}

/// Carries a sequence like a `Vec`. `$make` makes the container of the elements that were read.
macro_rules! sequence {
    ($([$($bounds:tt)*] $type:ty, $make:expr, $write:expr;)*) => {$(
        impl<T: Wire $($bounds)*> Wire for $type {
            const STREAMS: bool = T::STREAMS;
            const BYTES_LIKELY: usize = 8;

            #[inline]
            fn bytes_likely(&self) -> usize {
                8 + self.len() * T::BYTES_LIKELY
            }

            fn describe(out: &mut Describe) {
                out.of::<Vec<T>>();
            }

            fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
                $write(self, out)
            }

            fn streams(&self, show: &mut dyn FnMut(&Rc<dyn Carried>)) {
                self.iter().for_each(|item| item.streams(show));
            }

            fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
                let make: fn(Vec<T>) -> Result<$type, WireError> = $make;
                make(Vec::take(input)?)
            }
        }
    )*};
}

/// The memory of an element in a list.
type Link<T> = (usize, usize, T);

sequence! {
    [] Box<[T]>, kept, |items: &[T], out| ByReference::write(items, out);
    [] Arc<[T]>, moved, |items: &[T], out| ByReference::write(items, out);
    [] Rc<[T]>, moved, |items: &[T], out| ByReference::write(items, out);
    [+ Clone] Cow<'static, [T]>, kept, |items: &[T], out| ByReference::write(items, out);
    [] VecDeque<T>, kept, write_deque;
    [] LinkedList<T>, linked, write_list;
    [+ Ord] BinaryHeap<T>, kept, |heap: &BinaryHeap<T>, out| ByReference::write(heap.as_slice(), out);
}

fn write_deque<T: Wire>(deque: &VecDeque<T>, out: &mut Output<'_>) -> Result<(), WireError> {
    let (first, second) = deque.as_slices();
    Wire::put(&(deque.len() as u64), out)?;
    T::put_all(first, out)?;
    put_behind(second, out)
}

fn write_list<T: Wire>(list: &LinkedList<T>, out: &mut Output<'_>) -> Result<(), WireError> {
    Wire::put(&(list.len() as u64), out)?;
    list.iter().try_for_each(|item| put_behind(std::slice::from_ref(item), out))
}

/// Writes elements of a sequence after earlier ones. Plain elements have no gaps between them.
fn put_behind<T: Wire>(items: &[T], out: &mut Output<'_>) -> Result<(), WireError> {
    if !T::PLAIN || items.is_empty() {
        return T::put_all(items, out);
    }
    let mut apart = Output::own(usize::MAX);
    T::put_all(items, &mut apart)?;
    let bytes = apart.into_bytes();
    out.bytes(&bytes.ok_or(WireError::NoMemory { bytes: size_of_val(items) })?);
    Ok(())
}
