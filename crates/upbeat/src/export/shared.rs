//! The types that an export may have, and the places of their values.

use super::location::Location;
use super::memory::{Memory, Writer};
use upbeat_core::channel::export::{Around, Shape, Step};

/// A type of exported values: `#[derive(upbeat::Shared)]` makes it of a struct.
///
/// Scalars, arrays, [`Text`](super::Text), `Option`, [`FixedVec`](super::FixedVec), [`FixedMap`](super::FixedMap),
/// [`Ref`](super::Ref), `Vec` and structs of such types are shared. A scalar has a word of its own, and in an array or vector
/// its own size.
///
/// A type does not contain itself: the compiler finds a cycle. Let a [`Ref`](super::Ref) lead from one struct to another.
///
/// ```compile_fail,E0391
/// #[derive(upbeat::Shared)]
/// struct Tree {
///     kids: Vec<Tree>,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be exported",
    label = "an export consists of numbers, `bool`, `char`, arrays, `Vec`, `Option`, the types of `upbeat::export` and \
             structs with `#[derive(upbeat::Shared)]`"
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

    /// Whether a value has vectors that grow, and travels in more words than [`WORDS`](Self::WORDS).
    #[doc(hidden)]
    const GROWS: bool = false;

    /// The paths to the fields of a value.
    type Fields<A: Access>: Fields<A> + From<Place<A>>;

    /// Returns the description of the type.
    #[doc(hidden)]
    fn shape() -> Shape;

    /// Stores a value from word `at` on. Its units are being updated.
    #[doc(hidden)]
    fn put(&self, to: &Writer<'_>, at: usize);

    /// Returns the words that [`put`](Self::put) takes for vectors that grow, where the value at this word is replaced.
    #[doc(hidden)]
    fn room(&self, _replaced: Option<(&Writer<'_>, usize)>) -> usize {
        0
    }

    /// Returns whether the pointers of the value lead into the export of this number, or to nothing.
    #[doc(hidden)]
    #[inline(always)]
    fn is_within(&self, _export: u32) -> bool {
        true
    }

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

    /// Shows the word of each version of a value at word `at` of the memory, with those of the elements of its vectors. The
    /// exported value begins at word `value`.
    #[doc(hidden)]
    fn versions_now(_memory: &Memory, (_value, at): (usize, usize), show: &mut dyn FnMut(usize)) {
        Self::versions(at, show);
    }

    /// Stores the scalars of an array.
    #[doc(hidden)]
    fn put_packed(_items: &[Self], _to: &Writer<'_>, _at: usize) {
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

/// A type whose values are read as they are: all but [`Ref`](super::Ref), of which a copy of the target is read.
pub trait Readable: Shared {}

/// A struct to which a [`Ref`](super::Ref) leads.
pub trait Named: Readable {
    /// The name in the description of the export.
    #[doc(hidden)]
    const NAME: &'static str;
}

/// The party that uses a path: its reader, or the owner of the export.
pub trait Access: Clone + Sealed {
    /// The same, for as long as it is borrowed.
    #[doc(hidden)]
    type Borrowed<'a>: Access<Steps = Self::Steps>
    where
        Self: 'a;

    /// The steps through memory that a path has taken already and takes again.
    #[doc(hidden)]
    type Steps: Clone + Default + PartialEq;

    #[doc(hidden)]
    fn borrow(&self) -> Self::Borrowed<'_>;

    /// Returns whether places of this user and of the other one begin at the same value.
    #[doc(hidden)]
    fn is_same(&self, other: &Self) -> bool;
}

/// Only this crate has users of paths.
pub trait Sealed {}

macro_rules! access {
    ($($root:ty, $user:ty, $steps:ty;)*) => {$(
        impl $crate::export::shared::Sealed for $root {}
        impl $crate::export::shared::Sealed for &$user {}

        impl $crate::export::shared::Access for $root {
            type Borrowed<'a> = &'a $user;
            type Steps = $steps;

            #[inline(always)]
            fn borrow(&self) -> &$user {
                self
            }

            fn is_same(&self, other: &Self) -> bool {
                std::ptr::eq(&**self, &**other)
            }
        }

        impl<'u> $crate::export::shared::Access for &'u $user {
            type Borrowed<'a> = &'u $user where Self: 'a;
            type Steps = $steps;

            #[inline(always)]
            fn borrow(&self) -> &'u $user {
                self
            }

            fn is_same(&self, other: &Self) -> bool {
                std::ptr::eq(*self, *other)
            }
        }
    )*};
}

pub(super) use access;

/// The place of a path that leads nowhere: of an index that is out of range, or through what is not there.
pub(super) const NOWHERE: usize = usize::MAX;

/// In place of the index that was out of range: the path leads through an option without a value, a map without the
/// entry, or a pointer to nothing.
pub(super) const NOTHING: usize = usize::MAX - 2;

/// The same: the path begins at a pointer into another export.
pub(super) const OTHER_EXPORT: usize = usize::MAX - 3;

/// The same: the path has more steps through memory than a reader takes.
pub(super) const TOO_LONG: usize = usize::MAX - 4;

/// A part of an export, for generated code.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Place<A: Access> {
    pub(super) access: A,
    /// The first word, in the memory of the export, or [`NOWHERE`].
    pub(super) at: usize,
    /// The word with the version of the unit around the part. The index, if that was out of range.
    pub(super) version: usize,
    /// The first bit of a scalar of an array in its word.
    pub(super) shift: Option<u8>,
    pub(super) steps: A::Steps,
}

impl<A: Access> Place<A> {
    /// Returns the place of a whole export, whose version is at word `version`.
    pub(super) fn whole(access: A, at: usize, version: usize) -> Place<A> {
        Place { access, at, version, shift: None, steps: A::Steps::default() }
    }

    /// Returns the place of a path that leads nowhere, for this reason.
    pub(super) fn nowhere(access: A, why: usize) -> Place<A> {
        Place::whole(access, NOWHERE, why)
    }

    /// Returns the same place, for as long as this one is borrowed.
    #[inline(always)]
    pub(super) fn borrowed(&self) -> Place<A::Borrowed<'_>> {
        Place {
            access: self.access.borrow(),
            at: self.at,
            version: self.version,
            shift: self.shift,
            steps: self.steps.clone(),
        }
    }

    /// Returns the same place in an export that has moved.
    pub(super) fn moved(&self, from: &Location, to: &Location) -> Place<A> {
        let by = to.value().wrapping_sub(from.value());
        let version = match self.version == from.version() {
            true => to.version(),
            false => self.version.wrapping_add(by),
        };
        Place {
            access: self.access.clone(),
            at: self.at.wrapping_add(by),
            version,
            shift: self.shift,
            steps: self.steps.clone(),
        }
    }

    /// Returns the first word of the place in a value in which it lies, and the version around the place. The value begins at
    /// word `begin`, and the version around it is at word `around`.
    pub(super) fn within(&self, begin: usize, around: usize) -> (u32, Around) {
        let word = |at: usize| at.wrapping_sub(begin) as u32;
        (word(self.at), (self.version != around).then(|| word(self.version)))
    }

    /// Returns the place of the whole value of an export.
    pub(super) fn of(location: &Location, access: A) -> Place<A> {
        Place::whole(access, location.value(), location.version())
    }

    /// Returns who uses the path.
    #[inline(always)]
    pub(super) fn access(&self) -> A {
        self.access.clone()
    }
}

/// A user of paths who takes steps that the memory decides.
#[doc(hidden)]
pub trait Navigate: Access {
    /// The user of the path behind a step.
    type There: Access;

    /// Returns the first word of a place in the value to which the last step has led, and the version around the place.
    fn from_step(place: &Place<Self>) -> (u32, Around);

    /// Returns the place behind a step that cannot be taken, for this reason.
    fn nowhere(place: Place<Self>, why: usize) -> Place<Self::There>;

    /// Takes a step behind the last one of a place, to a scalar of a packed array if `is_packed`.
    fn begin(place: Place<Self>, step: Step, is_packed: bool) -> Place<Self::There>;
}

/// The paths to the fields of a value.
#[doc(hidden)]
pub trait Fields<A: Access> {
    fn place(&self) -> &Place<A>;
}
