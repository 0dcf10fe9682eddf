//! The tolerant form of a derived type: field by field, so that the two sides may have different ones.
//!
//! A struct with named fields is a word with its bytes and the number of its fields, and then the fields. A struct
//! without names is its fields, and an enum is the number of its variant and then the fields. An enum with an `other`
//! variant is a word with the bytes of the fields and the number of the variant's name, and then the fields.

use super::all_fields;
use super::options::{Default, FieldOptions, Options};
use super::serde::{default_path, has_default, is_skipped};
use super::variants;
use crate::complaint::Complaints;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Field, Fields, Variant};

/// Returns whether the type travels as a whole in the tolerant form as well, because its fields alone do not give its form.
pub(super) fn is_whole(input: &DeriveInput, options: &Options) -> bool {
    let is_opaque = |field: &Field| FieldOptions::read(field, &mut Complaints::default()).opaque;
    let is_packed = input.attrs.iter().any(|attribute| {
        attribute.path().is_ident("repr")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string().contains("packed"))
    });
    options.whole
        || is_packed
        || all_fields(input).into_iter().any(|field| is_opaque(field).is_some())
        || (has_default(&input.attrs) || !input.generics.params.is_empty())
            && all_fields(input).into_iter().any(is_skipped)
}

/// Complains about defaults in places where a field cannot have one.
pub(super) fn check(input: &DeriveInput, options: &Options, complaints: &mut Complaints) {
    let is_default = |field: &Field| {
        FieldOptions::read(field, &mut Complaints::default()).default.map(|(_, place)| place)
    };
    let mut refuse = |field: &Field, text: &str| {
        if let Some(place) = is_default(field) {
            complaints.add(syn::Error::new(place, text));
        }
    };
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            for field in data.variants.iter().flat_map(|variant| &variant.fields) {
                refuse(
                    field,
                    "the fields of a variant have no defaults: put them into a struct of their own that \
                     derives `Wire`, and let the variant hold that struct",
                );
            }
            return;
        }
        Data::Union(_) => return,
    };
    if options.plain {
        for field in fields {
            refuse(
                field,
                "the fields of plain data lie in fixed places, and none of them can be missing: leave \
                 `#[wire(plain)]` out and derive serde's `Serialize` and `Deserialize`",
            );
        }
        return;
    }
    let is_whole = is_whole(input, options);
    let mut behind = false;
    for field in fields.iter().rev() {
        if is_default(field).is_none() {
            behind |= !is_skipped(field);
            continue;
        }
        let text = if !matches!(fields, Fields::Named(_)) {
            "a field with a default needs a name: write a struct with named fields, `struct Order { id: u64, \
             #[wire(default)] note: String }`"
        } else if is_skipped(field) {
            "a field under `#[serde(skip)]` does not travel, so it is never missing: leave `#[wire(default)]` out, or \
             `#[serde(skip)]`"
        } else if is_whole {
            "the fields of this struct travel as a whole: write `upbeat::wire::Serde<T>` as the type of a field instead \
             of `#[wire(opaque = …)]`, leave `#[wire(whole)]`, `#[repr(packed)]` and `#[serde(default)]` over the struct \
             out, and `#[serde(skip)]` if the struct is generic"
        } else if behind {
            "fields with a default stand behind all others: move this field to the end of the struct"
        } else {
            continue;
        };
        refuse(field, text);
    }
}

