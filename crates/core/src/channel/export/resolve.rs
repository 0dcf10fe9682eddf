//! Paths as text, such as `book[7].bid`, and the parts that they select.
//!
//! A field may have a dot in front of it at the beginning of a path, and has one everywhere else. An empty path selects the
//! whole value. `limit?` is the value of an option, `head*` the target of a pointer, `prices["EUR"]`
//! the value of a map's entry.

use super::layout::WORD;
use super::part::Part;
use super::route;
use super::shape::{Field, Scalar, Shape};
use crate::limits::{EXPORT_PATH_BYTES_MAX, EXPORT_STEPS_MAX};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// A part of a value that a path selects, with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The [route](super::Route) on the wire to the value that has the part. It is empty for the whole value.
    pub route: Vec<u64>,
    /// The words of the part.
    pub part: Part,
    /// The first bit of a scalar of a packed array in its word. 0 for other parts.
    pub shift: u8,
    /// The type of the part.
    pub shape: Shape,
}

/// The reason why a path selects no part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathError {
    /// The path is too long.
    Long {
        /// The bytes of the path.
        bytes: usize,
    },
    /// The path has too many steps that the memory decides.
    Steps,
    /// The text is no path, from this byte on.
    Text {
        /// The path.
        path: Box<str>,
        /// The position of the byte.
        at: usize,
    },
    /// The struct has no such field.
    NoField {
        /// The path to the struct. Empty for the whole value.
        of: Box<str>,
        /// The name of the struct.
        name: Box<str>,
        /// The name of the field.
        field: Box<str>,
        /// The names of the fields that there are.
        fields: Vec<Box<str>>,
    },
    /// The index is not below the length of its array.
    Index {
        /// The path to the array.
        of: Box<str>,
        /// The index, as it is written.
        index: Box<str>,
        /// The number of elements.
        len: u32,
    },
    /// The value is no struct, and has no fields.
    NoStruct {
        /// The path to the value.
        of: Box<str>,
        /// The kind of the value.
        kind: Kind,
    },
    /// The value is no array, and has no elements.
    NoArray {
        /// The path to the value.
        of: Box<str>,
        /// The kind of the value.
        kind: Kind,
    },
    /// `?` stands behind another value than an option, or `*` behind another one than a pointer.
    NoStep {
        /// The path to the value.
        of: Box<str>,
        /// The character.
        step: char,
        /// The kind of the value.
        kind: Kind,
    },
    /// The text is no key of the map.
    Key {
        /// The path to the map.
        of: Box<str>,
        /// The key, as it is written.
        key: Box<str>,
        /// The type of the map's keys.
        keys: Box<str>,
    },
    /// The selected part is an array without content.
    Empty {
        /// The path.
        path: Box<str>,
    },
}

/// The kind of a value, for the errors of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number, `bool` or `char`, of the type of this name.
    Scalar(&'static str),
    /// A text.
    Text,
    /// An array of so many elements.
    Array(u32),
    /// A value or none.
    Option,
    /// A vector.
    Vec,
    /// A map.
    Map,
    /// A pointer.
    Ref,
    /// A struct.
    Struct,
}

impl Shape {
    /// Returns the part that a path such as `book[7].bid` selects in a value of this shape, which [`check`](Self::check)
    /// accepts.
    pub fn resolve(&self, path: &str) -> Result<Selection, PathError> {
        if path.len() > EXPORT_PATH_BYTES_MAX {
            return Err(PathError::Long { bytes: path.len() });
        }
        let mut route = Vec::new();
        let at = Place { whole: self, at: 0, shift: 0 };
        let mut selection = select(self, at, &mut Steps { path, at: 0, routed: 0 }, &mut route)?;
        selection.route = route;
        match selection.part.words == 0 && !path.is_empty() {
            true => Err(PathError::Empty { path: path.into() }),
            false => Ok(selection),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Shape::Scalar(scalar) => Kind::Scalar(scalar.name()),
            Shape::Text { .. } => Kind::Text,
            Shape::Packed { len, .. } | Shape::Array { len, .. } => Kind::Array(*len),
            Shape::Option { .. } => Kind::Option,
            Shape::FixedVec { .. } | Shape::Vec { .. } => Kind::Vec,
            Shape::FixedMap { .. } => Kind::Map,
            Shape::Ref { .. } => Kind::Ref,
            Shape::Struct { .. } => Kind::Struct,
        }
    }
}

