//! Expressions: a sum, a count, or the least or largest number of a field, over a range of an array's elements.
//!
//! The side that has the memory evaluates an expression: the owner of an export, or a reader that maps it. Both run
//! [`Expression::evaluate`], so both find the same. An expression has no loops but the one over its elements.

use super::shape::{Scalar, Shape};
use crate::fault::Rule;
use crate::limits::EXPRESSION_ELEMENTS_MAX;
use crate::mutant::{Mutant, mutated};

const WORD: u64 = 8;

const RULE: Rule = Rule::RecordField { field: "expression over an export" };

/// The way in which numbers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Their number.
    Count,
    /// Their sum.
    Sum,
    /// The least one.
    Min,
    /// The largest one.
    Max,
}

/// A comparison of an element's number with a constant, for the element to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The number is less.
    Less,
    /// The number is less, or equal.
    AtMost,
    /// The number is equal.
    Equal,
    /// The number is not equal.
    NotEqual,
    /// The number is more, or equal.
    AtLeast,
    /// The number is more.
    More,
}

/// A number of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The byte at which it begins, from the beginning of the element.
    pub at: u32,
    /// The type of the number.
    pub scalar: Scalar,
}

/// The condition under which an element counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter {
    /// The number that is compared.
    pub of: Operand,
    /// The comparison.
    pub compare: Compare,
    /// The constant, in the type of the number.
    pub with: Number,
}

/// A number of any of the scalar types. `bool` and `char` are unsigned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// `u8` to `u64`, `bool`, `char`.
    Unsigned(u64),
    /// `i8` to `i64`.
    Signed(i64),
    /// `f32` and `f64`.
    Float(f64),
}

/// A fold over a range of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expression {
    /// The byte at which the first element begins, from the beginning of the value.
    pub first: u32,
    /// The bytes from an element to the next.
    pub each: u32,
    /// The number of elements.
    pub count: u32,
    /// The number that is folded.
    pub of: Operand,
    /// The condition for an element to count.
    pub filter: Option<Filter>,
    /// The way in which the numbers become one.
    pub fold: Fold,
}

/// The reason why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The sum has more than 64 bits.
    Sum,
}

impl Expression {
    /// Returns the expression on the wire.
    #[must_use]
    pub fn encode(&self) -> [u64; 5] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let operand = |of: Operand| pair(of.at, of.scalar as u32);
        let (compare, with_of, with) = match self.filter {
            None => (0, 0, 0),
            Some(filter) => (1 + filter.compare as u32, operand(filter.of), filter.with.bits()),
        };
        let kinds = self.fold as u32 | compare << 8;
        [pair(self.first, self.each), pair(self.count, kinds), operand(self.of), with_of, with]
    }

    /// Returns the expression of words on the wire.
    pub fn decode(words: [u64; 5]) -> Result<Expression, Rule> {
        let [range, kinds, of, with_of, with] = words;
        let operand = |word: u64| {
            let scalar = usize::try_from(word >> 32).ok().and_then(|at| Scalar::ALL.get(at));
            scalar.map(|scalar| Operand { at: word as u32, scalar: *scalar }).ok_or(RULE)
        };
        let fold = [Fold::Count, Fold::Sum, Fold::Min, Fold::Max];
        let compare = [
            Compare::Less,
            Compare::AtMost,
            Compare::Equal,
            Compare::NotEqual,
            Compare::AtLeast,
            Compare::More,
        ];
        let filter = match (kinds >> 40) as usize {
            0 => None,
            at => {
                let of = operand(with_of)?;
                let compare = *compare.get(at - 1).ok_or(RULE)?;
                Some(Filter { of, compare, with: Number::of_bits(of.scalar, with) })
            }
        };
        Ok(Expression {
            first: range as u32,
            each: (range >> 32) as u32,
            count: kinds as u32,
            of: operand(of)?,
            filter,
            fold: *fold.get((kinds >> 32 & 0xff) as usize).ok_or(RULE)?,
        })
    }

    /// Returns the result of this expression that has these bits on the wire.
    #[must_use]
    pub fn result(&self, bits: u64) -> Number {
        match self.fold {
            Fold::Count => Number::Unsigned(bits),
            Fold::Sum | Fold::Min | Fold::Max => Number::of_bits(self.of.scalar, bits),
        }
    }

    /// Checks that a value of this shape has such elements and numbers, and not too many of them.
    pub fn check(&self, shape: &Shape) -> Result<(), Rule> {
        if self.count as usize > EXPRESSION_ELEMENTS_MAX {
            return Err(RULE);
        }
        let has = |element: &Shape, operand: Operand| {
            scalar_at(element, u64::from(operand.at)) == Some(operand.scalar)
        };
        let fits = |element: &Shape, left: u64| {
            u64::from(self.count) <= left
                && has(element, self.of)
                && self.filter.is_none_or(|filter| {
                    has(element, filter.of) && filter.with.is_of(filter.of.scalar)
                })
        };
        match is_within(shape, u64::from(self.first), u64::from(self.each), &fits) {
            true => Ok(()),
            false => Err(RULE),
        }
    }

    /// Evaluates the expression over the words of a value, which `load` gives by their numbers. Returns `None` for the
    /// least or largest where there are no numbers. A NaN does not count as a number there.
    pub fn evaluate(&self, mut load: impl FnMut(usize) -> u64) -> Result<Option<Number>, Overflow> {
        let mut count = 0_u64;
        let mut found: Option<Number> = None;
        for index in 0..u64::from(self.count) {
            if mutated(Mutant::LastElementLeft) && index + 1 == u64::from(self.count) {
                break;
            }
            let element = u64::from(self.first) + index * u64::from(self.each);
            let mut number = |of: Operand| {
                let at = element + u64::from(of.at);
                let word = load((at / WORD) as usize);
                Number::of(of.scalar, word >> (8 * (at % WORD)))
            };
            let leaves_out = |filter: Filter| !filter.holds(number(filter.of));
            if self.filter.is_some_and(leaves_out) && !mutated(Mutant::FilterUnread) {
                continue;
            }
            count += 1;
            if self.fold != Fold::Count {
                let next = number(self.of);
                if next.is_nan() && matches!(self.fold, Fold::Min | Fold::Max) {
                    continue;
                }
                found = Some(match found {
                    Some(before) => match before.fold(self.fold, next) {
                        None if mutated(Mutant::SumCut) => before,
                        sum => sum.ok_or(Overflow::Sum)?,
                    },
                    None => next,
                });
            }
        }
        Ok(match self.fold {
            Fold::Count => Some(Number::Unsigned(count)),
            Fold::Sum => Some(found.unwrap_or_else(|| Number::of(self.of.scalar, 0))),
            Fold::Min | Fold::Max => found,
        })
    }
}

