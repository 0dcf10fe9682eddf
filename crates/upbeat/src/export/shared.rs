//! The types that an export may have, and the places of their values.

use super::memory::Memory;
use upbeat_core::channel::export::Shape;

/// A type of exported values: `#[derive(upbeat::Shared)]` makes it of a struct.
///
/// Scalars, arrays, [`Text`](super::Text) and structs of such types are shared. A scalar has a word of its own, and in an
/// array its own size.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be exported",
    label = "an export consists of numbers, `bool`, `char`, arrays, `upbeat::export::Text` and structs with \
             `#[derive(upbeat::Shared)]`"
)]
pub trait Shared: Sized + 'static {
    /// The words of a value.
    #[doc(hidden)]
    const WORDS: usize;
    /// The units of a value.
    #[doc(hidden)]
    const UNITS: usize;
    /// Whether the first word of a value is its version.
    #[doc(hidden)]
    const IS_UNIT: bool;
    /// The bytes of a scalar in an array. 0 for other types.
    #[doc(hidden)]
    const PACKED: usize = 0;

    /// The paths to the fields of a value.
    type Fields<A: Access>: Fields<A> + From<Place<A>>;

    /// Returns the description of the type.
    #[doc(hidden)]
    fn shape() -> Shape;

    /// Stores a value from word `at` on. Its units are being updated.
    #[doc(hidden)]
    fn put(&self, to: &Memory, at: usize);

    /// Loads a value from word `at` on. Returns `None` where words are no value of the type.
    #[doc(hidden)]
    fn take(from: &Memory, at: usize) -> Option<Self>;

    /// Loads a value from word `at` on into this one. Returns `false` where words are no value of the type: then only some
    /// parts were loaded.
    #[doc(hidden)]
    #[inline(always)]
    fn take_into(&mut self, from: &Memory, at: usize) -> bool {
        Self::take(from, at).map(|value| *self = value).is_some()
    }

    /// Shows the word of each version of a value at word `at`.
    #[doc(hidden)]
    fn versions(at: usize, show: &mut dyn FnMut(usize));

    /// Stores the scalars of an array.
    #[doc(hidden)]
    fn put_packed(_items: &[Self], _to: &Memory, _at: usize) {
        unreachable!("an array of other types than scalars is not packed")
    }

    /// Loads the scalars of an array.
    #[doc(hidden)]
    fn take_packed<const N: usize>(_from: &Memory, _at: usize) -> Option<[Self; N]> {
        unreachable!("an array of other types than scalars is not packed")
    }

    /// Loads the scalars of an array into these.
    #[doc(hidden)]
    fn take_packed_into(_items: &mut [Self], _from: &Memory, _at: usize) -> bool {
        unreachable!("an array of other types than scalars is not packed")
    }

    /// Returns the scalar in the low bits of a word.
    #[doc(hidden)]
    fn of_word(_word: u64) -> Option<Self> {
        unreachable!("only a scalar is a word")
    }

    /// Returns a scalar as a word.
    #[doc(hidden)]
    fn to_word(&self) -> u64 {
        unreachable!("only a scalar is a word")
    }
}

/// The party that uses a path: its reader, or the owner of the export.
pub trait Access: Clone + Sealed {
    /// The same, for as long as it is borrowed.
    #[doc(hidden)]
    type Borrowed<'a>: Access
    where
        Self: 'a;

    #[doc(hidden)]
    fn borrow(&self) -> Self::Borrowed<'_>;
}

/// Only this crate has users of paths.
pub trait Sealed {}

macro_rules! access {
    ($($root:ty, $user:ty;)*) => {$(
        impl $crate::export::shared::Sealed for $root {}
        impl $crate::export::shared::Sealed for &$user {}

        impl $crate::export::shared::Access for $root {
            type Borrowed<'a> = &'a $user;

            #[inline(always)]
            fn borrow(&self) -> &$user {
                self
            }
        }

        impl<'u> $crate::export::shared::Access for &'u $user {
            type Borrowed<'a> = &'u $user where Self: 'a;

            #[inline(always)]
            fn borrow(&self) -> &'u $user {
                self
            }
        }
    )*};
}

pub(super) use access;

/// The place of an index that is out of range.
pub(super) const NOWHERE: usize = usize::MAX;

/// A part of an export, for generated code.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Place<A> {
    pub(super) access: A,
    /// The first word, in the memory of the export, or [`NOWHERE`].
    pub(super) at: usize,
    /// The word with the version of the unit around the part. The index, if that was out of range.
    pub(super) version: usize,
    /// The first bit of a scalar of an array in its word.
    pub(super) shift: Option<u8>,
}

impl<A: Access> Place<A> {
    /// Returns the place of a whole export, whose version is at word `version`.
    pub(super) fn whole(access: A, at: usize, version: usize) -> Place<A> {
        Place { access, at, version, shift: None }
    }

    /// Returns who uses the path.
    #[inline(always)]
    pub(super) fn access(&self) -> A {
        self.access.clone()
    }
}

/// The paths to the fields of a value.
#[doc(hidden)]
pub trait Fields<A> {
    fn place(&self) -> &Place<A>;
}