/// A value that a path has reached.
#[derive(Clone, Copy)]
struct Place<'s> {
    /// The exported value, in which pointers lead anywhere.
    whole: &'s Shape,
    /// The first word, from the beginning of the value to which the route leads.
    at: usize,
    /// The first bit of a scalar of a packed array in its word.
    shift: u8,
}

/// Selects a part of the value at a place. Each step leads into the shape or is one of the route, whose length the path
/// bounds.
fn select(
    shape: &Shape,
    place: Place<'_>,
    steps: &mut Steps,
    route: &mut Vec<u64>,
) -> Result<Selection, PathError> {
    let Place { whole, at, .. } = place;
    let (path, of) = (steps.path, steps.done());
    let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let step = steps.next()?;
    match (shape, step) {
        (_, None) => {
            let part = Part { at: word(at), words: word(shape.words()) };
            Ok(Selection { route: Vec::new(), part, shift: place.shift, shape: shape.clone() })
        }
        (Shape::Struct { name, fields }, Some(Step::Field(wanted))) => {
            let mut begin = at.saturating_add(1);
            for Field { name, shape } in fields {
                if **name == *wanted {
                    return select(shape, Place { at: begin, shift: 0, ..place }, steps, route);
                }
                begin = begin.saturating_add(shape.words());
            }
            let fields = fields.iter().map(|field| field.name.clone()).collect();
            Err(PathError::NoField {
                of: of.into(),
                name: name.clone(),
                field: wanted.into(),
                fields,
            })
        }
        (Shape::Packed { of: scalar, len }, Some(Step::Index(index))) => {
            let byte = checked(path, of, index, *len)? * scalar.bytes();
            let at = at.saturating_add(usize::from(shape.is_unit()) + byte / WORD);
            let place = Place { at, shift: 8 * (byte % WORD) as u8, ..place };
            select(scalar.shape(), place, steps, route)
        }
        (Shape::Array { of: element, len }, Some(Step::Index(index))) => {
            let words = checked(path, of, index, *len)?.saturating_mul(element.words());
            select(element, Place { at: at.saturating_add(words), ..place }, steps, route)
        }
        (shape, Some(step)) => {
            let (step, to) = routed(whole, (shape, word(at)), (path, of), step)?;
            if steps.routed == EXPORT_STEPS_MAX {
                return Err(PathError::Steps);
            }
            steps.routed += 1;
            step.encode(route);
            select(to, Place { whole, at: 0, shift: 0 }, steps, route)
        }
    }
}

/// Returns the step of a route from the value at a word, and the shape of the value to which it leads.
fn routed<'s>(
    whole: &'s Shape,
    (shape, at): (&'s Shape, u32),
    (path, of): (&str, &str),
    step: Step<'_>,
) -> Result<(route::Step, &'s Shape), PathError> {
    let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    match (shape, step) {
        (Shape::FixedVec { of: element, len }, Step::Index(index)) => {
            let index = word(checked(path, of, index, *len)?);
            let each = word(element.bytes_in_vec());
            Ok((route::Step::Element { at, index, each, len: *len }, element))
        }
        (Shape::Vec { of: element }, Step::Index(index)) => {
            let index = word(checked(path, of, index, u32::MAX)?);
            Ok((route::Step::Chunk { at, index, each: word(element.bytes_in_vec()) }, element))
        }
        (Shape::Option { of: inner }, Step::Some) => Ok((route::Step::Some { at }, inner)),
        (Shape::Ref { to }, Step::Target) => {
            let no_target = || PathError::NoStep { of: of.into(), step: '*', kind: Kind::Ref };
            let target = whole.named(to).ok_or_else(no_target)?;
            let words = word(target.words());
            Ok((route::Step::Target { at, words, around: None }, target))
        }
        (Shape::FixedMap { key, value, len }, Step::Index(written) | Step::Key(written)) => {
            let no_key = || PathError::Key {
                of: of.into(),
                key: written.into(),
                keys: key.to_string().into(),
            };
            let key = key_of(key, written).ok_or_else(no_key)?;
            Ok((route::Step::Entry { at, len: *len, value: word(value.words()), key }, value))
        }
        (
            Shape::Packed { .. } | Shape::Array { .. } | Shape::FixedVec { .. } | Shape::Vec { .. },
            Step::Key(_),
        ) => Err(PathError::Text { path: path.into(), at: of.len() + 1 }),
        (shape, step) => {
            let (of, kind) = (of.into(), shape.kind());
            Err(match step {
                Step::Field(_) => PathError::NoStruct { of, kind },
                Step::Index(_) | Step::Key(_) => PathError::NoArray { of, kind },
                Step::Some => PathError::NoStep { of, step: '?', kind },
                Step::Target => PathError::NoStep { of, step: '*', kind },
            })
        }
    }
}

