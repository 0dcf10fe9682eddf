//! `#[derive(Wire)]`: a schema for the type, and its form in a message.
//!
//! The form is postcard's by serde, or the bytes as they lie in memory under `#[wire(plain)]`.

mod options;
mod serde;
mod schema;

use crate::complaint::Complaints;
use options::Options;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, GenericParam, Generics, parse_quote};

/// The implementation of `Wire` for a type.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut complaints = Complaints::default();
    let options = Options::read(&input, &mut complaints);
    kind(&input, &options, &mut complaints);
    serde::check(&input, options.plain, &mut complaints);
    let schema = schema::emit(&input, &options, &mut complaints);
    if !complaints.is_empty() {
        let errors = complaints.emit();
        let stand_in = stand_in(&input, &options);
        return quote!(#errors #stand_in);
    }
    if options.plain {
        plain(&input, &options, &schema)
    } else {
        by_serde(&input, &options, &schema)
    }
}

fn kind(input: &DeriveInput, options: &Options, complaints: &mut Complaints) {
    match &input.data {
        Data::Union(data) => complaints.about(
            data.union_token,
            "which case of a union is meant is not known on the other side: write an enum instead",
        ),
        Data::Enum(data) if options.plain => complaints.about(
            data.enum_token,
            "not every byte is a case of an enum, so it is no plain data: leave \
             `#[wire(plain)]` out and derive serde's `Serialize` and `Deserialize`",
        ),
        _ => {}
    }
    if let Some(lifetime) = input.generics.lifetimes().next() {
        complaints.about(
            lifetime,
            "a value in a message owns its parts: leave the lifetime out and write types that \
             own, such as `String` and `Vec<u8>`",
        );
    }
}

/// The generics of the implementation: every type parameter is `Wire`, or `Plain`.
fn generics(input: &DeriveInput, options: &Options) -> Generics {
    let mut generics = input.generics.clone();
    let bound = if options.plain { options.runtime.plain() } else { options.runtime.wire() };
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(parse_quote!(#bound));
        }
    }
    generics
}

fn by_serde(input: &DeriveInput, options: &Options, schema: &TokenStream) -> TokenStream {
    let name = &input.ident;
    let mut generics = generics(input, options);
    let (_, arguments, _) = input.generics.split_for_impl();
    let crate_serde = options.runtime.serde();
    // Asked for here, so that one who lacks it is told once, at the name of the type.
    let place = Span::call_site().located_at(name.span());
    let bound =
        quote_spanned!(place=> #crate_serde::Serialize + #crate_serde::de::DeserializeOwned);
    generics.make_where_clause().predicates.push(parse_quote!(#name #arguments: #bound));
    let (parameters, _, clause) = generics.split_for_impl();
    let (wire, error) = (options.runtime.wire(), options.runtime.wire_error());
    let (describe, to, from) =
        (options.runtime.describe(), options.runtime.output(), options.runtime.input());
    quote! {
        #[automatically_derived]
        impl #parameters #wire for #name #arguments #clause {
            fn describe(out: &mut #describe) {
                #schema
            }

            #[inline]
            fn put(&self, out: &mut #to<'_>) -> ::core::result::Result<(), #error> {
                out.serde(self)
            }

            #[inline]
            fn take(input: &mut #from<'_>) -> ::core::result::Result<Self, #error> {
                input.serde()
            }
        }
    }
}

fn plain(input: &DeriveInput, options: &Options, schema: &TokenStream) -> TokenStream {
    let name = &input.ident;
    let mut generics = generics(input, options);
    let (_, arguments, _) = input.generics.split_for_impl();
    let zerocopy = options.runtime.zerocopy();
    let place = Span::call_site().located_at(name.span());
    let bound = quote_spanned! {place=>
        ::core::marker::Copy + #zerocopy::FromBytes + #zerocopy::IntoBytes + #zerocopy::Immutable
    };
    generics.make_where_clause().predicates.push(parse_quote!(#name #arguments: #bound));
    let (parameters, _, clause) = generics.split_for_impl();
    let (wire, trait_plain) = (options.runtime.wire(), options.runtime.plain());
    let moves = plain_moves(options);
    let describe = options.runtime.describe();
    quote! {
        #[automatically_derived]
        impl #parameters #trait_plain for #name #arguments #clause {}

        #[automatically_derived]
        impl #parameters #wire for #name #arguments #clause {
            const PLAIN: bool = true;
            const BYTES_LIKELY: usize = ::core::mem::size_of::<Self>();

            fn describe(out: &mut #describe) {
                #schema
            }

            #moves
        }
    }
}

/// How plain data is moved: alone, and as a sequence.
fn plain_moves(options: &Options) -> TokenStream {
    let runtime = &options.runtime;
    let (error, zerocopy) = (runtime.wire_error(), runtime.zerocopy());
    let (to, from) = (runtime.output(), runtime.input());
    quote! {
        #[inline]
        fn put(&self, out: &mut #to<'_>) -> ::core::result::Result<(), #error> {
            out.align();
            out.bytes(#zerocopy::IntoBytes::as_bytes(self));
            ::core::result::Result::Ok(())
        }

        #[inline]
        fn take(input: &mut #from<'_>) -> ::core::result::Result<Self, #error> {
            input.plain()
        }

        fn put_all(items: &[Self], out: &mut #to<'_>) -> ::core::result::Result<(), #error> {
            out.align();
            out.bytes(#zerocopy::IntoBytes::as_bytes(items));
            ::core::result::Result::Ok(())
        }

        fn take_all(
            count: usize,
            input: &mut #from<'_>,
        ) -> ::core::result::Result<::std::vec::Vec<Self>, #error> {
            let left = input.remaining();
            if count.checked_mul(::core::mem::size_of::<Self>()).is_none_or(|bytes| bytes > left) {
                return ::core::result::Result::Err(#error::Count { count: count as u64, left });
            }
            let mut items = ::std::vec![<Self as #zerocopy::FromZeros>::new_zeroed(); count];
            input.bytes(#zerocopy::IntoBytes::as_mut_bytes(&mut items[..]))?;
            ::core::result::Result::Ok(items)
        }
    }
}

/// An implementation that only stands in for the one that could not be made. It is never run.
fn stand_in(input: &DeriveInput, options: &Options) -> TokenStream {
    let name = &input.ident;
    if input.generics.lifetimes().next().is_some() {
        return quote!();
    }
    let generics = generics(input, options);
    let (parameters, arguments, clause) = generics.split_for_impl();
    let (wire, error) = (options.runtime.wire(), options.runtime.wire_error());
    let (describe, to, from) =
        (options.runtime.describe(), options.runtime.output(), options.runtime.input());
    quote! {
        #[automatically_derived]
        impl #parameters #wire for #name #arguments #clause {
            fn describe(_: &mut #describe) {
                ::core::unreachable!()
            }

            fn put(&self, _: &mut #to<'_>) -> ::core::result::Result<(), #error> {
                ::core::unreachable!()
            }

            fn take(_: &mut #from<'_>) -> ::core::result::Result<Self, #error> {
                ::core::unreachable!()
            }
        }
    }
}

#[cfg(test)]
mod tests;
