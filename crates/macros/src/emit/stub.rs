//! The types that callers hold: the client on a node, the handle for other threads and its blocking forms, and the
//! trait that is common to those whose calls are awaited.

mod form;
mod loan;
mod stand_in;
mod caller;

use form::{Form, head, result};

use super::bounds::Bounds;
use super::part::{buffer, owned, passed, values};
use crate::model::{Argument, Method, Outcome, Service};
use crate::types::may_fill;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::Type;

/// The client, the handle and its blocking forms, and the trait of callers.
pub(super) fn emit(service: &Service, bounds: &Bounds) -> TokenStream {
    let index = index(service);
    let client = client(service, bounds);
    let handle = handle(service, bounds);
    let blocking = blocking(service, bounds);
    let filling = filling(service, bounds);
    let caller = caller::emit(service, bounds);
    quote!(#index #client #handle #blocking #filling #caller)
}

fn client(service: &Service, bounds: &Bounds) -> TokenStream {
    let name = service.name();
    let visibility = service.visibility();
    let client = format_ident!("{name}Client");
    let wire_name = service.wire_name();
    let trait_client = service.runtime.client();
    let of_service = service.runtime.of_service();
    let bound = service.runtime.bound();
    let signature = service.runtime.signature_type();
    let signatures = signatures(service);
    let methods = methods(service, bounds, Form::Client);
    let clause = bounds.of_service(service);
    let about = format!("Calls a [`{name}`] from a node.");
    quote! {
        #[doc = #about]
        #[derive(::core::clone::Clone)]
        #[allow(dead_code)]
        #visibility struct #client {
            bound: #bound,
        }

        impl #of_service for #client {
            const NAME: &'static str = #wire_name;
        }

        impl #trait_client for #client #clause {
            const SERVICE: &'static str = #wire_name;

            fn signatures() -> &'static [#signature] {
                #signatures
            }

            fn from_bound(bound: #bound) -> Self {
                Self { bound }
            }
        }

        #[allow(dead_code, unused_variables, clippy::too_many_arguments)]
        impl #client {
            #methods
        }
    }
}

fn handle(service: &Service, bounds: &Bounds) -> TokenStream {
    let name = service.name();
    let visibility = service.visibility();
    let client = format_ident!("{name}Client");
    let handle = format_ident!("{name}Handle");
    let blocking = format_ident!("{name}Blocking");
    let wire_name = service.wire_name();
    let trait_client = service.runtime.client();
    let trait_handle = service.runtime.handle_client();
    let bound = service.runtime.bound_handle();
    let signature = service.runtime.signature_type();
    let methods = methods(service, bounds, Form::Handle);
    let clause = bounds.of_service(service);
    let about = format!("Calls a [`{name}`] from any thread and any async runtime.");
    quote! {
        #[doc = #about]
        #[derive(::core::clone::Clone)]
        #[allow(dead_code)]
        #visibility struct #handle {
            handle: #bound,
        }

        impl #trait_handle for #handle #clause {
            const SERVICE: &'static str = #wire_name;

            fn signatures() -> &'static [#signature] {
                <#client as #trait_client>::signatures()
            }

            fn from_bound(bound: #bound) -> Self {
                Self { handle: bound }
            }
        }

        #[allow(dead_code, unused_variables, clippy::too_many_arguments)]
        impl #handle {
            /// Returns the same methods in a form that blocks the calling thread.
            #[inline]
            #visibility fn blocking(&self) -> #blocking<'_> {
                #blocking { blocking: self.handle.blocking() }
            }

            #methods
        }
    }
}

fn blocking(service: &Service, bounds: &Bounds) -> TokenStream {
    let name = service.name();
    let visibility = service.visibility();
    let blocking = format_ident!("{name}Blocking");
    let filling = format_ident!("{name}Filling");
    let inner = service.runtime.blocking();
    let context = service.runtime.context();
    let buffer = buffer(service);
    let methods = methods(service, bounds, Form::Blocking);
    let about = format!("Calls a [`{name}`] from a thread that waits for the answers.");
    quote! {
        #[doc = #about]
        #[allow(dead_code)]
        #visibility struct #blocking<'h> {
            blocking: #inner<'h>,
        }

        #[allow(dead_code, unused_variables, clippy::too_many_arguments)]
        impl #blocking<'_> {
            /// Gives each call up after `after`, here and at the callee, whatever it waits for.
            #[must_use = "it says how long the calls of what it gives may block"]
            #visibility fn deadline(self, after: ::core::time::Duration) -> Self {
                Self { blocking: self.blocking.deadline(after) }
            }

            /// Lets callees ask to have the deadline extended, until `total` is over since a call began.
            #[must_use = "it says how long the calls of what it gives may block"]
            #visibility fn extendable(self, total: ::core::time::Duration) -> Self {
                Self { blocking: self.blocking.extendable(total) }
            }

            /// Has a value travel with each call and one-way message.
            #[must_use = "it says what travels with the calls of what it gives"]
            #visibility fn with<#buffer: #context>(self, value: &#buffer) -> Self {
                Self { blocking: self.blocking.with(value) }
            }

            /// Returns the same methods in a form that writes results into this buffer.
            #[inline]
            #visibility fn filling<'b, #buffer: ?::core::marker::Sized>(
                &'b self,
                buffer: &'b mut #buffer,
            ) -> #filling<'b, #buffer> {
                #filling { filling: self.blocking.filling(buffer) }
            }

            #methods
        }
    }
}

