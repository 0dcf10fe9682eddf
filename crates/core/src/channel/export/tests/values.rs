//! Values of words.

use super::memory::Memory;
use super::shapes;
use crate::channel::export::{Part, Scalar, Selection, Shape, gather};
use proptest::prelude::*;
use std::format;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

proptest! {
    #[test]
    fn words_are_the_value_that_was_put(shape in shapes(), seed in any::<u64>()) {
        let (memory, value) = Memory::invent(&shape, seed);
        let mut words = gather(&shape, 0, memory.words.len(), &mut |at| memory.words[at]).unwrap();
        let whole = shape.resolve("").unwrap();
        if !shape.grows() {
            prop_assert_eq!(&words, &memory.words);
        }
        prop_assert_eq!(whole.value(&words), Ok(value));
        words.push(0);
        prop_assert!(whole.value(&words).is_err() || shape.grows(), "there is a word too many");
        words.truncate(shape.words().saturating_sub(1));
        prop_assert!(whole.value(&words).is_err() || shape.words() == 0, "there is a word too few");
    }

    #[test]
    fn any_words_are_a_value_or_an_error(
        shape in shapes(),
        words in proptest::collection::vec(prop_oneof![any::<u64>(), 0..50_u64], 0..200),
    ) {
        let most = if shape.grows() { 200 } else { shape.words() };
        let words = &words[..words.len().min(most)];
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
        ("option<u8>", vec![0, 2, 0]),
        ("vec<u8; 3>", vec![0, 4, 0]),
        ("vec<u16; 4>", vec![0, u64::MAX, 0]),
        ("map<u8, bool; 1>", vec![0, 1, 2, 0, 2]),
        ("map<text<3>, u8; 1>", vec![0, 1, 2, 4, 0, 0]),
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
fn a_value_with_many_arrays_in_each_other_is_a_value() {
    let nested: Shape = "[[[S { a: u8 }; 20]; 20]; 20]".parse().unwrap();
    let words = vec![0; nested.words()];
    assert!(nested.resolve("").unwrap().value(&words).is_ok());
}

/// The elements of two vectors may be the same words if the words are bad, and more of them than words.
#[test]
fn vectors_in_each_other_are_bounded_by_their_words() {
    let shape: Shape = "vec<vec<vec<[u8; 9]>>>".parse().unwrap();
    let mut words = vec![0; 23 * 100];
    for head in words.chunks_mut(23) {
        (head[1], head[2]) = (99, 23);
    }
    assert!(shape.resolve("").unwrap().value(&words).is_err());
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

#[test]
fn options_vectors_maps_and_pointers_are_printed() {
    let print = |shape: &str, words: &[u64]| {
        let shape: Shape = shape.parse().unwrap();
        format!("{:#}", shape.resolve("").unwrap().value(words).unwrap())
    };
    assert_eq!(print("option<u8>", &[2, 0, 7]), "None");
    assert_eq!(print("option<u8>", &[2, 1, 7]), "Some(7)");
    assert_eq!(print("option<option<i8>>", &[2, 1, 2, 1, 0xff]), "Some(Some(-1))");
    assert_eq!(print("vec<u16; 5>", &[2, 3, 0x0003_0002_0001, 9]), "[1, 2, 3]");
    assert_eq!(print("vec<u16; 5>", &[2, 0, 1, 9]), "[]");
    let mut grown = vec![0; 23];
    (grown[1], grown[2]) = (3, 23);
    grown.push(0x03_0201);
    assert_eq!(print("vec<u8>", &grown), "[1, 2, 3]");
    // A free slot, an entry, a removed one, an entry.
    let map = [2, 2, 0, 9, 9, 2, 7, 8, 1, 9, 9, 3, 5, 6];
    assert_eq!(print("map<u8, i16; 4>", &map), "{7: 8, 5: 6}");
    assert_eq!(print("map<u8, i16; 0>", &[2, 0]), "{}");
    let eur = u64::from_le_bytes(*b"EUR\0\0\0\0\0");
    assert_eq!(print("map<text<8>, u8; 1>", &[2, 1, 2, 3, eur, 1]), "{\"EUR\": 1}");
    assert_eq!(print("A { next: ref<A> }", &[2, 0]), "A { next: null }");
    assert_eq!(print("A { next: ref<A> }", &[2, 1]), "A { next: ref@0 }");
    let long = [u64::MAX; 5];
    let row = "Row { a: 18446744073709551615, b: 18446744073709551615, c: 18446744073709551615, d: 18446744073709551615 }";
    assert_eq!(
        print("option<Row { a: u64, b: u64, c: u64, d: u64 }>", &[&[2, 1], &long[..]].concat()),
        format!("Some({})", row.replace("{ ", "{\n  ").replace(", ", "\n  ").replace(" }", "\n}"))
    );
    assert_eq!(
        print("map<u8, [u64; 5]; 1>", &[&[2, 1, 2, 7, 0], &long[..]].concat()),
        format!(
            "{{\n  7: [\n{}  ]\n}}",
            (0..5).map(|at| format!("    [{at}] {}\n", u64::MAX)).collect::<Vec<_>>().concat()
        )
    );
}
