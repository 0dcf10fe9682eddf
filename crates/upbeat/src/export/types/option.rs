//! Options, as values of exports.

use crate::export::memory::{Memory, Writer};
use crate::export::path::{Path, fields};
use crate::export::shared::{Access, Navigate, Place, Readable, Shared};
use std::marker::PhantomData;
use upbeat_core::channel::export::{Shape, Step, vec_words};
use upbeat_memory::region::WORD;

/// The word of an option that is 1 if there is a value.
const HAS: usize = 1;
const VALUE: usize = 2;

impl<T: Shared> Shared for Option<T> {
    const WORDS: usize = vec_words(T::WORDS * WORD, 1);
    const UNITS: usize = 1 + T::UNITS;
    const IS_UNIT: bool = true;
    const GROWS: bool = T::GROWS;

    type Fields<A: Access> = OptionFields<A, T>;

    fn shape() -> Shape {
        Shape::Option { of: T::shape().into() }
    }

    fn put(&self, to: &Writer<'_>, at: usize) {
        to.store(at + HAS, self.is_some().into());
        if let Some(value) = self {
            value.put(to, at + VALUE);
        }
    }

    fn room(&self, replaced: Option<(&Writer<'_>, usize)>) -> usize {
        let replaced = replaced.map(|(writer, at)| (writer, at + VALUE));
        self.as_ref().map_or(0, |value| value.room(replaced))
    }

    fn is_within(&self, export: u32) -> bool {
        self.as_ref().is_none_or(|value| value.is_within(export))
    }

    fn take(from: &Memory, at: usize) -> Option<Self> {
        match from.load(at + HAS) {
            0 => Some(None),
            1 => T::take(from, at + VALUE).map(Some),
            _ => None,
        }
    }

    fn versions(at: usize, show: &mut dyn FnMut(usize)) {
        show(at);
        T::versions(at + VALUE, show);
    }

    fn versions_now(memory: &Memory, (value, at): (usize, usize), show: &mut dyn FnMut(usize)) {
        show(at);
        T::versions_now(memory, (value, at + VALUE), show);
    }
}

impl<T: Shared> Readable for Option<T> {}

/// The path into an option.
pub struct OptionFields<A: Access, T>(pub(super) Place<A>, pub(super) PhantomData<fn() -> T>);

impl<A: Access, T: Shared> OptionFields<A, T> {
    /// Returns the path to the value. Reading it is [`ReadError::Nothing`](crate::export::ReadError::Nothing) while there is
    /// none, and writing it panics then.
    pub fn some<'p>(&'p self) -> Path<<A::Borrowed<'p> as Navigate>::There, T>
    where
        A::Borrowed<'p>: Navigate,
    {
        Path::step(self.0.borrowed(), |at, _| Step::Some { at })
    }
}

fields! {
    [A: Access, T] OptionFields<A, T>, |place| OptionFields(place, PhantomData);
}
