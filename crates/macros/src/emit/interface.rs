//! The trait itself: its methods return futures, and an `impl` writes them as `async fn`.

use crate::model::{Method, Service};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{ReturnType, TraitItem, parse_quote};

/// The trait.
pub(super) fn emit(service: &Service) -> TokenStream {
    let mut written = service.written.clone();
    if !service.sound {
        // As it was written, so that the compiler has nothing to add.
        return quote!(#[allow(async_fn_in_trait)] #written);
    }
    written.items = service.methods.iter().map(method).collect();
    quote!(#written)
}

fn method(method: &Method) -> TraitItem {
    let mut written = method.written.clone();
    written.sig.asyncness = None;
    let output: TokenStream = match &written.sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => quote!(#ty),
    };
    written.sig.output = parse_quote!(-> impl ::core::future::Future<Output = #output>);
    TraitItem::Fn(written)
}
