use super::{
    Consistency, Directory, Field, Nameless, NotOpened, NotRead, Part, Readers, Refusal, Scalar,
    Shape, ShapeError,
};
use crate::limits::{
    EXPORT_DEPTH_MAX, EXPORT_FIELDS_MAX, EXPORT_PARTS_MAX, EXPORT_TEXT_BYTES_MAX, EXPORT_WORDS_MAX,
    IDENT_BYTES_MAX,
};
use proptest::prelude::*;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

mod memory;

mod doors;

mod expressions;

mod paths;

mod readers;

mod values;

mod chunks;

mod maps;

mod gather;

mod routes;

pub(super) fn shapes() -> impl Strategy<Value = Shape> {
    let scalar = proptest::sample::select(&Scalar::ALL[..]).prop_map(Shape::Scalar);
    let text = || (0_u32..40).prop_map(|bytes| Shape::Text { bytes });
    let pointer = any::<u8>().prop_map(|which| Shape::Ref { to: which.to_string().into() });
    let leaf = prop_oneof![4 => scalar.clone(), 2 => text(), 1 => pointer];
    let key = prop_oneof![scalar.prop_filter("a float is no key", is_key), text()];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let fields = proptest::collection::vec(inner.clone(), 0..5);
        let structs = ("[A-Z][a-z_0-9]{0,8}", fields).prop_map(|(name, shapes)| {
            let field = |(at, shape)| Field { name: format!("field_{at}").into(), shape };
            Shape::Struct {
                name: name.into(),
                fields: shapes.into_iter().enumerate().map(field).collect(),
            }
        });
        let len = 0_u32..6;
        prop_oneof![
            4 => structs,
            2 => (inner.clone(), len.clone()).prop_map(|(of, len)| Shape::array(of, len)),
            1 => inner.clone().prop_map(|of| Shape::Option { of: of.into() }),
            1 => (inner.clone(), len.clone())
                .prop_map(|(of, len)| Shape::FixedVec { of: of.into(), len }),
            1 => inner.clone().prop_map(|of| Shape::Vec { of: of.into() }),
            1 => (key.clone(), inner, len).prop_map(|(key, value, len)| Shape::FixedMap {
                key: key.into(),
                value: value.into(),
                len
            }),
        ]
    })
    .prop_map(with_targets)
}

fn is_key(shape: &Shape) -> bool {
    !matches!(shape, Shape::Scalar(Scalar::F32 | Scalar::F64))
}

/// Gives each pointer of a shape, whose target has a number instead of a name, a struct of the shape. Where there is none,
/// or structs of one name, a text takes the place of each pointer.
fn with_targets(mut shape: Shape) -> Shape {
    let mut names = Vec::new();
    shape.clone().visit(&mut |inner| {
        if let Shape::Struct { name, .. } = inner {
            names.push(name.clone());
        }
    });
    let plain = {
        let mut shape = shape.clone();
        shape.visit(&mut |inner| {
            if let Shape::Ref { .. } = inner {
                *inner = Shape::Text { bytes: 0 };
            }
        });
        shape
    };
    if names.is_empty() {
        return plain;
    }
    shape.visit(&mut |inner| {
        if let Shape::Ref { to } = inner {
            *to = names[to.parse::<usize>().unwrap() % names.len()].clone();
        }
    });
    if shape.check().is_ok() { shape } else { plain }
}

impl Shape {
    /// Visits this shape and all inside of it, from the outside.
    fn visit(&mut self, see: &mut impl FnMut(&mut Shape)) {
        see(self);
        match self {
            Shape::Scalar(_) | Shape::Packed { .. } | Shape::Text { .. } | Shape::Ref { .. } => {}
            Shape::Array { of, .. }
            | Shape::Option { of }
            | Shape::FixedVec { of, .. }
            | Shape::Vec { of }
            | Shape::FixedMap { value: of, .. } => of.visit(see),
            Shape::Struct { fields, .. } => {
                fields.iter_mut().for_each(|field| field.shape.visit(see));
            }
        }
    }
}

