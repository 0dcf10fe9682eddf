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
    let written = &service.written;
    let free = |name: &&str| !has_word(quote!(#written), name);
    let name = ["S", "Service", "Served"].into_iter().find(free).unwrap_or("UpbeatService");
    format_ident!("{name}")
}
