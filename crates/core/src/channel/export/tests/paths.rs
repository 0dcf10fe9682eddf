//! Paths as text.

use super::shapes;
use crate::channel::export::{Part, PathError, Route, Scalar, Selection, Shape, Step};
use crate::fault::Rule;
use crate::limits::{EXPORT_PATH_BYTES_MAX, EXPORT_STEPS_MAX};
use proptest::prelude::*;
use std::boxed::Box;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

/// A value to which a path leads.
#[derive(Clone)]
struct Reached<'s> {
    whole: &'s Shape,
    path: String,
    /// The route to the value around it, and its first word there.
    route: Vec<u64>,
    at: usize,
}

impl Reached<'_> {
    /// Returns the same value behind a step of the route.
    fn behind(&self, path: String, step: Step) -> Self {
        let mut route = self.route.clone();
        step.encode(&mut route);
        Reached { path, route, at: 0, ..*self }
    }

    /// Adds the paths to all parts of the value, and what they select. Of vectors, maps and pointers, it adds some.
    fn known(&self, shape: &Shape, out: &mut Vec<(String, Selection)>) {
        let Reached { whole, path, route, at } = self;
        let select = |part, shift, shape: &Shape| Selection {
            route: route.clone(),
            part,
            shift,
            shape: shape.clone(),
        };
        let part = Part { at: *at as u32, words: shape.words() as u32 };
        out.push((path.clone(), select(part, 0, shape)));
        let to = |path: String, at: usize| Reached { path, at, ..self.clone() };
        let word = *at as u32;
        let steps = route.len();
        match shape {
            Shape::Scalar(_) | Shape::Text { .. } => {}
            Shape::Packed { of, len } => {
                let first = (at + usize::from(shape.is_unit())) * 8;
                for index in 0..*len as usize {
                    let byte = first + index * of.bytes();
                    let part = Part { at: (byte / 8) as u32, words: 1 };
                    let shift = (8 * (byte % 8)) as u8;
                    out.push((format!("{path}[{index}]"), select(part, shift, of.shape())));
                }
            }
            Shape::Array { of, len } => {
                for index in 0..*len as usize {
                    to(format!("{path}[{index}]"), at + index * of.words()).known(of, out);
                }
            }
            Shape::Struct { fields, .. } => {
                let mut at = at + 1;
                for field in fields {
                    to(format!("{path}.{}", field.name), at).known(&field.shape, out);
                    at += field.shape.words();
                }
            }
            Shape::Option { of } => {
                let step = Step::Some { at: word };
                self.behind(format!("{path}?"), step).known(of, out);
            }
            Shape::FixedVec { of, len } => {
                for index in (0..*len).take(2) {
                    let step = Step::Element { at: word, index, each: 0, len: *len };
                    self.behind(format!("{path}[{index}]"), step).known(of, out);
                }
            }
            Shape::Vec { of } => {
                for index in [0, 4_000_000] {
                    let step = Step::Chunk { at: word, index, each: 0 };
                    self.behind(format!("{path}[{index}]"), step).known(of, out);
                }
            }
            Shape::FixedMap { key, value, len } => {
                for (written, key) in keys(key) {
                    let step = Step::Entry { at: word, len: *len, value: 0, key: key.into() };
                    self.behind(format!("{path}[{written}]"), step).known(value, out);
                }
            }
            Shape::Ref { to } if steps < 6 => {
                let target = whole.named(to).unwrap();
                let step = Step::Target { at: word, words: 0, around: None };
                self.behind(format!("{path}*"), step).known(target, out);
            }
            Shape::Ref { .. } => {}
        }
    }
}

/// Some keys of a map, as they are written, with their words.
fn keys(shape: &Shape) -> Vec<(String, Box<[u64]>)> {
    let words: [(&str, Vec<u64>); 2] = match shape {
        Shape::Scalar(Scalar::Bool) => [("true", [1].into()), ("false", [0].into())],
        Shape::Scalar(Scalar::Char) => [("\"é\"", [0xe9].into()), ("b", [0x62].into())],
        Shape::Scalar(Scalar::I8) => [("-1", [0xff].into()), ("-128", [0x80].into())],
        Shape::Scalar(Scalar::I64) => {
            [("-1", [u64::MAX].into()), ("9223372036854775807", [u64::MAX >> 1].into())]
        }
        Shape::Scalar(_) => [("7", [7].into()), ("0", [0].into())],
        Shape::Text { bytes } => {
            let words = |first: &[u64]| [first, &[0; 9]].concat()[..shape.key_words()].to_vec();
            match bytes {
                0..3 => [("\"\"", words(&[0])), ("\"\"", words(&[0]))],
                _ => [("\"E]R\"", words(&[3, 0x52_5d45])), ("7", words(&[1, 0x37]))],
            }
        }
        other => unreachable!("{other} is no key"),
    };
    words.into_iter().map(|(written, words)| (written.to_owned(), words.into())).collect()
}