/// The parts of a value, by their first words.
fn parts(shape: &Shape, at: usize, out: &mut Vec<Part>) {
    out.push(Part { at: at as u32, words: shape.words() as u32 });
    match shape {
        Shape::Scalar(_) | Shape::Text { .. } | Shape::Option { .. } | Shape::Ref { .. } => {}
        // The length.
        Shape::FixedVec { .. } | Shape::Vec { .. } | Shape::FixedMap { .. } => {
            out.push(Part { at: at as u32 + 1, words: 1 });
        }
        Shape::Packed { .. } => {
            let first = at + usize::from(shape.is_unit());
            let words = first..at + shape.words();
            out.extend(words.map(|at| Part { at: at as u32, words: 1 }));
        }
        Shape::Array { of, len } => {
            (0..*len as usize).for_each(|index| parts(of, at + index * of.words(), out));
        }
        Shape::Struct { fields, .. } => {
            let mut at = at + 1;
            for field in fields {
                parts(&field.shape, at, out);
                at += field.shape.words();
            }
        }
    }
}

proptest! {
    #[test]
    fn the_text_of_a_shape_is_that_shape(shape in shapes()) {
        prop_assert_eq!(shape.to_string().parse(), Ok(shape));
    }

    #[test]
    fn any_text_is_a_shape_or_an_error(text in "[\\[\\]{}<>;:, a-z0-9A-Z_é]{0,60}") {
        if let Ok(shape) = text.parse::<Shape>() {
            prop_assert_eq!(shape.to_string(), text, "a shape has one text");
        }
    }

    #[test]
    fn a_text_with_a_changed_byte_is_another_shape_or_none(shape in shapes(), at in any::<prop::sample::Index>(), byte in 32_u8..127) {
        let text = shape.to_string();
        let mut changed = text.clone().into_bytes();
        let at = at.index(changed.len());
        changed[at] = byte;
        let changed = String::from_utf8(changed).unwrap();
        prop_assert_eq!(changed.parse() == Ok(shape), changed == text);
    }

    #[test]
    fn the_parts_of_a_value_are_its_fields_and_elements(shape in shapes()) {
        let mut known = Vec::new();
        parts(&shape, 0, &mut known);
        let words = shape.words() as u32;
        for at in 0..words.min(60) {
            for words in 0..words.min(60) + 1 {
                let part = Part { at, words };
                // A part without words is one of an array without elements, and brings nothing.
                let is_known = known.contains(&part) || words == 0;
                prop_assert!(is_known || part.check(&shape).is_err(), "{part} of {shape}");
                if known.contains(&part) {
                    prop_assert_eq!(part.check(&shape), Ok(()), "{} of {}", part, shape);
                }
            }
        }
    }

    #[test]
    fn any_word_is_a_part_within_the_value_or_refused(shape in shapes(), word in any::<u64>()) {
        let part = Part::decode(word);
        prop_assert_eq!(part.encode(), word);
        if part.check(&shape).is_ok() {
            prop_assert!(u64::from(part.at) + u64::from(part.words) <= shape.words() as u64);
        }
    }
}

#[test]
fn a_layout_never_changes() {
    let text = "Quotes { count: u64, name: text<9>, small: [u16; 3], bytes: [u8; 9], book: [Row { bid: f64, open: bool }; 10] }";
    let shape: Shape = text.parse().unwrap();
    assert_eq!(shape.to_string(), text);
    // A version and the fields: a word; a version, a length and two words; a word; a version and two words; ten times a
    // version and two words.
    assert_eq!(shape.words(), 1 + 1 + 4 + 1 + 3 + 10 * 3);
    let ok = [(0, 40), (1, 1), (2, 4), (6, 1), (7, 3), (8, 1), (10, 30), (10, 3), (11, 1), (37, 3)];
    for (at, words) in ok {
        assert_eq!(Part { at, words }.check(&shape), Ok(()), "{at}, {words}");
    }
    // A version, a text's length, two fields, half a row, and what is behind the value.
    for (at, words) in [(0, 1), (3, 1), (1, 2), (7, 1), (10, 2), (10, 4), (40, 1), (u32::MAX, 1)] {
        assert!(Part { at, words }.check(&shape).is_err(), "{at}, {words}");
    }
}

