//! Tests of the derived code, and of the complaints.

use super::*;

fn derived(code: &str) -> String {
    let tokens = derive(code.parse().expect("the test's own code is Rust"));
    let file: syn::File = syn::parse2(tokens).expect("what is emitted is Rust");
    quote!(#file).to_string().replace(' ', "")
}

fn assert_parts(code: &str, parts: &[&str]) {
    let text = derived(code);
    assert!(!text.contains("compile_error"), "{text}");
    for part in parts {
        assert!(text.contains(&part.replace(' ', "")), "{part} in {text}");
    }
}

#[test]
fn a_field_lies_behind_the_version_and_the_fields_before_it() {
    assert_parts(
        "pub struct Row { pub bid: f64, pub ask: [u8; 9], pub at: u64 }",
        &[
            "impl<UpbeatAccess: ::upbeat::export::Access> RowFields<UpbeatAccess> {",
            "pub fn bid(&self) -> ::upbeat::export::Path<UpbeatAccess::Borrowed<'_>, f64> { \
             ::upbeat::export::Place::field(&self.0, 1usize) }",
            "::upbeat::export::Place::field(&self.0, 1usize + <f64 as ::upbeat::Shared>::WORDS)",
            "::upbeat::export::Place::field(&self.0, 1usize + <f64 as ::upbeat::Shared>::WORDS \
             + <[u8; 9] as ::upbeat::Shared>::WORDS)",
        ],
    );
}

#[test]
fn a_method_of_another_type_than_a_scalar_has_a_bound_that_is_checked_where_it_is_used() {
    let text = derived("struct Row { bid: f64, foo: Foo }");
    assert!(text.contains("f64>{"), "{text}");
    assert!(text.contains("Foo>wherefor<'upbeat>Foo:::upbeat::Shared{"), "{text}");
}

#[test]
fn a_value_is_its_version_and_its_fields() {
    assert_parts(
        "struct Row { bid: f64, r#type: u8 }",
        &[
            "const WORDS: usize = 1usize + <f64 as ::upbeat::Shared>::WORDS + <u8 as ::upbeat::Shared>::WORDS;",
            "const UNITS: usize = 1usize + <f64 as ::upbeat::Shared>::UNITS + <u8 as ::upbeat::Shared>::UNITS;",
            "const IS_UNIT: bool = true;",
            "type Fields<UpbeatAccess: ::upbeat::export::Access> = RowFields<UpbeatAccess>;",
            "::upbeat::export::struct_shape(\"Row\", [(\"bid\", <f64 as ::upbeat::Shared>::shape()), \
             (\"type\", <u8 as ::upbeat::Shared>::shape())])",
            "let at = at + 1usize; <f64 as ::upbeat::Shared>::put(&self.bid, to, at); \
             let at = at + <f64 as ::upbeat::Shared>::WORDS; \
             <u8 as ::upbeat::Shared>::put(&self.r#type, to, at); }",
            "let at = at + <f64 as ::upbeat::Shared>::WORDS; \
             let field_type = <u8 as ::upbeat::Shared>::take(from, at)?; \
             ::core::option::Option::Some(Self { bid: field_bid, r#type: field_type })",
            "show(at); let at = at + 1usize; <f64 as ::upbeat::Shared>::versions(at, show);",
        ],
    );
}

#[test]
fn a_struct_without_fields_is_its_version() {
    assert_parts(
        "struct Nothing {}",
        &[
            "const WORDS: usize = 1usize;",
            "::upbeat::export::struct_shape(\"Nothing\", [])",
            "::core::option::Option::Some(Self {})",
            "show(at); }",
        ],
    );
}

#[test]
fn methods_have_the_visibility_and_the_documentation_of_their_fields() {
    assert_parts(
        "pub(crate) struct Row {
            /// The best bid.
            ///
            /// In dollars.
            pub(super) bid: f64,
            #[doc(hidden)]
            ask: f64,
        }",
        &[
            "pub(crate) struct RowFields<UpbeatAccess: ::upbeat::export::Access>(::upbeat::export::Place<UpbeatAccess>);",
            "#[doc = \"The fields of an exported [`Row`].\"]",
            "#[doc = \" The best bid.\"] #[doc = \"\"] #[doc = \" In dollars.\"] #[inline(always)] pub(super) fn bid",
            "#[doc = \"The field `ask`.\"] #[doc(hidden)] #[inline(always)] fn ask",
        ],
    );
}

