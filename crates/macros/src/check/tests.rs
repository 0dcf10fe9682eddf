//! Every wrong use is complained about once, in words that say what to write.

use super::*;

fn complaints(code: &str) -> Vec<String> {
    let mut complaints = Complaints::default();
    let written = syn::parse_str(code).expect("the test's own code is a trait");
    let service = service(written, TraitOptions::default(), &mut complaints);
    assert_eq!(service.sound, complaints.is_empty());
    complaints.texts()
}

fn of_method(method: &str) -> Vec<String> {
    complaints(&format!("trait Counter {{ {method} }}"))
}

/// One complaint, with these words in it.
fn assert_one(code: &str, found: &[String], words: &str) {
    match found {
        [one] => assert!(one.contains(words), "`{code}`: {one}"),
        _ => panic!("`{code}` is complained about {} times: {found:?}", found.len()),
    }
}

#[test]
fn what_is_right_is_not_complained_about() {
    for method in [
        "async fn add(&self, n: u64) -> u64;",
        "async fn add(&self);",
        "#[oneway] async fn add(&self, n: u64);",
        "#[oneway] async fn add(&self) -> ();",
        "async fn add(&self, n: Result<u8, String>) -> Result<Vec<u8>, std::io::Mine>;",
        "async fn r#move(&self, r#type: (u8, [u64; 4], Option<Box<mine::Type<'static, 3>>>));",
        "async fn f(&self, a: usize, b: Arc<[u8]>, c: Box<str>, d: Cow<'static, str>, e: &Path);",
        "async fn f(&self, a: Json<serde_json::Value>, b: Serde<geo::Line<[f64]>>) -> Vec<isize>;",
        "#[cfg(unix)] async fn add(&self); #[cfg(not(unix))] async fn add(&self);",
        "/// Text.\n #[deprecated] async fn add(&self, _n: u8, a: ());",
        "async fn handle(&self); async fn shared(&self); async fn bound(&self, service: u8);",
        "async fn put(&self, key: &str, value: &[u8], at: &Position, all: &[u8; 64]);",
        "async fn all(&self, keys: &[String], parts: &Vec<Vec<u8>>, one: &(u8, u8));",
        "#[oneway] async fn put(&self, key: &'_ str, n: u64);",
    ] {
        assert_eq!(of_method(method), [""; 0], "{method}");
    }
    assert_eq!(complaints("pub(crate) trait Empty {}"), [""; 0]);
}

#[test]
fn heads() {
    for (code, words) in [
        ("unsafe trait S { async fn f(&self); }", "leave `unsafe` out"),
        ("auto trait S {}", "leave `auto` out"),
        ("trait S<T> {}", "concrete types in its methods"),
        ("trait S<'a> {}", "leave the parameters out"),
        ("trait S<const N: usize> {}", "leave the parameters out"),
        ("trait S where Self: Sized {}", "ask for it where the service is implemented"),
        ("trait S: Send + Sync {}", "ask for them where the service is implemented"),
        ("trait S { const N: u8; }", "write the constant beside the trait"),
        ("trait S { type T; }", "leave the associated type out"),
        ("trait S { more!(); }", "write the methods out"),
    ] {
        assert_one(code, &complaints(code), words);
    }
}

