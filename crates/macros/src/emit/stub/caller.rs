//! The trait that the client, the handle and a plain implementation of a service share, so that callers can be
//! generic and tests can mock.
//!
//! Its methods are those of the service. A stream is a value like any other there: its type is the same for all.

use super::form::{Form, awaited, head};
use super::{Bounds, stand_in};
use crate::emit::part::parameter;
use crate::model::{Argument, Method, Outcome, Service};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// The trait, its implementations for the client and the handle, and the plain implementation.
pub(super) fn emit(service: &Service, bounds: &Bounds) -> TokenStream {
    let interface = interface(service);
    let stubs = ["Client", "Handle"].map(|form| stub(service, bounds, form));
    let local = local(service);
    quote!(#interface #(#stubs)* #local)
}

fn name(service: &Service) -> Ident {
    format_ident!("{}Caller", service.name())
}

fn interface(service: &Service) -> TokenStream {
    let (name, caller, visibility) = (service.name(), name(service), service.visibility());
    let methods = service.methods.iter().map(|method| match service.sound {
        true => {
            let head = head(service, method, Form::Caller, &quote!(), None);
            quote!(#head;)
        }
        false => stand_in::method(service, method, Form::Caller),
    });
    let about = format!(
        "Calls a [`{name}`] over any way: a [`{name}Client`], a [`{name}Handle`], a [`{name}Local`], or a mock."
    );
    quote! {
        #[doc = #about]
        #[allow(dead_code, unused_variables, clippy::too_many_arguments)]
        #visibility trait #caller {
            #(#methods)*
        }
    }
}

/// The trait for a stub, whose own methods have the same names.
fn stub(service: &Service, bounds: &Bounds, form: &str) -> TokenStream {
    let (caller, stub) = (name(service), format_ident!("{}{form}", service.name()));
    let methods = service.methods.iter().filter(|_| service.sound).map(|method| {
        let (name, inputs, output) = (method.name(), inputs(method), awaited(service, method));
        let conditions = method.conditions();
        let given = method.arguments.iter().map(|argument| &argument.name);
        match method.has_references() {
            false => quote! {
                #(#conditions)*
                #[inline]
                fn #name(&self #inputs) -> impl ::core::future::Future<Output = #output> {
                    #stub::#name(self #(, #given)*)
                }
            },
            // One future lives as long as all that it refers to, and has a lifetime for each.
            true => quote! {
                #(#conditions)*
                #[inline]
                async fn #name(&self #inputs) -> #output {
                    #stub::#name(self #(, #given)*).await
                }
            },
        }
    });
    let clause = bounds.of_service(service);
    quote! {
        #[allow(deprecated, clippy::too_many_arguments)]
        impl #caller for #stub #clause {
            #(#methods)*
        }
    }
}

/// Returns the type that calls an implementation directly.
fn local(service: &Service) -> TokenStream {
    let (name, caller, visibility) = (service.name(), name(service), service.visibility());
    let (local, parameter) = (format_ident!("{name}Local"), parameter(service));
    let methods = service.methods.iter().filter(|_| service.sound).map(|method| {
        let (method_name, inputs) = (method.name(), inputs(method));
        let (output, conditions) = (awaited(service, method), method.conditions());
        let given = method.arguments.iter().map(|argument| &argument.name);
        let result = quote!(<#parameter as #name>::#method_name(&self.service #(, #given)*).await);
        let error = service.runtime.call_error();
        let result = match &method.outcome {
            Outcome::Fallible { .. } => {
                quote!(::core::result::Result::map_err(#result, #error::Method))
            }
            Outcome::Value(_) | Outcome::Sent => quote!(::core::result::Result::Ok(#result)),
        };
        quote! {
            #(#conditions)*
            async fn #method_name(&self #inputs) -> #output { #result }
        }
    });
    let bound = if service.sound { quote!(: #name) } else { quote!() };
    let about = format!(
        "Calls an implementation of [`{name}`] directly, with no node and no message: for unit tests, and for \
         programs of one process."
    );
    quote! {
        #[doc = #about]
        #[derive(::core::clone::Clone)]
        #[allow(dead_code)]
        #visibility struct #local<#parameter> {
            /// The implementation.
            #visibility service: #parameter,
        }

        #[allow(dead_code)]
        impl<#parameter> #local<#parameter> {
            /// Calls this implementation.
            #visibility fn new(service: #parameter) -> Self {
                Self { service }
            }
        }

        #[allow(deprecated, clippy::too_many_arguments)]
        impl<#parameter #bound> #caller for #local<#parameter> {
            #(#methods)*
        }
    }
}

/// The arguments of a method behind its receiver.
fn inputs(method: &Method) -> TokenStream {
    let inputs = method.arguments.iter().map(|Argument { name, ty, .. }| quote!(, #name: #ty));
    quote!(#(#inputs)*)
}
