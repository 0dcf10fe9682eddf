//! The exports of a node: which names stand, and what readers are answered.

use super::expression::Expression;
use super::part::Part;
use super::readers::{Asker, Denial, Readers};
use super::route::{Missing, Route};
use super::shape::{Shape, ShapeError};
use crate::limits::{EXPORT_NAME_BYTES_MAX, EXPORT_PARTS_MAX, EXPORT_WORDS_MAX};
use crate::mutant::{Mutant, mutated};
use crate::name::{NameError, NodeName};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// The exports of a node, each with what the runtime keeps of it.
///
/// Invariant: two exports that stand have two names, and a number is never used again, so a reader of an export that was
/// withdrawn does not read another one. Nothing of an export but its name is told to somebody who may not read it, and
/// the name alone to somebody who knows it.
#[derive(Debug)]
pub struct Directory<E> {
    standing: BTreeMap<u32, Entry<E>>,
    /// The number of the first export of this node.
    first: u32,
    next: u32,
}

#[derive(Debug)]
struct Entry<E> {
    name: Box<str>,
    shape: Shape,
    text: Box<str>,
    readers: Readers,
    kept: E,
}

/// The reason why a node does not export a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name is none of an export.
    Name(NameError),
    /// The name of a reader is none of nodes.
    Reader(NameError),
    /// The name has several segments, or is too long.
    Segments {
        /// The name.
        name: Box<str>,
    },
    /// The node exports another value under this name.
    Taken {
        /// The name.
        name: Box<str>,
    },
    /// The type is too large, or its names cannot be used.
    Shape(ShapeError),
    /// The node has used up the numbers of exports.
    Numbers,
}

/// The reason why an export is not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// No export stands under the name; these do.
    NoExport {
        /// The names of the others.
        others: Vec<String>,
    },
    /// The export has another type, which is this one.
    OtherType {
        /// The type of the export.
        exported: String,
    },
    /// The export is for named nodes, and this reader may not open it.
    NotPermitted(Denial),
}

/// The reason why a part is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRead {
    /// The export was withdrawn.
    Ended,
    /// This node has never had an export of the number: a node that has ended had its name before.
    OtherOwner,
    /// The value has no such part.
    NoPart,
    /// There are too many parts, or they have too many words.
    Large,
    /// A sum has more than 64 bits.
    Overflow,
    /// The path leads to no value at the moment.
    Missing(Missing),
    /// The export is for named nodes, and this reader may not read it.
    NotPermitted,
}

/// An export, and where a reader's path leads in it.
#[derive(Debug)]
pub struct Routed<'d, E> {
    /// The steps that the memory decides.
    pub route: Route,
    /// The shape of the value to which they lead.
    pub shape: &'d Shape,
    /// The runtime's part of the export.
    pub kept: &'d E,
}

impl<E> Directory<E> {
    /// Returns a directory without exports. The number of the first one is random, so that a reader of a node that has died
    /// does not read an export of the node that has the name now.
    #[must_use]
    pub fn new(random: u32) -> Directory<E> {
        let next = if mutated(Mutant::ExportNumbersAlike) { 0 } else { random >> 1 };
        Directory { standing: BTreeMap::new(), first: next, next }
    }

    /// Checks that a value of this shape may be exported under a name. Returns the number that the export has from now on.
    pub fn number(&mut self, name: &str, shape: &Shape) -> Result<u32, Refusal> {
        self.check(name, shape)?;
        let number = self.next;
        self.next = number.checked_add(1).ok_or(Refusal::Numbers)?;
        Ok(number)
    }

    /// Exports a value of this shape, which has this [number](Self::number), for these readers.
    pub fn export(
        &mut self,
        number: u32,
        name: &str,
        shape: Shape,
        readers: Readers,
        kept: E,
    ) -> Result<(), Refusal> {
        let name = self.check(name, &shape)?;
        let text = shape.to_string().into();
        self.standing.insert(number, Entry { name, shape, text, readers, kept });
        Ok(())
    }

    /// Checks that a value of this shape may be exported under a name, which is returned.
    fn check(&self, name: &str, shape: &Shape) -> Result<Box<str>, Refusal> {
        let name = checked(name)?;
        shape.check().map_err(Refusal::Shape)?;
        match self.named(&name).is_some() && !mutated(Mutant::ExportNameTwice) {
            true => Err(Refusal::Taken { name }),
            false => Ok(name),
        }
    }

    /// Opens the export of this name and type for a reader: its number, and what is kept of it.
    pub fn open(&self, name: &str, text: &str, asker: &impl Asker) -> Result<(u32, &E), NotOpened> {
        let Some((number, entry)) = self.named(name) else {
            return Err(NotOpened::NoExport { others: self.names(asker) });
        };
        entry.readers.admit(asker).map_err(NotOpened::NotPermitted)?;
        match *entry.text == *text || mutated(Mutant::ExportTypeUnread) {
            true => Ok((number, &entry.kept)),
            false => Err(NotOpened::OtherType { exported: entry.text.to_string() }),
        }
    }

    /// Returns what is kept of an export, for a reader of it.
    pub fn kept(&self, number: u32, asker: &impl Asker) -> Result<&E, NotRead> {
        self.numbered(number, asker).map(|entry| &entry.kept)
    }

