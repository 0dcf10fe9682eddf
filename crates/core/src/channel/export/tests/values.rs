//! Values of words.

use super::shapes;
use crate::channel::export::{Field, Part, Scalar, Selection, Shape, Value};
use proptest::prelude::*;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// Invents a scalar, and returns its bits and its value.
fn scalar<'s>(scalar: Scalar, seed: u64) -> (u64, Value<'s>) {
    let bits = 8 * scalar.bytes() as u32;
    let word = seed & u64::MAX >> (64 - bits);
    match scalar {
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => (word, Value::Unsigned(word)),
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
            (word, Value::Signed((word << (64 - bits)).cast_signed() >> (64 - bits)))
        }
        Scalar::F32 => (u64::from((seed as f32).to_bits()), Value::F32(seed as f32)),
        Scalar::F64 => ((seed as f64).to_bits(), Value::F64(seed as f64)),
        Scalar::Bool => (seed & 1, Value::Bool(seed & 1 == 1)),
        Scalar::Char => {
            let one = ['a', 'é', '\n', '😀'][seed as usize % 4];
            (u64::from(u32::from(one)), Value::Char(one))
        }
    }
}

/// Invents a value, and appends its words.
fn invent<'s>(shape: &'s Shape, seed: &mut u64, words: &mut Vec<u64>) -> Value<'s> {
    *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
    let version = *seed;
    match shape {
        Shape::Scalar(of) => {
            let (word, value) = scalar(*of, *seed);
            // The bits above a scalar say nothing.
            let bits = 8 * of.bytes() as u32;
            words.push(if bits == 64 { word } else { word | *seed << bits });
            value
        }
        Shape::Packed { of, len } => {
            let mut bytes = Vec::new();
            let items = (0..*len).map(|index| {
                let (word, value) = scalar(*of, seed.wrapping_mul(u64::from(index) + 1));
                bytes.extend_from_slice(&word.to_le_bytes()[..of.bytes()]);
                value
            });
            let items = items.collect();
            if bytes.len() > 8 {
                words.push(version);
            }
            put(&bytes, words);
            Value::Array(items)
        }
        Shape::Array { of, len } => {
            Value::Array((0..*len).map(|_| invent(of, seed, words)).collect())
        }
        Shape::Text { bytes } => {
            let text: String = "aé\"😀b".repeat(9);
            let most = *seed as usize % (*bytes as usize + 1);
            let text = &text[..(0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap()];
            words.extend([version, text.len() as u64]);
            let mut padded = text.as_bytes().to_vec();
            padded.resize(*bytes as usize, 0xff);
            put(&padded, words);
            Value::Text(text.into())
        }
        Shape::Option { .. }
        | Shape::FixedVec { .. }
        | Shape::Vec { .. }
        | Shape::FixedMap { .. }
        | Shape::Ref { .. } => unreachable!("`shapes` makes none"),
        Shape::Struct { name, fields } => {
            words.push(version);
            let value = |Field { name, shape }: &'s Field| (&**name, invent(shape, seed, words));
            Value::Struct(name, fields.iter().map(value).collect())
        }
    }
}

fn put(bytes: &[u8], words: &mut Vec<u64>) {
    for piece in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        words.push(u64::from_le_bytes(word));
    }
}

proptest! {
    #[test]
    fn words_are_the_value_that_was_put(shape in shapes(), mut seed in any::<u64>()) {
        let mut words = Vec::new();
        let value = invent(&shape, &mut seed, &mut words);
        let whole = shape.resolve("").unwrap();
        prop_assert_eq!(whole.value(&words), Ok(value));
        words.push(0);
        prop_assert!(whole.value(&words).is_err(), "there is a word too many");
    }

    #[test]
    fn any_words_are_a_value_or_an_error(
        shape in shapes(),
        words in proptest::collection::vec(prop_oneof![any::<u64>(), 0..50_u64], 0..200),
    ) {
        let words = &words[..words.len().min(shape.words())];
        if let Ok(value) = shape.resolve("").unwrap().value(words) {
            prop_assert!(!value.to_string().is_empty());
            let lines = format!("{value:#}");
            prop_assert!(!lines.is_empty());
        }
    }
}

#[test]
fn invalid_words_are_no_value() {
    for (shape, words) in [
        ("bool", vec![2]),
        ("char", vec![0xd800]),
        ("[bool; 2]", vec![0x0200]),
        ("text<4>", vec![0, 5, 0]),
        ("text<4>", vec![0, u64::MAX, 0]),
        ("text<4>", vec![0, 1, 0xff]),
        ("A { a: u8 }", vec![0]),
        ("A { a: u8 }", vec![]),
    ] {
        let shape: Shape = shape.parse().unwrap();
        assert!(shape.resolve("").unwrap().value(&words).is_err(), "{shape}");
    }
    let part = Part { at: 0, words: 2 };
    let apart = Selection { route: Vec::new(), part, shift: 0, shape: Shape::Scalar(Scalar::U8) };
    assert!(apart.value(&[1, 2]).is_err(), "a number has one word");
}

#[test]
fn values_without_words_are_bounded() {
    let few: Shape = "[[u8; 0]; 3]".parse().unwrap();
    assert_eq!(few.resolve("").unwrap().value(&[]).unwrap().to_string(), "[[], [], []]");
    let many: Shape = "[[[u8; 0]; 4294967295]; 4294967295]".parse().unwrap();
    assert_eq!(many.words(), 0);
    assert!(many.resolve("").unwrap().value(&[]).is_err());
}

#[test]
fn a_value_is_printed_as_a_user_reads_it() {
    let print = |shape: &str, words: &[u64]| {
        let shape: Shape = shape.parse().unwrap();
        let whole = shape.resolve("").unwrap();
        format!("{:#}", whole.value(words).unwrap())
    };
    let (bid, ask) = (1.05_f64.to_bits(), 1.07_f64.to_bits());
    assert_eq!(print("f64", &[bid]), "1.05");
    assert_eq!(print("f32", &[u64::from(3.0_f32.to_bits())]), "3.0");
    assert_eq!(print("f64", &[f64::NAN.to_bits()]), "NaN");
    assert_eq!(print("i8", &[0xff]), "-1");
    assert_eq!(print("char", &[0x1b]), "'\\u{1b}'");
    assert_eq!(print("text<8>", &[0, 3, u64::from_le_bytes(*b"a\"\x1bxxxxx")]), "\"a\\\"\\u{1b}\"");
    assert_eq!(print("Row { bid: f64, ask: f64 }", &[2, bid, ask]), "Row { bid: 1.05, ask: 1.07 }");
    assert_eq!(print("Unit { }", &[2]), "Unit {}");
    assert_eq!(print("[u8; 3]", &[0x030201]), "[1, 2, 3]");
    let mut words = vec![4, 7];
    words.extend([[2, bid, ask]; 4].concat());
    assert_eq!(
        print("Quotes { count: u64, book: [Row { bid: f64, ask: f64 }; 4] }", &words),
        "Quotes {\n  count: 7\n  book: [\n    [0] Row { bid: 1.05, ask: 1.07 }\n    [1] Row { bid: 1.05, ask: 1.07 }\n    \
         [2] Row { bid: 1.05, ask: 1.07 }\n    [3] Row { bid: 1.05, ask: 1.07 }\n  ]\n}"
    );
}