impl Filter {
    fn holds(&self, number: Number) -> bool {
        let order = number.compare(self.with);
        match self.compare {
            Compare::Less => order.is_some_and(|order| order.is_lt()),
            Compare::AtMost => order.is_some_and(|order| order.is_le()),
            Compare::Equal => order.is_some_and(|order| order.is_eq()),
            // A number that is none is equal to nothing.
            Compare::NotEqual => order.is_none_or(|order| order.is_ne()),
            Compare::AtLeast => order.is_some_and(|order| order.is_ge()),
            Compare::More => order.is_some_and(|order| order.is_gt()),
        }
    }
}

impl Number {
    /// Returns the number in the low bits of a word.
    #[must_use]
    pub fn of(scalar: Scalar, word: u64) -> Number {
        match scalar {
            Scalar::U8 | Scalar::Bool => Number::Unsigned(u64::from(word as u8)),
            Scalar::U16 => Number::Unsigned(u64::from(word as u16)),
            Scalar::U32 | Scalar::Char => Number::Unsigned(u64::from(word as u32)),
            Scalar::U64 => Number::Unsigned(word),
            Scalar::I8 => Number::Signed(i64::from(word as i8)),
            Scalar::I16 => Number::Signed(i64::from(word as i16)),
            Scalar::I32 => Number::Signed(i64::from(word as i32)),
            Scalar::I64 => Number::Signed(word as i64),
            Scalar::F32 => Number::Float(f64::from(f32::from_bits(word as u32))),
            Scalar::F64 => Number::Float(f64::from_bits(word)),
        }
    }

    /// Returns the number on the wire.
    #[must_use]
    pub const fn bits(self) -> u64 {
        match self {
            Number::Unsigned(number) => number,
            Number::Signed(number) => number as u64,
            Number::Float(number) => number.to_bits(),
        }
    }

    /// Returns the number that has these bits on the wire, and is of a scalar type or a sum of its numbers.
    fn of_bits(scalar: Scalar, bits: u64) -> Number {
        match Number::of(scalar, 0) {
            Number::Unsigned(_) => Number::Unsigned(bits),
            Number::Signed(_) => Number::Signed(bits as i64),
            Number::Float(_) => Number::Float(f64::from_bits(bits)),
        }
    }

    /// Returns whether this is a floating-point number that is none.
    fn is_nan(self) -> bool {
        matches!(self, Number::Float(number) if number.is_nan())
    }

