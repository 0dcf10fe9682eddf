//! Parts of an exported value, as readers name them.

use super::layout::LENGTH_WORDS;
use super::map::Slots;
use super::shape::Shape;
use crate::fault::Rule;
use crate::limits::EXPORT_WORDS_MAX;
use crate::mutant::{Mutant, mutated};
use core::fmt;

const _: () = assert!(EXPORT_WORDS_MAX <= u32::MAX as usize);

/// A part of a value: whole words of it, which are one value of an exported type.
///
/// A field and an index are an offset each, which the reader adds up: the layout of both sides is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first word, from the beginning of the value. A scalar of a packed array has the word that contains it.
    pub at: u32,
    /// The number of words.
    pub words: u32,
}

impl Part {
    /// Returns the part on the wire.
    pub const fn encode(self) -> u64 {
        self.at as u64 | (self.words as u64) << 32
    }

    /// Returns the part of a word on the wire.
    pub const fn decode(word: u64) -> Part {
        Part { at: word as u32, words: (word >> 32) as u32 }
    }

    /// Checks that a value of this shape has such a part. A version alone is none, and neither are words of two fields.
    pub fn check(self, shape: &Shape) -> Result<(), Rule> {
        match is_part(shape, self.at as usize, self.words as usize) {
            true => Ok(()),
            false => Err(Rule::RecordField { field: "part of an exported value" }),
        }
    }

    /// Returns the shape of the part of a value of this shape, if it has such a part.
    pub fn shape(self, shape: &Shape) -> Option<&Shape> {
        let (at, words) = (self.at as usize, self.words as usize);
        let (mut shape, mut begin) = (shape, 0);
        while !(at == begin && words == shape.words()) {
            let (of, offset) = shape.inside(at.checked_sub(begin)?)?;
            (shape, begin) = (of, begin + offset);
        }
        Some(shape)
    }

    /// Shows the word of each version that tells whether this part has changed: the versions of its units, and unless the
    /// part is a unit itself, that of the unit around it. `None` is the version that every export has in front of its value.
    ///
    /// An array of one struct has the words of that struct, so `is_unit` says which of the two the part is.
    pub fn versions(self, shape: &Shape, is_unit: bool, show: &mut impl FnMut(Option<u32>)) {
        let (at, words) = (self.at as usize, self.words as usize);
        if words == 0 {
            return;
        }
        let (mut shape, mut begin, mut around) = (shape, 0, None);
        while !(at == begin && words == shape.words()) {
            if shape.is_unit() {
                around = Some(begin as u32);
            }
            let Some((of, offset)) = shape.inside(at - begin) else { break };
            (shape, begin) = (of, begin + offset);
        }
        if !is_unit && !mutated(Mutant::AroundUnseen) {
            show(around);
        }
        if at == begin && words == shape.words() {
            units(shape, begin, show);
        }
    }
}

impl Shape {
    /// Returns the value inside of this one that has the word `at`, and where it begins. The memory decides what is inside
    /// of an option, a vector or a map, so a [`Route`](super::Route) leads there.
    pub(super) fn inside(&self, at: usize) -> Option<(&Shape, usize)> {
        match self {
            Shape::Scalar(_)
            | Shape::Text { .. }
            | Shape::Packed { .. }
            | Shape::Option { .. }
            | Shape::FixedVec { .. }
            | Shape::Vec { .. }
            | Shape::FixedMap { .. }
            | Shape::Ref { .. } => None,
            Shape::Array { of, len } => {
                let each = of.words();
                (each != 0 && at < each.saturating_mul(*len as usize))
                    .then(|| (&**of, at / each * each))
            }
            Shape::Struct { fields, .. } => {
                let mut begin = 1;
                fields.iter().find_map(|field| {
                    let first = begin;
                    begin += field.shape.words();
                    (first..begin).contains(&at).then_some((&field.shape, first))
                })
            }
        }
    }
}

/// Shows the versions of a value that begins at word `at`.
fn units(shape: &Shape, at: usize, show: &mut impl FnMut(Option<u32>)) {
    if shape.is_unit() {
        show(Some(at as u32));
    }
    if mutated(Mutant::InsideUnseen) {
        return;
    }
    let elements = |of: &Shape, at: usize, len: u32, show: &mut _| {
        let each = of.words();
        if each != 0 && has_units(of) {
            (0..len as usize).for_each(|index| units(of, at + index * each, show));
        }
    };
    match shape {
        Shape::Scalar(_) | Shape::Text { .. } | Shape::Packed { .. } | Shape::Ref { .. } => {}
        // Any change of the export is taken for one of the elements, which are elsewhere.
        Shape::Vec { .. } => {}
        Shape::Array { of, len } => elements(of, at, *len, show),
        Shape::Option { of } => units(of, at + LENGTH_WORDS, show),
        Shape::FixedVec { of, len } => elements(of, at + LENGTH_WORDS, *len, show),
        Shape::FixedMap { key, value, len } => {
            let slots =
                Slots { at, len: *len as usize, key: key.key_words(), value: value.words() };
            if has_units(value) {
                (0..slots.len).for_each(|slot| units(value, slots.value_of(slot), show));
            }
        }
        Shape::Struct { fields, .. } => {
            let mut at = at + 1;
            for field in fields {
                units(&field.shape, at, show);
                at += field.shape.words();
            }
        }
    }
}

fn has_units(shape: &Shape) -> bool {
    match shape {
        Shape::Array { of, .. } => has_units(of),
        shape => shape.is_unit(),
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "words {} to {}", self.at, u64::from(self.at) + u64::from(self.words))
    }
}

/// The word of a vector or map with its length.
const LENGTH: usize = 1;

fn is_part(shape: &Shape, at: usize, words: usize) -> bool {
    // An array without elements begins where something else does.
    let is_empty = words == 0 && at <= shape.words();
    if is_empty || (at == 0 && words == shape.words()) {
        return true;
    }
    if let Shape::Packed { .. } = shape {
        let first = usize::from(shape.is_unit());
        return words == 1 && (first..shape.words()).contains(&at);
    }
    if let Shape::FixedVec { .. } | Shape::Vec { .. } | Shape::FixedMap { .. } = shape {
        return at == LENGTH && words == 1;
    }
    if mutated(Mutant::PartOfTwoFields) && at > 0 && words == 2 && at + words <= shape.words() {
        return true;
    }
    let inner = (at < shape.words()).then(|| shape.inside(at)).flatten();
    inner.is_some_and(|(of, begin)| is_part(of, at - begin, words))
}