#[test]
fn forms_of_methods() {
    for (method, words) in [
        ("fn f(&self) -> u8;", "write `async fn f`"),
        ("fn f(&self) -> impl Future<Output = u8> + Send;", "`async fn f` with `-> u8`"),
        ("const fn f(&self);", "leave `const` out"),
        ("async unsafe fn f(&self);", "leave `unsafe` out"),
        ("async fn f(&self, ...);", "write a `Vec` instead of `...`"),
        ("async extern \"C\" fn f(&self);", "leave `extern \"C\"` out"),
        ("async fn f(&self) {}", "write `;` and move the body to the `impl`"),
        ("async fn f<T>(&self, n: T);", "concrete types"),
        ("async fn f<const N: usize>(&self, n: [u8; N]);", "concrete types"),
        ("async fn f<'a>(&'a self);", "leave the lifetimes out"),
        ("async fn f(&self) where u8: Copy;", "no `where` clause"),
        ("async fn f();", "`async fn f(&self)`"),
        ("async fn f(n: u8);", "`async fn f(&self, …)`"),
        ("async fn f(self);", "instead of `self`"),
        ("async fn f(mut self);", "instead of `mut self`"),
        ("async fn f(&mut self);", "`Cell` or a `RefCell`"),
        ("async fn f(self: &Self);", "write `&self` instead of `self: &Self`"),
        ("async fn f(self: Rc<Self>);", "write `&self` instead of `self: Rc<Self>`"),
        ("async fn f(&'static self);", "leave the lifetime out: write `&self`"),
        ("async fn f(&self); async fn f(&self, n: u8);", "a method `f` above"),
        ("async fn f(&self); async fn r#f(&self);", "a method `f` above"),
        ("#[oneway] async fn f(&self) -> u8;", "leave `-> u8` out"),
        ("#[oneway] async fn f(&self) -> Result<(), u8>;", "leave `-> Result<(), u8>` out"),
        ("#[oneway()] async fn f(&self);", "`#[oneway]` has no options"),
        ("#[oneway] #[oneway] async fn f(&self);", "one-way already"),
        ("#[upbeat::oneway] async fn f(&self);", "write `#[oneway]`"),
        ("#[one_way] async fn f(&self);", "write `#[oneway]`"),
    ] {
        assert_one(method, &of_method(method), words);
    }
}

#[test]
fn options() {
    for (options, words) in [
        ("method(nack, nack)", "`nack` was said before"),
        ("method(nack = true)", "no more to say of `nack`: leave `= true` out"),
        ("method(nack(8))", "no more to say of `nack`: leave `(8)` out"),
        ("method(\"nack\")", "this is not an option: write `#[method(nack)]`"),
        ("method()", "`#[method()]` selects no option: write `#[method(nack)]`"),
        ("method = \"nack\"", "selects no option: write `#[method(nack)]`"),
        ("method(budget = )", "`budget` is the server's to decide"),
        ("method(retry[1], nack)", "a method has no such option"),
    ] {
        let method = format!("#[{options}] async fn f(&self);");
        assert_one(&method, &of_method(&method), words);
    }
    // One mistake hides no other.
    assert_eq!(of_method("#[method(retry, again, nack)] async fn f(&self);").len(), 2);
}

#[test]
fn methods_are_seen_where_their_service_is() {
    for seen in ["pub", "pub(crate)"] {
        let method = format!("/// Text.\n {seen} async fn f(&self);");
        assert_one(&method, &of_method(&method), "leave this out");
    }
}

#[test]
fn arguments() {
    for (argument, words) in [
        ("(a, b): (u8, u8)", "instead of the pattern"),
        ("P { a }: P", "instead of the pattern"),
        ("n @ 1: u8", "instead of the pattern"),
        ("_: u8", "instead of `_`"),
        ("mut n: u8", "write `n`"),
        ("n: u8, n: u16", "an argument `n` before it"),
        ("#[cfg(unix)] n: u8", "leave the attribute out"),
    ] {
        let method = format!("async fn f(&self, {argument});");
        assert_one(&method, &of_method(&method), words);
    }
}