fn filling(service: &Service, bounds: &Bounds) -> TokenStream {
    let name = service.name();
    let visibility = service.visibility();
    let filling = format_ident!("{name}Filling");
    let inner = service.runtime.blocking_filling();
    let buffer = buffer(service);
    let methods = methods(service, bounds, Form::Filling);
    let about = format!("Calls a [`{name}`] once, and has the result go into a buffer.");
    quote! {
        #[doc = #about]
        #[must_use = "nothing is called until a method is"]
        #[allow(dead_code)]
        #visibility struct #filling<'b, #buffer: ?::core::marker::Sized> {
            filling: #inner<'b, #buffer>,
        }

        #[allow(dead_code, unused_variables, clippy::too_many_arguments)]
        impl<#buffer: ?::core::marker::Sized> #filling<'_, #buffer> {
            #methods
        }
    }
}

/// Returns the signatures of the methods, in the order of their indexes.
fn signatures(service: &Service) -> TokenStream {
    let pushes = service.methods.iter().filter(|_| service.sound).map(|method| {
        let signature = service.runtime.signature();
        let conditions = method.conditions();
        let types = owned(method);
        let result = result(method);
        let (of, name) = (service.wire_name(), method.wire_name());
        let oneway = matches!(method.outcome, Outcome::Sent);
        let arguments = method.argument_names();
        quote! {
            #(#conditions)*
            signatures.push(#signature::<#types, #result>(#of, #name, #oneway, &[#(#arguments),*]));
        }
    });
    let count = service.methods.len();
    let ty = service.runtime.signature_type();
    // The signatures are made before the lock is taken, which a child would find locked that is forked meanwhile.
    quote! {
        static SIGNATURES: ::std::sync::OnceLock<::std::vec::Vec<#ty>> = ::std::sync::OnceLock::new();
        if let ::core::option::Option::Some(signatures) = SIGNATURES.get() {
            return signatures;
        }
        #[allow(unused_mut)]
        let mut signatures = ::std::vec::Vec::with_capacity(#count);
        #(#pushes)*
        SIGNATURES.get_or_init(|| signatures)
    }
}

/// Returns the indexes of the methods, where some methods are compiled under a condition.
fn index(service: &Service) -> TokenStream {
    if !is_conditional(service) {
        return quote!();
    }
    let name = index_name(service);
    let variants = service.methods.iter().map(|method| {
        let (name, conditions) = (method.name(), method.conditions());
        quote!(#(#conditions)* #name,)
    });
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, clippy::enum_variant_names)]
        enum #name { #(#variants)* }
    }
}

fn is_conditional(service: &Service) -> bool {
    service.sound && service.methods.iter().any(|method| method.conditions().next().is_some())
}

fn index_name(service: &Service) -> Ident {
    format_ident!("{}MethodIndex", service.name())
}

fn methods(service: &Service, bounds: &Bounds, form: Form) -> TokenStream {
    let index_name = is_conditional(service).then(|| index_name(service));
    let methods = service.methods.iter().enumerate().map(|(at, method)| {
        let filled = match form {
            Form::Filling => filled(method),
            _ => None,
        };
        if form == Form::Filling && filled.is_none() {
            return quote!();
        }
        if !service.sound {
            return stand_in::method(service, method, form);
        }
        let name = method.name();
        let index = match &index_name {
            Some(index) => quote!(#index::#name as usize),
            None => {
                let at = proc_macro2::Literal::usize_unsuffixed(at);
                quote!(#at)
            }
        };
        let wire_name = method.wire_name();
        let nack = method.nack && form == Form::Client;
        let verb = match method.outcome {
            Outcome::Value(_) if nack => quote!(nack_call),
            Outcome::Fallible { .. } if nack => quote!(try_nack_call),
            Outcome::Sent => quote!(send),
            Outcome::Value(_) => quote!(call),
            Outcome::Fallible { .. } => quote!(try_call),
        };
        let way = match form {
            Form::Client => quote!(bound),
            Form::Handle => quote!(handle),
            Form::Blocking => quote!(blocking),
            Form::Filling => quote!(filling),
            Form::Caller => unreachable!("the trait has no bodies"),
        };
        let by_ref = service.runtime.by_ref();
        let given = method.arguments.iter().map(|Argument { name, referent, .. }| match referent {
            Some(_) => quote!(#by_ref(#name)),
            None => quote!(#name),
        });
        let given = values(service, method, by_reference, &given.collect::<Vec<_>>());
        let types = passed(service, method, by_reference, |ty| quote!(#by_ref<'call, #ty>));
        let head = head(service, method, form, &types, None);
        let clause = bounds.of_method(method);
        let Some(filled) = filled else {
            let loan = match form {
                Form::Client => loan::method(service, bounds, method, &index),
                _ => None,
            };
            return quote!(#head #clause { self.#way.#verb(#index, #wire_name, #given) } #loan);
        };
        let (fills, buffer) = (service.runtime.fills(), buffer(service));
        let clause = match clause.is_empty() {
            true => quote!(where #filled: #fills<#buffer>),
            false => quote!(#clause, #filled: #fills<#buffer>),
        };
        let result = match &method.outcome {
            Outcome::Fallible { error, .. } => quote!(_, #filled, #error),
            _ => quote!(_, #filled),
        };
        quote! {
            #head #clause {
                self.#way.#verb::<#result>(#index, #wire_name, #given)
            }
        }
    });
    quote!(#(#methods)*)
}

/// Returns the type that an argument refers to, if the argument is a reference.
fn by_reference(argument: &Argument) -> Option<&Type> {
    argument.referent.as_ref()
}

/// Returns the type of the part of a method's result that a caller's buffer can receive.
fn filled(method: &Method) -> Option<&Type> {
    let ty = match &method.outcome {
        Outcome::Sent => return None,
        Outcome::Value(ty) | Outcome::Fallible { value: ty, .. } => ty,
    };
    may_fill(ty).then_some(&**ty)
}
