//! The rules in `#[method(…)]`: in a trait the rules that both sides must know, in an `impl` the rules that the
//! server alone decides. Complaints about rules are made here, where they are read.

use crate::complaint::Complaints;
use crate::option;
use proc_macro2::TokenStream;
use std::collections::HashSet;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Token};

/// Returns whether an attribute is `#[method(…)]`, or a misspelt form of it.
pub(crate) fn is_method(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "method")
}

/// The rules of a method in an `impl`.
#[derive(Default)]
pub(crate) struct Rule {
    /// The name of the variant of `Execution`.
    pub(crate) execution: Option<&'static str>,
    pub(crate) budget_ns: Option<u64>,
    pub(crate) outlives_ns: Option<u64>,
    /// A number of bytes, or a constant's name.
    pub(crate) max_bytes: Option<Expr>,
    pub(crate) yields: bool,
    pub(crate) needs: Vec<Expr>,
}

const EXECUTIONS: [(&str, &str); 5] = [
    ("am", "Am"),
    ("orpc", "Orpc"),
    ("trpc", "Trpc"),
    ("trpc-back", "TrpcBack"),
    ("adaptive", "Adaptive"),
];

const SERVERS: [&str; 6] = ["needs", "budget", "yields", "execution", "outlives", "max_bytes"];

/// Reads the rules of a method in a trait. Returns whether its calls may be sent back.
pub(crate) fn of_trait(attributes: &[Attribute], complaints: &mut Complaints) -> bool {
    let mut nack = false;
    let mut once = HashSet::new();
    for attribute in attributes.iter().filter(|attribute| is_method(attribute)) {
        each(attribute, "`#[method(nack)]`", &mut once, complaints, |option| {
            if option.path.is_ident("nack") {
                nack = true;
                return Ok(());
            }
            let servers = SERVERS.iter().find(|name| option.path.is_ident(name));
            option::rest(option)?;
            Err(option.error(match servers {
                Some(name) => format!(
                    "`{name}` is the server's to decide: write it in the `impl`, which stands under \
                     `#[upbeat::service]` then"
                ),
                None => "a method has no such option: write `#[method(nack)]` if its calls may be \
                         sent back to their callers"
                    .to_owned(),
            }))
        });
    }
    nack
}

/// Reads the rules of a method in an `impl`.
pub(crate) fn of_impl(attributes: &[Attribute], complaints: &mut Complaints) -> Option<Rule> {
    let mut rule = None;
    let mut once = HashSet::new();
    let instead = "`#[method(needs(…), budget = \"…\", yields)]`";
    for attribute in attributes.iter().filter(|attribute| is_method(attribute)) {
        let rule: &mut Rule = rule.get_or_insert_default();
        each(attribute, instead, &mut once, complaints, |option| of_option(option, rule));
    }
    rule
}

fn of_option(option: &ParseNestedMeta<'_>, rule: &mut Rule) -> syn::Result<()> {
    if option.path.is_ident("yields") {
        rule.yields = true;
        return Ok(());
    }
    if option.path.is_ident("needs") {
        let instead = "write what is needed, as in `needs(self.lock, self.open.get())`";
        let wrong = || option.error(instead);
        if !option.input.peek(syn::token::Paren) {
            return Err(wrong());
        }
        let content;
        syn::parenthesized!(content in option.input);
        // A fork is read, so that tokens which cannot be read are reported once.
        let needs = Punctuated::<Expr, Token![,]>::parse_terminated(&content.fork());
        content.parse::<TokenStream>()?;
        let needs = needs.map_err(|error| {
            syn::Error::new(error.span(), format!("that is no expression: {instead}"))
        })?;
        if needs.is_empty() {
            return Err(wrong());
        }
        rule.needs.extend(needs);
        return Ok(());
    }
    if option.path.is_ident("budget") {
        rule.budget_ns = Some(time_of(option, "`budget = \"500us\"`")?);
        return Ok(());
    }
    if option.path.is_ident("outlives") {
        rule.outlives_ns = Some(time_of(option, "`outlives = \"10s\"`")?);
        return Ok(());
    }
    if option.path.is_ident("max_bytes") {
        rule.max_bytes = Some(bytes_of(option)?);
        return Ok(());
    }
    if option.path.is_ident("execution") {
        let text = option::text(option, "`execution = \"trpc\"`")?;
        let named = EXECUTIONS.iter().find(|(name, _)| *name == text.value());
        let (_, variant) = named.ok_or_else(|| {
            let names = EXECUTIONS.map(|(name, _)| format!("`\"{name}\"`")).join(", ");
            syn::Error::new(
                text.span(),
                format!("there is no such execution: write one of {names}"),
            )
        })?;
        rule.execution = Some(variant);
        return Ok(());
    }
    let nack = option.path.is_ident("nack");
    option::rest(option)?;
    Err(option.error(if nack {
        "its callers must know that a call may be sent back: write `#[method(nack)]` in the trait"
    } else {
        "a method has no such option: write `needs(…)`, `budget = \"…\"`, `yields`, \
         `execution = \"…\"`, `outlives = \"…\"` or `max_bytes = …`"
    }))
}

/// Reads the number of bytes of an option: any constant expression.
fn bytes_of(option: &ParseNestedMeta<'_>) -> syn::Result<Expr> {
    let wrong =
        || option.error("write the most bytes that are taken, as in `max_bytes = 64 << 10`");
    option.value().map_err(|_| wrong())?.parse().map_err(|_| wrong())
}

/// Reads the time of an option.
fn time_of(option: &ParseNestedMeta<'_>, instead: &str) -> syn::Result<u64> {
    let text = option::text(option, instead)?;
    nanoseconds(&text.value()).ok_or_else(|| {
        let what = "that is no time: write a whole number of `us`, `ms` or `s`, as in";
        syn::Error::new(text.span(), format!("{what} {instead}"))
    })
}

/// Reads the options of one attribute.
fn each(
    attribute: &Attribute,
    instead: &str,
    once: &mut HashSet<String>,
    complaints: &mut Complaints,
    each: impl FnMut(&ParseNestedMeta<'_>) -> syn::Result<()>,
) {
    if !attribute.path().is_ident("method") {
        complaints.about(attribute, format!("write {instead}"));
        return;
    }
    let options = option::of_attribute(attribute, instead, complaints);
    option::read(options, instead, once, complaints, each);
}

/// A time such as `500us`.
fn nanoseconds(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let each = match unit {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(each).filter(|budget| *budget > 0)
}

#[cfg(test)]
mod tests {
    use super::{nanoseconds, of_impl};
    use crate::complaint::Complaints;

    #[test]
    fn needs_that_are_no_expressions_are_told_once() {
        for needs in
            ["self.", "self.a b", "+, self.a", "self.a; self.b", "self.a,, self.b", "f(a b)"]
        {
            let text = format!("#[method(needs({needs}), yields)] fn f() {{}}");
            let function: syn::ItemFn = syn::parse_str(&text).unwrap();
            let mut complaints = Complaints::default();
            of_impl(&function.attrs, &mut complaints);
            let told = complaints.texts();
            let [one] = &told[..] else { panic!("`{needs}`: {told:?}") };
            assert!(one.contains("that is no expression"), "`{needs}`: {one}");
        }
    }

    #[test]
    fn times_have_a_number_and_a_unit() {
        let times = [("500us", 500_000), ("1ms", 1_000_000), ("2s", 2_000_000_000)];
        for (text, time) in times {
            assert_eq!(nanoseconds(text), Some(time));
        }
        for text in ["", "5", "us", "0us", "1.5ms", "5 ms", "99999999999999999999s", "5m"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }
}
