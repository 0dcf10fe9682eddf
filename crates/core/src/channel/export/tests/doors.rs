//! The steps that lead on from a value, and what they find.

use crate::channel::export::{Around, Missing, Scalar, Shape, Step, Value};
use std::boxed::Box;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

/// A step that leads on from a value.
#[derive(Clone, Debug)]
pub(super) struct Door<'s, 'v> {
    pub(super) step: Step,
    pub(super) to: &'s Shape,
    /// The value that the step finds in an invented one. Nothing is known of the targets of pointers.
    pub(super) value: Known<'v>,
}

#[derive(Clone, Debug)]
pub(super) enum Known<'v> {
    Value(&'v Value<'v>),
    Missing(Missing),
    Nothing,
}

/// The value in which steps begin.
struct Inside<'s> {
    whole: &'s Shape,
    at: usize,
    around: Around,
}

pub(super) fn word(number: usize) -> u32 {
    number.try_into().unwrap()
}

/// Returns some of the steps that lead on from a value at the beginning of a shape.
pub(super) fn doors<'s, 'v>(
    whole: &'s Shape,
    shape: &'s Shape,
    value: Option<&'v Value<'v>>,
) -> Vec<Door<'s, 'v>> {
    let mut out = Vec::new();
    let (mut numbers, mut arrays) = (Vec::new(), Vec::new());
    let inside = Inside { whole, at: 0, around: None };
    inside.doors(shape, value, &mut out, &mut numbers, &mut arrays);
    for (from, of, around, index) in numbers.into_iter().take(4) {
        for (first, each, len, to, element, value) in arrays.iter().take(4) {
            let value = match (index, value) {
                (Some(Value::Unsigned(index)), Some(Value::Array(items))) => {
                    match items.get(usize::try_from(*index).unwrap()) {
                        Some(value) => Known::Value(value),
                        None => Known::Missing(Missing::Index { index: *index }),
                    }
                }
                _ => Known::Nothing,
            };
            let (first, each, len, to) = (*first, *each, *len, *to);
            let step = Step::Index { first, each, len, to, from, of, around };
            out.push(Door { step, to: element, value });
        }
    }
    out
}

/// The byte, the type and the unit of a number that may be an index, and its value.
type Number<'v> = (u32, Scalar, Around, Option<&'v Value<'v>>);

