//! `#[derive(Wire)]`: a schema for the type, and its form in a message.
//!
//! The form is postcard's by serde, or the bytes as they lie in memory under `#[wire(plain)]`.

mod options;
mod serde;
mod parameters;
mod variants;
mod fields;
mod schema;

use crate::complaint::Complaints;
use crate::emit::streams::fixed_forms;
use crate::model::{lints, plain_name};
use options::Options;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Field, GenericParam, Generics, WherePredicate, parse_quote};

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
    fields::check(&input, &options, &mut complaints);
    variants::check(&input, fields::is_whole(&input, &options), &mut complaints);
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
    if options.plain && options.whole {
        complaints.about(&input.ident, "plain data always travels as a whole: leave `whole` out");
    }
    if let Some(lifetime) = input.generics.lifetimes().next() {
        complaints.about(
            lifetime,
            "a value in a message owns its parts: leave the lifetime out and write types that \
             own, such as `String` and `Vec<u8>`",
        );
    }
}

/// Returns the generics of the implementation, with the bound that the type is carried.
fn generics(input: &DeriveInput, options: &Options) -> Generics {
    let mut generics = bounded(input, options);
    if !generics.params.is_empty() {
        // A type without generics needs no bound.
        generics.make_where_clause().predicates.push(is_carried(input));
    }
    generics
}