#[test]
fn a_part_changes_with_its_units_and_the_unit_around_it() {
    let text = "A { a: u64, b: [B { b: u8 }; 1], c: [u8; 9], d: [[u16; 3]; 2], e: [u8; 0] }";
    let shape: Shape = text.parse().unwrap();
    let of = |at, words, is_unit| {
        let part = Part { at, words };
        assert_eq!(part.check(&shape), Ok(()));
        let mut versions = Vec::new();
        part.versions(&shape, is_unit, &mut |at| versions.push(at));
        versions
    };
    assert_eq!(of(0, 9, true), [Some(0), Some(2), Some(4)], "the whole");
    assert_eq!(of(1, 1, false), [Some(0)], "a number");
    assert_eq!(of(2, 2, true), [Some(2)], "a struct");
    assert_eq!(of(2, 2, false), [Some(0), Some(2)], "the array with that struct alone");
    assert_eq!(of(3, 1, false), [Some(2)], "a number in it");
    assert_eq!(of(4, 3, true), [Some(4)], "an array of numbers");
    assert_eq!(of(6, 1, false), [Some(4)], "one of them");
    assert_eq!(of(7, 2, false), [Some(0)], "an array of small arrays");
    assert_eq!(of(8, 1, false), [Some(0)], "one of them");
    let mut versions = Vec::new();
    Part { at: 0, words: 1 }
        .versions(&Shape::Scalar(Scalar::U8), false, &mut |at| versions.push(at));
    assert_eq!(versions, [None], "a number without a struct");
}

#[test]
fn a_consistency_has_a_number() {
    for kind in [Consistency::Cell, Consistency::Guarded, Consistency::Raw] {
        assert_eq!(Consistency::decode(kind.encode()), Some(kind));
    }
    assert_eq!(Consistency::decode(3), None);
}

/// Exports a number under this name, and keeps the name.
fn export(directory: &mut Directory<String>, name: &str) -> Result<u32, Refusal> {
    let shape = Shape::Scalar(Scalar::U64);
    let number = directory.number(name, &shape)?;
    directory.export(number, name, shape, Readers::everybody(), name.into())?;
    Ok(number)
}

#[test]
fn an_export_is_found_by_its_name_and_type_until_it_is_withdrawn() {
    let mut directory = Directory::new(0);
    let first = export(&mut directory, "first").unwrap();
    assert_eq!(export(&mut directory, "first"), Err(Refusal::Taken { name: "first".into() }));
    let second = export(&mut directory, "second").unwrap();
    assert_eq!(directory.open("second", "u64", &Nameless), Ok((second, &"second".into())));
    let clash = directory.open("second", "u32", &Nameless);
    assert_eq!(clash, Err(NotOpened::OtherType { exported: "u64".into() }));
    let others = ["first".into(), "second".into()];
    assert_eq!(
        directory.open("third", "u64", &Nameless),
        Err(NotOpened::NoExport { others: others.into() })
    );

    let whole = Part { at: 0, words: 1 };
    assert_eq!(directory.part(first, whole, &Nameless).unwrap().1, "first");
    assert_eq!(
        directory.part(first, Part { at: 1, words: 1 }, &Nameless).unwrap_err(),
        NotRead::NoPart
    );
    assert_eq!(directory.withdraw(first).as_deref(), Some("first"));
    assert_eq!(directory.withdraw(first), None, "it was withdrawn");
    assert_eq!(directory.part(first, whole, &Nameless).unwrap_err(), NotRead::Ended);
    let again = export(&mut directory, "first").unwrap();
    assert_ne!(again, first, "readers of the first one do not read this one");
    assert_eq!(directory.part(first, whole, &Nameless).unwrap_err(), NotRead::Ended);
}

#[test]
fn two_nodes_of_a_name_do_not_number_their_exports_alike() {
    let [one, other] = [8, 1 << 20].map(|random| export(&mut Directory::new(random), "first"));
    assert_ne!(one.unwrap(), other.unwrap());
}

#[test]
fn parts_that_are_asked_for_at_once_have_bounds() {
    let check = |count, words| {
        let parts = std::iter::repeat_n(Part { at: 0, words }, count);
        Directory::<()>::check_all(parts)
    };
    assert_eq!(check(EXPORT_PARTS_MAX, 1), Ok(()));
    assert_eq!(check(EXPORT_PARTS_MAX + 1, 1), Err(NotRead::Large));
    assert_eq!(check(2, EXPORT_WORDS_MAX as u32 / 2), Ok(()));
    assert_eq!(check(3, EXPORT_WORDS_MAX as u32 / 2), Err(NotRead::Large));
    assert_eq!(check(EXPORT_PARTS_MAX, u32::MAX), Err(NotRead::Large));
}

