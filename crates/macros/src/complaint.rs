//! Complaints about the code that a user wrote, each with the place of that code.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// The complaints found so far. Each complaint says what to write instead.
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

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns code that makes the compiler report the complaints.
    pub(crate) fn emit(&self) -> TokenStream {
        self.errors.iter().map(syn::Error::to_compile_error).collect()
    }

    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<String> {
        self.errors.iter().map(ToString::to_string).collect()
    }
}

/// Returns code as its author would have spaced it.
pub(crate) fn shown(code: impl ToTokens) -> String {
    let mut text = String::new();
    show(code.to_token_stream(), &mut text);
    text
}

fn show(tokens: TokenStream, text: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Punct(punct) => {
                let character = punct.as_char();
                let arrow = character == '>' && text.ends_with('-');
                let double = character == ':' && text.ends_with(':');
                let joint = punct.spacing() == Spacing::Joint;
                if matches!(character, '=' | '+' | '-') && !text.is_empty() {
                    text.push(' ');
                }
                text.push(character);
                let single = character == ':' && !joint && !double;
                if arrow || single || matches!(character, '=' | '+' | ',' | ';') {
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
            (quote!(&'a mut std::rc::Rc<[u8; 4]>), "&'a mut std::rc::Rc<[u8; 4]>"),
            (quote!((u8, Option<&str>)), "(u8, Option<&str>)"),
            (quote!(fn(u8) -> impl Fn(u8)), "fn(u8) -> impl Fn(u8)"),
            (quote!(-> u8), "-> u8"),
            (quote!(self: Rc<Self>), "self: Rc<Self>"),
            (quote!(impl Future<Output = u8> + Send), "impl Future<Output = u8> + Send"),
        ] {
            assert_eq!(shown(code), text);
        }
    }
}
