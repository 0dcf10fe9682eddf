//! The trait itself: its methods return futures, and an `impl` writes them as `async fn`.

use super::implementation::needs_name;
use super::part::by_reference;
use crate::model::{Method, Service, lints};
use crate::types::has_self;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{FnArg, ItemTrait, ReturnType, TraitItem, Type, parse_quote};

/// The trait.
pub(super) fn emit(service: &Service) -> TokenStream {
    let mut written = service.written.clone();
    if !service.sound {
        return stand_in(written);
    }
    written.items = service.methods.iter().map(method).collect();
    let rules = service.runtime.rules();
    written.items.push(parse_quote!(#[doc(hidden)] const __UPBEAT: #rules = #rules::NONE;));
    written.items.extend(service.methods.iter().map(|method| needs(service, method)));
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

/// Returns the test of a method's needs for an `impl` that states none: the test always passes.
fn needs(service: &Service, method: &Method) -> TraitItem {
    let name = needs_name(method.name());
    let needs = service.runtime.needs_type();
    let (conditions, lints) = (method.conditions(), lints(&method.written.attrs));
    let types = method.arguments.iter().map(|argument| by_reference(&argument.ty));
    parse_quote! {
        #(#conditions)*
        #(#lints)*
        #[doc(hidden)]
        fn #name(&self, _: &mut #needs #(, _: #types)*) -> bool {
            true
        }
    }
}

/// Returns the trait as it was written, so that uses of the trait compile, without the parts about which the
/// compiler would complain as well.
fn stand_in(mut written: ItemTrait) -> TokenStream {
    for item in &mut written.items {
        let TraitItem::Fn(function) = item else { continue };
        let signature = &mut function.sig;
        signature.constness = None;
        if let ReturnType::Type(_, ty) = &signature.output
            && matches!(**ty, Type::Never(_))
        {
            signature.output = ReturnType::Default;
        }
        let mentions_self = |input: &&FnArg| matches!(input, FnArg::Typed(_)) && has_self(input);
        if signature.inputs.iter().any(|input| mentions_self(&input)) || has_self(&signature.output)
        {
            let clause = signature.generics.make_where_clause();
            clause.predicates.push(parse_quote!(Self: ::core::marker::Sized));
        }
    }
    quote!(#[allow(async_fn_in_trait)] #written)
}
