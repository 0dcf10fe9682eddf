//! The text of a shape, which two sides compare and people read.
//!
//! ```text
//! Quotes { count: u64, name: text<32>, book: [Row { bid: f64, ask: f64 }; 10000] }
//! ```

use super::shape::{Field, Scalar, Shape, ShapeError};
use crate::limits::{EXPORT_DEPTH_MAX, EXPORT_FIELDS_MAX, EXPORT_TEXT_BYTES_MAX};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Scalar(scalar) => f.write_str(scalar.name()),
            Shape::Packed { of, len } => write!(f, "[{}; {len}]", of.name()),
            Shape::Array { of, len } => write!(f, "[{of}; {len}]"),
            Shape::Text { bytes } => write!(f, "text<{bytes}>"),
            Shape::Option { of } => write!(f, "option<{of}>"),
            Shape::FixedVec { of, len } => write!(f, "vec<{of}; {len}>"),
            Shape::Vec { of } => write!(f, "vec<{of}>"),
            Shape::FixedMap { key, value, len } => write!(f, "map<{key}, {value}; {len}>"),
            Shape::Ref { to } => write!(f, "ref<{to}>"),
            Shape::Struct { name, fields } => {
                write!(f, "{name} {{")?;
                for (at, Field { name, shape }) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma} {name}: {shape}")?;
                }
                f.write_str(" }")
            }
        }
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Shape, ShapeError> {
        if text.len() > EXPORT_TEXT_BYTES_MAX {
            return Err(ShapeError::Text { at: EXPORT_TEXT_BYTES_MAX });
        }
        let mut parser = Parser { text, at: 0 };
        let shape = parser.shape(EXPORT_DEPTH_MAX)?;
        if parser.at != text.len() {
            return Err(parser.error());
        }
        shape.check()?;
        Ok(shape)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn error(&self) -> ShapeError {
        ShapeError::Text { at: self.at }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Reads this token, if it is the next one.
    fn has(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    fn expect(&mut self, token: &str) -> Result<(), ShapeError> {
        if self.has(token) { Ok(()) } else { Err(self.error()) }
    }

    /// Reads the characters that `is_part` accepts. There is at least one.
    fn token(&mut self, is_part: impl Fn(char) -> bool) -> Result<&'a str, ShapeError> {
        let rest = self.rest();
        let token = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        if token.is_empty() {
            return Err(self.error());
        }
        self.at += token.len();
        Ok(token)
    }

    fn name(&mut self) -> Result<&'a str, ShapeError> {
        self.token(|c| c.is_alphanumeric() || c == '_')
    }

    fn number(&mut self) -> Result<u32, ShapeError> {
        let at = self.at;
        let digits = self.token(|c| c.is_ascii_digit())?;
        // A number has one text, so that equal types have equal texts.
        let is_plain = digits.len() == 1 || !digits.starts_with('0');
        let number = digits.parse().ok().filter(|_| is_plain);
        number.ok_or(ShapeError::Text { at })
    }

    fn shape(&mut self, depth: usize) -> Result<Shape, ShapeError> {
        let depth = depth.checked_sub(1).ok_or(ShapeError::Deep)?;
        if self.has("[") {
            let of = self.shape(depth)?;
            self.expect("; ")?;
            let len = self.number()?;
            self.expect("]")?;
            return Ok(Shape::array(of, len));
        }
        if self.has("text<") {
            let bytes = self.number()?;
            self.expect(">")?;
            return Ok(Shape::Text { bytes });
        }
        if let Some(shape) = self.container(depth)? {
            return Ok(shape);
        }
        let name = self.name()?;
        if let Some(scalar) = Scalar::ALL.into_iter().find(|scalar| scalar.name() == name) {
            return Ok(Shape::Scalar(scalar));
        }
        self.expect(" {")?;
        Ok(Shape::Struct { name: name.into(), fields: self.fields(depth)? })
    }

    /// Reads an option, a vector, a map or a pointer, if one is next.
    fn container(&mut self, depth: usize) -> Result<Option<Shape>, ShapeError> {
        let shape = if self.has("option<") {
            Shape::Option { of: self.shape(depth)?.into() }
        } else if self.has("vec<") {
            let of = self.shape(depth)?.into();
            match self.has("; ") {
                true => Shape::FixedVec { of, len: self.number()? },
                false => Shape::Vec { of },
            }
        } else if self.has("map<") {
            let key = self.shape(depth)?.into();
            self.expect(", ")?;
            let value = self.shape(depth)?.into();
            self.expect("; ")?;
            Shape::FixedMap { key, value, len: self.number()? }
        } else if self.has("ref<") {
            Shape::Ref { to: self.name()?.into() }
        } else {
            return Ok(None);
        };
        self.expect(">")?;
        Ok(Some(shape))
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<Field>, ShapeError> {
        let mut fields = Vec::new();
        loop {
            if self.has(" }") {
                return Ok(fields);
            }
            if !fields.is_empty() {
                self.expect(",")?;
            }
            if fields.len() == EXPORT_FIELDS_MAX {
                return Err(ShapeError::Fields { count: EXPORT_FIELDS_MAX + 1 });
            }
            self.expect(" ")?;
            let name: Box<str> = self.name()?.into();
            self.expect(": ")?;
            fields.push(Field { name, shape: self.shape(depth)? });
        }
    }
}
