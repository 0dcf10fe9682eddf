//! From a model to code: the trait, the server, the client, and the handle for other threads.

mod part;
mod bounds;
pub(crate) mod streams;
mod implementation;
mod interface;
mod server;
mod stub;

use bounds::Bounds;

use crate::check;
use crate::complaint::Complaints;
use crate::parse;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute, File, Item};

/// Returns the code that replaces a trait under `#[upbeat::service]`.
pub(crate) fn service(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut complaints = Complaints::default();
    let parsed = syn::parse2::<Item>(item.clone());
    if let Ok(Item::Impl(written)) = parsed {
        let options = parse::impl_options(options, &mut complaints);
        let implementation = implementation::emit(&options, written, &mut complaints);
        let errors = complaints.emit();
        return quote!(#implementation #errors);
    }
    let options = parse::trait_options(options, &mut complaints);
    let written = match parsed {
        Ok(Item::Trait(written)) => written,
        Ok(other) => {
            complaints.add(not_a_trait(&other));
            let errors = complaints.emit();
            return quote!(#item #errors);
        }
        Err(error) => {
            complaints.add(error);
            let errors = complaints.emit();
            return quote!(#item #errors);
        }
    };
    let service = check::service(written, options, &mut complaints);
    let errors = complaints.emit();
    let interface = interface::emit(&service);
    let bounds = Bounds::new(&service);
    let server = server::emit(&service, &bounds);
    let stubs = stub::emit(&service, &bounds);
    let streams = streams::emit(&service);
    let beside = allowing(&service.lints(), quote!(#server #stubs #streams));
    quote!(#errors #interface #beside)
}

/// Returns the items with attributes that allow these lints.
fn allowing(lints: &[Attribute], items: TokenStream) -> TokenStream {
    if lints.is_empty() {
        return items;
    }
    let Ok(mut file) = syn::parse2::<File>(items.clone()) else { return items };
    for item in &mut file.items {
        let attributes = match item {
            Item::Const(item) => &mut item.attrs,
            Item::Enum(item) => &mut item.attrs,
            Item::Impl(item) => &mut item.attrs,
            Item::Struct(item) => &mut item.attrs,
            Item::Trait(item) => &mut item.attrs,
            _ => continue,
        };
        attributes.extend(lints.iter().cloned());
    }
    quote!(#file)
}

fn not_a_trait(item: &Item) -> syn::Error {
    let text = match item {
        Item::Mod(_) => "`#[upbeat::service]` goes on a trait: write it over the trait inside",
        _ => {
            "`#[upbeat::service]` goes on a trait: write `pub trait Name { async fn method(&self, \
             …) -> …; }` under it and implement that for your type"
        }
    };
    syn::Error::new(Span::call_site(), text)
}

#[cfg(test)]
mod tests;
