//! Values of any exported type, from their words.

use super::resolve::Selection;
use super::shape::{Field, Scalar, Shape, WORD};
use crate::fault::Rule;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// The most values without words, such as empty arrays, among those of an array.
const EMPTY_MAX: usize = 4096;

/// The columns of a value that is printed in one line. A longer one has a line for each field and element.
const COLUMNS: usize = 96;

const RULE: Rule = Rule::RecordField { field: "words of an exported value" };

/// A value of any exported type, whose names are those of its [`Shape`].
///
/// `{}` prints it in one line; `{:#}` prints a long one in a line for each field, and for each element with its index.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'s> {
    /// A number of type `u8` to `u64`.
    Unsigned(u64),
    /// A number of type `i8` to `i64`.
    Signed(i64),
    /// A number of type `f32`.
    F32(f32),
    /// A number of type `f64`.
    F64(f64),
    /// A `bool`.
    Bool(bool),
    /// A `char`.
    Char(char),
    /// A text.
    Text(Box<str>),
    /// The elements of an array.
    Array(Vec<Value<'s>>),
    /// The name of a struct, and the names and values of its fields.
    Struct(&'s str, Vec<(&'s str, Value<'s>)>),
}

impl Selection {
    /// Returns the value that the words of the part are. Its size is bounded by the number of words.
    pub fn value(&self, words: &[u64]) -> Result<Value<'_>, Rule> {
        if words.len() != self.shape.words() {
            return Err(RULE);
        }
        let value = match (&self.shape, words) {
            (Shape::Scalar(scalar), [word]) => scalar_of(*scalar, word >> self.shift),
            (shape, words) => Words { rest: words, empty: EMPTY_MAX }.value(shape),
        };
        value.ok_or(RULE)
    }
}

/// The words of a value, which are taken from the first one on.
struct Words<'w> {
    rest: &'w [u64],
    /// The values without words that may still follow.
    empty: usize,
}

impl<'w> Words<'w> {
    fn take(&mut self, count: usize) -> Option<&'w [u64]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn value<'s>(&mut self, shape: &'s Shape) -> Option<Value<'s>> {
        match shape {
            Shape::Scalar(scalar) => scalar_of(*scalar, *self.take(1)?.first()?),
            Shape::Packed { of, len } => {
                let words = self.take(shape.words())?;
                let words = &words[usize::from(shape.is_unit())..];
                let bytes = (0..*len as usize).map(|index| index * of.bytes());
                let items =
                    bytes.map(|byte| scalar_of(*of, words[byte / WORD] >> (8 * (byte % WORD))));
                items.collect::<Option<_>>().map(Value::Array)
            }
            Shape::Array { of, len } => {
                let mut items = Vec::new();
                for _ in 0..*len {
                    let before = self.rest.len();
                    items.push(self.value(of)?);
                    if self.rest.len() == before {
                        self.empty = self.empty.checked_sub(1)?;
                    }
                }
                Some(Value::Array(items))
            }
            Shape::Text { bytes } => {
                let words = self.take(shape.words())?;
                let len = usize::try_from(words[1]).ok().filter(|len| *len <= *bytes as usize)?;
                let bytes = words[2..].iter().flat_map(|word| word.to_le_bytes()).take(len);
                String::from_utf8(bytes.collect()).ok().map(|text| Value::Text(text.into()))
            }
            Shape::Struct { name, fields } => {
                self.take(1)?;
                let value = |Field { name, shape }: &'s Field| Some((&**name, self.value(shape)?));
                Some(Value::Struct(name, fields.iter().map(value).collect::<Option<_>>()?))
            }
        }
    }
}

/// Returns the scalar in the low bits of a word.
fn scalar_of<'s>(scalar: Scalar, word: u64) -> Option<Value<'s>> {
    Some(match scalar {
        Scalar::U8 => Value::Unsigned((word as u8).into()),
        Scalar::U16 => Value::Unsigned((word as u16).into()),
        Scalar::U32 => Value::Unsigned((word as u32).into()),
        Scalar::U64 => Value::Unsigned(word),
        Scalar::I8 => Value::Signed((word as i8).into()),
        Scalar::I16 => Value::Signed((word as i16).into()),
        Scalar::I32 => Value::Signed((word as i32).into()),
        Scalar::I64 => Value::Signed(word as i64),
        Scalar::F32 => Value::F32(f32::from_bits(word as u32)),
        Scalar::F64 => Value::F64(f64::from_bits(word)),
        Scalar::Bool => match word as u8 {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            _ => return None,
        },
        Scalar::Char => Value::Char(char::from_u32(word as u32)?),
    })
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { self.lines(f, 0) } else { self.line(f) }
    }
}

impl Value<'_> {
    /// Writes the value in one line.
    fn line(&self, to: &mut impl Write) -> fmt::Result {
        match self {
            Value::Unsigned(number) => write!(to, "{number}"),
            Value::Signed(number) => write!(to, "{number}"),
            // This form has a point, or an exponent.
            Value::F32(number) => write!(to, "{number:?}"),
            Value::F64(number) => write!(to, "{number:?}"),
            Value::Bool(value) => write!(to, "{value}"),
            Value::Char(value) => write!(to, "{value:?}"),
            Value::Text(text) => write!(to, "{text:?}"),
            Value::Array(items) => {
                to.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    to.write_str(if at == 0 { "" } else { ", " })?;
                    item.line(to)?;
                }
                to.write_char(']')
            }
            Value::Struct(name, fields) => {
                write!(to, "{name} {{")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    write!(to, "{} {name}: ", if at == 0 { "" } else { "," })?;
                    value.line(to)?;
                }
                to.write_str(if fields.is_empty() { "}" } else { " }" })
            }
        }
    }

    /// Writes the value, in several lines if it is long. The lines behind the first are indented by `indent` columns.
    fn lines(&self, to: &mut impl Write, indent: usize) -> fmt::Result {
        let mut line = Line { text: String::new(), left: COLUMNS.saturating_sub(indent) };
        let inner = indent + 2;
        match self {
            // A value that has no place in a line ends its writing there.
            _ if self.line(&mut line).is_ok() => to.write_str(&line.text),
            Value::Array(items) => {
                to.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    write!(to, "\n{:inner$}[{at}] ", "")?;
                    item.lines(to, inner)?;
                }
                write!(to, "\n{:indent$}]", "")
            }
            Value::Struct(name, fields) => {
                write!(to, "{name} {{")?;
                for (name, value) in fields {
                    write!(to, "\n{:inner$}{name}: ", "")?;
                    value.lines(to, inner)?;
                }
                write!(to, "\n{:indent$}}}", "")
            }
            scalar => scalar.line(to),
        }
    }
}

/// A line of so many further columns.
struct Line {
    text: String,
    left: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.left = self.left.checked_sub(text.chars().count()).ok_or(fmt::Error)?;
        self.text.push_str(text);
        Ok(())
    }
}
