//! Vectors that grow, as values of exports.

use super::fixed_vec::{LENGTH, each, put_items, take_items};
use crate::export::memory::{Memory, Writer};
use crate::export::path::{Path, fields};
use crate::export::shared::{Access, Navigate, Place, Readable, Shared};
use std::marker::PhantomData;
use upbeat_core::channel::export::{Shape, Step, chunks};
use upbeat_memory::region::WORD;

/// Returns the elements of a chunk.
fn in_chunk<T>(items: &[T], chunk: usize) -> &[T] {
    let before = chunks::len(chunk) - chunks::len(0);
    let end = items.len().min(before + chunks::len(chunk));
    items.get(before..end).unwrap_or_default()
}

impl<T: Shared> Shared for Vec<T> {
    const WORDS: usize = chunks::HEAD_WORDS;
    const UNITS: usize = 1;
    const IS_UNIT: bool = true;
    // The constant depends on that of the elements, so the compiler refuses a type that contains itself.
    const GROWS: bool = matches!(T::GROWS, true | false);

    type Fields<A: Access> = VecFields<A, T>;

    fn shape() -> Shape {
        Shape::Vec { of: T::shape().into() }
    }

    fn put(&self, to: &Writer<'_>, at: usize) {
        for chunk in 0..chunks::count(self.len()) {
            let first = to.make_chunk(at, chunk, chunks::words(chunk, each::<T>()));
            put_items(in_chunk(self, chunk), to, first);
        }
        to.store(at + LENGTH, self.len() as u64);
    }

    fn room(&self, replaced: Option<(&Writer<'_>, usize)>) -> usize {
        let mut words = 0;
        for chunk in 0..chunks::count(self.len()) {
            let first = replaced.and_then(|(writer, at)| writer.chunk(at, chunk));
            if first.is_none() {
                words += chunks::words(chunk, each::<T>());
            }
            if T::GROWS {
                let items = in_chunk(self, chunk).iter().enumerate();
                words += items
                    .map(|(index, item)| {
                        let at = first.map(|first| first + index * T::WORDS);
                        item.room(replaced.and_then(|(writer, _)| Some((writer, at?))))
                    })
                    .sum::<usize>();
            }
        }
        words
    }

    fn is_within(&self, export: u32) -> bool {
        self.iter().all(|item| item.is_within(export))
    }

    // The words are in one piece, in which the first chunk has all elements.
    fn take(from: &Memory, at: usize) -> Option<Self> {
        let len = usize::try_from(from.load(at + LENGTH)).ok()?;
        let first = usize::try_from(from.load(at + chunks::pointer(0))).ok()?;
        let words = len.checked_mul(each::<T>())?.div_ceil(WORD);
        if len > 0 && first.checked_add(words)? > from.words() {
            return None;
        }
        take_items(from, first, len)
    }

    fn versions(at: usize, show: &mut dyn FnMut(usize)) {
        show(at);
    }

    fn versions_now(memory: &Memory, (value, at): (usize, usize), show: &mut dyn FnMut(usize)) {
        show(at);
        if T::UNITS == 0 && !T::GROWS {
            return;
        }
        for chunk in 0..chunks::CHUNKS {
            let first = memory.load(at + chunks::pointer(chunk)) as usize;
            if first == 0 {
                return;
            }
            for index in 0..chunks::len(chunk) {
                T::versions_now(memory, (value, value + first + index * T::WORDS), show);
            }
        }
    }
}

impl<T: Shared> Readable for Vec<T> {}

/// The path into a vector that grows.
pub struct VecFields<A: Access, T>(pub(super) Place<A>, pub(super) PhantomData<fn() -> T>);

impl<A: Access, T: Shared> VecFields<A, T> {
    /// Returns the path to an element. Reading one that is not there is
    /// [`ReadError::Index`](crate::export::ReadError::Index), and writing it panics.
    pub fn index<'p>(&'p self, index: usize) -> Path<<A::Borrowed<'p> as Navigate>::There, T>
    where
        A::Borrowed<'p>: Navigate,
    {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let each = each::<T>() as u32;
        Path::step(self.0.borrowed(), |at, _| Step::Chunk { at, index, each })
    }

    /// Returns the path to the number of elements.
    pub fn length(&self) -> Path<A::Borrowed<'_>, u64> {
        self.0.field(LENGTH)
    }
}

fields! {
    [A: Access, T] VecFields<A, T>, |place| VecFields(place, PhantomData);
}