/// Returns the words of a key of a map, which is written as a number, `true`, `false` or a text.
fn key_of(shape: &Shape, written: &str) -> Option<Arc<[u64]>> {
    let word = match shape {
        Shape::Scalar(Scalar::Bool) => written.parse::<bool>().ok()?.into(),
        Shape::Scalar(Scalar::Char) => written.parse::<char>().ok()?.into(),
        Shape::Scalar(scalar) => {
            let bits = 8 * scalar.bytes();
            let number: i128 = written.parse().ok()?;
            let is_signed = matches!(scalar, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64);
            let range = match is_signed {
                true => -(1 << (bits - 1))..=(1 << (bits - 1)) - 1,
                false => 0..=(1_i128 << bits) - 1,
            };
            range.contains(&number).then_some(number as u64 & u64::MAX >> (64 - bits))?
        }
        Shape::Text { bytes } if written.len() <= *bytes as usize => {
            let mut words = alloc::vec![0; shape.key_words()];
            words[0] = written.len() as u64;
            for (word, piece) in words[1..].iter_mut().zip(written.as_bytes().chunks(WORD)) {
                let mut bytes = [0; WORD];
                bytes[..piece.len()].copy_from_slice(piece);
                *word = u64::from_le_bytes(bytes);
            }
            return Some(words.into());
        }
        _ => return None,
    };
    Some([word].into())
}

/// Returns the index of an element of an array, which a path has behind its part `of`.
fn checked(path: &str, of: &str, index: &str, len: u32) -> Result<usize, PathError> {
    let digits = index.strip_prefix('-').unwrap_or(index);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(PathError::Text { path: path.into(), at: of.len() + 1 });
    }
    match index.parse::<u32>() {
        Ok(number) if number < len => Ok(number as usize),
        _ => Err(PathError::Index { of: of.into(), index: index.into(), len }),
    }
}

/// A step of a path.
enum Step<'p> {
    Field(&'p str),
    /// The digits of an index, or a key that is no text.
    Index(&'p str),
    /// A key that is a text, without its quotes.
    Key(&'p str),
    /// `?`
    Some,
    /// `*`
    Target,
}

struct Steps<'p> {
    path: &'p str,
    at: usize,
    /// The steps so far that the memory decides.
    routed: usize,
}

impl<'p> Steps<'p> {
    /// Returns the path as far as it was read.
    fn done(&self) -> &'p str {
        &self.path[..self.at]
    }

    /// Reads a step.
    fn next(&mut self) -> Result<Option<Step<'p>>, PathError> {
        let rest = &self.path[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let error = |at: usize| PathError::Text { path: self.path.into(), at };
        for (sign, step) in [('?', Step::Some), ('*', Step::Target)] {
            if rest.starts_with(sign) {
                self.at += 1;
                return Ok(Some(step));
            }
        }
        if let Some(inner) = rest.strip_prefix("[\"") {
            let key = &inner[..inner.find("\"]").ok_or_else(|| error(self.path.len()))?];
            self.at += 4 + key.len();
            return Ok(Some(Step::Key(key)));
        }
        if let Some(inner) = rest.strip_prefix('[') {
            let digits = token(inner, |c| c.is_ascii_alphanumeric() || c == '-');
            let end = self.at + 1 + digits.len();
            if digits.is_empty() || !inner[digits.len()..].starts_with(']') {
                return Err(error(end));
            }
            self.at = end + 1;
            return Ok(Some(Step::Index(digits)));
        }
        let name = match rest.strip_prefix('.') {
            Some(name) => name,
            None if self.at == 0 => rest,
            None => return Err(error(self.at)),
        };
        let begin = self.path.len() - name.len();
        let name = token(name, |c| c.is_alphanumeric() || c == '_');
        if name.is_empty() {
            return Err(error(begin));
        }
        self.at = begin + name.len();
        Ok(Some(Step::Field(name)))
    }
}

