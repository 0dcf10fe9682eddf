//! What is wrong with the code that was written, to be told where it stands.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// What was found so far. Each complaint says what to write instead.
#[derive(Default)]
pub(crate) struct Complaints {
    errors: Vec<syn::Error>,
}

impl Complaints {
    /// Complains about these tokens.
    pub(crate) fn about(&mut self, place: impl ToTokens, text: impl AsRef<str>) {
        self.add(syn::Error::new_spanned(place, text.as_ref()));
    }

    pub(crate) fn add(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    pub(crate) fn count(&self) -> usize {
        self.errors.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// The complaints as code that makes the compiler tell them.
    pub(crate) fn emit(&self) -> TokenStream {
        self.errors.iter().map(syn::Error::to_compile_error).collect()
    }

    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<String> {
        self.errors.iter().map(ToString::to_string).collect()
    }
}

/// Code as its author would have spaced it.
pub(crate) fn shown(code: impl ToTokens) -> String {
    let mut text = String::new();
    show(code.to_token_stream(), &mut text);
    text
}

fn show(tokens: TokenStream, text: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Punct(punct) => {
                let spaced =
                    matches!(punct.as_char(), '=' | '+' | '-') && punct.spacing() == Spacing::Alone;
                if spaced {
                    text.push(' ');
                }
                text.push(punct.as_char());
                if spaced || matches!(punct.as_char(), ',' | ';') {
                    text.push(' ');
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                show(group.stream(), text);
                text.push_str(close);
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => {
                if text.ends_with(|last: char| last.is_alphanumeric() || last == '_') {
                    text.push(' ');
                }
                text.push_str(&token.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn code_is_shown_as_it_is_written() {
        for (code, text) in [
            (quote!(Vec<u8>), "Vec<u8>"),
            (quote!(&'a mut std::collections::HashMap<String, [u8; 4]>), ""),
            (quote!((u8, Option<&str>)), "(u8, Option<&str>)"),
            (quote!(impl Fn(u8)), "impl Fn(u8)"),
        ] {
            let expected = if text.is_empty() {
                "&'a mut std::collections::HashMap<String, [u8; 4]>"
            } else {
                text
            };
            assert_eq!(shown(code), expected);
        }
    }
}
