//! Options in the brackets of an attribute: words, some with something behind them.
//!
//! The reader of an option decides what the option means. Invariant: for any tokens, each option is
//! complained about once at most, and the options after it are read all the same.

use crate::complaint::{Complaints, shown};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::HashSet;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Attribute, LitStr, Meta, Token};
use upbeat_core::limits::IDENT_BYTES_MAX;

/// Returns the attributes of this name.
pub(crate) fn attributes<'a>(
    all: &'a [Attribute],
    name: &'static str,
) -> impl Iterator<Item = &'a Attribute> {
    all.iter().filter(move |attribute| attribute.path().is_ident(name))
}

/// Reads the options in all attributes of this name, each option once.
pub(crate) fn read_all(
    (all, name): (&[Attribute], &'static str),
    instead: &str,
    complaints: &mut Complaints,
    mut each: impl FnMut(&ParseNestedMeta<'_>) -> syn::Result<()>,
) {
    let mut once = HashSet::new();
    for attribute in attributes(all, name) {
        let said = of_attribute(attribute, instead, complaints);
        read(said, instead, &mut once, complaints, &mut each);
    }
}

/// Returns the tokens in the brackets of an attribute. Complains about an attribute that has none.
pub(crate) fn of_attribute(
    attribute: &Attribute,
    instead: &str,
    complaints: &mut Complaints,
) -> TokenStream {
    if let Meta::List(list) = &attribute.meta
        && !list.tokens.is_empty()
    {
        return list.tokens.clone();
    }
    let text = format!("`{}` selects no option: write {instead}", shown(attribute));
    complaints.about(attribute, text);
    TokenStream::new()
}

/// Reads options. `once` has the names of the options that were read before.
pub(crate) fn read(
    options: TokenStream,
    instead: &str,
    once: &mut HashSet<String>,
    complaints: &mut Complaints,
    mut each: impl FnMut(&ParseNestedMeta<'_>) -> syn::Result<()>,
) {
    let parser = syn::meta::parser(|option| {
        let (name, read) = (shown(&option.path), each(&option));
        let behind = rest(&option)?;
        if let Err(error) = read {
            complaints.add(error);
        } else if !behind.is_empty() {
            let text =
                format!("there is no more to say of `{name}`: leave `{}` out", shown(&behind));
            complaints.about(behind, text);
        } else if name != "needs" && !once.insert(name.clone()) {
            let text = format!("`{name}` was said before: leave one of them out");
            complaints.about(option.path, text);
        }
        Ok(())
    });
    if let Err(error) = parser.parse2(options) {
        let text = format!("this is not an option: write {instead}");
        complaints.add(syn::Error::new(error.span(), text));
    }
}

/// Skips the tokens that belong to an option, and returns them.
pub(crate) fn rest(option: &ParseNestedMeta<'_>) -> syn::Result<TokenStream> {
    let mut passed = TokenStream::new();
    while !option.input.is_empty() && !option.input.peek(Token![,]) {
        passed.extend([option.input.parse::<TokenTree>()?]);
    }
    Ok(passed)
}

/// Reads the text that is given to an option.
pub(crate) fn text(option: &ParseNestedMeta<'_>, instead: &str) -> syn::Result<LitStr> {
    let given = option.value().and_then(|value| value.parse());
    given.map_err(|_| option.error(format!("it is given as a text: write {instead}")))
}

/// Reads the name that is given to an option. `what` says what it names.
pub(crate) fn name(option: &ParseNestedMeta<'_>, what: &str, example: &str) -> syn::Result<String> {
    let literal = text(option, &format!("`name = {example:?}`"))?;
    let name = literal.value();
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    if name.is_empty() || !name.chars().all(allowed) {
        let text = format!(
            "{what} is made of letters, digits, `_`, `-`, `.` and `:`: write one such as {example:?}"
        );
        return Err(syn::Error::new_spanned(literal, text));
    }
    if name.len() > IDENT_BYTES_MAX {
        let bytes = name.len();
        let text = format!(
            "{what} has at most {IDENT_BYTES_MAX} bytes and this one has {bytes}: write a shorter one"
        );
        return Err(syn::Error::new_spanned(literal, text));
    }
    Ok(name)
}
