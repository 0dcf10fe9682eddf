//! Refuses streams where no side could continue them, and types under `Serde` that describe themselves. Only the
//! compiler knows whether a type has streams, or which type a name means.

use super::bounds::at;
use crate::model::{Method, Outcome, Service};
use crate::runtime::Runtime;
use crate::types::{is_by_serde, unknown};
use proc_macro2::TokenStream;
use quote::quote;
use syn::Type;
use syn::spanned::Spanned;

/// Returns code that has the compiler look for streams in the types of methods.
pub(super) fn emit(service: &Service) -> TokenStream {
    let methods = service.methods.iter().filter(|_| service.sound);
    let looks = methods.map(|method| match why_not(method) {
        Some(why_not) => look(service, method, method.types(), why_not),
        None => {
            let by_reference = method.arguments.iter().filter(|one| one.referent.is_some());
            let types = by_reference.map(|one| &one.owned);
            let why_not = "a stream is passed by value: leave the `&` out, or write a `Vec` instead \
                           of the stream";
            look(service, method, types, why_not)
        }
    });
    let sound = service.methods.iter().filter(|_| service.sound);
    let forms = sound.map(|method| {
        let conditions = method.conditions();
        let forms = fixed_forms(&service.runtime, method.types());
        forms.into_iter().map(move |form| {
            let conditions = conditions.clone();
            quote!(#(#conditions)* #form)
        })
    });
    let forms = forms.flatten();
    quote!(#(#looks)* #(#forms)*)
}

/// Returns code that fails to compile if one of the types is a `Serde<…>` whose content describes itself.
pub(crate) fn fixed_forms<'t>(
    runtime: &Runtime,
    of: impl Iterator<Item = &'t Type>,
) -> Vec<TokenStream> {
    let (look, no_streams) = (runtime.look(), runtime.no_streams());
    let mut types = Vec::new();
    of.for_each(|ty| unknown(ty, &mut types));
    let form = |ty: &Type| {
        let form = quote! {
            const _: () = {
                #[allow(unused_imports)]
                use #no_streams as _;
                #look::<#ty>::HAS_FIXED_FORM
            };
        };
        at(form, ty.span())
    };
    types.into_iter().filter(|ty| is_by_serde(ty)).map(form).collect()
}

/// Returns why a method must not have streams, if it must not.
fn why_not(method: &Method) -> Option<&'static str> {
    if matches!(method.outcome, Outcome::Sent) {
        return Some(
            "a one-way message has no reply that could keep its streams open: leave `#[oneway]` out, or write a \
             `Vec` instead of the stream",
        );
    }
    method.nack.then_some(
        "a call that may be sent back has no streams: leave `#[method(nack)]` out, or write a `Vec` \
         instead of the stream",
    )
}

/// Looks for streams in types of a method.
fn look<'m>(
    service: &Service,
    method: &'m Method,
    of: impl Iterator<Item = &'m Type>,
    why_not: &str,
) -> TokenStream {
    let (look, no_streams) = (service.runtime.look(), service.runtime.no_streams());
    let conditions = method.conditions();
    let mut types = Vec::new();
    of.for_each(|ty| unknown(ty, &mut types));
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