#[test]
fn types() {
    for (ty, words) in [
        ("&[&str]", "String"),
        ("&&str", "write `String`"),
        ("&impl Debug", "concrete type"),
        ("&dyn Debug", "instead of `"),
        ("&Option<&Position>", "Position"),
        ("&mut u64", "return what was changed"),
        ("Vec<&str>", "write `String`"),
        ("Result<u8, &str>", "write `String`"),
        ("(u8, Option<&[u8]>)", "write `Vec<u8>`"),
        ("[&str; 4]", "write `String`"),
        ("Cow<'a, str>", "`String` or `Vec`"),
        ("[u8]", "write `Vec<u8>` instead"),
        ("str", "write `String` instead"),
        ("impl Debug", "a concrete type instead of `impl Debug`"),
        ("Box<dyn Debug>", "an enum of the cases"),
        ("*const u8", "in one address space only"),
        ("fn(u8) -> u8", "instead"),
        ("_", "instead of `_`"),
        ("Self", "instead of `Self`"),
        ("Vec<Self::Item>", "instead of `Self::Item`"),
        ("<Self as Iterator>::Item", "instead of `<Self as Iterator>::Item`"),
        ("OsStr", "write `OsString`"),
        ("Box<[&str]>", "write `String`"),
        ("Vec<[u8]>", "write `Vec<u8>`"),
        ("serde_json::Value", "write `upbeat::wire::Json<serde_json::Value>`"),
        (
            "Vec<Serde<serde_json::Map<String, serde_json::Value>>>",
            "write `upbeat::wire::Json<serde_json::Map<",
        ),
        ("Serde<Vec<toml::Value>>", "instead of `Serde<Vec<toml::Value>>`"),
    ] {
        for method in
            [format!("async fn f(&self, n: {ty});"), format!("async fn f(&self) -> {ty};")]
        {
            assert_one(&method, &of_method(&method), words);
        }
    }
}

#[test]
fn references() {
    for (argument, words) in [
        ("&'static str", "leave the lifetime out and write `&str`"),
        ("&'a [u8]", "leave the lifetime out and write `&[u8]`"),
        ("&[&str]", "write `String` instead of `&str` here"),
        ("Option<&Position>", "write `Position` instead of `&Position` here"),
        ("&[[u8]]", "has no size of its own"),
    ] {
        let method = format!("async fn f(&self, n: {argument});");
        assert_one(&method, &of_method(&method), words);
    }
    let method = "async fn f<'a>(&self, n: &'a str) -> &'a str;";
    assert_eq!(of_method(method).len(), 2, "the lifetimes, and the result");
    for (ty, words) in [
        ("&str", "write `String` instead of `&str`"),
        ("&'static str", "write `String` instead of `&'static str`"),
        ("&[u8]", "write `Vec<u8>` instead of `&[u8]`"),
        ("&Position", "write `Position` instead"),
    ] {
        let method = format!("async fn f(&self) -> {ty};");
        assert_one(&method, &of_method(&method), words);
    }
}

#[test]
fn results() {
    for (ty, words) in [
        ("!", "write `#[oneway]` over it"),
        ("Result<&str>", "write `String`"),
        ("impl Future<Output = u8>", "instead of `impl Future<Output = u8>`"),
    ] {
        let method = format!("async fn f(&self) -> {ty};");
        assert_one(&method, &of_method(&method), words);
    }
}

#[test]
fn limits_are_met_and_not_passed() {
    let method = |name: &str| format!("async fn {name}(&self);");
    let most: String = (0..METHODS_PER_SERVICE_MAX).map(|at| method(&format!("f{at}"))).collect();
    assert_eq!(of_method(&most), [""; 0]);
    let more = most + &method("more");
    assert_one("too many", &of_method(&more), "513 methods");

    let arguments =
        |count: usize| -> String { (0..count).map(|at| format!(", a{at}: u8")).collect() };
    assert_eq!(of_method(&format!("async fn f(&self{});", arguments(12))), [""; 0]);
    let many = of_method(&format!("async fn f(&self{});", arguments(20)));
    assert_one("many", &many, "at most 12 arguments: put them into a struct");

    assert_eq!(of_method(&method(&"f".repeat(128))), [""; 0]);
    assert_one("long", &of_method(&method(&"f".repeat(129))), "at most 128 bytes");
    let long = complaints(&format!("trait {} {{}}", "S".repeat(129)));
    assert_one("long", &long, "the name of a service has at most 128 bytes and this one has 129");
}

#[test]
fn names_that_clients_need_are_reserved() {
    for name in name::RESERVED {
        let method = format!("async fn {name}(&self);");
        assert_one(&method, &of_method(&method), "give the method another name");
    }
}