#[test]
fn a_refused_export_leaves_nothing() {
    let mut directory = Directory::new(0);
    for name in ["", "a/b", "é", &"x".repeat(65)] {
        assert!(export(&mut directory, name).is_err(), "{name}");
    }
    let large = Shape::Packed { of: Scalar::U64, len: u32::MAX };
    let refused = directory.number("large", &large);
    assert_eq!(refused, Err(Refusal::Shape(ShapeError::Large)));
    // An owner whose export fails has a number that nothing stands under.
    let (shape, all) = (Shape::Scalar(Scalar::U64), Readers::everybody());
    let number = directory.number("late", &shape).unwrap();
    let kept = export(&mut directory, "late").unwrap();
    let taken = Err(Refusal::Taken { name: "late".into() });
    assert_eq!(directory.export(number, "late", shape, all, String::new()), taken);
    assert_eq!(directory.kept(number, &Nameless), Err(NotRead::Ended));
    assert_ne!(kept, number);
    assert_eq!(directory.names(&Nameless), ["late"]);
}

#[test]
fn a_shape_has_bounds() {
    let nested =
        |depth: usize| (1..depth).fold("u8".to_owned(), |inner, _| format!("[{inner}; 1]"));
    assert!(nested(EXPORT_DEPTH_MAX).parse::<Shape>().is_ok());
    assert_eq!(nested(EXPORT_DEPTH_MAX + 1).parse::<Shape>(), Err(ShapeError::Deep));
    assert_eq!("[[u64; 4096]; 4096]".parse::<Shape>(), Err(ShapeError::Large));
    let most = format!("[u64; {}]", EXPORT_WORDS_MAX - 1);
    assert!(most.parse::<Shape>().is_ok());
    assert_eq!(format!("[u64; {EXPORT_WORDS_MAX}]").parse::<Shape>(), Err(ShapeError::Large));
    let lots = "[[[[text<4294967295>; 4294967295]; 4294967295]; 4294967295]; 4294967295]";
    assert_eq!(lots.parse::<Shape>(), Err(ShapeError::Large));
    let fields = |count: usize| {
        let fields: Vec<_> = (0..count).map(|at| format!(" f{at}: u8")).collect();
        format!("Many {{{} }}", fields.join(","))
    };
    assert_eq!(fields(EXPORT_FIELDS_MAX).parse::<Shape>().err(), None);
    let count = EXPORT_FIELDS_MAX + 1;
    assert_eq!(fields(count).parse::<Shape>(), Err(ShapeError::Fields { count }));
}

#[test]
fn a_text_of_the_longest_length_is_read_and_a_longer_one_is_not() {
    let fields: Vec<_> = (0..122).map(|at| format!(" {at:x>IDENT_BYTES_MAX$}: u8")).collect();
    let fields = fields.join(",");
    let of_bytes = |bytes: usize| {
        let name = "N".repeat(bytes - fields.len() - " { }".len());
        format!("{name} {{{fields} }}")
    };
    let longest = of_bytes(EXPORT_TEXT_BYTES_MAX);
    assert_eq!(longest.parse::<Shape>().map(|shape| shape.to_string()), Ok(longest));
    let longer = of_bytes(EXPORT_TEXT_BYTES_MAX + 1);
    assert_eq!(longer.parse::<Shape>(), Err(ShapeError::Text { at: EXPORT_TEXT_BYTES_MAX }));
}

#[test]
fn names_are_told_from_types() {
    for (text, name) in [("1A { a: u8 }", "1A"), ("A { 1a: u8 }", "1a")] {
        assert_eq!(text.parse::<Shape>(), Err(ShapeError::Name { name: name.into() }));
    }
    let scalar = Shape::Struct { name: "u8".into(), fields: Vec::new() };
    assert_eq!(scalar.check(), Err(ShapeError::Name { name: "u8".into() }));
    assert!("A { u8: u8 }".parse::<Shape>().is_ok(), "a field may have the name of a type");
    let twice = "Twice { a: u8, a: u8 }".parse::<Shape>();
    assert_eq!(twice, Err(ShapeError::Twice { name: "a".into() }));
    for (text, at) in
        [("", 0), ("u8 ", 2), ("[u8; 01]", 5), ("[u8;1]", 3), ("A {a: u8 }", 3), ("text<>", 5)]
    {
        assert_eq!(text.parse::<Shape>(), Err(ShapeError::Text { at }), "{text}");
    }
}

