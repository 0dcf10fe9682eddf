//! Code that the server and the stubs share.

use crate::model::{Argument, Method, Service};
use crate::types::{has_word, referent};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::Type;

/// The types of a method's arguments, as one tuple of types that own their parts.
pub(super) fn owned(method: &Method) -> TokenStream {
    let types = method.arguments.iter().map(|argument| &argument.owned);
    quote!((#(#types,)*))
}

/// Selects the arguments that one side does not pass by value. Returns the type that such an argument refers
/// to, or the argument's own type.
pub(super) type Placed = fn(&Argument) -> Option<&Type>;

/// Returns the type of a method's arguments on one side. `wrap` gives the type of each argument that `placed` selects.
pub(super) fn passed(
    service: &Service,
    method: &Method,
    placed: Placed,
    wrap: impl Fn(&Type) -> TokenStream,
) -> TokenStream {
    if !method.arguments.iter().any(|argument| placed(argument).is_some()) {
        return owned(method);
    }
    let types = method.arguments.iter().map(|argument| match placed(argument) {
        Some(ty) => wrap(ty),
        None => {
            let ty = &argument.ty;
            quote!(#ty)
        }
    });
    let passed = service.runtime.passed();
    quote!(#passed<(#(#types,)*)>)
}

/// A pattern of a method's arguments, or their values.
pub(super) fn values(
    service: &Service,
    method: &Method,
    placed: Placed,
    values: &[TokenStream],
) -> TokenStream {
    if !method.arguments.iter().any(|argument| placed(argument).is_some()) {
        return quote!((#(#values,)*));
    }
    let passed = service.runtime.passed();
    quote!(#passed((#(#values,)*)))
}

/// Returns the type of a reference to an argument. An argument that is a reference keeps its type.
pub(super) fn by_reference(ty: &Type) -> TokenStream {
    match referent(ty) {
        Some(_) => quote!(#ty),
        None => quote!(&#ty),
    }
}

/// The type of the service in generic code: a name that is not used in the trait.
pub(super) fn parameter(service: &Service) -> Ident {
    free(service, &["S", "Service", "Served", "UpbeatService"])
}

/// The type of a buffer in generic code.
pub(super) fn buffer(service: &Service) -> Ident {
    free(service, &["B", "Buffer", "Filled", "UpbeatBuffer"])
}

/// The first of these that is not used in the trait, or the last.
fn free(service: &Service, names: &[&str]) -> Ident {
    let written = &service.written;
    let is_free = |name: &&&str| !has_word(quote!(#written), name);
    let name = names.iter().find(is_free).or(names.last()).unwrap_or(&"Upbeat");
    format_ident!("{name}")
}