/// Returns the bodies of `put` and `take` for the tolerant form, or `None` if the type has no such form.
pub(super) fn emit(input: &DeriveInput, options: &Options) -> Option<(TokenStream, TokenStream)> {
    if is_whole(input, options) {
        return None;
    }
    let ok = quote!(::core::result::Result::Ok);
    let (put, take) = match &input.data {
        Data::Struct(data) => {
            let Parts { pattern, puts, takes, count, required } = parts(&data.fields, options);
            let open = quote!(let Self #pattern = *self;);
            match &data.fields {
                Fields::Named(_) => (
                    quote!(#open out.fields(#count, |out| { #puts #ok(()) })),
                    quote!(input.fields((#required, #count), |input, _count| { #ok(Self #takes) })),
                ),
                _ => (quote!(#open #puts #ok(())), quote!(#ok(Self #takes))),
            }
        }
        Data::Enum(data) => match variants::other(data) {
            Some(other) => open_enum(data, other, options),
            None => closed_enum(data, options),
        },
        Data::Union(_) => return None,
    };
    Some((quote!({ #put }), quote!({ input.endurable()?; #take })))
}

/// Returns the bodies of `put` and `take` for an enum of which both sides know all variants.
fn closed_enum(data: &DataEnum, options: &Options) -> (TokenStream, TokenStream) {
    let wire = options.runtime.wire();
    let ok = quote!(::core::result::Result::Ok);
    let variants = data.variants.iter().zip(0_u32..).map(|(variant, number)| {
        let (name, parts) = (&variant.ident, parts(&variant.fields, options));
        let Parts { pattern, puts, takes, .. } = parts;
        let put =
            quote!(Self::#name #pattern => { <u32 as #wire>::put(&#number, out)?; #puts #ok(()) });
        (put, quote!(#number => #ok(Self::#name #takes),))
    });
    let (puts, takes): (Vec<_>, Vec<_>) = variants.unzip();
    let error = options.runtime.wire_error();
    let none = quote!(_ => ::core::result::Result::Err(#error::Invalid { what: "variant" }));
    (
        quote!(match *self { #(#puts)* }),
        quote!(match <u32 as #wire>::take(input)? { #(#takes)* #none }),
    )
}

/// Returns the bodies of `put` and `take` for an enum with a variant that is read for those which the reader does not know.
fn open_enum(data: &DataEnum, other: &Variant, options: &Options) -> (TokenStream, TokenStream) {
    let ok = quote!(::core::result::Result::Ok);
    let variants = data.variants.iter().map(|variant| {
        let (name, number) = (&variant.ident, variants::number(variant));
        let Parts { pattern, puts, takes, .. } = parts(&variant.fields, options);
        let put = quote!(Self::#name #pattern => out.fields(#number, |out| { #puts #ok(()) }),);
        (put, quote!(#number => #ok(Self::#name #takes),))
    });
    let (puts, takes): (Vec<_>, Vec<_>) = variants.unzip();
    let (other, most) = (&other.ident, u32::MAX);
    let unknown = quote!(_ => { input.pass_rest(); #ok(Self::#other) });
    (
        quote!(match *self { #(#puts)* }),
        quote!(input.fields((0, #most), |input, number| match number { #(#takes)* #unknown })),
    )
}

/// The fields of a struct or a variant, in code.
struct Parts {
    /// The pattern that binds the fields that travel.
    pattern: TokenStream,
    puts: TokenStream,
    /// The fields of a new value, each with the code that reads the field.
    takes: TokenStream,
    count: u32,
    required: u32,
}

fn parts(fields: &Fields, options: &Options) -> Parts {
    let wire = options.runtime.wire();
    let (mut pattern, mut puts, mut takes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut count, mut required) = (0_u32, 0);
    for (at, field) in fields.iter().enumerate() {
        let ty = &field.ty;
        let place = Span::call_site().located_at(ty.span());
        let bound = format_ident!("field{at}", span = Span::mixed_site());
        let name = field.ident.as_ref().map(|name| quote!(#name:));
        if is_skipped(field) {
            pattern.push(quote!(#name _));
            let value = match default_path(field) {
                Some(path) => quote!(#path()),
                None => quote!(::core::default::Default::default()),
            };
            takes.push(quote!(#name #value));
            continue;
        }
        pattern.push(match fields {
            Fields::Named(_) => quote!(#name ref #bound),
            _ => quote!(ref #bound),
        });
        puts.push(quote_spanned!(place=> <#ty as #wire>::put(#bound, out)?;));
        let take = quote_spanned!(place=> <#ty as #wire>::take(input)?);
        let default = FieldOptions::read(field, &mut Complaints::default()).default;
        takes.push(match default {
            None => quote!(#name #take),
            Some((default, _)) => {
                let value = value(&default, field);
                quote!(#name if _count > #count { #take } else { #value })
            }
        });
        count += 1;
        required +=
            u32::from(FieldOptions::read(field, &mut Complaints::default()).default.is_none());
    }
    let (pattern, takes) = match fields {
        Fields::Named(_) => (quote!({ #(#pattern),* }), quote!({ #(#takes),* })),
        Fields::Unnamed(_) => (quote!((#(#pattern),*)), quote!((#(#takes),*))),
        Fields::Unit => (quote!(), quote!()),
    };
    Parts { pattern, puts: quote!(#(#puts)*), takes, count, required }
}

/// The value of a field that the sender does not have.
fn value(default: &Default, field: &Field) -> TokenStream {
    let ty = &field.ty;
    let place = Span::call_site().located_at(ty.span());
    match default {
        Default::OfType => quote_spanned!(place=> <#ty as UpbeatDefault>::value()),
        Default::Path(path) => {
            let value = Ident::new("value", Span::mixed_site());
            let call = quote_spanned!(path.span()=> #path());
            quote!({ let #value: #ty = #call; #value })
        }
    }
}

/// The trait that gives defaults, with the error for a type that has none.
pub(super) fn default_trait(input: &DeriveInput) -> Option<TokenStream> {
    let Data::Struct(data) = &input.data else { return None };
    let uses = |field: &Field| {
        let options = FieldOptions::read(field, &mut Complaints::default());
        matches!(options.default, Some((Default::OfType, _)))
    };
    data.fields.iter().any(uses).then(|| {
        quote! {
            #[diagnostic::on_unimplemented(
                message = "`{Self}` has no default value for `#[wire(default)]`",
                label = "implement `Default` for `{Self}`, or write `#[wire(default = \"path\")]` with the path of a \
                         function that returns a `{Self}`"
            )]
            trait UpbeatDefault: ::core::marker::Sized {
                fn value() -> Self;
            }

            #[diagnostic::do_not_recommend]
            impl<T: ::core::default::Default> UpbeatDefault for T {
                fn value() -> Self {
                    ::core::default::Default::default()
                }
            }
        }
    })
}
