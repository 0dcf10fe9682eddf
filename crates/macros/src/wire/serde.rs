//! Checks of the serde attributes of a type: those that postcard cannot carry, and those that the schema would hide.

use super::all_fields;
use super::options::FieldOptions;
use crate::complaint::Complaints;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Expr, ExprLit, Field, Lit, Meta, MetaNameValue, Path, Token,
};

/// Complains about serde attributes that do not fit a wire format.
pub(super) fn check(input: &DeriveInput, plain: bool, complaints: &mut Complaints) {
    // Plain data does not pass through serde.
    if plain {
        return;
    }
    told(&input.attrs, complaints, of_type);
    if let Data::Enum(data) = &input.data {
        data.variants.iter().for_each(|variant| told(&variant.attrs, complaints, of_variant));
    }
    for field in all_fields(input) {
        let is_opaque = FieldOptions::read(field, &mut Complaints::default()).opaque.is_some();
        told(&field.attrs, complaints, |name| of_field(name, is_opaque));
    }
}

/// Returns whether serde leaves a field out altogether.
pub(super) fn is_skipped(field: &Field) -> bool {
    options(&field.attrs).any(|option| option.path().is_ident("skip"))
}

/// Returns the path under which a field that is not carried has its value, if it has one.
pub(super) fn default_path(field: &Field) -> Option<Path> {
    options(&field.attrs).find_map(|option| match option {
        Meta::NameValue(MetaNameValue { path, value, .. }) if path.is_ident("default") => {
            let Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) = value else { return None };
            path.parse().ok()
        }
        _ => None,
    })
}

/// Returns whether serde asks nothing of a parameter by itself, because an attribute states what it asks.
pub(super) fn states_bounds(attributes: &[Attribute]) -> bool {
    let stating = ["bound", "with", "serialize_with", "deserialize_with"];
    options(attributes).any(|option| stating.iter().any(|name| option.path().is_ident(name)))
}

/// Whether the fields of a type that are missing are those of its default value.
pub(super) fn has_default(attributes: &[Attribute]) -> bool {
    options(attributes).any(|option| option.path().is_ident("default"))
}

fn told(
    attributes: &[Attribute],
    complaints: &mut Complaints,
    about: impl Fn(&str) -> Option<String>,
) {
    for option in options(attributes) {
        let Some(name) = option.path().get_ident() else { continue };
        if let Some(text) = about(&name.to_string()) {
            complaints.about(option.path(), text);
        }
    }
}

fn options(attributes: &[Attribute]) -> impl Iterator<Item = Meta> {
    let serde = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    serde.flat_map(|attribute| {
        // Serde complains about attributes that cannot be read.
        attribute
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .unwrap_or_default()
    })
}

fn of_type(name: &str) -> Option<String> {
    Some(match name {
        "untagged" | "tag" | "content" => {
            // `content` never stands without `tag`.
            if name == "content" {
                return None;
            }
            format!(
                "postcard writes the number of a variant and no names: leave \
                 `#[serde({})]` out; for another format as well, write a second type and convert",
                if name == "tag" { "tag = …" } else { name }
            )
        }
        "from" | "try_from" | "into" | "remote" => format!(
            "with `{name}` another type is carried, which the schema would not show: let the \
             methods take that type, and derive `Wire` for it"
        ),
        _ => return None,
    })
}

fn of_variant(name: &str) -> Option<String> {
    Some(match name {
        "untagged" => "postcard writes the number of a variant and no names: leave `#[serde(untagged)]` out".to_owned(),
        "other" => "postcard refuses the number of a variant that there is not: leave `#[serde(other)]` out, and write \
                    `#[wire(other)]` to read the variants of a later version as this one"
            .to_owned(),
        "skip" | "skip_serializing" | "skip_deserializing" => format!(
            "postcard writes the number of a variant, which skipping would shift: leave \
             `#[serde({name})]` out, or the variant"
        ),
        "with" | "serialize_with" | "deserialize_with" => format!(
            "with `{name}` the variant is written in a form that the schema would not show: put \
             its data into a struct whose field says `#[wire(opaque = \"name/version\")]`"
        ),
        _ => return None,
    })
}

fn of_field(name: &str, is_opaque: bool) -> Option<String> {
    Some(match name {
        "flatten" => "postcard writes fields by their order and no names: leave \
                      `#[serde(flatten)]` out and keep the inner type as a field"
            .to_owned(),
        "skip_serializing_if" => "postcard writes every field, or the reader would take the next \
                                  one for it: leave `skip_serializing_if` out; an `Option` that \
                                  is `None` takes one byte"
            .to_owned(),
        "skip_serializing" | "skip_deserializing" => format!(
            "both sides must know which fields are there: write `#[serde(skip)]` instead of \
             `{name}`"
        ),
        "with" | "serialize_with" | "deserialize_with" if !is_opaque => format!(
            "with `{name}` the field is written in a form that its type does not show: name the \
             form for the schema, as in `#[wire(opaque = \"name/version\")]`"
        ),
        _ => return None,
    })
}
