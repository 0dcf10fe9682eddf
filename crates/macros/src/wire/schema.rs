//! The body of `describe`, which writes the schema of a type.
//!
//! A struct is `Name{field: schema, …}`, `Name(schema, …)` or `Name`; an enum is `Name[Variant…]`
//! with its variants in the same forms. If an enum has an `other` variant, the other side may lack its remaining variants.
//! The schema of plain data says so behind the name. A generic type has its arguments in front, `<u8> Name{…}`, even where it contains itself.

use super::fields::is_whole;
use super::options::{FieldOptions, Options};
use super::parameters::is_marker;
use super::serde::is_skipped;
use super::variants;
use crate::complaint::Complaints;
use crate::model::plain_name;
use crate::types::{self, Place};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Field, Fields, GenericParam, Type, Variant};

/// Emits the statements that write the schema to `out`.
pub(super) fn emit(
    input: &DeriveInput,
    options: &Options,
    complaints: &mut Complaints,
) -> TokenStream {
    let mut name = options.name.clone().unwrap_or_else(|| plain_name(&input.ident));
    if let Some(version) = options.version {
        name.push_str(&format!("/{version}"));
    }
    let mut body = Body::default();
    if options.plain {
        body.text(" plain");
    }
    match &input.data {
        Data::Struct(data) => body.fields(&data.fields, options, complaints),
        Data::Enum(data) => {
            body.text("[");
            let other = variants::other(data);
            if let Some(other) = other {
                let name = plain_name(&other.ident);
                body.code(quote!(out.other(#name);));
            }
            for (at, variant) in data.variants.iter().enumerate() {
                let between = if at == 0 { "" } else { ", " };
                match other {
                    None => {
                        body.text(between);
                        body.variant(variant, options, complaints);
                    }
                    Some(other) => {
                        let mut inner = Body::default();
                        inner.variant(variant, options, complaints);
                        let inner = inner.finish();
                        let number = match other.ident == variant.ident {
                            true => quote!(::core::option::Option::None),
                            false => {
                                let number = variants::number(variant);
                                quote!(::core::option::Option::Some(#number))
                            }
                        };
                        body.code(quote!(out.variant(#between, #number, |out| { #inner });));
                    }
                }
            }
            body.text("]");
        }
        Data::Union(_) => {}
    }
    let arguments = arguments(input, options);
    let mut body = body.finish();
    if !options.plain && is_whole(input, options) {
        body = quote!(out.exact(|out| { #body }));
    }
    quote!(out.named::<Self>(#name, |out| { #arguments }, |out| { #body });)
}

/// Returns the arguments of a generic type, without parameters of which no value travels.
fn arguments(input: &DeriveInput, options: &Options) -> TokenStream {
    let mut body = Body::default();
    for parameter in &input.generics.params {
        match parameter {
            GenericParam::Lifetime(_) => continue,
            GenericParam::Type(parameter) => {
                let name = &parameter.ident;
                if !options.plain && is_marker(input, name) {
                    continue;
                }
                body.text(if body.is_empty() { "<" } else { ", " });
                body.code(quote!(out.of::<#name>();));
            }
            GenericParam::Const(parameter) => {
                let name = &parameter.ident;
                body.text(if body.is_empty() { "<" } else { ", " });
                body.code(quote!(out.text(&::std::string::ToString::to_string(&#name));));
            }
        }
    }
    if !body.is_empty() {
        body.text("> ");
    }
    body.finish()
}

/// Statements that write a schema; texts that follow each other are one.
#[derive(Default)]
struct Body {
    statements: TokenStream,
    text: String,
}

impl Body {
    fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn code(&mut self, code: TokenStream) {
        self.flush();
        self.statements.extend(code);
    }

    fn is_empty(&self) -> bool {
        self.statements.is_empty() && self.text.is_empty()
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.statements.extend(quote!(out.text(#text);));
        }
    }

    fn finish(mut self) -> TokenStream {
        self.flush();
        self.statements
    }

    fn variant(&mut self, variant: &Variant, options: &Options, complaints: &mut Complaints) {
        self.text(&plain_name(&variant.ident));
        self.fields(&variant.fields, options, complaints);
    }

    fn fields(&mut self, fields: &Fields, options: &Options, complaints: &mut Complaints) {
        let (open, close) = match fields {
            Fields::Named(_) => ("{", "}"),
            Fields::Unnamed(_) => ("(", ")"),
            Fields::Unit => return,
        };
        self.text(open);
        let (mut first, mut defaults) = (true, 0_usize);
        for field in fields {
            let said = FieldOptions::read(field, complaints);
            if !options.plain && is_skipped(field) {
                continue;
            }
            let between = if first { "" } else { ", " };
            first = false;
            let name = field.ident.as_ref().map(|name| format!("{}: ", plain_name(name)));
            let name = format!("{between}{}", name.unwrap_or_default());
            if said.default.is_none() {
                self.text(&name);
                self.field(field, said.opaque, options, complaints);
                continue;
            }
            let mut body = Body::default();
            body.field(field, said.opaque, options, complaints);
            let body = body.finish();
            self.code(quote!(out.default_field(#defaults, #name, |out| { #body });));
            defaults += 1;
        }
        self.text(close);
    }

    fn field(
        &mut self,
        field: &Field,
        opaque: Option<String>,
        options: &Options,
        complaints: &mut Complaints,
    ) {
        if let Some(opaque) = opaque {
            if let Type::Path(path) = &field.ty
                && let Some(text) = types::self_describing(path)
            {
                complaints.about(path, text);
            }
            self.text(&opaque);
            return;
        }
        if let Some(error) = types::flaw(&field.ty, Place::Field) {
            complaints.add(error);
        }
        if let Some(text) = types::of_local_width(&field.ty)
            && options.plain
        {
            complaints.about(&field.ty, text);
        }
        let ty = &field.ty;
        // The error is reported at the type, with names resolved at the macro.
        let place = Span::call_site().located_at(ty.span());
        let wire = options.runtime.wire();
        self.code(quote_spanned!(place=> <#ty as #wire>::describe(out);));
    }
}
