//! Values of any exported type, from their words.

use super::chunks;
use super::layout::{LENGTH_WORDS, WORD};
use super::map::Slots;
use super::resolve::Selection;
use super::shape::{Field, Scalar, Shape};
use crate::fault::Rule;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// The most values without words, such as empty arrays, in a value.
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
    /// The elements of an array or vector.
    Array(Vec<Value<'s>>),
    /// The value of an option.
    Option(Option<Box<Value<'s>>>),
    /// The keys and values of a map, in the order in which they lie there.
    Map(Vec<(Value<'s>, Value<'s>)>),
    /// A pointer: the place of its target, or none.
    Ref(Option<u64>),
    /// The name of a struct, and the names and values of its fields.
    Struct(&'s str, Vec<(&'s str, Value<'s>)>),
}

impl Selection {
    /// Returns the value that the words of the part are. Its size is bounded by the number of words.
    pub fn value(&self, words: &[u64]) -> Result<Value<'_>, Rule> {
        let fixed = self.shape.words();
        if words.len() < fixed || words.len() > fixed && !self.shape.grows() {
            return Err(RULE);
        }
        let value = match (&self.shape, words) {
            (Shape::Scalar(scalar), [word]) => scalar_of(*scalar, word >> self.shift),
            (shape, words) => Words { words, left: words.len(), empty: EMPTY_MAX }.value(shape, 0),
        };
        value.ok_or(RULE)
    }
}

/// The words of a value, in one piece.
struct Words<'w> {
    words: &'w [u64],
    /// The words that elements of growing vectors may still have. Those of bad words may lie in each other.
    left: usize,
    /// The values without words that may still follow.
    empty: usize,
}

impl<'w> Words<'w> {
    fn load(&self, at: usize) -> Option<u64> {
        self.words.get(at).copied()
    }

    fn value<'s>(&mut self, shape: &'s Shape, at: usize) -> Option<Value<'s>> {
        if shape.words() == 0 {
            self.empty = self.empty.checked_sub(1)?;
        }
        match shape {
            Shape::Scalar(scalar) => scalar_of(*scalar, self.load(at)?),
            Shape::Packed { of, len } => {
                self.scalars(*of, at + usize::from(shape.is_unit()), *len as usize)
            }
            Shape::Array { of, len } => self.elements(of, at, *len as usize),
            Shape::Text { bytes } => self.text(at + 1, *bytes as usize),
            Shape::Option { of } => match self.load(at + 1)? {
                0 => Some(Value::Option(None)),
                1 => Some(Value::Option(Some(self.value(of, at + LENGTH_WORDS)?.into()))),
                _ => None,
            },
            Shape::FixedVec { of, len } => {
                let most = u64::from(*len);
                let len = self.load(at + 1).filter(|len| *len <= most)?;
                self.vec(of, at + LENGTH_WORDS, len as usize)
            }
            Shape::Vec { of } => {
                let len = usize::try_from(self.load(at + 1)?).ok()?;
                let first = usize::try_from(self.load(at + chunks::pointer(0))?).ok()?;
                // The words of the elements are in the piece.
                let words = len.checked_mul(of.bytes_in_vec())?.div_ceil(WORD);
                (first.checked_add(words)? <= self.words.len()).then_some(())?;
                self.left = self.left.checked_sub(words)?;
                self.vec(of, first, len)
            }
            Shape::FixedMap { key, value, len } => {
                let slots =
                    Slots { at, len: *len as usize, key: key.key_words(), value: value.words() };
                let mut entries = Vec::new();
                for slot in 0..slots.len {
                    if Slots::is_entry(self.load(slots.slot(slot))?) {
                        let first = slots.key_of(slot);
                        let key = match &**key {
                            Shape::Text { bytes } => self.text(first, *bytes as usize)?,
                            key => self.value(key, first)?,
                        };
                        entries.push((key, self.value(value, slots.value_of(slot))?));
                    }
                }
                Some(Value::Map(entries))
            }
            Shape::Ref { .. } => Some(Value::Ref(self.load(at)?.checked_sub(1))),
            Shape::Struct { name, fields } => {
                let mut at = at + 1;
                let mut values = Vec::with_capacity(fields.len());
                for Field { name, shape } in fields {
                    values.push((&**name, self.value(shape, at)?));
                    at += shape.words();
                }
                Some(Value::Struct(name, values))
            }
        }
    }

    /// Returns the elements of a vector.
    fn vec<'s>(&mut self, of: &'s Shape, first: usize, len: usize) -> Option<Value<'s>> {
        match of {
            Shape::Scalar(scalar) => self.scalars(*scalar, first, len),
            of => self.elements(of, first, len),
        }
    }

    fn scalars<'s>(&self, of: Scalar, first: usize, len: usize) -> Option<Value<'s>> {
        let bytes = (0..len).map(|index| index * of.bytes());
        let items = bytes.map(|byte| {
            let word = self.load(first + byte / WORD)?;
            scalar_of(of, word >> (8 * (byte % WORD)))
        });
        items.collect::<Option<_>>().map(Value::Array)
    }

    fn elements<'s>(&mut self, of: &'s Shape, first: usize, len: usize) -> Option<Value<'s>> {
        let mut items = Vec::new();
        for index in 0..len {
            items.push(self.value(of, first + index * of.words())?);
        }
        Some(Value::Array(items))
    }

    /// Returns a text of at most so many bytes, whose length is at word `at`.
    fn text<'s>(&mut self, at: usize, most: usize) -> Option<Value<'s>> {
        let len = usize::try_from(self.load(at)?).ok().filter(|len| *len <= most)?;
        let words = self.words.get(at + 1..)?.get(..len.div_ceil(WORD))?;
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).take(len);
        String::from_utf8(bytes.collect()).ok().map(|text| Value::Text(text.into()))
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
            Value::Option(None) => to.write_str("None"),
            Value::Option(Some(value)) => {
                to.write_str("Some(")?;
                value.line(to)?;
                to.write_char(')')
            }
            Value::Ref(None) => to.write_str("null"),
            Value::Ref(Some(at)) => write!(to, "ref@{at}"),
            Value::Map(entries) => {
                to.write_char('{')?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    to.write_str(if at == 0 { "" } else { ", " })?;
                    key.line(to)?;
                    to.write_str(": ")?;
                    value.line(to)?;
                }
                to.write_char('}')
            }
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
            Value::Map(entries) => {
                to.write_char('{')?;
                for (key, value) in entries {
                    write!(to, "\n{:inner$}{key}: ", "")?;
                    value.lines(to, inner)?;
                }
                write!(to, "\n{:indent$}}}", "")
            }
            Value::Option(Some(value)) => {
                to.write_str("Some(")?;
                value.lines(to, indent)?;
                to.write_char(')')
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