/// The first byte of the elements of an array, their bytes, their number and their unit, with type and value.
type Array<'s, 'v> = (u32, u32, u32, Around, &'s Shape, Option<&'v Value<'v>>);

/// Adds an array, unless its elements have the bytes of an outer array's elements: a route leads to the outer ones then.
fn add_array<'s, 'v>(array: Array<'s, 'v>, arrays: &mut Vec<Array<'s, 'v>>) {
    if !arrays.iter().any(|outer| (outer.0, outer.1) == (array.0, array.1)) {
        arrays.push(array);
    }
}

impl<'s> Inside<'s> {
    fn doors<'v>(
        &self,
        shape: &'s Shape,
        value: Option<&'v Value<'v>>,
        out: &mut Vec<Door<'s, 'v>>,
        numbers: &mut Vec<Number<'v>>,
        arrays: &mut Vec<Array<'s, 'v>>,
    ) {
        let (whole, at) = (self.whole, word(self.at));
        let around = if shape.is_unit() { Some(at) } else { self.around };
        let element = |value: Option<&'v Value<'v>>, index: u32| match value {
            None => Known::Nothing,
            Some(Value::Array(items)) => match items.get(index as usize) {
                Some(value) => Known::Value(value),
                None => Known::Missing(Missing::Index { index: index.into() }),
            },
            Some(other) => panic!("{other} is no vector"),
        };
        match shape {
            // A value without words has no place.
            _ if shape.words() == 0 => {}
            Shape::Text { .. } => {}
            Shape::Scalar(of) if of.is_index() => numbers.push((8 * at, *of, around, value)),
            Shape::Scalar(_) => {}
            Shape::Packed { of, len } => {
                let first = 8 * (at + u32::from(shape.is_unit()));
                let array = (first, of.bytes() as u32, *len, around, of.shape(), value);
                add_array(array, arrays);
                if of.is_index() && *len > 0 {
                    let last = match value {
                        Some(Value::Array(items)) => items.last(),
                        _ => None,
                    };
                    numbers.push((first + (*len - 1) * of.bytes() as u32, *of, around, last));
                }
            }
            Shape::Array { of, len } => {
                let each = word(8 * of.words());
                add_array((8 * at, each, *len, around, of, value), arrays);
                for index in 0..*len as usize {
                    let item = match value {
                        Some(Value::Array(items)) => Some(&items[index]),
                        _ => None,
                    };
                    let at = self.at + index * of.words();
                    Inside { at, around, ..*self }.doors(of, item, out, numbers, arrays);
                }
            }
            Shape::Struct { fields, .. } => {
                let mut at = self.at + 1;
                for (number, field) in fields.iter().enumerate() {
                    let item = match value {
                        Some(Value::Struct(_, fields)) => Some(&fields[number].1),
                        _ => None,
                    };
                    let inner = Inside { at, around, ..*self };
                    inner.doors(&field.shape, item, out, numbers, arrays);
                    at += field.shape.words();
                }
            }
            Shape::Option { of } => {
                let value = match value {
                    Some(Value::Option(Some(value))) => Known::Value(value),
                    Some(_) => Known::Missing(Missing::Nothing),
                    None => Known::Nothing,
                };
                out.push(Door { step: Step::Some { at }, to: of, value });
            }
            Shape::FixedVec { of, len } => {
                let each = word(of.bytes_in_vec());
                out.extend((0..*len).map(|index| {
                    let step = Step::Element { at, index, each, len: *len };
                    Door { step, to: of, value: element(value, index) }
                }));
            }
            Shape::Vec { of } => {
                let each = word(of.bytes_in_vec());
                out.extend([0, 1, 7, 8, 23, 24, 25, 1000, u32::MAX].map(|index| {
                    let step = Step::Chunk { at, index, each };
                    Door { step, to: of, value: element(value, index) }
                }));
            }
            Shape::FixedMap { key, value: of, len } => {
                let absent: Box<[u64]> = vec![0x7777; key.key_words()].into();
                let mut step = |key: Box<[u64]>, value| {
                    let step =
                        Step::Entry { at, len: *len, value: word(of.words()), key: key.into() };
                    out.push(Door { step, to: of, value });
                };
                match value {
                    Some(Value::Map(entries)) => {
                        for (name, value) in entries {
                            step(key_words(key, name), Known::Value(value));
                        }
                        if absent.len() > 1 {
                            step(absent, Known::Missing(Missing::Nothing));
                        }
                    }
                    _ => step(absent, Known::Nothing),
                }
            }
            Shape::Ref { to } => {
                let to = whole.named(to).unwrap();
                let step = Step::Target { at, words: word(to.words()), around };
                out.push(Door { step, to, value: Known::Nothing });
                if let Shape::Struct { name, .. } = to {
                    let name = name.to_string().into();
                    let step = Step::Begin { pointer: at + 1, words: word(to.words()), name };
                    out.push(Door { step, to, value: Known::Nothing });
                }
            }
        }
    }
}

/// Returns the words of a key of a map.
fn key_words(shape: &Shape, key: &Value<'_>) -> Box<[u64]> {
    match (shape, key) {
        (Shape::Scalar(of), key) => {
            let word = match key {
                Value::Unsigned(number) => *number,
                Value::Signed(number) => *number as u64,
                Value::Bool(value) => u64::from(*value),
                Value::Char(value) => u64::from(u32::from(*value)),
                other => panic!("{other} is no key"),
            };
            [word & u64::MAX >> (64 - 8 * of.bytes())].into()
        }
        (Shape::Text { .. }, Value::Text(text)) => {
            let mut words = vec![text.len() as u64];
            words.extend(text.as_bytes().chunks(8).map(|piece| {
                piece.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
            }));
            words.resize(shape.key_words(), 0);
            words.into()
        }
        (shape, key) => panic!("{key} is no {shape}"),
    }
}