/// The part that a selection has of the value to which its route leads.
fn check(shape: &Shape, selection: &Selection) -> Result<(), Rule> {
    selection.part.check(Route::decode(&selection.route, shape)?.1)
}

fn steps() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        (0..6_u32).prop_map(|at| format!(".field_{at}")),
        (0..8_u64).prop_map(|at| format!("[{at}]")),
        any::<u64>().prop_map(|at| format!("[{at}]")),
        proptest::sample::select(&["?", "*", "[\"a\"]", "[true]", "[-1]"][..])
            .prop_map(String::from),
        "[\\[\\].a-z0-9_é]{0,4}",
    ];
    proptest::collection::vec(step, 0..6).prop_map(|steps| steps.concat())
}

proptest! {
    #[test]
    fn a_path_selects_its_part(shape in shapes()) {
        let mut paths = Vec::new();
        let whole = Reached { whole: &shape, path: String::new(), route: Vec::new(), at: 0 };
        whole.known(&shape, &mut paths);
        for (path, selection) in paths {
            let found = shape.resolve(&path);
            if selection.part.words == 0 && !path.is_empty() {
                prop_assert_eq!(found, Err(PathError::Empty { path: path.into() }));
                continue;
            }
            prop_assert_eq!(check(&shape, &selection), Ok(()), "{} of {}", path, shape);
            prop_assert_eq!(found.as_ref(), Ok(&selection), "{} of {}", path, shape);
            prop_assert_eq!(shape.resolve(path.trim_start_matches('.')), found, "the first dot may be left out");
        }
    }

    #[test]
    fn any_steps_select_a_part_or_nothing(shape in shapes(), path in steps()) {
        match shape.resolve(&path) {
            Ok(found) => {
                prop_assert_eq!(check(&shape, &found), Ok(()), "{} of {}", path, shape);
                prop_assert_eq!(found.shape.words(), found.part.words as usize);
                prop_assert!(found.shift < 64);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_text_selects_a_part_or_nothing(shape in shapes(), path in "\\PC{0,30}") {
        if let Ok(found) = shape.resolve(&path) {
            prop_assert_eq!(check(&shape, &found), Ok(()), "{} of {}", path, shape);
        }
    }
}

fn quotes() -> Shape {
    "Quotes { count: u64, name: text<9>, book: [Row { bid: f64, ask: f64 }; 10], levels: [[f32; 5]; 4], none: [u8; 0], \
     unit: Unit { }, limit: option<f64>, trades: vec<f32>, recent: vec<u8; 3>, prices: map<text<3>, option<f64>; 8>, \
     scores: map<i8, bool; 8>, head: ref<Row> }"
        .parse()
        .unwrap()
}

fn error(path: &str) -> String {
    quotes().resolve(path).unwrap_err().to_string()
}

#[test]
fn an_error_says_what_there_is() {
    assert_eq!(
        error("bok[7]"),
        "the whole value is of type `Quotes`, which has no field `bok`; its fields: `count`, `name`, `book`, `levels`, \
         `none`, `unit`, `limit`, `trades`, `recent`, `prices`, `scores`, `head`"
    );
    assert_eq!(
        error("book[7].size"),
        "`book[7]` is of type `Row`, which has no field `size`; its fields: `bid`, `ask`"
    );
    assert_eq!(error(".unit.a"), "`Unit` has no field `a`: it has no fields");
    assert_eq!(
        error("book[10].bid"),
        "the index 10 is out of range: `book` is an array of 10 elements"
    );
    let index = "9".repeat(40);
    assert_eq!(
        error(&format!("levels[3][{index}]")),
        format!("the index {index} is out of range: `levels[3]` is an array of 5 elements")
    );
    assert_eq!(
        error("book.bid"),
        "`book` is an array of 10 elements and has no fields: select an element, such as `[0]`"
    );
    assert_eq!(error("count.a"), "`count` is a value of type `u64`, and has no fields");
    assert_eq!(error("name[1]"), "`name` is a text, and has no elements");
    assert_eq!(error("[1]"), "the whole value is a struct, and has no elements");
    assert_eq!(
        error("levels[1][1][1]"),
        "`levels[1][1]` is a value of type `f32`, and has no elements"
    );
    assert_eq!(
        error("book[-1]"),
        "the index -1 is out of range: `book` is an array of 10 elements"
    );
    assert_eq!(error("none"), "`none` is an array without content: there is nothing to read");
}

#[test]
fn a_text_that_is_no_path_is_told_from_its_first_wrong_byte() {
    for (path, at) in [
        (".", 1),
        ("..count", 1),
        ("book[", 5),
        ("book[]", 5),
        ("book[1", 6),
        ("book[one]", 5),
        ("book[\"one\"]", 5),
        ("prices[\"one", 11),
        ("book[+1]", 5),
        ("book[1]bid", 7),
        ("book[1].", 8),
        (" book", 0),
        ("count ", 5),
        ("name\u{1b}", 4),
    ] {
        assert_eq!(
            quotes().resolve(path),
            Err(PathError::Text { path: path.into(), at }),
            "{path}"
        );
    }
    assert_eq!(
        error("name\u{1b}"),
        "`name\\u{1b}` is no path, from byte 4 on: write fields and indexes as in `book[7].bid`"
    );
    let bytes = EXPORT_PATH_BYTES_MAX + 1;
    assert_eq!(quotes().resolve(&"a".repeat(bytes)), Err(PathError::Long { bytes }));
    assert_eq!(quotes().resolve("book[00007].bid"), quotes().resolve("book[7].bid"));
}

#[test]
fn a_scalar_of_a_packed_array_has_its_bits() {
    let shape: Shape = "[u16; 9]".parse().unwrap();
    let selection = shape.resolve("[5]").unwrap();
    assert_eq!(selection.part, Part { at: 2, words: 1 });
    assert_eq!((selection.shift, selection.shape), (16, Shape::Scalar(Scalar::U16)));
}

#[test]
fn an_error_says_how_the_new_kinds_are_written() {
    assert_eq!(error("limit.a"), "`limit` is an option and has no fields: select its value by `?`");
    assert_eq!(
        error("head.bid"),
        "`head` is a pointer and has no fields: select its target by `*`"
    );
    assert_eq!(error("prices.EUR"), "`prices` is a map, and has no fields");
    assert_eq!(error("trades.a"), "`trades` is a vector, and has no fields");
    assert_eq!(error("limit[0]"), "`limit` is an option, and has no elements");
    assert_eq!(
        error("count?"),
        "`?` leads to the value of an option, and `count` is a value of type `u64`"
    );
    assert_eq!(error("prices*"), "`*` leads to the target of a pointer, and `prices` is a map");
    assert_eq!(error("?"), "`?` leads to the value of an option, and the whole value is a struct");
    assert_eq!(
        error("prices[\"EURO\"]"),
        "`EURO` is no key of `prices`, whose keys have the type `text<3>`; a text is written as in `prices[\"EUR\"]`"
    );
    for key in ["128", "-129", "x", "\"\""] {
        assert!(error(&format!("scores[{key}]")).contains("is no key of `scores`"), "{key}");
    }
    assert_eq!(error("trades[-1]"), "the index -1 is out of range: `trades` is a vector");
    assert_eq!(
        error("recent[3]"),
        "the index 3 is out of range: `recent` is an array of 3 elements"
    );
}

#[test]
fn a_whole_value_may_be_an_option_a_vector_or_a_map() {
    for (shape, path) in [
        ("option<u8>", "?"),
        ("option<option<u8>>", "??"),
        ("vec<u8; 3>", "[2]"),
        ("vec<u8>", "[2]"),
        ("map<u8, u8; 4>", "[2]"),
        ("map<text<1>, u8; 4>", "[\"a\"]"),
    ] {
        let shape: Shape = shape.parse().unwrap();
        let selection = shape.resolve(path).unwrap();
        assert_eq!(check(&shape, &selection), Ok(()));
        assert_eq!(selection.shape, Shape::Scalar(Scalar::U8), "{path} of {shape}");
    }
}

/// An owner refuses longer routes, and following a path takes no more of the stack.
#[test]
fn a_path_has_a_bounded_number_of_steps_that_the_memory_decides() {
    let list: Shape = "A { a: ref<A> }".parse().unwrap();
    let path = |many: usize| ".a*".repeat(many);
    let most = list.resolve(&path(EXPORT_STEPS_MAX)).unwrap();
    assert_eq!(check(&list, &most), Ok(()));
    for many in [EXPORT_STEPS_MAX + 1, EXPORT_PATH_BYTES_MAX / 3] {
        let error = list.resolve(&path(many)).unwrap_err();
        assert!(error.to_string().contains("64"), "{error}");
    }
}
