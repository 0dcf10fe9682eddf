//! Paths: which part of an export is meant, and by whom.

use super::error::ReadError;
use super::memory::Memory;
use super::shared::{
    Access, Fields, NOTHING, NOWHERE, Navigate, OTHER_EXPORT, Place, Shared, TOO_LONG,
};
use std::marker::PhantomData;
use std::ops::Deref;
use upbeat_core::channel::export::{Around, Step};
use upbeat_memory::region::WORD;

/// A path to a value of type `T` in an export.
///
/// The methods of its fields lead further: `quotes.book().index(3).bid()`.
pub struct Path<A: Access, T: Shared> {
    pub(super) fields: T::Fields<A>,
}

impl<A: Access> Place<A> {
    /// Returns the path to the field that begins `offset` words behind the beginning of its struct.
    #[inline(always)]
    pub fn field<T: Shared>(&self, offset: usize) -> Path<A::Borrowed<'_>, T> {
        let at = if self.at == NOWHERE { NOWHERE } else { self.at + offset };
        Path::new(Place { at, shift: None, ..self.borrowed() })
    }
}

impl<A: Access, T: Shared> Path<A, T> {
    #[inline(always)]
    pub(super) fn new(place: Place<A>) -> Path<A, T> {
        // The fields of a unit have its version.
        let version = match T::IS_UNIT && place.at != NOWHERE {
            true => place.at,
            false => place.version,
        };
        Path { fields: Place { version, ..place }.into() }
    }

    /// Returns the path behind the step that `step` makes of the word at which a place begins, and of the version around the
    /// place.
    pub(super) fn step<B: Navigate<There = A>>(
        place: Place<B>,
        step: impl FnOnce(u32, Around) -> Step,
    ) -> Path<A, T> {
        if place.at == NOWHERE {
            let why = place.version;
            return Path::new(B::nowhere(place, why));
        }
        let (at, around) = B::from_step(&place);
        Path::new(B::begin(place, step(at, around), T::PACKED != 0))
    }

    #[inline(always)]
    pub(super) fn place(&self) -> &Place<A> {
        self.fields.place()
    }

    /// Returns the same path, for as long as this one is borrowed.
    #[inline(always)]
    pub(super) fn borrowed(&self) -> Path<A::Borrowed<'_>, T> {
        Path::new(self.place().borrowed())
    }

    /// Returns where the value begins, or the error of an index that is out of range.
    #[inline(always)]
    pub(super) fn at(&self) -> Result<usize, ReadError> {
        match self.place() {
            Place { at: NOWHERE, version: NOTHING, .. } => Err(ReadError::Nothing),
            Place { at: NOWHERE, version: OTHER_EXPORT, .. } => Err(ReadError::OtherExport),
            Place { at: NOWHERE, version: TOO_LONG, .. } => Err(ReadError::Steps),
            Place { at: NOWHERE, version: index, .. } => Err(ReadError::Index { index: *index }),
            place => Ok(place.at),
        }
    }

    /// Loads the value from word `at` on, which may be torn.
    #[inline(always)]
    pub(super) fn take(&self, memory: &Memory, at: usize) -> Option<T> {
        match self.place().shift {
            None => T::take(memory, at),
            Some(shift) => T::of_word(memory.load(at) >> shift),
        }
    }

    /// Loads the value from word `at` on, as [`Path::take`] does, into `to`.
    #[inline(always)]
    pub(super) fn take_into(&self, to: &mut T, memory: &Memory, at: usize) -> bool {
        match self.place().shift {
            None => to.take_into(memory, at),
            Some(_) => self.take(memory, at).map(|value| *to = value).is_some(),
        }
    }

    /// Shows the versions that tell whether the value has changed.
    #[inline(always)]
    pub(super) fn versions(&self, show: &mut dyn FnMut(usize)) {
        let place = self.place();
        if !T::IS_UNIT && T::WORDS > 0 {
            show(place.version);
        }
        T::versions(place.at, show);
    }
}

impl<A: Access, T: Shared> Deref for Path<A, T> {
    type Target = T::Fields<A>;

    #[inline(always)]
    fn deref(&self) -> &T::Fields<A> {
        &self.fields
    }
}

/// A scalar has no fields.
#[doc(hidden)]
pub struct ScalarFields<A: Access>(Place<A>);

/// A text has no fields.
#[doc(hidden)]
pub struct TextFields<A: Access>(Place<A>);

/// The elements of an array.
pub struct ArrayFields<A: Access, T, const N: usize>(pub(super) Place<A>, PhantomData<fn() -> T>);

impl<A: Access, T: Shared, const N: usize> ArrayFields<A, T, N> {
    /// Returns the path to an element. Reading one that is out of range is an error, and writing it panics.
    #[inline(always)]
    pub fn index(&self, index: usize) -> Path<A::Borrowed<'_>, T> {
        let place = &self.0;
        if index >= N || place.at == NOWHERE {
            let index = if place.at == NOWHERE { place.version } else { index };
            return Path::new(Place::nowhere(place.access.borrow(), index));
        }
        let (at, shift) = match T::PACKED {
            0 => (place.at + index * T::WORDS, None),
            each => {
                let byte = index * each;
                let first = place.at + usize::from(<[T; N]>::IS_UNIT);
                (first + byte / WORD, Some((8 * (byte % WORD)) as u8))
            }
        };
        Path::new(Place { at, shift, ..place.borrowed() })
    }

    /// Returns the number of elements.
    #[expect(clippy::len_without_is_empty, reason = "the number is part of the type")]
    pub const fn len(&self) -> usize {
        N
    }
}

/// Lets types be paths to the fields of a value.
macro_rules! fields {
    ($([$($generics:tt)*] $name:ty, |$place:ident| $of:expr;)*) => {$(
        impl<$($generics)*> From<$crate::export::shared::Place<A>> for $name {
            #[inline(always)]
            fn from($place: $crate::export::shared::Place<A>) -> Self {
                $of
            }
        }

        impl<$($generics)*> $crate::export::shared::Fields<A> for $name {
            #[inline(always)]
            fn place(&self) -> &$crate::export::shared::Place<A> {
                &self.0
            }
        }
    )*};
}

pub(super) use fields;

fields! {
    [A: Access] ScalarFields<A>, |place| ScalarFields(place);
    [A: Access] TextFields<A>, |place| TextFields(place);
    [A: Access, T, const N: usize] ArrayFields<A, T, N>, |place| ArrayFields(place, PhantomData);
}
