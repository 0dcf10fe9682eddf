//! What the server and the stubs have in common.

use crate::model::Service;
use crate::types::has_word;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::Type;

/// The types of a method's arguments, as one tuple.
pub(super) fn tuple<'a>(types: impl Iterator<Item = &'a Type>) -> TokenStream {
    quote!((#(#types,)*))
}

/// The type of the service in generic code: a name that is not used in the trait.
pub(super) fn parameter(service: &Service) -> Ident {
    free(service, &["S", "Service", "Served", "UpbeatService"])
}

/// The type of a buffer's items in generic code.
pub(super) fn item(service: &Service) -> Ident {
    free(service, &["T", "Item", "Filled", "UpbeatItem"])
}

/// The first of these that is not used in the trait, or the last.
fn free(service: &Service, names: &[&str]) -> Ident {
    let written = &service.written;
    let is_free = |name: &&&str| !has_word(quote!(#written), name);
    let name = names.iter().find(is_free).or(names.last()).unwrap_or(&"Upbeat");
    format_ident!("{name}")
}
