//! Tests of the derived code, and of the complaints.

use super::*;

fn derived(code: &str) -> String {
    let tokens = derive(code.parse().expect("the test's own code is Rust"));
    let file: syn::File = syn::parse2(tokens).expect("what is emitted is Rust");
    quote!(#file).to_string().replace(' ', "")
}

/// Returns the statements of `describe`.
fn schema(code: &str) -> String {
    let text = derived(code);
    let start = text.find("fndescribe(out:&mut::upbeat::wire::Describe){").expect("it describes");
    let start = start + "fndescribe(out:&mut::upbeat::wire::Describe){".len();
    let end = text[start..].find("#[inline]").expect("more follows") + start;
    text[start..end].trim_end_matches('}').to_owned()
}

#[test]
fn schemas_show_names_and_order() {
    for (code, expected) in [
        ("struct A;", "out.named::<Self>(\"A\",|out|{},|out|{});"),
        (
            "struct A { b: u8, r#type: C }",
            "out.named::<Self>(\"A\",|out|{},|out|{out.text(\"{b:\");\
             <u8as::upbeat::wire::Wire>::describe(out);out.text(\",type:\");\
             <Cas::upbeat::wire::Wire>::describe(out);out.text(\"}\");});",
        ),
        (
            "#[wire(name = \"geo::A\", version = 3)] struct A(#[wire(opaque = \"c/1\")] C);",
            "out.named::<Self>(\"geo::A/3\",|out|{},|out|{out.exact(|out|{out.text(\"(c/1)\");});});",
        ),
        (
            "struct A { b: u8, #[wire(default)] c: u8 }",
            "out.named::<Self>(\"A\",|out|{},|out|{out.text(\"{b:\");<u8as::upbeat::wire::Wire>::describe(out);\
             out.default_field(0usize,\",c:\",|out|{<u8as::upbeat::wire::Wire>::describe(out);});\
             out.text(\"}\");});",
        ),
        (
            "enum E { A(u8), #[wire(other)] B }",
            "out.named::<Self>(\"E\",|out|{},|out|{out.text(\"[\");out.other(\"B\");\
             out.variant(\"\",::core::option::Option::Some(3289118412u32),|out|{out.text(\"A(\");\
             <u8as::upbeat::wire::Wire>::describe(out);out.text(\")\");});\
             out.variant(\",\",::core::option::Option::None,|out|{out.text(\"B\");});out.text(\"]\");});",
        ),
        (
            "#[wire(whole)] struct A(u8);",
            "out.named::<Self>(\"A\",|out|{},|out|{out.exact(|out|{out.text(\"(\");\
             <u8as::upbeat::wire::Wire>::describe(out);out.text(\")\");});});",
        ),
        (
            "enum E { A, B(#[wire(opaque = \"c/1\")] C), D { #[serde(skip)] e: u8 } }",
            "out.named::<Self>(\"E\",|out|{},|out|{out.exact(|out|{out.text(\"[A,B(c/1),D{}]\");});});",
        ),
    ] {
        let end = |text: &str| text.trim_end_matches(['}', ')', ';']).to_owned();
        assert_eq!(end(&schema(code)), end(expected), "{code}");
    }
}

#[test]
fn generic_types_write_their_arguments_first() {
    let schema = schema("struct A<T: Clone, const N: usize>(#[wire(opaque = \"c/1\")] C<T>);");
    let start = "out.named::<Self>(\"A\",|out|{out.text(\"<\");out.of::<T>();out.text(\",\");\
                 out.text(&::std::string::ToString::to_string(&N));out.text(\">\");},|out|";
    assert!(schema.starts_with(start), "{schema}");
}

#[test]
fn parameters_are_bounded_as_serde_bounds_them() {
    let bounds = |code: &str| {
        let text = derived(code);
        let (wire, serde) = ("T:::upbeat::wire::Wire", "::Serialize+");
        (text.contains(wire), text.contains(&format!("{wire}+::upbeat::__private::serde{serde}")))
    };
    assert_eq!(bounds("struct A<T> { all: BTreeMap<String, T> }"), (true, true));
    assert_eq!(bounds("struct A<T>(#[wire(opaque = \"c/1\")] C<T>);"), (true, false));
    assert_eq!(bounds("struct A<T>(#[serde(skip)] Option<T>);"), (true, false));
    assert_eq!(bounds("#[serde(bound = \"\")] struct A<T>(T);"), (true, false));
    assert_eq!(bounds("struct A<T>(u8, std::marker::PhantomData<Vec<T>>);"), (false, false));
}

#[test]
fn plain_data_says_so() {
    let text = derived("#[wire(plain)] struct A { b: u64 }");
    for part in [
        "out.text(\"plain{b:\")",
        "constPLAIN:bool=true;",
        "constBYTES_LIKELY:usize=::core::mem::size_of::<Self>();",
        "impl::upbeat::wire::PlainforA",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("::serde::"));
    assert!(derived("struct A { b: u64 }").contains("out.serde(self)"));
}

#[test]
fn wrong_uses_are_told_once_and_leave_something_to_use() {
    let field = |attribute: &str| format!("struct A {{ #[{attribute}] b: u64 }}");
    for (code, words) in [
        ("union A { b: u64 }".into(), "write an enum instead"),
        ("#[wire(plain)] enum A { B }".into(), "leave `#[wire(plain)]` out"),
        ("#[wire(plane)] struct A;".into(), "there are `plain`"),
        ("#[wire(opaque = \"a/1\")] struct A;".into(), "write it over the field"),
        ("#[wire(name = \"a b\")] struct A;".into(), "made of letters"),
        ("#[serde(untagged)] enum A { B }".into(), "leave `#[serde(untagged)]` out"),
        ("#[serde(tag = \"t\", content = \"c\")] enum A { B }".into(), "`#[serde(tag = …)]`"),
        ("#[serde(from = \"u8\")] struct A;".into(), "let the methods take that type"),
        ("enum A { #[serde(skip)] B }".into(), "which skipping would shift"),
        ("enum A { #[serde(other)] B }".into(), "`#[serde(other)]` out"),
        ("enum A { #[wire(plain)] B }".into(), "there is `other`"),
        ("#[wire(other)] enum A { B }".into(), "`other` is said of a variant"),
        ("enum A { #[wire(other)] B, #[wire(other)] C }".into(), "leave one `#[wire(other)]` out"),
        ("enum A { #[wire(other)] B(u32) }".into(), "write it without fields"),
        ("#[wire(whole)] enum A { B, #[wire(other)] C }".into(), "leave `#[wire(whole)]` out"),
        (
            "enum A { B(#[wire(opaque = \"c/1\")] C), #[wire(other)] D }".into(),
            "travels as a whole",
        ),
        (
            "enum A { ztxtxde, lsexqzd, #[wire(other)] B }".into(),
            "have the same number in a message",
        ),
        (
            format!(
                "enum A {{ {} #[wire(other)] B }}",
                (0..200).map(|at| format!("C{at}, ")).collect::<String>()
            ),
            "has at most 200 variants",
        ),
        ("#[wire(plain, whole)] struct A { b: u8 }".into(), "leave `whole` out"),
        ("#[wire(whole)] struct A { #[wire(default)] b: u8 }".into(), "travel as a whole"),
        ("#[wire] struct A;".into(), "selects no option: write `#[wire(plain)]`"),
        ("#[wire(\"plain\")] struct A;".into(), "this is not an option: write `#[wire(plain)]`"),
        ("#[wire(name)] struct A;".into(), "it is given as a text: write `name"),
        ("#[wire(version = \"2\")] struct A;".into(), "write `version = 2`"),
        ("#[wire(version = 5_000_000_000)] struct A;".into(), "write `version = 2`"),
        ("#[wire(version = 1, version = 2)] struct A;".into(), "`version` was said before"),
        ("#[wire(plain = true)] struct A;".into(), "leave `= true` out"),
        (field("wire(opaque = 1)"), "such as `opaque = \"uuid/1\"`"),
        (field("wire(opaque)"), "such as `opaque = \"uuid/1\"`"),
        (field("wire(opaque = \"uuid\")"), "such as `opaque = \"uuid/1\"`"),
        (field("wire(plain)"), "no such option on a field"),
        ("struct A { #[wire(default)] b: u8, c: u8 }".into(), "move this field to the end"),
        ("struct A(#[wire(default)] u8);".into(), "a field with a default needs a name"),
        ("enum A { B { #[wire(default)] c: u8 } }".into(), "put them into a struct of their own"),
        ("#[wire(plain)] struct A { #[wire(default)] b: u8 }".into(), "lie in fixed places"),
        ("struct A { #[serde(skip)] #[wire(default)] b: u8 }".into(), "does not travel"),
        (
            "struct A { #[wire(opaque = \"c/1\")] b: C, #[wire(default)] d: u8 }".into(),
            "write `upbeat::wire::Serde<T>` as the type",
        ),
        ("#[wire(default)] struct A;".into(), "`default` is said of a field"),
        (field("wire(default = \"1 + 1\")"), "a default is the path of a function"),
        (field("serde(flatten)"), "keep the inner type as a field"),
        (field("serde(skip_serializing_if = \"f\")"), "leave `skip_serializing_if` out"),
        (field("serde(skip_serializing)"), "write `#[serde(skip)]` instead"),
        (field("serde(with = \"m\")"), "#[wire(opaque = \"name/version\")]"),
        ("#[wire(plain)] struct A { b: usize }".into(), "write `u64` instead"),
        ("struct A { b: Vec<Vec<str>> }".into(), "write `String` instead"),
        (
            "struct A { #[wire(opaque = \"json/1\")] b: serde_json::Value }".into(),
            "write `upbeat::wire::Json<serde_json::Value>`",
        ),
    ] {
        let text = derived(&code);
        assert_eq!(text.matches("compile_error!").count(), 1, "{code}: {text}");
        let message = words.replace(' ', "").replace('"', "\\\"");
        assert!(text.contains(&message), "{code}: {text}");
        assert!(text.contains("impl::upbeat::wire::WireforA"), "{code}");
    }
}

#[test]
fn what_serde_may_be_told() {
    for code in [
        "#[serde(rename_all = \"kebab-case\", default)] struct A { #[serde(rename = \"c\")] b: u8 }",
        "#[serde(transparent)] struct A(u8);",
        "struct A { #[serde(with = \"m\")] #[wire(opaque = \"m/1\")] b: u8 }",
        "struct A { #[serde(skip)] b: std::time::Instant }",
        "#[wire(plain)] #[serde(untagged)] struct A(u8);",
    ] {
        assert!(!derived(code).contains("compile_error"), "{code}");
    }
}
