//! Exports: variables of a node that other nodes read, and that only their owner writes.
//!
//! The owner puts a value of a known [`Shape`] into memory that other nodes of its host map. A reader there loads words,
//! and needs no message. A reader that shares no memory with the owner, or that lost its bet on a value which the owner
//! writes again and again, names the [`Part`] to the owner, whose dispatcher answers with its words.
//!
//! A shape decides the *layout*: the words of a value, and which of them are versions. Words that change together are a
//! unit. The first word of a unit is its version, which is odd while the owner writes, and a value of one word needs
//! none. Both sides lay a value out by its shape alone, so they agree on a shape before anything is read.
//!
//! A [`Route`] leads to values whose place the memory decides: those of options, vectors, maps and pointers.
//!
//! The owner chooses a [`Consistency`], which decides what a reader has to check.
//! A reader that does not know the type at compile time gets its text from the owner, selects a part by a path
//! ([`Shape::resolve`]), and makes a [`Value`] of the words of that part.
//!
//! Invariant: a part that [`Part::check`] accepts is a value of an exported type, and any text is a shape within its
//! bounds or the [`ShapeError`] that says why not. Any words are a value of their shape or an error.

mod layout;
pub mod chunks;
pub mod map;
mod shape;
mod text;
mod part;
mod route;
mod gather;
mod expression;
mod readers;
mod rooms;
mod directory;
mod resolve;
mod value;

pub use directory::{Directory, NotOpened, NotRead, Refusal, Routed};
pub use expression::{Compare, Expression, Filter, Fold, Number, Operand, Overflow};
pub use gather::{NotGathered, gather};
pub use layout::{packed_words, text_words, vec_words};
pub use part::Part;
pub use readers::{Asker, Denial, Nameless, Readers};
pub use resolve::{Kind, PathError, Selection};
pub use rooms::{Room, Rooms, SEGMENT_HEAD, Thrift};
pub use route::{Around, Found, Load, Missing, Route, Step};
pub use shape::{Field, Scalar, Shape, ShapeError};
pub use value::Value;

/// The promise of the owner of an export to its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Each value is whole: as the owner left it after one update.
    Cell,
    /// The whole export is, which has two copies.
    Guarded,
    /// Each word is. There are no versions.
    Raw,
}

impl Consistency {
    /// Returns the consistency on the wire.
    #[must_use]
    pub const fn encode(self) -> u8 {
        match self {
            Consistency::Cell => 0,
            Consistency::Guarded => 1,
            Consistency::Raw => 2,
        }
    }

    /// Returns the consistency of a number on the wire, if there is one.
    #[must_use]
    pub const fn decode(number: u8) -> Option<Consistency> {
        match number {
            0 => Some(Consistency::Cell),
            1 => Some(Consistency::Guarded),
            2 => Some(Consistency::Raw),
            _ => None,
        }
    }

    /// Returns the number of copies of a value.
    #[must_use]
    pub const fn copies(self) -> usize {
        match self {
            Consistency::Guarded => 2,
            Consistency::Cell | Consistency::Raw => 1,
        }
    }
}

#[cfg(test)]
mod tests;