/// Returns the characters at the beginning of a text that `is_part` accepts.
fn token(text: &str, is_part: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())]
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Scalar(name) => write!(f, "a value of type `{name}`"),
            Kind::Text => f.write_str("a text"),
            Kind::Option => f.write_str("an option"),
            Kind::Vec => f.write_str("a vector"),
            Kind::Map => f.write_str("a map"),
            Kind::Ref => f.write_str("a pointer"),
            Kind::Array(1) => f.write_str("an array of 1 element"),
            Kind::Array(len) => write!(f, "an array of {len} elements"),
            Kind::Struct => f.write_str("a struct"),
        }
    }
}

/// The name of a path in an error.
struct Named<'p>(&'p str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.strip_prefix('.').unwrap_or(self.0) {
            "" => f.write_str("the whole value"),
            path => write!(f, "`{path}`"),
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathError::Long { bytes } => {
                write!(f, "the path has {bytes} bytes, and may have {EXPORT_PATH_BYTES_MAX}")
            }
            PathError::Steps => write!(
                f,
                "the path has more than {EXPORT_STEPS_MAX} steps through options, vectors, maps and pointers"
            ),
            PathError::Text { path, at } => write!(
                f,
                "`{}` is no path, from byte {at} on: write fields and indexes as in `book[7].bid`",
                path.escape_debug()
            ),
            PathError::NoField { name, field, fields, .. } if fields.is_empty() => {
                write!(f, "`{name}` has no field `{field}`: it has no fields")
            }
            PathError::NoField { of, name, field, fields } => {
                write!(
                    f,
                    "{} is of type `{name}`, which has no field `{field}`; its fields: ",
                    Named(of)
                )?;
                for (at, field) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}`{field}`")?;
                }
                Ok(())
            }
            PathError::Index { of, index, len } => {
                // A vector that grows has no length here.
                let kind = if *len == u32::MAX { Kind::Vec } else { Kind::Array(*len) };
                write!(f, "the index {index} is out of range: {} is {kind}", Named(of))
            }
            PathError::NoStruct { of, kind: kind @ Kind::Array(1..) } => {
                write!(
                    f,
                    "{} is {kind} and has no fields: select an element, such as `[0]`",
                    Named(of)
                )
            }
            PathError::NoStruct { of, kind: Kind::Option } => {
                write!(f, "{} is an option and has no fields: select its value by `?`", Named(of))
            }
            PathError::NoStruct { of, kind: Kind::Ref } => {
                write!(f, "{} is a pointer and has no fields: select its target by `*`", Named(of))
            }
            PathError::NoStruct { of, kind } => {
                write!(f, "{} is {kind}, and has no fields", Named(of))
            }
            PathError::NoStep { of, step: '?', kind } => {
                write!(f, "`?` leads to the value of an option, and {} is {kind}", Named(of))
            }
            PathError::NoStep { of, step, kind } => {
                write!(f, "`{step}` leads to the target of a pointer, and {} is {kind}", Named(of))
            }
            PathError::Key { of, key, keys } => write!(
                f,
                "`{}` is no key of {}, whose keys have the type `{keys}`; a text is written as in `prices[\"EUR\"]`",
                key.escape_debug(),
                Named(of)
            ),
            PathError::NoArray { of, kind } => {
                write!(f, "{} is {kind}, and has no elements", Named(of))
            }
            PathError::Empty { path } => {
                write!(f, "{} is an array without content: there is nothing to read", Named(path))
            }
        }
    }
}

impl core::error::Error for PathError {}
