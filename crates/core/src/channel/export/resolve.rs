//! Paths as text, such as `book[7].bid`, and the parts that they select.
//!
//! A path begins with a field or an index; a field may have a dot in front of it there, and has one everywhere else. An
//! empty path selects the whole value.

use super::part::Part;
use super::shape::{Field, Shape, WORD};
use crate::limits::EXPORT_PATH_BYTES_MAX;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// A part of a value that a path selects, with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
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
        let selection = select(self, (0, 0), &mut Steps { path, at: 0 })?;
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
            Shape::Struct { .. } => Kind::Struct,
        }
    }
}

/// Selects a part of the value at word `at`, whose first bit is `shift`. Each step leads into the shape, whose depth is
/// bounded.
fn select(
    shape: &Shape,
    (at, shift): (usize, u8),
    steps: &mut Steps,
) -> Result<Selection, PathError> {
    let of = steps.done();
    match (shape, steps.next()?) {
        (_, None) => {
            let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let part = Part { at: word(at), words: word(shape.words()) };
            Ok(Selection { part, shift, shape: shape.clone() })
        }
        (Shape::Struct { name, fields }, Some(Step::Field(wanted))) => {
            let mut begin = at.saturating_add(1);
            for Field { name, shape } in fields {
                if **name == *wanted {
                    return select(shape, (begin, 0), steps);
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
            let byte = checked(of, index, *len)? * scalar.bytes();
            let word = at.saturating_add(usize::from(shape.is_unit()) + byte / WORD);
            select(&Shape::Scalar(*scalar), (word, 8 * (byte % WORD) as u8), steps)
        }
        (Shape::Array { of: element, len }, Some(Step::Index(index))) => {
            let words = checked(of, index, *len)?.saturating_mul(element.words());
            select(element, (at.saturating_add(words), 0), steps)
        }
        (shape, Some(Step::Field(_))) => {
            Err(PathError::NoStruct { of: of.into(), kind: shape.kind() })
        }
        (shape, Some(Step::Index(_))) => {
            Err(PathError::NoArray { of: of.into(), kind: shape.kind() })
        }
    }
}

/// Returns the index of an element of an array, the path to which is `of`.
fn checked(of: &str, index: &str, len: u32) -> Result<usize, PathError> {
    match index.parse::<u32>() {
        Ok(number) if number < len => Ok(number as usize),
        _ => Err(PathError::Index { of: of.into(), index: index.into(), len }),
    }
}

/// A step of a path.
enum Step<'p> {
    Field(&'p str),
    /// The digits of an index.
    Index(&'p str),
}

struct Steps<'p> {
    path: &'p str,
    at: usize,
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
        if let Some(inner) = rest.strip_prefix('[') {
            let digits = token(inner, |c| c.is_ascii_digit());
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
            PathError::Index { of, index, len } => write!(
                f,
                "the index {index} is out of range: {} is {}",
                Named(of),
                Kind::Array(*len)
            ),
            PathError::NoStruct { of, kind: kind @ Kind::Array(1..) } => {
                write!(
                    f,
                    "{} is {kind} and has no fields: select an element, such as `[0]`",
                    Named(of)
                )
            }
            PathError::NoStruct { of, kind } => {
                write!(f, "{} is {kind}, and has no fields", Named(of))
            }
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
