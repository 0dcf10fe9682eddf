//! Paths as text.

use super::shapes;
use crate::channel::export::{Part, PathError, Scalar, Selection, Shape};
use crate::limits::EXPORT_PATH_BYTES_MAX;
use proptest::prelude::*;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

/// The paths to all parts of a value that begins at a word, and what they select.
fn known(shape: &Shape, path: &str, at: usize, out: &mut Vec<(String, Selection)>) {
    let part = Part { at: at as u32, words: shape.words() as u32 };
    out.push((
        path.to_owned(),
        Selection { route: Vec::new(), part, shift: 0, shape: shape.clone() },
    ));
    match shape {
        Shape::Scalar(_)
        | Shape::Text { .. }
        | Shape::Option { .. }
        | Shape::FixedVec { .. }
        | Shape::Vec { .. }
        | Shape::FixedMap { .. }
        | Shape::Ref { .. } => {}
        Shape::Packed { of, len } => {
            let first = (at + usize::from(shape.is_unit())) * 8;
            for index in 0..*len as usize {
                let byte = first + index * of.bytes();
                let part = Part { at: (byte / 8) as u32, words: 1 };
                let shift = (8 * (byte % 8)) as u8;
                let shape = Shape::Scalar(*of);
                out.push((
                    format!("{path}[{index}]"),
                    Selection { route: Vec::new(), part, shift, shape },
                ));
            }
        }
        Shape::Array { of, len } => {
            for index in 0..*len as usize {
                known(of, &format!("{path}[{index}]"), at + index * of.words(), out);
            }
        }
        Shape::Struct { fields, .. } => {
            let mut at = at + 1;
            for field in fields {
                known(&field.shape, &format!("{path}.{}", field.name), at, out);
                at += field.shape.words();
            }
        }
    }
}

fn steps() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        (0..6_u32).prop_map(|at| format!(".field_{at}")),
        (0..8_u64).prop_map(|at| format!("[{at}]")),
        any::<u64>().prop_map(|at| format!("[{at}]")),
        "[\\[\\].a-z0-9_é]{0,4}",
    ];
    proptest::collection::vec(step, 0..6).prop_map(|steps| steps.concat())
}

proptest! {
    #[test]
    fn a_path_selects_its_part(shape in shapes()) {
        let mut paths = Vec::new();
        known(&shape, "", 0, &mut paths);
        for (path, selection) in paths {
            let found = shape.resolve(&path);
            if selection.part.words == 0 && !path.is_empty() {
                prop_assert_eq!(found, Err(PathError::Empty { path: path.into() }));
                continue;
            }
            prop_assert_eq!(selection.part.check(&shape), Ok(()), "{} of {}", path, shape);
            prop_assert_eq!(found.as_ref(), Ok(&selection), "{} of {}", path, shape);
            prop_assert_eq!(shape.resolve(path.trim_start_matches('.')), found, "the first dot may be left out");
        }
    }

    #[test]
    fn any_steps_select_a_part_or_nothing(shape in shapes(), path in steps()) {
        match shape.resolve(&path) {
            Ok(Selection { part, shift, shape: selected, .. }) => {
                prop_assert_eq!(part.check(&shape), Ok(()), "{} of {}", path, shape);
                prop_assert_eq!(selected.words(), part.words as usize);
                prop_assert!(shift < 64);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_text_selects_a_part_or_nothing(shape in shapes(), path in "\\PC{0,30}") {
        if let Ok(Selection { part, .. }) = shape.resolve(&path) {
            prop_assert_eq!(part.check(&shape), Ok(()), "{} of {}", path, shape);
        }
    }
}

fn quotes() -> Shape {
    "Quotes { count: u64, name: text<9>, book: [Row { bid: f64, ask: f64 }; 10], levels: [[f32; 5]; 4], none: [u8; 0], \
     unit: Unit { } }"
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
         `none`, `unit`"
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
        ("book[-1]", 5),
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