#[test]
fn options_name_the_struct_and_the_runtime() {
    let parts = [
        "struct_shape(\"Quote\", [",
        "impl my::upbeat::Shared for Row",
        "my::upbeat::export::Place",
    ];
    assert_parts("#[shared(name = \"Quote\", crate = my::upbeat)] struct Row { bid: f64 }", &parts);
    // The name of the type does not matter then.
    assert_parts("#[shared(name = \"Quote\")] struct u8 { bid: f64 }", &parts[..1]);
}

#[test]
fn a_type_that_names_the_struct_has_its_name() {
    assert_parts(
        "struct r#Row { bids: [f64; Self::DEPTH] }",
        &["<[f64; r#Row::DEPTH] as ::upbeat::Shared>::WORDS", "fn bids(&self)"],
    );
}

#[test]
fn wrong_uses_are_told_once_and_leave_something_to_use() {
    let option = |option: &str| format!("#[shared({option})] struct A {{ b: u64 }}");
    let field = |name: &str| format!("struct A {{ {name}: u64 }}");
    let fields = |count: usize| {
        let fields: String = (0..count).map(|number| format!("b{number}: u8,")).collect();
        format!("struct A {{ {fields} }}")
    };
    for (code, words) in [
        ("enum A { B, C { d: u64 } }".into(), "write a struct, and a number or bool for the case"),
        (
            "enum A { B, C }".into(),
            "export the number, and make the variant of it where it is read",
        ),
        ("enum A {}".into(), "export the number"),
        ("union A { b: u64 }".into(), "which case of a union is meant"),
        ("struct A(u64);".into(), "give the fields names, as in `struct Row { bid: f64 }`"),
        ("struct A;".into(), "give the struct fields with names, or write `struct A {}`"),
        ("struct A<T> { b: T }".into(), "write a struct without parameters"),
        ("struct A<'a, T: 'a, const N: usize> { b: &'a [T; N] }".into(), "agree on one type"),
        (field("read"), "`read` is a method of exports and their paths: rename the field"),
        (field("try_read"), "`try_read` is a method of exports"),
        (field("get"), "`get` is a method of exports"),
        (field("set"), "`set` is a method of exports"),
        (field("update"), "`update` is a method of exports"),
        (field("watch"), "`watch` is a method of exports"),
        (field("place"), "`place` is a method of exports"),
        (field("r#into"), "`into` is a method of exports"),
        (field("u8"), "no names of scalars such as `u8`: rename the field"),
        (field(&"b".repeat(129)), "identifiers of at most 128 bytes"),
        (fields(257), "has at most 256 fields and this one has 257: put some of them into"),
        (field("#[shared(name = \"c\")] b"), "leave it out over a field"),
        (option("plain"), "there are `name = \"…\"` and `crate = path`"),
        (option(""), "selects no option: write `#[shared(name = \"…\")]`"),
        (option("name"), "it is given as a text: write `name = \"Row\"`"),
        (option("name = \"a b\""), "write one such as `name = \"Row\"`"),
        (option("name = \"1\""), "write one such as `name = \"Row\"`"),
        (option("name = \"B\", name = \"C\""), "`name` was said before: leave one of them out"),
        (option("crate = 1"), "write where the runtime is"),
    ] {
        let text = derived(&code);
        assert_eq!(text.matches("compile_error!").count(), 1, "{code}: {text}");
        let message = words.replace(' ', "").replace('"', "\\\"");
        assert!(text.contains(&message), "{code}: {text}");
        assert!(text.contains("::upbeat::SharedforA"), "{code}");
        assert!(text.contains("structAFields<UpbeatAccess:"), "{code}");
    }
    assert!(!derived(&fields(256)).contains("compile_error"));
    let text = derived("struct u8 { b: u64 }");
    assert!(text.contains("write`#[shared(name=\\\"…\\\")]`overthetype"), "{text}");
}

#[test]
fn a_stand_in_has_the_methods_of_a_struct() {
    assert!(
        derived("struct A { read: u64, b: u64 }").contains("fnb(&self)->::upbeat::export::Path")
    );
    // A type parameter has no meaning in the type of the paths.
    assert!(!derived("struct A<T> { b: T }").contains("fnb(&self)"));
}
