//! The server: the type that a node serves.

use super::bounds::Bounds;
use super::implementation::needs_name;
use super::part::{parameter, passed, values};
use crate::model::{Argument, Method, Outcome, Service};
use crate::types;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::Type;

/// The server of a service.
pub(super) fn emit(service: &Service, bounds: &Bounds) -> TokenStream {
    let name = service.name();
    let visibility = service.visibility();
    let server = format_ident!("{name}Server");
    let parameter = parameter(service);
    // A service with errors gets no further error for a trait that is not implemented.
    let bound = if service.sound { quote!(: #name + 'static) } else { quote!() };
    let serve = serve(service, &parameter, &bound, bounds);
    let (layer, layered) = (service.runtime.layer(), service.runtime.layered());
    let about = format!("Serves a [`{name}`]: what a node is given to serve.");
    quote! {
        #[doc = #about]
        #[allow(dead_code)]
        #visibility struct #server<#parameter> {
            service: ::std::rc::Rc<#parameter>,
        }

        #[allow(dead_code)]
        impl<#parameter #bound> #server<#parameter> {
            /// Serves this service.
            #visibility fn new(service: #parameter) -> Self {
                Self::shared(::std::rc::Rc::new(service))
            }

            /// Puts a layer around all methods of this service.
            #visibility fn layer(self, layer: impl #layer) -> #layered<Self> {
                #layered::new(self).layer(layer)
            }

            /// Lets at most so many handlers of this service run at once; further calls wait.
            #visibility fn max_concurrent(self, handlers: usize) -> #layered<Self> {
                #layered::new(self).max_concurrent(handlers)
            }

            /// Serves a service that others on this node use as well.
            #visibility fn shared(service: ::std::rc::Rc<#parameter>) -> Self {
                Self { service }
            }
        }

        #serve
    }
}

fn serve(
    service: &Service,
    parameter: &Ident,
    bound: &TokenStream,
    bounds: &Bounds,
) -> TokenStream {
    let server = format_ident!("{}Server", service.name());
    let wire_name = service.wire_name();
    let trait_serve = service.runtime.serve();
    let (methods, wraps) = (service.runtime.methods(), service.runtime.wraps());
    let wrapping = format_ident!("UpbeatWraps");
    let entries = service.methods.iter().filter(|_| service.sound);
    let entries = entries.map(|method| entry(service, parameter, method));
    let clause = bounds.of_service(service);
    let name = service.name();
    let series = service.sound.then(|| {
        quote! {
            let series = <#parameter as #name>::__UPBEAT.serial.then(|| methods.series());
        }
    });
    quote! {
        impl<#parameter #bound> #trait_serve for #server<#parameter> #clause {
            const SERVICE: &'static str = #wire_name;

            #[allow(deprecated, unused_variables)]
            fn methods<#wrapping: #wraps>(self, methods: &mut #methods<'_, #wrapping>) {
                #series
                #(#entries)*
            }
        }
    }
}

/// Returns the type of the part of an argument that lies in memory which its method keeps.
fn kept(argument: &Argument) -> Option<&Type> {
    argument.referent.as_ref().or(argument.is_kept().then_some(&argument.ty))
}

/// Enters one method.
fn entry(service: &Service, parameter: &Ident, method: &Method) -> TokenStream {
    let interface = service.name();
    let name = method.name();
    let wire_name = method.wire_name();
    let conditions = method.conditions();
    let names = method.argument_names();
    let received = service.runtime.received();
    let types = passed(service, method, kept, |ty| quote!(#received<#ty>));
    let needs = needs_name(name);
    let (await_needs, series, turn) =
        (service.runtime.needs(), service.runtime.series(), service.runtime.turn());
    let enter = match &method.outcome {
        Outcome::Sent => quote!(oneway::<#types, _>),
        Outcome::Value(ty) => quote!(call::<#types, #ty, _>),
        Outcome::Fallible { .. } => {
            let syn::ReturnType::Type(_, ty) = &method.written.sig.output else { unreachable!() };
            quote!(call::<#types, #ty, _>)
        }
    };
    // Names that no name of the user's can be mistaken for.
    let own = |name: String| Ident::new(&name, Span::mixed_site());
    let own: Vec<Ident> =
        (0..method.arguments.len()).map(|at| own(format!("argument{at}"))).collect();
    let patterns: Vec<_> = own.iter().map(|name| quote!(#name)).collect();
    let pattern = values(service, method, kept, &patterns);
    let arguments = || method.arguments.iter().zip(&own);
    let given = arguments().map(|(argument, name)| match (&argument.referent, kept(argument)) {
        (Some(_), _) => quote!(&*#name),
        (None, Some(ty)) if types::is_copy(ty) => quote!(*#name),
        (None, Some(_)) => quote!(#received::into_inner(#name)),
        (None, None) => quote!(#name),
    });
    let given: Vec<_> = given.collect();
    let shown = arguments().map(|(argument, name)| match kept(argument) {
        Some(_) => quote!(&*#name),
        None => quote!(&#name),
    });
    quote! {
        #(#conditions)*
        {
            let service = ::std::rc::Rc::clone(&self.service);
            let rule = <#parameter as #interface>::__UPBEAT.of(#wire_name).with_arguments(&[#(#names),*]);
            if const { <#parameter as #interface>::__UPBEAT.guards(#wire_name) } {
                let series = series.clone();
                methods.#enter(#wire_name, rule, move |#pattern| {
                    let service = ::std::rc::Rc::clone(&service);
                    let turn = #series::arrive(series.as_ref());
                    async move {
                        let _turn = #turn::come(turn).await;
                        #await_needs(|needs| {
                            <#parameter as #interface>::#needs(&*service, needs #(, #shown)*)
                        })
                        .await;
                        <#parameter as #interface>::#name(&*service #(, #given)*).await
                    }
                });
            } else {
                methods.#enter(#wire_name, rule, move |#pattern| {
                    let service = ::std::rc::Rc::clone(&service);
                    async move { <#parameter as #interface>::#name(&*service #(, #given)*).await }
                });
            }
        }
    }
}