    /// Returns the shape of an export, and what is kept of it, for a reader of this part.
    pub fn part(
        &self,
        number: u32,
        part: Part,
        asker: &impl Asker,
    ) -> Result<(&Shape, &E), NotRead> {
        let entry = self.numbered(number, asker)?;
        if !mutated(Mutant::PartUnchecked) {
            part.check(&entry.shape).map_err(|_| NotRead::NoPart)?;
        }
        Ok((&entry.shape, &entry.kept))
    }

    /// Returns where a route on the wire leads in an export, for a reader of this part of the value there.
    pub fn routed(
        &self,
        number: u32,
        route: &[u64],
        part: Part,
        asker: &impl Asker,
    ) -> Result<Routed<'_, E>, NotRead> {
        let entry = self.numbered(number, asker)?;
        let (route, shape) = Route::decode(route, &entry.shape).map_err(|_| NotRead::NoPart)?;
        if !mutated(Mutant::PartUnchecked) {
            part.check(shape).map_err(|_| NotRead::NoPart)?;
        }
        Ok(Routed { route, shape, kept: &entry.kept })
    }

    /// Checks that parts that a reader asks for at once are within their bounds.
    pub fn check_all(parts: impl ExactSizeIterator<Item = Part>) -> Result<(), NotRead> {
        let is_few = parts.len() <= EXPORT_PARTS_MAX;
        let words = parts.take(EXPORT_PARTS_MAX).map(|part| part.words as usize);
        let is_short = words.fold(0, usize::saturating_add) <= EXPORT_WORDS_MAX;
        if is_few && is_short || mutated(Mutant::PartsUnbounded) {
            Ok(())
        } else {
            Err(NotRead::Large)
        }
    }

    /// Returns what is kept of an export, for a reader of this expression.
    pub fn expression(
        &self,
        number: u32,
        expression: &Expression,
        asker: &impl Asker,
    ) -> Result<&E, NotRead> {
        let entry = self.numbered(number, asker)?;
        if !mutated(Mutant::ExpressionUnchecked) {
            expression.check(&entry.shape).map_err(|_| NotRead::NoPart)?;
        }
        Ok(&entry.kept)
    }

    /// Withdraws an export. Returns what was kept of it, unless it was withdrawn before.
    pub fn withdraw(&mut self, number: u32) -> Option<E> {
        if mutated(Mutant::ExportNumberAgain) {
            self.next = number;
        }
        self.standing.remove(&number).map(|entry| entry.kept)
    }

    /// Returns the names of the exports that somebody may read.
    pub fn names(&self, asker: &impl Asker) -> Vec<String> {
        self.readable(asker).map(|(_, entry)| entry.name.to_string()).collect()
    }

    /// Returns the number, the name and the type of each export that somebody may read.
    pub fn list(&self, asker: &impl Asker) -> Vec<(u32, String, String)> {
        let listed = |(number, entry): (&u32, &Entry<E>)| {
            (*number, entry.name.to_string(), entry.text.to_string())
        };
        self.readable(asker).map(listed).collect()
    }

    fn readable(&self, asker: &impl Asker) -> impl Iterator<Item = (&u32, &Entry<E>)> {
        self.standing.iter().filter(|(_, entry)| entry.readers.admit(asker).is_ok())
    }

    /// Returns the export of a number, for somebody who may read it.
    fn numbered(&self, number: u32, asker: &impl Asker) -> Result<&Entry<E>, NotRead> {
        let entry = self.standing.get(&number).ok_or_else(|| {
            let was_here = (self.first..self.next).contains(&number);
            if was_here { NotRead::Ended } else { NotRead::OtherOwner }
        })?;
        entry.readers.admit(asker).map_err(|_| NotRead::NotPermitted)?;
        Ok(entry)
    }

    fn named(&self, name: &str) -> Option<(u32, &Entry<E>)> {
        let found = self.standing.iter().find(|(_, entry)| *entry.name == *name);
        found.map(|(number, entry)| (*number, entry))
    }
}

/// Returns the name of an export: a segment of a node's name.
fn checked(name: &str) -> Result<Box<str>, Refusal> {
    let checked = NodeName::new(name).map_err(Refusal::Name)?;
    match checked.segments().count() == 1 && name.len() <= EXPORT_NAME_BYTES_MAX {
        true => Ok(name.into()),
        false => Err(Refusal::Segments { name: name.into() }),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Name(error) => write!(f, "the name of the export cannot be used: {error}"),
            Refusal::Reader(error) => {
                write!(
                    f,
                    "the name of a reader cannot be used: {error}; `worker/*` are all nodes below `worker/`"
                )
            }
            Refusal::Segments { name } => write!(
                f,
                "`{name}` is no name of an export: it is one segment without `/`, of {EXPORT_NAME_BYTES_MAX} bytes at most"
            ),
            Refusal::Taken { name } => write!(
                f,
                "this node exports another value as `{name}`: drop that export first, or use another name"
            ),
            Refusal::Shape(error) => write!(f, "the type cannot be exported: {error}"),
            Refusal::Numbers => {
                f.write_str("this node has exported 2^31 values, and has no number for another")
            }
        }
    }
}

impl core::error::Error for Refusal {}
