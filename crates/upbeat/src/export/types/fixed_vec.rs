//! Vectors of a fixed capacity, as values of exports.

use crate::export::memory::{Memory, Writer};
use crate::export::path::{Path, fields};
use crate::export::shared::{Access, Navigate, Place, Readable, Shared};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use upbeat_core::channel::export::{Shape, Step, vec_words};
use upbeat_memory::region::WORD;

/// The word of a vector with its length, and the first one of its elements.
pub(in crate::export) const LENGTH: usize = 1;
pub(super) const ELEMENTS: usize = 2;

/// Returns the bytes of an element of a vector. Scalars lie side by side.
pub(in crate::export) const fn each<T: Shared>() -> usize {
    match T::PACKED {
        0 => T::WORDS * WORD,
        bytes => bytes,
    }
}

/// A vector of at most `N` elements, in an export.
///
/// ```
/// use upbeat::export::FixedVec;
///
/// let mut levels: FixedVec<f64, 3> = FixedVec::new();
/// levels.push(1.05).unwrap();
/// assert_eq!(levels[..], [1.05]);
/// assert!(FixedVec::<u8, 1>::of(vec![1, 2]).is_none());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct FixedVec<T, const N: usize>(Vec<T>);

impl<T, const N: usize> FixedVec<T, N> {
    /// Creates a vector without elements.
    #[must_use]
    pub const fn new() -> FixedVec<T, N> {
        FixedVec(Vec::new())
    }

    /// Returns the vector of these elements, or `None` if they are more than `N`.
    #[must_use]
    pub fn of(items: Vec<T>) -> Option<FixedVec<T, N>> {
        (items.len() <= N).then_some(FixedVec(items))
    }

    /// Appends an element.
    ///
    /// # Errors
    /// Gives the element back if the vector is full.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.0.len() == N {
            return Err(item);
        }
        self.0.push(item);
        Ok(())
    }

    /// Returns the elements.
    ///
    /// ```
    /// use upbeat::export::FixedVec;
    ///
    /// let levels = FixedVec::<u8, 4>::of(vec![1, 2]).unwrap();
    /// assert_eq!(levels.into_vec(), [1, 2]);
    /// ```
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const N: usize> Default for FixedVec<T, N> {
    fn default() -> FixedVec<T, N> {
        FixedVec::new()
    }
}

impl<T, const N: usize> Deref for FixedVec<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for FixedVec<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Shared, const N: usize> FixedVec<T, N> {
    /// Returns the first word of an element that has words of its own, of the vector at word `at`.
    pub(in crate::export) const fn item(at: usize, index: usize) -> usize {
        at + ELEMENTS + index * T::WORDS
    }
}

/// Stores the elements of a vector, of which the first one begins at word `first`.
pub(super) fn put_items<T: Shared>(items: &[T], to: &Writer<'_>, first: usize) {
    if T::PACKED != 0 {
        return T::put_packed(items, to, first);
    }
    for (index, item) in items.iter().enumerate() {
        item.put(to, first + index * T::WORDS);
    }
}

/// Loads elements, of which the first one begins at word `first`.
pub(super) fn take_items<T: Shared>(from: &Memory, first: usize, len: usize) -> Option<Vec<T>> {
    let item = |index: usize| match T::PACKED {
        0 => T::take(from, first + index * T::WORDS),
        each => {
            let byte = index * each;
            T::of_word(from.load(first + byte / WORD) >> (8 * (byte % WORD)))
        }
    };
    (0..len).map(item).collect()
}

impl<T: Shared, const N: usize> Shared for FixedVec<T, N> {
    const WORDS: usize = vec_words(each::<T>(), N);
    const UNITS: usize = 1 + if T::PACKED == 0 { N * T::UNITS } else { 0 };
    const IS_UNIT: bool = true;
    const GROWS: bool = T::GROWS;

    type Fields<A: Access> = FixedVecFields<A, T, N>;

    fn shape() -> Shape {
        const { assert!(N <= u32::MAX as usize, "an exported vector has less than 2^32 elements") }
        Shape::FixedVec { of: T::shape().into(), len: N as u32 }
    }

    fn put(&self, to: &Writer<'_>, at: usize) {
        to.store(at + LENGTH, self.0.len() as u64);
        put_items(&self.0, to, at + ELEMENTS);
    }

    fn room(&self, replaced: Option<(&Writer<'_>, usize)>) -> usize {
        let items = self.0.iter().enumerate();
        let room = |(index, item): (usize, &T)| {
            item.room(replaced.map(|(writer, at)| (writer, Self::item(at, index))))
        };
        items.map(room).sum()
    }

    fn is_within(&self, export: u32) -> bool {
        self.0.iter().all(|item| item.is_within(export))
    }

    fn take(from: &Memory, at: usize) -> Option<Self> {
        let len = usize::try_from(from.load(at + LENGTH)).ok().filter(|len| *len <= N)?;
        take_items(from, at + ELEMENTS, len).map(FixedVec)
    }

    fn versions(at: usize, show: &mut dyn FnMut(usize)) {
        show(at);
        if T::PACKED == 0 && T::UNITS > 0 {
            (0..N).for_each(|index| T::versions(Self::item(at, index), show));
        }
    }

    fn versions_now(memory: &Memory, (value, at): (usize, usize), show: &mut dyn FnMut(usize)) {
        show(at);
        if T::PACKED == 0 {
            for index in 0..N {
                T::versions_now(memory, (value, Self::item(at, index)), show);
            }
        }
    }
}

impl<T: Shared, const N: usize> Readable for FixedVec<T, N> {}

/// The path into a vector of a fixed capacity.
pub struct FixedVecFields<A: Access, T, const N: usize>(
    pub(super) Place<A>,
    pub(super) PhantomData<fn() -> T>,
);

impl<A: Access, T: Shared, const N: usize> FixedVecFields<A, T, N> {
    /// Returns the path to an element. Reading one that is not there is
    /// [`ReadError::Index`](crate::export::ReadError::Index), and writing it panics.
    pub fn index<'p>(&'p self, index: usize) -> Path<<A::Borrowed<'p> as Navigate>::There, T>
    where
        A::Borrowed<'p>: Navigate,
    {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let (each, len) = (each::<T>() as u32, N as u32);
        Path::step(self.0.borrowed(), |at, _| Step::Element { at, index, each, len })
    }

    /// Returns the path to the number of elements.
    pub fn length(&self) -> Path<A::Borrowed<'_>, u64> {
        self.0.field(LENGTH)
    }
}

fields! {
    [A: Access, T, const N: usize] FixedVecFields<A, T, N>, |place| FixedVecFields(place, PhantomData);
}