fn is_carried(input: &DeriveInput) -> WherePredicate {
    let predicate = quote_spanned!(here(input)=> Self: UpbeatCarried);
    parse_quote!(#predicate)
}

/// Returns generics in which every type parameter is `Wire`, or `Plain`. The parts of a type that serde carries as a
/// whole, such as maps, are `Wire` if serde carries the parameters as well.
fn bounded(input: &DeriveInput, options: &Options) -> Generics {
    let mut generics = input.generics.clone();
    let (plain, wire, serde) =
        (options.runtime.plain(), options.runtime.wire(), options.runtime.serde());
    for parameter in &mut generics.params {
        let GenericParam::Type(parameter) = parameter else { continue };
        let bounds = &mut parameter.bounds;
        if options.plain {
            bounds.push(parse_quote!(#plain));
        } else if parameters::is_marker(input, &parameter.ident) {
            bounds.push(parse_quote!('static));
        } else {
            bounds.push(parse_quote!(#wire));
            if parameters::is_bounded_by_serde(input, &parameter.ident) {
                bounds.push(parse_quote!(#serde::Serialize));
                bounds.push(parse_quote!(#serde::de::DeserializeOwned));
            }
        }
    }
    generics
}

fn by_serde(input: &DeriveInput, options: &Options, schema: &TokenStream) -> TokenStream {
    let (error, serde) = (options.runtime.wire_error(), options.runtime.serde());
    let (to, from) = (options.runtime.output(), options.runtime.input());
    let name = plain_name(&input.ident);
    let message = format!("`{name}` cannot travel, for serde cannot carry it");
    let help = "write `#[derive(serde::Serialize, serde::Deserialize)]` over it";
    let way = quote! {
        #[diagnostic::on_unimplemented(message = #message, label = #help)]
        trait UpbeatCarried: ::core::marker::Sized {
            fn put(&self, out: &mut #to<'_>) -> ::core::result::Result<(), #error>;
            fn take(input: &mut #from<'_>) -> ::core::result::Result<Self, #error>;
        }

        #[diagnostic::do_not_recommend]
        impl<T: #serde::Serialize + #serde::de::DeserializeOwned> UpbeatCarried for T {
            #[inline]
            fn put(&self, out: &mut #to<'_>) -> ::core::result::Result<(), #error> {
                out.serde(self)
            }

            #[inline]
            fn take(input: &mut #from<'_>) -> ::core::result::Result<Self, #error> {
                input.serde()
            }
        }
    };
    let defaults = fields::default_trait(input);
    let implementation = implementation(input, options, schema, &quote!());
    let forms = forms(input, options);
    let lints = lints(&input.attrs);
    quote!(#(#lints)* const _: () = { #way #defaults #implementation #(#forms)* };)
}

/// Returns code that refuses fields under `Serde` that describe themselves, if the type has no generics: constants cannot
/// name those.
fn forms(input: &DeriveInput, options: &Options) -> Vec<TokenStream> {
    if !input.generics.params.is_empty() {
        return Vec::new();
    }
    fixed_forms(&options.runtime, all_fields(input).into_iter().map(|field| &field.ty))
}

/// Returns the fields of a struct, or those of all variants of an enum. A union has none: it does not travel.
fn all_fields(input: &DeriveInput) -> Vec<&Field> {
    match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    }
}

fn plain(input: &DeriveInput, options: &Options, schema: &TokenStream) -> TokenStream {
    let name = &input.ident;
    let mut generics = bounded(input, options);
    generics.make_where_clause().predicates.push(parse_quote!(for<'a> Self: UpbeatPlain<'a>));
    let (parameters, _, clause) = generics.split_for_impl();
    let (_, arguments, _) = input.generics.split_for_impl();
    let way = plain_way(input, options);
    let trait_plain = options.runtime.plain();
    let many = many(input, options);
    let implementation = implementation(input, options, schema, &many);
    let lints = lints(&input.attrs);
    quote! {
        #(#lints)*
        const _: () = {
            #way

            #[automatically_derived]
            impl #parameters #trait_plain for #name #arguments #clause {}

            #implementation
        };
    }
}

/// Returns how plain data is moved: as one value, as a sequence, and in arrays.
fn plain_way(input: &DeriveInput, options: &Options) -> TokenStream {
    let runtime = &options.runtime;
    let (error, zerocopy) = (runtime.wire_error(), runtime.zerocopy());
    let (to, from) = (runtime.output(), runtime.input());
    let (around, plain_reads) = (runtime.around(), runtime.plain_reads());
    let result = quote!(::core::result::Result);
    let message = format!("`{}` is not plain data", plain_name(&input.ident));
    let help = "write `#[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes, \
                zerocopy::Immutable)]` and `#[repr(C)]` over it, or leave `#[wire(plain)]` out \
                and derive serde's `Serialize` and `Deserialize`";
    let data = quote!(
        ::core::marker::Copy + #zerocopy::FromBytes + #zerocopy::IntoBytes + #zerocopy::Immutable
    );
    quote! {
        #[diagnostic::on_unimplemented(message = #message, label = #help)]
        trait UpbeatCarried: ::core::marker::Sized {
            fn put(&self, out: &mut #to<'_>) -> #result<(), #error>;
            fn take(input: &mut #from<'_>) -> #result<Self, #error>;
            fn put_all(items: &[Self], out: &mut #to<'_>) -> #result<(), #error>;
            fn plain_reads<A: #around>() -> ::core::option::Option<#plain_reads<A::Of<Self>>>;
        }

        #[diagnostic::do_not_recommend]
        impl<T: #data> UpbeatCarried for T {
            #[inline(always)]
            fn put(&self, out: &mut #to<'_>) -> #result<(), #error> {
                out.align();
                out.bytes(#zerocopy::IntoBytes::as_bytes(self));
                #result::Ok(())
            }

            #[inline]
            fn take(input: &mut #from<'_>) -> #result<Self, #error> {
                input.plain()
            }

            #[inline(always)]
            fn put_all(items: &[Self], out: &mut #to<'_>) -> #result<(), #error> {
                out.align();
                out.bytes(#zerocopy::IntoBytes::as_bytes(items));
                #result::Ok(())
            }

            #[inline(always)]
            fn plain_reads<A: #around>() -> ::core::option::Option<#plain_reads<A::Of<Self>>> {
                ::core::option::Option::Some(A::reads::<T>())
            }
        }

        // The trait has a lifetime, since the compiler would complain about a bound without one as well.
        trait UpbeatPlain<'a>: #data {}

        impl<'a, T: #data> UpbeatPlain<'a> for T {}
    }
}

/// Returns the methods that only plain data has.
fn many(input: &DeriveInput, options: &Options) -> TokenStream {
    let error = options.runtime.wire_error();
    let (to, around) = (options.runtime.output(), options.runtime.around());
    let plain_reads = options.runtime.plain_reads();
    let carried = quote_spanned!(here(input)=> <Self as UpbeatCarried>);
    quote! {
        const PLAIN: bool = true;
        const BYTES_LIKELY: usize = ::core::mem::size_of::<Self>();

        #[inline(always)]
        fn put_all(
            items: &[Self],
            out: &mut #to<'_>,
        ) -> ::core::result::Result<(), #error> {
            #carried::put_all(items, out)
        }

        #[inline(always)]
        fn plain_reads<UpbeatAround: #around>()
        -> ::core::option::Option<#plain_reads<UpbeatAround::Of<Self>>> {
            #carried::plain_reads::<UpbeatAround>()
        }
    }
}

/// Returns the implementation of `Wire` by `UpbeatCarried`.
fn implementation(
    input: &DeriveInput,
    options: &Options,
    schema: &TokenStream,
    more: &TokenStream,
) -> TokenStream {
    let name = &input.ident;
    let generics = generics(input, options);
    let (parameters, _, clause) = generics.split_for_impl();
    let (_, arguments, _) = input.generics.split_for_impl();
    let (wire, error) = (options.runtime.wire(), options.runtime.wire_error());
    let (describe, to, from) =
        (options.runtime.describe(), options.runtime.output(), options.runtime.input());
    // The path is written once, so that the compiler reports a type that is not carried once.
    let carried = quote_spanned!(here(input)=> <Self as UpbeatCarried>);
    let tolerant = if options.plain { None } else { fields::emit(input, options) };
    let (put, take) = tolerant.map_or_else(Default::default, |(put, take)| {
        (
            quote!(if out.is_tolerant() { return #put; }),
            quote!(if input.is_tolerant() { return #take; }),
        )
    });
    quote! {
        #[automatically_derived]
        impl #parameters #wire for #name #arguments #clause {
            fn describe(out: &mut #describe) {
                #schema
            }

            #[inline]
            #[allow(deprecated)]
            fn put(&self, out: &mut #to<'_>) -> ::core::result::Result<(), #error> {
                #put
                #carried::put(self, out)
            }

            #[inline]
            #[allow(deprecated)]
            fn take(input: &mut #from<'_>) -> ::core::result::Result<Self, #error> {
                #take
                #carried::take(input)
            }

            #more
        }
    }
}

/// Returns the place of the type's name, with names resolved at the macro.
fn here(input: &DeriveInput) -> Span {
    Span::call_site().located_at(input.ident.span())
}

/// Returns an implementation for a type with errors. It is never run.
fn stand_in(input: &DeriveInput, options: &Options) -> TokenStream {
    let name = &input.ident;
    if input.generics.lifetimes().next().is_some() {
        return quote!();
    }
    let generics = bounded(input, options);
    let (parameters, _, clause) = generics.split_for_impl();
    let (_, arguments, _) = input.generics.split_for_impl();
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
