//! The trait itself: its methods return futures, and an `impl` writes them as `async fn`.

use super::implementation::needs_name;
use super::part::by_reference;
use crate::model::{Method, Service};
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

/// What tests what a method needs: nothing, where an `impl` says nothing.
fn needs(service: &Service, method: &Method) -> TraitItem {
    let name = needs_name(method.name());
    let needs = service.runtime.needs_type();
    let conditions = method.conditions();
    let types = method.arguments.iter().map(|argument| by_reference(&argument.ty));
    parse_quote! {
        #(#conditions)*
        #[doc(hidden)]
        fn #name(&self, _: &mut #needs #(, _: #types)*) -> bool {
            true
        }
    }
}

/// The trait as it was written, so that its uses are as they were meant, less what the compiler
/// would complain about as well.
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
