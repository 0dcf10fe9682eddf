//! Tests of the reading of tokens.

use super::*;

fn read(text: &str) -> Code {
    Code::read(text).expect("the example is Rust")
}

fn words(tokens: &[Token]) -> Vec<&str> {
    tokens.iter().map(|token| token.text.as_str()).filter(|text| is_word(text)).collect()
}

fn all_paths(text: &str) -> Vec<String> {
    let code = read(text);
    let tokens = &code.body.tokens;
    let start = tokens.iter().position(|token| token.text == "crate").expect("a path");
    paths(tokens, start).iter().map(|path| path.join("::")).collect()
}

#[test]
fn comments_and_strings_are_not_code() {
    let code = read("// unsafe\n/* unsafe */ fn f() { g(\"unsafe\"); }");
    assert_eq!(words(&code.tokens), ["fn", "f", "g"]);
}

#[test]
fn what_is_no_rust_fails_with_its_line() {
    assert_eq!(Code::read("fn f() {}\nfn g( {}\n").err(), Some(2));
}

#[test]
fn items_for_tests_are_outside_the_body() {
    let code = read(
        "fn kept() {}\n\
         #[cfg(test)]\n\
         use std::{a, b};\n\
         #[cfg(all(test, not(loom)))]\n\
         pub(crate) fn helper<A, B>() -> u8 { 1 }\n\
         #[test]\n\
         fn checks() {}\n\
         #[cfg(not(test))]\n\
         fn also_kept() {}\n\
         #[cfg(any(test, loom))]\n\
         fn kept_too() {}\n",
    );
    let names: Vec<_> = code.functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["kept", "also_kept", "kept_too"]);
    assert_eq!(code.test_lines, [2..=3, 4..=5, 6..=7]);
    assert!(!words(&code.body.tokens).contains(&"helper"));
}

#[test]
fn a_field_for_tests_takes_no_more_than_itself() {
    let code = read("struct S { #[cfg(test)] seen: crate::a::Seen, kept: crate::b::Kept }");
    assert_eq!(words(&code.body.tokens), ["struct", "S", "kept", "crate", "b", "Kept"]);
}

#[test]
fn mod_lines_keep_their_order_and_their_attributes() {
    let code = read(
        "pub mod a;\n\
         #[cfg(test)] mod tests { use super::*; }\n\
         #[cfg_attr(loom, path = \"other.rs\")] pub(crate) mod b;\n\
         mod c { mod d; use super::a; }\n",
    );
    let mods = &code.body.mods;
    let names: Vec<_> = mods.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["a", "tests", "b", "c"]);
    assert!(mods[1].test && !mods[0].test);
    assert_eq!(mods[2].paths, ["other.rs"]);
    let inside = mods[3].inline.as_ref().expect("c is inline");
    assert_eq!(inside.mods[0].name, "d");
    assert_eq!(words(&inside.tokens), ["use", "super", "a"]);
    assert!(code.body.tokens.is_empty());
}

#[test]
fn a_path_is_read_to_its_end() {
    assert_eq!(all_paths("fn f() { crate::a::b::<u8>(1) }"), ["crate::a::b"]);
    assert_eq!(all_paths("use crate::a::B;"), ["crate::a::B"]);
    assert_eq!(all_paths("use crate::a::*;"), ["crate::a::*"]);
    assert_eq!(all_paths("use crate::r#ref::A;"), ["crate::ref::A"]);
}

#[test]
fn a_use_with_braces_is_many_paths() {
    assert_eq!(
        all_paths("use crate::{a::{self, B as C}, d::E, f};"),
        ["crate::a", "crate::a::B", "crate::d::E", "crate::f"]
    );
}

#[test]
fn templates_are_not_code_of_the_crate() {
    let code = read("fn f() { quote! { crate::a::B }; crate::c::d() }");
    assert_eq!(words(&code.body.tokens), ["fn", "f", "quote", "crate", "c", "d"]);
    assert!(words(&code.tokens).contains(&"B"));
}

#[test]
fn functions_know_their_lines() {
    let code = read("trait T { fn a(&self); fn b(&self) {\n\n} }\nfn c(f: fn(u8)) {}\n");
    let found: Vec<_> =
        code.functions.iter().map(|function| (&*function.name, function.lines.clone())).collect();
    assert_eq!(found, [("b", 1..=3), ("c", 4..=4)]);
}

#[test]
fn types_know_their_fields() {
    let code = read(
        "struct A;\nstruct B(u8, u8);\nstruct C<T: Copy> where T: Send {\n    \
         #[serde(skip)]\n    pub(crate) a: std::cell::Cell<HashMap<u8, fn(b: T) -> u8>>,\n    b: [T; 2] }\n\
         enum E { F { a: u8 } }\n#[cfg(test)]\nstruct G { a: u8 }",
    );
    let found: Vec<_> = code.structs.iter().map(|one| (&*one.name, one.line, one.fields)).collect();
    assert_eq!(found, [("C", 3, 2)]);
}

#[test]
fn macros_are_noted_by_name() {
    let code = read("macro_rules! bounded { () => {} }");
    assert_eq!(code.body.macros, ["bounded"]);
}
