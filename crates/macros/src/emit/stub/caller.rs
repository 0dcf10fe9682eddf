//! The trait that the client, the handle and a plain implementation of a service share, so that callers can be
//! generic and tests can mock.
//!
//! Its methods are those of the service. A stream is a value like any other there: its type is the same for all.

use super::form::{Form, awaited, head};
use super::{Bounds, stand_in};
use crate::emit::bounds::at;
use crate::emit::part::{buffer, parameter};
use crate::model::{Argument, Method, Outcome, Service};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ReturnType;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

/// The trait, its implementations for the client and the handle, the plain implementation, and the caller with options.
pub(super) fn emit(service: &Service, bounds: &Bounds) -> TokenStream {
    let interface = interface(service);
    let stubs = ["Client", "Handle"].map(|form| stub(service, bounds, form));
    let local = local(service);
    let optioned = optioned(service);
    quote!(#interface #(#stubs)* #local #optioned)
}

/// Returns the name of the type that calls with options.
fn optioned_name(service: &Service) -> Ident {
    format_ident!("{}WithOptions", service.name())
}

/// Returns the name of the method of the trait that makes a call of a method with options. A method of a service that
/// has this name is one of nobody's.
fn with_options(method: &Method) -> Ident {
    format_ident!("__with_options_{}", method.name().unraw())
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
    let defaults = service.methods.iter().filter(|_| service.sound).map(|method| {
        let (method_name, with_options) = (method.name(), with_options(method));
        let (inputs, output) = (inputs(method), awaited(service, method));
        let (conditions, options) = (method.conditions(), service.runtime.call_options());
        let given = method.arguments.iter().map(|argument| &argument.name);
        quote! {
            #(#conditions)*
            #[doc(hidden)]
            #[allow(deprecated)]
            fn #with_options(
                &self, _: &#options #inputs
            ) -> impl ::core::future::Future<Output = #output> {
                self.#method_name(#(#given),*)
            }
        }
    });
    let (optioned, context) = (optioned_name(service), service.runtime.context());
    let (options, value) = (service.runtime.call_options(), buffer(service));
    let about = format!(
        "Calls a [`{name}`] over any way: a [`{name}Client`], a [`{name}Handle`], a [`{name}Local`], or a mock."
    );
    quote! {
        #[doc = #about]
        #[allow(dead_code, unused_variables, clippy::too_many_arguments)]
        #visibility trait #caller {
            #(#methods)*

            /// Returns a caller whose calls are given up after `after`, whatever they wait for, here and at the callee.
            /// A mock or an implementation that is called directly has no deadline, nor has a one-way message.
            fn deadline(&self, after: ::core::time::Duration) -> #optioned<'_, Self> {
                #optioned { caller: self, options: <#options as ::core::default::Default>::default().deadline(after) }
            }

            /// Returns a caller whose calls and one-way messages take a value with them. A mock or an implementation that
            /// is called directly gets none.
            fn with<#value: #context>(&self, value: &#value) -> #optioned<'_, Self> {
                #optioned { caller: self, options: <#options as ::core::default::Default>::default().with(value) }
            }

            #(#defaults)*
        }
    }
}

/// The type that makes the calls of another caller with options.
fn optioned(service: &Service) -> TokenStream {
    let (name, caller, visibility) = (service.name(), name(service), service.visibility());
    let (optioned, parameter) = (optioned_name(service), parameter(service));
    let (options, value) = (service.runtime.call_options(), buffer(service));
    let context = service.runtime.context();
    let methods = service.methods.iter().filter(|_| service.sound).map(|method| {
        let (method_name, with_options) = (method.name(), with_options(method));
        let (inputs, output) = (inputs(method), awaited(service, method));
        let conditions: Vec<_> = method.conditions().collect();
        let given: Vec<_> = method.arguments.iter().map(|argument| &argument.name).collect();
        quote! {
            #(#conditions)*
            fn #method_name(&self #inputs) -> impl ::core::future::Future<Output = #output> {
                <#parameter as #caller>::#with_options(self.caller, &self.options #(, #given)*)
            }

            #(#conditions)*
            async fn #with_options(&self, __options: &#options #inputs) -> #output {
                let __options = self.options.join(__options);
                <#parameter as #caller>::#with_options(self.caller, &__options #(, #given)*).await
            }
        }
    });
    let about = format!(
        "Calls a [`{name}`] as another caller does, with a deadline or with values that travel along: see \
         [`{caller}::deadline`] and [`{caller}::with`]."
    );
    quote! {
        #[doc = #about]
        #[allow(dead_code)]
        #visibility struct #optioned<'c, #parameter: ?::core::marker::Sized> {
            caller: &'c #parameter,
            options: #options,
        }

        #[allow(dead_code)]
        impl<#parameter: ?::core::marker::Sized> #optioned<'_, #parameter> {
            /// Gives each call up after `after`, here and at the callee, whatever it waits for.
            #[must_use = "it says how long the calls of what it gives may last"]
            #visibility fn deadline(self, after: ::core::time::Duration) -> Self {
                Self { caller: self.caller, options: self.options.deadline(after) }
            }

            /// Has a value travel with each call and one-way message.
            #[must_use = "it says what travels with the calls of what it gives"]
            #visibility fn with<#value: #context>(self, value: &#value) -> Self {
                Self { caller: self.caller, options: self.options.with(value) }
            }
        }

        #[allow(deprecated, clippy::too_many_arguments)]
        impl<#parameter: #caller + ?::core::marker::Sized> #caller for #optioned<'_, #parameter> {
            #(#methods)*
        }
    }
}

/// The trait for a stub, whose own methods have the same names.
fn stub(service: &Service, bounds: &Bounds, form: &str) -> TokenStream {
    let (caller, stub) = (name(service), format_ident!("{}{form}", service.name()));
    let methods = service.methods.iter().filter(|_| service.sound).map(|method| {
        let (name, inputs, output) = (method.name(), inputs(method), awaited(service, method));
        let (options, with_options) = (service.runtime.call_options(), with_options(method));
        let conditions: Vec<_> = method.conditions().collect();
        let given: Vec<_> = method.arguments.iter().map(|argument| &argument.name).collect();
        match method.has_references() {
            false => quote! {
                #(#conditions)*
                #[inline]
                fn #name(&self #inputs) -> impl ::core::future::Future<Output = #output> {
                    #stub::#name(self #(, #given)*)
                }

                #(#conditions)*
                fn #with_options(
                    &self, __options: &#options #inputs
                ) -> impl ::core::future::Future<Output = #output> {
                    #stub::#name(self #(, #given)*).options(__options)
                }
            },
            // One future lives as long as all that it refers to, and has a lifetime for each.
            true => quote! {
                #(#conditions)*
                #[inline]
                async fn #name(&self #inputs) -> #output {
                    #stub::#name(self #(, #given)*).await
                }

                #(#conditions)*
                async fn #with_options(&self, __options: &#options #inputs) -> #output {
                    #stub::#name(self #(, #given)*).options(__options).await
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
                // The compiler reports another type of this name where the user has written it.
                let ReturnType::Type(_, ty) = &method.written.sig.output else { unreachable!() };
                let fallible = service.runtime.fallible();
                let result = at(quote!(#fallible::into_result(#result)), ty.span());
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
