//! Shapes of exported values, and their layout.

use super::layout::{LENGTH_WORDS, WORD, has_version, packed_words, text_words, vec_words};
use super::{chunks, map};
use crate::limits::{
    EXPORT_DEPTH_MAX, EXPORT_FIELDS_MAX, EXPORT_KEY_WORDS_MAX, EXPORT_WORDS_MAX, IDENT_BYTES_MAX,
};
use crate::method::check_ident;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

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

    /// Returns the shape of such a value.
    pub fn shape(self) -> &'static Shape {
        static SHAPES: [Shape; 12] = {
            let [a, b, c, d, e, f, g, h, i, j, k, l] = Scalar::ALL;
            [
                Shape::Scalar(a),
                Shape::Scalar(b),
                Shape::Scalar(c),
                Shape::Scalar(d),
                Shape::Scalar(e),
                Shape::Scalar(f),
                Shape::Scalar(g),
                Shape::Scalar(h),
                Shape::Scalar(i),
                Shape::Scalar(j),
                Shape::Scalar(k),
                Shape::Scalar(l),
            ]
        };
        &SHAPES[self as usize]
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
    /// A value or none: a unit with a version, a number that is 1 if there is a value, and the value.
    Option {
        /// The type of the value.
        of: Box<Shape>,
    },
    /// A vector of at most so many elements: a unit with a version, a length and the elements.
    FixedVec {
        /// The type of an element.
        of: Box<Shape>,
        /// The most elements.
        len: u32,
    },
    /// A vector that grows: a unit with a version, a length, and the places of the [chunks](super::chunks) of its elements.
    Vec {
        /// The type of an element.
        of: Box<Shape>,
    },
    /// A hash map of at most so many entries: a unit with a version, a length and [slots](super::map).
    FixedMap {
        /// The type of a key: an integer, `bool`, `char` or a text.
        key: Box<Shape>,
        /// The type of a value.
        value: Box<Shape>,
        /// The most entries.
        len: u32,
    },
    /// A pointer to a struct of the same export: one more than the first word of the struct, or 0.
    Ref {
        /// The name of the struct.
        to: Box<str>,
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
    /// The type cannot be the key of a map.
    Key {
        /// The text of the type.
        key: Box<str>,
    },
    /// The value has no struct to which a pointer of this type could lead.
    Target {
        /// The name of the struct.
        name: Box<str>,
    },
    /// A pointer leads to a struct of a name that several types of structs have.
    Targets {
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
            Shape::Option { of } => of.words().saturating_add(LENGTH_WORDS),
            Shape::FixedVec { of, len } => vec_words(of.bytes_in_vec(), *len as usize),
            Shape::Vec { .. } => chunks::HEAD_WORDS,
            Shape::FixedMap { key, value, len } => {
                let slot = map::slot_words(key.key_words(), value.words());
                slot.saturating_mul(*len as usize).saturating_add(LENGTH_WORDS)
            }
            Shape::Ref { .. } => 1,
            Shape::Struct { fields, .. } => {
                let words = fields.iter().map(|field| field.shape.words());
                words.fold(1, usize::saturating_add)
            }
        }
    }

    /// Returns whether the first word of the value is a version.
    pub fn is_unit(&self) -> bool {
        match self {
            Shape::Scalar(_) | Shape::Array { .. } | Shape::Ref { .. } => false,
            Shape::Packed { of, len } => has_version(of.bytes(), *len as usize),
            Shape::Text { .. }
            | Shape::Option { .. }
            | Shape::FixedVec { .. }
            | Shape::Vec { .. }
            | Shape::FixedMap { .. }
            | Shape::Struct { .. } => true,
        }
    }

    /// Returns whether a value may have more words than [`words`](Self::words): those of vectors that grow.
    pub fn grows(&self) -> bool {
        match self {
            Shape::Vec { .. } => true,
            Shape::Scalar(_) | Shape::Packed { .. } | Shape::Text { .. } | Shape::Ref { .. } => {
                false
            }
            Shape::Array { of, .. } | Shape::Option { of } | Shape::FixedVec { of, .. } => {
                of.grows()
            }
            Shape::FixedMap { value, .. } => value.grows(),
            Shape::Struct { fields, .. } => fields.iter().any(|field| field.shape.grows()),
        }
    }

    /// Returns the bytes of an element of a vector of this type. Scalars lie side by side.
    pub fn bytes_in_vec(&self) -> usize {
        match self {
            Shape::Scalar(scalar) => scalar.bytes(),
            shape => shape.words().saturating_mul(WORD),
        }
    }

    /// Returns the words of a key of this type in a map, which has no version.
    pub fn key_words(&self) -> usize {
        self.words().saturating_sub(usize::from(self.is_unit()))
    }

    /// Returns the struct of this name in a value of this shape.
    pub fn named(&self, wanted: &str) -> Option<&Shape> {
        match self {
            Shape::Scalar(_) | Shape::Packed { .. } | Shape::Text { .. } | Shape::Ref { .. } => {
                None
            }
            Shape::Array { of, .. }
            | Shape::Option { of }
            | Shape::FixedVec { of, .. }
            | Shape::Vec { of } => of.named(wanted),
            Shape::FixedMap { value, .. } => value.named(wanted),
            Shape::Struct { name, .. } if **name == *wanted => Some(self),
            Shape::Struct { fields, .. } => {
                fields.iter().find_map(|field| field.shape.named(wanted))
            }
        }
    }

    /// Checks the bounds and the names of the shape.
    pub fn check(&self) -> Result<(), ShapeError> {
        self.check_within(EXPORT_DEPTH_MAX)?;
        if self.words() > EXPORT_WORDS_MAX {
            return Err(ShapeError::Large);
        }
        self.check_pointers(self)
    }

    fn check_within(&self, depth: usize) -> Result<(), ShapeError> {
        let depth = depth.checked_sub(1).ok_or(ShapeError::Deep)?;
        match self {
            Shape::Scalar(_) | Shape::Packed { .. } | Shape::Text { .. } => Ok(()),
            Shape::Ref { to } => check_type_name(to),
            Shape::Array { of, .. } | Shape::Option { of } => of.check_within(depth),
            // The elements of a vector that grows are part of no bound but this one.
            Shape::FixedVec { of, .. } | Shape::Vec { of } => {
                of.check_within(depth)?;
                if of.words() > EXPORT_WORDS_MAX { Err(ShapeError::Large) } else { Ok(()) }
            }
            Shape::FixedMap { key, value, .. } => {
                let is_key = match &**key {
                    Shape::Scalar(scalar) => !matches!(scalar, Scalar::F32 | Scalar::F64),
                    Shape::Text { .. } => key.key_words() <= EXPORT_KEY_WORDS_MAX,
                    _ => false,
                };
                match is_key {
                    true => value.check_within(depth),
                    false => Err(ShapeError::Key { key: key.to_string().into() }),
                }
            }
            Shape::Struct { name, fields } => {
                check_type_name(name)?;
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

    /// Checks that each pointer of a part of the value `whole` leads to the structs of one type.
    fn check_pointers(&self, whole: &Shape) -> Result<(), ShapeError> {
        match self {
            Shape::Scalar(_) | Shape::Packed { .. } | Shape::Text { .. } => Ok(()),
            Shape::Array { of, .. }
            | Shape::Option { of }
            | Shape::FixedVec { of, .. }
            | Shape::Vec { of } => of.check_pointers(whole),
            Shape::FixedMap { value, .. } => value.check_pointers(whole),
            Shape::Struct { fields, .. } => {
                fields.iter().try_for_each(|field| field.shape.check_pointers(whole))
            }
            Shape::Ref { to } => match whole.named(to) {
                None => Err(ShapeError::Target { name: to.clone() }),
                Some(target) if whole.has_other(to, target) => {
                    Err(ShapeError::Targets { name: to.clone() })
                }
                Some(_) => Ok(()),
            },
        }
    }

    /// Returns whether the value has a struct of this name that is another one than `target`.
    fn has_other(&self, wanted: &str, target: &Shape) -> bool {
        match self {
            Shape::Scalar(_) | Shape::Packed { .. } | Shape::Text { .. } | Shape::Ref { .. } => {
                false
            }
            Shape::Array { of, .. }
            | Shape::Option { of }
            | Shape::FixedVec { of, .. }
            | Shape::Vec { of } => of.has_other(wanted, target),
            Shape::FixedMap { value, .. } => value.has_other(wanted, target),
            Shape::Struct { name, fields } => {
                (**name == *wanted && self != target)
                    || fields.iter().any(|field| field.shape.has_other(wanted, target))
            }
        }
    }
}

/// Checks that a name is an identifier, and none of a scalar.
fn check_type_name(name: &str) -> Result<(), ShapeError> {
    check_name(name)?;
    match Scalar::ALL.iter().any(|scalar| scalar.name() == name) {
        true => Err(ShapeError::Name { name: name.into() }),
        false => Ok(()),
    }
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
            ShapeError::Key { key } => write!(
                f,
                "`{key}` is no type of a map's keys: use an integer, `bool`, `char`, or a text of at most {} bytes",
                (EXPORT_KEY_WORDS_MAX - 1) * WORD
            ),
            ShapeError::Target { name } => write!(
                f,
                "a pointer leads to a struct `{name}`, which the exported type does not contain: add a field of that type, \
                 or of an array or vector of it"
            ),
            ShapeError::Targets { name } => write!(
                f,
                "a pointer leads to a struct `{name}`, and several structs have that name: rename all but one by \
                 `#[shared(name = \"…\")]`"
            ),
            ShapeError::Text { at } => write!(f, "the description is no type, from byte {at} on"),
        }
    }
}

impl core::error::Error for ShapeError {}