#[test]
fn keys_and_targets_are_checked() {
    let key = |key: &str| format!("map<{key}, u8; 2>").parse::<Shape>().err();
    for right in ["u8", "i64", "bool", "char", "text<0>", "text<248>"] {
        assert_eq!(key(right), None, "{right}");
    }
    for wrong in ["f32", "f64", "text<249>", "[u8; 2]", "A { }", "option<u8>", "ref<A>"] {
        assert_eq!(key(wrong), Some(ShapeError::Key { key: wrong.into() }), "{wrong}");
    }
    let error = |text: &str| text.parse::<Shape>().err();
    let name = || "B".into();
    assert_eq!(error("A { a: ref<A>, b: option<B { }>, c: vec<ref<B>> }"), None);
    assert_eq!(error("A { a: map<u8, B { }; 2>, b: [ref<B>; 2] }"), None);
    assert_eq!(error("ref<B>"), Some(ShapeError::Target { name: name() }));
    assert_eq!(
        error("A { a: [B { b: ref<C> }; 2] }"),
        Some(ShapeError::Target { name: "C".into() })
    );
    assert_eq!(error("A { a: B { }, b: B { c: u8 } }"), None, "no pointer leads there");
    assert_eq!(
        error("A { a: B { }, b: vec<B { c: u8 }>, c: ref<B> }"),
        Some(ShapeError::Targets { name: name() })
    );
    assert_eq!(error("A { a: B { }, b: [B { }; 2], c: ref<B> }"), None, "one type");
    assert_eq!(error("A { a: ref<u8> }"), Some(ShapeError::Name { name: "u8".into() }));
    for (text, at) in [("vec<u8; >", 8), ("map<u8, u8>", 10), ("option<u8", 9), ("ref<>", 4)] {
        assert_eq!(error(text), Some(ShapeError::Text { at }), "{text}");
    }
    assert_eq!(error("vec<[u64; 4294967295]>"), Some(ShapeError::Large));
    assert_eq!(error("vec<[u64; 4294967295]; 0>"), Some(ShapeError::Large));
    assert_eq!(error("map<u8, [u64; 1048576]; 9>"), Some(ShapeError::Large));
}

#[test]
fn the_layout_of_options_vectors_maps_and_pointers_never_changes() {
    let words = |text: &str| text.parse::<Shape>().unwrap().words();
    // A version, a number, and the value.
    assert_eq!(words("option<u8>"), 3);
    assert_eq!(words("option<text<9>>"), 6);
    // A version, a length, and the elements; scalars lie side by side.
    assert_eq!(words("vec<u16; 5>"), 4);
    assert_eq!(words("vec<A { a: u8 }; 5>"), 12);
    assert_eq!(words("vec<u8; 0>"), 2);
    // A version, a length, and the places of 21 chunks.
    assert_eq!(words("vec<u8>"), 23);
    // A version, a length, and slots of a word, a key and a value. A text as a key has no version.
    assert_eq!(words("map<u8, A { a: u8 }; 3>"), 14);
    assert_eq!(words("map<text<9>, u8; 3>"), 17);
    let text = "A { a: option<[u8; 9]>, b: map<bool, ref<A>; 2>, c: vec<char>, d: vec<f32; 3>, e: ref<A> }";
    let shape: Shape = text.parse().unwrap();
    assert_eq!(shape.to_string(), text);
    assert_eq!(shape.words(), 1 + 5 + 8 + 23 + 4 + 1);
    for (at, words) in [(0, 42), (1, 5), (6, 8), (14, 23), (37, 4), (41, 1)] {
        assert_eq!(Part { at, words }.check(&shape), Ok(()), "{at}, {words}");
    }
    // The lengths of a map and of vectors are parts.
    for at in [7, 15, 38] {
        assert_eq!(Part { at, words: 1 }.check(&shape), Ok(()), "{at}");
    }
    // A route leads to the values that the memory decides.
    for (at, words) in [(2, 1), (3, 1), (3, 3), (8, 1), (10, 1), (16, 1), (39, 1)] {
        assert!(Part { at, words }.check(&shape).is_err(), "{at}, {words}");
    }
}

#[test]
fn a_part_changes_with_its_options_vectors_and_maps() {
    let text = "A { a: option<B { b: [u8; 9] }>, c: vec<B { b: [u8; 9] }; 2>, d: map<u8, B { b: [u8; 9] }; 2>, e: vec<u8> }";
    let shape: Shape = text.parse().unwrap();
    let of = |at, words| {
        let mut versions = Vec::new();
        Part { at, words }.versions(&shape, true, &mut |at| versions.push(at.unwrap()));
        versions
    };
    let (a, c, d) = ([1, 3, 4], [7, 9, 10, 13, 14], [17, 21, 22, 27, 28]);
    assert_eq!(of(1, 6), a);
    assert_eq!(of(7, 10), c);
    assert_eq!(of(17, 14), d);
    assert_eq!(of(31, 23), [31]);
    assert_eq!(of(0, 54), [&[0], &a[..], &c, &d, &[31]].concat());
}
