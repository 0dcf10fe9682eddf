//! Shapes of exported values, and their layout.

use crate::limits::{EXPORT_DEPTH_MAX, EXPORT_FIELDS_MAX, EXPORT_WORDS_MAX, IDENT_BYTES_MAX};
use crate::method::check_ident;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// The bytes of a word.
pub(super) const WORD: usize = 8;

/// The type of a value that has one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `u64`
    U64,
    /// `i8`
    I8,
    /// `i16`
    I16,
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `bool`
    Bool,
    /// `char`
    Char,
}

impl Scalar {
    /// All scalars.
    pub const ALL: [Scalar; 12] = [
        Scalar::U8,
        Scalar::U16,
        Scalar::U32,
        Scalar::U64,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::F32,
        Scalar::F64,
        Scalar::Bool,
        Scalar::Char,
    ];

    /// Returns the name of the type in Rust.
    pub const fn name(self) -> &'static str {
        match self {
            Scalar::U8 => "u8",
            Scalar::U16 => "u16",
            Scalar::U32 => "u32",
            Scalar::U64 => "u64",
            Scalar::I8 => "i8",
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
            Scalar::Bool => "bool",
            Scalar::Char => "char",
        }
    }

    /// Returns the bytes of the type, which an element of an array has.
    pub const fn bytes(self) -> usize {
        match self {
            Scalar::U8 | Scalar::I8 | Scalar::Bool => 1,
            Scalar::U16 | Scalar::I16 => 2,
            Scalar::U32 | Scalar::I32 | Scalar::F32 | Scalar::Char => 4,
            Scalar::U64 | Scalar::I64 | Scalar::F64 => 8,
        }
    }
}

/// The type of an exported value, as far as its layout and its description need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One word.
    Scalar(Scalar),
    /// An array of scalars, side by side.
    Packed {
        /// The type of an element.
        of: Scalar,
        /// The number of elements.
        len: u32,
    },
    /// An array of other values than scalars.
    Array {
        /// The type of an element.
        of: Box<Shape>,
        /// The number of elements.
        len: u32,
    },
    /// A text of at most so many bytes.
    Text {
        /// The most bytes.
        bytes: u32,
    },
    /// A struct: a unit with fields.
    Struct {
        /// The name of the type.
        name: Box<str>,
        /// The fields, in the order of their declaration.
        fields: Vec<Field>,
    },
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name of the field.
    pub name: Box<str>,
    /// The type of the field.
    pub shape: Shape,
}

/// The reason why there is no such shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// The value has too many words.
    Large,
    /// The value has too many structs and arrays in each other.
    Deep,
    /// A struct has too many fields.
    Fields {
        /// The number of fields.
        count: usize,
    },
    /// A struct has two fields of this name.
    Twice {
        /// The name.
        name: Box<str>,
    },
    /// The name of a struct or field is none.
    Name {
        /// The name.
        name: Box<str>,
    },
    /// The text is no shape, from this byte on.
    Text {
        /// The position of the byte.
        at: usize,
    },
}

impl Shape {
    /// Returns the shape of an array.
    #[must_use]
    pub fn array(of: Shape, len: u32) -> Shape {
        match of {
            Shape::Scalar(of) => Shape::Packed { of, len },
            of => Shape::Array { of: of.into(), len },
        }
    }

    /// Returns the words of the value in memory, which [`check`](Self::check) bounds.
    pub fn words(&self) -> usize {
        match self {
            Shape::Scalar(_) => 1,
            Shape::Packed { of, len } => packed_words(of.bytes(), *len as usize),
            Shape::Array { of, len } => of.words().saturating_mul(*len as usize),
            Shape::Text { bytes } => text_words(*bytes as usize),
            Shape::Struct { fields, .. } => {
                let words = fields.iter().map(|field| field.shape.words());
                words.fold(1, usize::saturating_add)
            }
        }
    }

    /// Returns whether the first word of the value is a version.
    pub fn is_unit(&self) -> bool {
        match self {
            Shape::Scalar(_) | Shape::Array { .. } => false,
            Shape::Packed { of, len } => has_version(of.bytes(), *len as usize),
            Shape::Text { .. } | Shape::Struct { .. } => true,
        }
    }

    /// Checks the bounds and the names of the shape.
    pub fn check(&self) -> Result<(), ShapeError> {
        self.check_within(EXPORT_DEPTH_MAX)?;
        match self.words() {
            words if words > EXPORT_WORDS_MAX => Err(ShapeError::Large),
            _ => Ok(()),
        }
    }

    fn check_within(&self, depth: usize) -> Result<(), ShapeError> {
        let depth = depth.checked_sub(1).ok_or(ShapeError::Deep)?;
        match self {
            Shape::Scalar(_) | Shape::Packed { .. } | Shape::Text { .. } => Ok(()),
            Shape::Array { of, .. } => of.check_within(depth),
            Shape::Struct { name, fields } => {
                check_name(name)?;
                if Scalar::ALL.iter().any(|scalar| scalar.name() == &**name) {
                    return Err(ShapeError::Name { name: name.clone() });
                }
                if fields.len() > EXPORT_FIELDS_MAX {
                    return Err(ShapeError::Fields { count: fields.len() });
                }
                for (at, field) in fields.iter().enumerate() {
                    check_name(&field.name)?;
                    if fields[..at].iter().any(|other| other.name == field.name) {
                        return Err(ShapeError::Twice { name: field.name.clone() });
                    }
                    field.shape.check_within(depth)?;
                }
                Ok(())
            }
        }
    }
}

/// Returns the words of an array of scalars: its bytes, and a version in front of them if they are more than a word.
#[must_use]
pub const fn packed_words(each: usize, len: usize) -> usize {
    let words = (each * len).div_ceil(WORD);
    if has_version(each, len) { words + 1 } else { words }
}

const fn has_version(each: usize, len: usize) -> bool {
    each * len > WORD
}

/// Returns the words of a text: its version, its length and its bytes.
#[must_use]
pub const fn text_words(bytes: usize) -> usize {
    2 + bytes.div_ceil(WORD)
}

/// Checks that a name is an identifier.
fn check_name(name: &str) -> Result<(), ShapeError> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_name = check_ident(name).is_ok()
        && name.chars().all(is_part)
        && !name.starts_with(|c: char| c.is_numeric());
    if is_name { Ok(()) } else { Err(ShapeError::Name { name: name.into() }) }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::Large => write!(
                f,
                "the value has more than {} MiB, which is the most that an export may have",
                (EXPORT_WORDS_MAX * WORD) >> 20
            ),
            ShapeError::Deep => write!(
                f,
                "the value has more than {EXPORT_DEPTH_MAX} structs and arrays in each other"
            ),
            ShapeError::Fields { count } => write!(
                f,
                "a struct has {count} fields, and may have {EXPORT_FIELDS_MAX}: put some of them into a struct of their own"
            ),
            ShapeError::Twice { name } => write!(f, "a struct has two fields of the name `{name}`"),
            ShapeError::Name { name } => write!(
                f,
                "`{name}` is no name of a struct or field: it needs 1 to {IDENT_BYTES_MAX} bytes of letters, digits and `_`"
            ),
            ShapeError::Text { at } => write!(f, "the description is no type, from byte {at} on"),
        }
    }
}

impl core::error::Error for ShapeError {}
