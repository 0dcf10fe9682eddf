//! Pointers within an export.

use crate::export::memory::{Memory, Writer};
use crate::export::path::{Path, fields};
use crate::export::shared::{Access, Named, Navigate, Place, Shared};
use std::fmt;
use std::marker::PhantomData;
use upbeat_core::channel::export::{Shape, Step};

/// A pointer to a struct of the same export, or to nothing.
///
/// The owner lets it point to a struct of the export by [`point_to`](Path::point_to). A reader's path goes on behind the
/// pointer by `target()`, and reading the path to a pointer reads a copy of its target. A pointer that is a part of a value
/// which was read has the place of its target: [`Import::follow`](crate::export::Import::follow) leads there. It knows its
/// export: other imports do not follow it, and no other export stores it.
pub struct Ref<T> {
    /// One more than the first word of the target, or 0.
    pub(in crate::export) pointer: u32,
    /// The number of the export in which the target is, or 0.
    export: u32,
    target: PhantomData<fn() -> T>,
}

impl<T> Ref<T> {
    /// Returns the pointer to a struct that begins at this word of the export of this number.
    pub(in crate::export) const fn to(at: u32, export: u32) -> Ref<T> {
        Ref { pointer: at + 1, export, target: PhantomData }
    }
}

impl<T> Ref<T> {
    /// Returns a pointer to nothing.
    #[must_use]
    pub const fn null() -> Ref<T> {
        Ref { pointer: 0, export: 0, target: PhantomData }
    }

    /// Returns whether the pointer leads to nothing.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.pointer == 0
    }
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Ref<T> {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> Default for Ref<T> {
    fn default() -> Ref<T> {
        Ref::null()
    }
}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Ref<T>) -> bool {
        (self.pointer, self.export) == (other.pointer, other.export)
    }
}

impl<T> Eq for Ref<T> {}

impl<T> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.checked_sub(1) {
            None => f.write_str("null"),
            Some(at) => write!(f, "ref@{at}"),
        }
    }
}

impl<T: Named> Shared for Ref<T> {
    const WORDS: usize = 1;
    const UNITS: usize = 0;
    const IS_UNIT: bool = false;

    type Fields<A: Access> = RefFields<A, T>;

    fn shape() -> Shape {
        Shape::Ref { to: T::NAME.into() }
    }

    fn put(&self, to: &Writer<'_>, at: usize) {
        to.store(at, self.pointer.into());
    }

    fn is_within(&self, export: u32) -> bool {
        self.is_null() || self.export == export
    }

    fn take(from: &Memory, at: usize) -> Option<Self> {
        // An owner writes no larger word, and no struct begins there.
        let pointer = u32::try_from(from.load(at)).unwrap_or(u32::MAX);
        let export = if pointer == 0 { 0 } else { from.export() };
        Some(Ref { pointer, export, target: PhantomData })
    }

    fn versions(_at: usize, _show: &mut dyn FnMut(usize)) {}
}

/// The path behind a pointer.
pub struct RefFields<A: Access, T>(pub(super) Place<A>, pub(super) PhantomData<fn() -> T>);

impl<A: Access, T: Named> RefFields<A, T> {
    /// Returns the path to the target. Reading it is [`ReadError::Nothing`](crate::export::ReadError::Nothing) while the pointer leads to nothing, and writing
    /// it panics then.
    pub fn target<'p>(&'p self) -> Path<<A::Borrowed<'p> as Navigate>::There, T>
    where
        A::Borrowed<'p>: Navigate,
    {
        let words = T::WORDS as u32;
        Path::step(self.0.borrowed(), |at, around| Step::Target { at, words, around })
    }
}

fields! {
    [A: Access, T] RefFields<A, T>, |place| RefFields(place, PhantomData);
}
