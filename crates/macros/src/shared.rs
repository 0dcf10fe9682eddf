//! `#[derive(Shared)]`: the words of a struct's values in an export, and the paths to its fields.
//!
//! A value is its version and then its fields, in their order. Invariant: only the compiler, which knows the types of
//! the fields, computes offsets.

mod options;
mod check;

use crate::complaint::Complaints;
use crate::model::{lints, plain_name};
use options::Options;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Attribute, Data, DataStruct, DeriveInput, Fields, Meta, Type, Visibility, parse_quote};
use upbeat_core::channel::export::Scalar;

/// The implementation of `Shared` for a struct.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut complaints = Complaints::default();
    let options = Options::read(&input, &mut complaints);
    check::check(&input, options.name.is_some(), &mut complaints);
    let export = Export::new(&input, &options);
    if complaints.is_empty() {
        let (paths, shared) = (export.paths(), export.implementation(&export.content()));
        return quote!(#paths #shared);
    }
    let errors = complaints.emit();
    let (paths, shared) = (export.stand_in_paths(), export.implementation(&Content::stand_in()));
    quote!(#errors #paths #shared)
}

/// A struct of exported values.
struct Export<'a> {
    input: &'a DeriveInput,
    options: &'a Options,
    /// The type of the paths to the fields.
    paths: Ident,
    /// The parameter of that type, under a name that no type of a field has.
    access: Ident,
    /// The lints that all emitted items allow.
    lints: Vec<Attribute>,
    fields: Vec<Field<'a>>,
}

/// A field of such a struct.
struct Field<'a> {
    name: &'a Ident,
    visibility: &'a Visibility,
    /// The documentation of the method that returns the path.
    docs: TokenStream,
    /// The lints that the method allows.
    lints: Vec<Attribute>,
    /// The type, with the name of the struct in place of `Self`.
    ty: Type,
}

/// The parts of an implementation of `Shared`.
struct Content {
    words: TokenStream,
    units: TokenStream,
    grows: TokenStream,
    shape: TokenStream,
    put: TokenStream,
    room: TokenStream,
    is_within: TokenStream,
    take: TokenStream,
    versions: TokenStream,
    versions_now: TokenStream,
}

impl Content {
    /// Returns the content for a type with errors, which is never run.
    fn stand_in() -> Content {
        let never = quote!(::core::unreachable!());
        Content {
            words: quote!(1usize),
            units: quote!(1usize),
            grows: quote!(false),
            shape: never.clone(),
            put: never.clone(),
            room: never.clone(),
            is_within: never.clone(),
            take: never.clone(),
            versions: never.clone(),
            versions_now: never,
        }
    }
}