    /// Returns whether this is a number of a type.
    fn is_of(self, scalar: Scalar) -> bool {
        let zero = Number::of(scalar, 0);
        core::mem::discriminant(&zero) == core::mem::discriminant(&self)
    }

    fn compare(self, other: Number) -> Option<core::cmp::Ordering> {
        match (self, other) {
            (Number::Unsigned(one), Number::Unsigned(other)) => Some(one.cmp(&other)),
            (Number::Signed(one), Number::Signed(other)) => Some(one.cmp(&other)),
            (Number::Float(one), Number::Float(other)) => one.partial_cmp(&other),
            _ => None,
        }
    }

    /// Folds in the next number, which has the same type. Returns `None` if the sum has more than 64 bits.
    fn fold(self, fold: Fold, next: Number) -> Option<Number> {
        Some(match (self, next) {
            (Number::Unsigned(one), Number::Unsigned(next)) => Number::Unsigned(match fold {
                Fold::Count | Fold::Sum => one.checked_add(next)?,
                Fold::Min => one.min(next),
                Fold::Max => one.max(next),
            }),
            (Number::Signed(one), Number::Signed(next)) => Number::Signed(match fold {
                Fold::Count | Fold::Sum => one.checked_add(next)?,
                Fold::Min => one.min(next),
                Fold::Max => one.max(next),
            }),
            (Number::Float(one), Number::Float(next)) => Number::Float(match fold {
                Fold::Count | Fold::Sum => one + next,
                Fold::Min => one.min(next),
                Fold::Max => one.max(next),
            }),
            (one, _) => one,
        })
    }
}

/// Returns the type of the number that begins at byte `at` of a value, if one does.
fn scalar_at(shape: &Shape, at: u64) -> Option<Scalar> {
    match shape {
        Shape::Scalar(scalar) => (at == 0).then_some(*scalar),
        Shape::Text { .. }
        | Shape::Option { .. }
        | Shape::FixedVec { .. }
        | Shape::Vec { .. }
        | Shape::FixedMap { .. }
        | Shape::Ref { .. } => None,
        Shape::Packed { of, len } => {
            let at = at.checked_sub(if shape.is_unit() { WORD } else { 0 })?;
            let each = of.bytes() as u64;
            (at.is_multiple_of(each) && at / each < u64::from(*len)).then_some(*of)
        }
        Shape::Array { of, .. } => {
            let bytes = of.words() as u64 * WORD;
            (bytes != 0 && at < shape.words() as u64 * WORD)
                .then(|| scalar_at(of, at % bytes))
                .flatten()
        }
        Shape::Struct { fields, .. } => {
            let mut begin = WORD;
            fields.iter().find_map(|field| {
                let first = begin;
                begin += field.shape.words() as u64 * WORD;
                (first..begin).contains(&at).then(|| scalar_at(&field.shape, at - first)).flatten()
            })
        }
    }
}

/// Returns whether a value has an array with elements of `each` bytes, one of which begins at byte `at`, and which `fits`,
/// by its element and the number of elements from that one on.
fn is_within(shape: &Shape, at: u64, each: u64, fits: &dyn Fn(&Shape, u64) -> bool) -> bool {
    let bytes = shape.words() as u64 * WORD;
    match shape {
        Shape::Scalar(_)
        | Shape::Text { .. }
        | Shape::Option { .. }
        | Shape::FixedVec { .. }
        | Shape::Vec { .. }
        | Shape::FixedMap { .. }
        | Shape::Ref { .. } => false,
        Shape::Packed { of, len } => {
            let Some(at) = at.checked_sub(if shape.is_unit() { WORD } else { 0 }) else {
                return false;
            };
            let is_element = each == of.bytes() as u64 && at.is_multiple_of(each);
            is_element
                && at / each <= u64::from(*len)
                && fits(&Shape::Scalar(*of), u64::from(*len) - at / each)
        }
        Shape::Array { of, len } => {
            let element = of.words() as u64 * WORD;
            if element == 0 || at > bytes {
                return false;
            }
            let is_element = each == element && at.is_multiple_of(element);
            (is_element && fits(of, u64::from(*len) - at / element))
                || (at < bytes && is_within(of, at % element, each, fits))
        }
        Shape::Struct { fields, .. } => {
            let mut begin = WORD;
            fields.iter().any(|field| {
                let first = begin;
                begin += field.shape.words() as u64 * WORD;
                (first..=begin).contains(&at) && is_within(&field.shape, at - first, each, fits)
            })
        }
    }
}
