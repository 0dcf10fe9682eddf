//! No streams where nobody could go on with them: whether a type has some only the compiler knows.

use super::bounds::at;
use crate::model::{Method, Outcome, Service};
use crate::types::unknown;
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;

/// What the compiler is to look at.
pub(super) fn emit(service: &Service) -> TokenStream {
    let methods = service.methods.iter().filter(|_| service.sound);
    let looks = methods.filter_map(|method| Some(look(service, method, why_not(method)?)));
    quote!(#(#looks)*)
}

/// Why a method may have no streams.
fn why_not(method: &Method) -> Option<&'static str> {
    if matches!(method.outcome, Outcome::Sent) {
        return Some(
            "nobody goes on with the streams of a one-way message: leave `#[oneway]` out, or write a \
             `Vec` instead of the stream",
        );
    }
    method.nack.then_some(
        "a call that may be sent back has no streams: leave `#[method(nack)]` out, or write a `Vec` \
         instead of the stream",
    )
}

fn look(service: &Service, method: &Method, why_not: &str) -> TokenStream {
    let (look, no_streams) = (service.runtime.look(), service.runtime.no_streams());
    let conditions = method.conditions();
    let mut types = Vec::new();
    method.types().for_each(|ty| unknown(ty, &mut types));
    let looks = types.into_iter().map(|ty| {
        let look = quote! {
            const _: () = {
                #[allow(unused_imports)]
                use #no_streams as _;
                ::core::assert!(!#look::<#ty>::STREAMS, #why_not);
            };
        };
        let (conditions, look) = (conditions.clone(), at(look, ty.span()));
        quote!(#(#conditions)* #look)
    });
    quote!(#(#looks)*)
}
