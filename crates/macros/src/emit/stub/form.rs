//! The forms of a stub, and the signature of a method in each form.

use super::super::part::buffer;
use crate::model::{Method, Outcome, Service};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Generics, Visibility};

/// A form of a stub.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Client,
    Handle,
    Blocking,
    /// The blocking form that writes results into buffers, if they are sequences.
    Filling,
    /// The trait that the client and the handle share with implementations that are called directly.
    Caller,
}

impl Form {
    /// Returns whether the methods of this form return futures.
    fn is_awaited(self) -> bool {
        matches!(self, Form::Client | Form::Handle)
    }
}

/// Returns the result type of a method as it was written.
pub(super) fn result(method: &Method) -> TokenStream {
    match &method.outcome {
        Outcome::Sent => quote!(()),
        Outcome::Value(ty) => quote!(#ty),
        Outcome::Fallible { value, error } => quote!(::core::result::Result<#value, #error>),
    }
}

/// Returns the signature of a stub's method.
pub(super) fn head(
    service: &Service,
    method: &Method,
    form: Form,
    types: &TokenStream,
    generics: Option<&Generics>,
) -> TokenStream {
    let visibility = match form {
        Form::Caller => &Visibility::Inherited,
        _ => service.visibility(),
    };
    let inline = (form != Form::Caller).then(|| quote!(#[inline]));
    let name = method.name();
    let attributes = attributes(service, method, form);
    let names = method.arguments.iter().map(|argument| &argument.name);
    let inputs = method.arguments.iter().map(|argument| &argument.ty);
    let output = output(service, method, form, types);
    let clause = generics.and_then(|generics| generics.where_clause.as_ref());
    let this = if form == Form::Filling { quote!(self) } else { quote!(&self) };
    // The future of a call borrows the arguments by reference as well.
    if generics.is_none() && method.has_references() && form.is_awaited() {
        let inputs = method.arguments.iter().map(|argument| match &argument.referent {
            Some(referent) => quote!(&'call #referent),
            None => {
                let ty = &argument.ty;
                quote!(#ty)
            }
        });
        return quote! {
            #(#attributes)*
            #inline
            #visibility fn #name<'call>(&'call self #(, #names: #inputs)*) -> #output
        };
    }
    quote! {
        #(#attributes)*
        #inline
        #visibility fn #name #generics (#this #(, #names: #inputs)*) -> #output #clause
    }
}

/// Returns the result type of a stub's method.
fn output(service: &Service, method: &Method, form: Form, types: &TokenStream) -> TokenStream {
    let runtime = &service.runtime;
    let error = runtime.call_error();
    let life = if method.has_references() { quote!('call) } else { quote!('_) };
    match (form, &method.outcome) {
        (Form::Client, Outcome::Sent) => {
            let send = runtime.send();
            quote!(#send<#life, #types>)
        }
        (Form::Client, Outcome::Value(ty)) => {
            let call = runtime.call();
            quote!(#call<#life, #types, #ty>)
        }
        (Form::Client, Outcome::Fallible { value, error }) => {
            let call = runtime.try_call();
            quote!(#call<#life, #types, #value, #error>)
        }
        (Form::Handle, Outcome::Sent) => {
            let send = runtime.handle_send();
            quote!(#send<#life, #types>)
        }
        (Form::Handle, Outcome::Value(ty)) => {
            let call = runtime.handle_call();
            quote!(#call<#life, #types, #ty>)
        }
        (Form::Handle, Outcome::Fallible { value, error }) => {
            let call = runtime.handle_try_call();
            quote!(#call<#life, #types, #value, #error>)
        }
        (Form::Blocking, _) => awaited(service, method),
        (Form::Caller, _) => {
            let output = awaited(service, method);
            quote!(impl ::core::future::Future<Output = #output>)
        }
        (Form::Filling, outcome) => {
            let error = match outcome {
                Outcome::Fallible { error: own, .. } => quote!(#error<#own>),
                _ => error,
            };
            let filled = filled(service, outcome);
            quote!(::core::result::Result<#filled, #error>)
        }
    }
}

/// Returns the type of an awaited call's result.
pub(super) fn awaited(service: &Service, method: &Method) -> TokenStream {
    let error = service.runtime.call_error();
    match &method.outcome {
        Outcome::Sent => quote!(::core::result::Result<(), #error>),
        Outcome::Value(ty) => quote!(::core::result::Result<#ty, #error>),
        Outcome::Fallible { value, error: own } => {
            quote!(::core::result::Result<#value, #error<#own>>)
        }
    }
}

/// Returns the type that a call gives when the result itself lies in a buffer.
fn filled(service: &Service, outcome: &Outcome) -> TokenStream {
    match outcome {
        Outcome::Value(ty) | Outcome::Fallible { value: ty, .. } if service.sound => {
            let (fills, buffer) = (service.runtime.fills(), buffer(service));
            quote!(<#ty as #fills<#buffer>>::Filled)
        }
        _ => quote!(usize),
    }
}

/// The attributes of a method that its stubs have as well, with a document if it has none.
fn attributes(service: &Service, method: &Method, form: Form) -> Vec<Attribute> {
    let written = method.written.attrs.iter();
    // A link to another method of `Self` may lead nowhere in the form that lacks some methods.
    let names: &[&str] = match form {
        Form::Filling => &["cfg", "deprecated"],
        _ => &["doc", "cfg", "deprecated"],
    };
    let shared = |attribute: &&Attribute| names.iter().any(|name| attribute.path().is_ident(name));
    let mut attributes: Vec<Attribute> = written.filter(shared).cloned().collect();
    if !attributes.iter().any(|attribute| attribute.path().is_ident("doc")) {
        let text = format!("Calls [`{}::{}`].", service.name(), method.name());
        attributes.push(syn::parse_quote!(#[doc = #text]));
    }
    attributes
}