impl<'a> Export<'a> {
    fn new(input: &'a DeriveInput, options: &'a Options) -> Export<'a> {
        let name = &input.ident;
        let fields = match &input.data {
            Data::Struct(DataStruct { fields: Fields::Named(fields), .. }) => {
                fields.named.iter().filter_map(|field| Field::new(field, name)).collect()
            }
            _ => Vec::new(),
        };
        Export {
            input,
            options,
            paths: format_ident!("{}Fields", plain_name(name), span = name.span()),
            access: format_ident!("UpbeatAccess"),
            lints: lints(&input.attrs).collect(),
            fields,
        }
    }

    /// Returns the type of the paths, with a method for each field.
    fn paths(&self) -> TokenStream {
        let place = self.options.runtime.place();
        let mut offset = quote!(1usize);
        let mut methods = TokenStream::new();
        for field in &self.fields {
            methods.extend(self.method(field, &quote!(#place::field(&self.0, #offset))));
            let words = self.item(field, "WORDS");
            offset.extend(quote!(+ #words));
        }
        self.paths_with(&methods)
    }

    /// Returns the type of the paths for a struct with errors. The types of its fields may have no meaning outside of a
    /// struct with parameters.
    fn stand_in_paths(&self) -> TokenStream {
        let fields = self.fields.iter().filter(|_| self.input.generics.params.is_empty());
        let methods = fields.map(|field| self.method(field, &quote!(::core::unreachable!())));
        self.paths_with(&methods.collect())
    }

    fn paths_with(&self, methods: &TokenStream) -> TokenStream {
        let Export { input: DeriveInput { vis, ident, .. }, paths, access, lints, .. } = self;
        let runtime = &self.options.runtime;
        let (place, bound, fields) = (runtime.place(), runtime.access(), runtime.fields());
        let docs = format!("The fields of an exported [`{}`].", plain_name(ident));
        quote! {
            #[doc = #docs]
            #(#lints)*
            #[allow(missing_debug_implementations, unreachable_pub)]
            #vis struct #paths<#access: #bound>(#place<#access>);

            #(#lints)*
            // A program may read some of the fields only. The compiler reports the visibility of a field at the field.
            #[allow(dead_code, private_interfaces, unreachable_pub)]
            impl<#access: #bound> #paths<#access> {
                #methods
            }

            #(#lints)*
            #[automatically_derived]
            impl<#access: #bound> ::core::convert::From<#place<#access>> for #paths<#access> {
                #[inline(always)]
                fn from(place: #place<#access>) -> Self {
                    #paths(place)
                }
            }

            #(#lints)*
            #[automatically_derived]
            impl<#access: #bound> #fields<#access> for #paths<#access> {
                #[inline(always)]
                fn place(&self) -> &#place<#access> {
                    &self.0
                }
            }
        }
    }

    /// Returns the method for the path to a field.
    fn method(&self, field: &Field<'_>, body: &TokenStream) -> TokenStream {
        let Field { name, visibility, docs, lints, ty } = field;
        let (path, shared, access) =
            (self.options.runtime.path(), self.options.runtime.shared(), &self.access);
        // The compiler checks a bound with a lifetime at a use of the method only. Without the bound it would report a type
        // that is not `Shared` here as well.
        let bound = (!field.is_scalar()).then(|| quote!(where for<'upbeat> #ty: #shared));
        quote! {
            #docs
            #(#lints)*
            #[inline(always)]
            #visibility fn #name(&self) -> #path<#access::Borrowed<'_>, #ty> #bound {
                #body
            }
        }
    }

    /// Returns the path of an item that `Shared` gives the type of a field. The compiler reports a type that is not
    /// `Shared` at the field.
    fn item(&self, field: &Field<'_>, name: &str) -> TokenStream {
        let (ty, shared) = (&field.ty, self.options.runtime.shared());
        let name = Ident::new(name, field.here());
        quote_spanned!(field.here()=> <#ty as #shared>::#name)
    }

    fn content(&self) -> Content {
        let items = |name| self.fields.iter().map(move |field| self.item(field, name));
        let (words, units) = (items("WORDS"), items("UNITS"));
        Content {
            words: quote!(1usize #(+ #words)*),
            units: quote!(1usize #(+ #units)*),
            grows: {
                let grows = self.fields.iter().map(|field| self.item(field, "GROWS"));
                quote!(false #(|| #grows)*)
            },
            shape: self.shape(),
            put: self.each(|field| {
                let (put, name) = (self.item(field, "put"), field.name);
                quote!(#put(&self.#name, to, at);)
            }),
            room: {
                let mut rooms = quote!(0usize);
                let mut offset = quote!(1usize);
                for field in &self.fields {
                    let (room, name) = (self.item(field, "room"), field.name);
                    rooms.extend(quote! {
                        + #room(&self.#name, replaced.map(|(writer, at)| (writer, at + #offset)))
                    });
                    let words = self.item(field, "WORDS");
                    offset.extend(quote!(+ #words));
                }
                rooms
            },
            is_within: {
                let fields = self.fields.iter().map(|field| {
                    let (is_within, name) = (self.item(field, "is_within"), field.name);
                    quote!(#is_within(&self.#name, export))
                });
                quote!(true #(&& #fields)*)
            },
            take: self.take(),
            versions: {
                let each = self.each(|field| {
                    let versions = self.item(field, "versions");
                    quote!(#versions(at, show);)
                });
                quote!(show(at); #each)
            },
            versions_now: {
                let each = self.each(|field| {
                    let versions = self.item(field, "versions_now");
                    quote!(#versions(memory, (value, at), show);)
                });
                quote!(show(at); #each)
            },
        }
    }

    /// Returns the name of the struct in the description of the export.
    fn described(&self) -> String {
        self.options.name.clone().unwrap_or_else(|| plain_name(&self.input.ident))
    }

    fn shape(&self) -> TokenStream {
        let struct_shape = self.options.runtime.struct_shape();
        let name = self.described();
        let fields = self.fields.iter().map(|field| {
            let (name, shape) = (plain_name(field.name), self.item(field, "shape"));
            quote!((#name, #shape()))
        });
        quote!(#struct_shape(#name, [#(#fields),*]))
    }

    fn take(&self) -> TokenStream {
        let each = self.each(|field| {
            let (variable, take) = (field.variable(), self.item(field, "take"));
            quote!(let #variable = #take(from, at)?;)
        });
        let fields = self.fields.iter().map(|field| {
            let (name, variable) = (field.name, field.variable());
            quote!(#name: #variable)
        });
        quote!(#each ::core::option::Option::Some(Self { #(#fields),* }))
    }

    /// Returns a statement for each field. In the statement, `at` is the word of the field.
    fn each(&self, mut statement: impl FnMut(&Field<'_>) -> TokenStream) -> TokenStream {
        let mut statements = TokenStream::new();
        let mut words = quote!(1usize);
        for field in &self.fields {
            let statement = statement(field);
            statements.extend(quote!(let at = at + #words; #statement));
            words = self.item(field, "WORDS");
        }
        statements
    }

    fn implementation(&self, content: &Content) -> TokenStream {
        let Export { input, paths, access, lints, .. } = self;
        let mut generics = input.generics.clone();
        if !generics.params.is_empty() {
            generics.make_where_clause().predicates.push(parse_quote!(Self: 'static));
        }
        let (parameters, arguments, clause) = generics.split_for_impl();
        let name = &input.ident;
        let runtime = &self.options.runtime;
        let (shared, bound) = (runtime.shared(), runtime.access());
        let (shape_type, memory, writer) = (runtime.shape(), runtime.memory(), runtime.writer());
        let (readable, named) = (runtime.readable(), runtime.named());
        let described = self.described();
        let Content {
            words,
            units,
            grows,
            shape,
            put,
            room,
            is_within,
            take,
            versions,
            versions_now,
        } = content;
        quote! {
            #(#lints)*
            #[automatically_derived]
            #[allow(deprecated, unused_variables)]
            impl #parameters #shared for #name #arguments #clause {
                const WORDS: usize = #words;
                const UNITS: usize = #units;
                const IS_UNIT: bool = true;
                const GROWS: bool = #grows;

                type Fields<#access: #bound> = #paths<#access>;

                fn shape() -> #shape_type {
                    #shape
                }

                #[inline]
                fn put(&self, to: &#writer<'_>, at: usize) {
                    #put
                }

                fn room(&self, replaced: ::core::option::Option<(&#writer<'_>, usize)>) -> usize {
                    #room
                }

                #[inline]
                fn is_within(&self, export: u32) -> bool {
                    #is_within
                }

                #[inline]
                fn take(from: &#memory, at: usize) -> ::core::option::Option<Self> {
                    #take
                }

                #[inline]
                fn versions(at: usize, show: &mut dyn ::core::ops::FnMut(usize)) {
                    #versions
                }

                fn versions_now(
                    memory: &#memory,
                    (value, at): (usize, usize),
                    show: &mut dyn ::core::ops::FnMut(usize),
                ) {
                    #versions_now
                }
            }

            #(#lints)*
            #[automatically_derived]
            impl #parameters #readable for #name #arguments #clause {}

            #(#lints)*
            #[automatically_derived]
            impl #parameters #named for #name #arguments #clause {
                const NAME: &'static str = #described;
            }
        }
    }
}

impl<'a> Field<'a> {
    fn new(field: &'a syn::Field, of: &Ident) -> Option<Field<'a>> {
        let name = field.ident.as_ref()?;
        let mut ty = field.ty.clone();
        NameForSelf(of).visit_type_mut(&mut ty);
        let (docs, lints) = (docs(&field.attrs, name), lints(&field.attrs).collect());
        Some(Field { name, visibility: &field.vis, docs, lints, ty })
    }

    /// Returns the place of the field's type, with names resolved at the macro.
    fn here(&self) -> Span {
        Span::call_site().located_at(self.ty.span())
    }

    fn is_scalar(&self) -> bool {
        let Type::Path(path) = &self.ty else { return false };
        Scalar::ALL.iter().any(|scalar| path.path.is_ident(scalar.name()))
    }

    /// Returns the variable with the field's value in `take`.
    fn variable(&self) -> Ident {
        format_ident!("field_{}", plain_name(self.name), span = Span::mixed_site())
    }
}

/// Returns the documentation of a field, or a sentence for a field without documentation.
fn docs(attributes: &[Attribute], name: &Ident) -> TokenStream {
    let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let has_text = docs.clone().any(|attribute| matches!(attribute.meta, Meta::NameValue(_)));
    let text = (!has_text).then(|| {
        let text = format!("The field `{}`.", plain_name(name));
        quote!(#[doc = #text])
    });
    quote!(#text #(#docs)*)
}

/// Writes the name of a struct in place of `Self`.
struct NameForSelf<'a>(&'a Ident);

impl VisitMut for NameForSelf<'_> {
    fn visit_ident_mut(&mut self, ident: &mut Ident) {
        if ident == "Self" {
            let place = ident.span();
            ident.clone_from(self.0);
            ident.set_span(place);
        }
    }
}

#[cfg(test)]
mod tests;
