//! The methods of a client that loan a buffer: one beside each method whose last argument is read in place.

use super::Bounds;
use crate::model::{Argument, Method, Outcome, Service, plain_name};
use crate::types::in_place_item;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// Returns the method that builds the message of `method` in place, if it can be built so: `index` is the method's
/// place in the service.
pub(super) fn method(
    service: &Service,
    bounds: &Bounds,
    method: &Method,
    index: &TokenStream,
) -> Option<TokenStream> {
    let (last, before) = method.arguments.split_last()?;
    let item = in_place_item(&last.ty)?;
    // The arguments of these are written anew when a call is sent back, or go on with it.
    let has_references = before.iter().any(|argument| argument.referent.is_some());
    if method.nack || has_references {
        return None;
    }
    let name = name(service, method)?;
    let runtime = &service.runtime;
    let (loaning, visibility) = (runtime.loaning(), service.visibility());
    let kind = match &method.outcome {
        Outcome::Sent => quote!(()),
        Outcome::Value(ty) => {
            let whole = runtime.whole();
            quote!(#whole<#ty>)
        }
        Outcome::Fallible { value, error } => {
            let split = runtime.split();
            quote!(#split<#value, #error>)
        }
    };
    let names: Vec<_> = before.iter().map(|argument| &argument.name).collect();
    let types: Vec<_> = before.iter().map(|argument| &argument.ty).collect();
    let items = items_name(before, &last.name);
    let wire_name = method.wire_name();
    let conditions = method.conditions();
    let about = format!(
        "Loans a buffer in which a message of [`{}::{}`] is built with so many items.",
        service.name(),
        plain_name(method.name()),
    );
    let clause = bounds.of_method(method);
    Some(quote! {
        #(#conditions)*
        #[doc = #about]
        #visibility fn #name(&self #(, #names: #types)*, #items: usize)
            -> #loaning<'_, (#(#types,)*), #item, #kind> #clause
        {
            self.bound.loan(#index, #wire_name, (#(#names,)*), #items)
        }
    })
}

/// Returns the name of the argument for the number of items: a name that no other argument has.
fn items_name(before: &[Argument], last: &Ident) -> Ident {
    let mut name = format_ident!("{}_items", plain_name(last));
    while before.iter().any(|argument| argument.name == name) {
        name = format_ident!("{name}_");
    }
    name
}

/// Returns the name of the method that loans, unless the service has such a method itself.
fn name(service: &Service, method: &Method) -> Option<Ident> {
    let name = format_ident!("loan_{}", plain_name(method.name()), span = method.name().span());
    let is_taken = service.methods.iter().any(|other| *other.name() == name);
    (!is_taken).then_some(name)
}
