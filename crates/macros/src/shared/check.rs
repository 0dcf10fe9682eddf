//! The types that cannot be exported, as far as their text tells. The compiler checks the types of fields, by `Shared`.

use super::options::{flaw_of_name, none};
use crate::complaint::Complaints;
use crate::model::plain_name;
use syn::{Data, DataStruct, DeriveInput, Field, Fields};
use upbeat_core::limits::EXPORT_FIELDS_MAX;

/// The methods of exports, imports and paths, which hide methods of a field's name.
const RESERVED: &[&str] = &[
    "clone",
    "discard",
    "follow",
    "get",
    "into",
    "lock",
    "lost_bets",
    "place",
    "read",
    "set",
    "snapshot",
    "try_into",
    "try_lock",
    "try_read",
    "try_read_into",
    "try_snapshot",
    "update",
    "watch",
    "whole",
];

/// Complains about a type that is no struct with named fields, or has parameters, and about names.
pub(super) fn check(input: &DeriveInput, has_name: bool, complaints: &mut Complaints) {
    if !input.generics.params.is_empty() {
        complaints.about(
            &input.generics.params,
            "readers and owner agree on one type: write a struct without parameters",
        );
    }
    match &input.data {
        Data::Struct(data) => check_struct(input, data, complaints),
        Data::Enum(data) if data.variants.iter().all(|variant| variant.fields.is_empty()) => {
            let text = "a reader could find a number that is no variant here: export the number, and make the variant \
                        of it where it is read";
            complaints.about(data.enum_token, text);
        }
        Data::Enum(data) => complaints.about(
            data.enum_token,
            "a reader could see the case of one value with the fields of another: write a struct, and a number or bool \
             for the case",
        ),
        Data::Union(data) => complaints.about(
            data.union_token,
            "a reader does not know which case of a union is meant: write a struct, and a number or bool for the case",
        ),
    }
    if !has_name && let Some(flaw) = flaw_of_name(&plain_name(&input.ident)) {
        let text = format!("{flaw}: write `#[shared(name = \"…\")]` over the type");
        complaints.about(&input.ident, text);
    }
}

fn check_struct(input: &DeriveInput, data: &DataStruct, complaints: &mut Complaints) {
    match &data.fields {
        Fields::Named(_) => {}
        Fields::Unnamed(fields) => complaints.about(
            fields,
            "readers name the fields that they read: give the fields names, as in `struct Row { bid: f64 }`",
        ),
        Fields::Unit => {
            let name = &input.ident;
            let text = format!(
                "readers name the fields that they read: give the struct fields with names, or write \
                 `struct {name} {{}}`"
            );
            complaints.about(name, text);
        }
    }
    let count = data.fields.len();
    if let Some(field) = data.fields.iter().nth(EXPORT_FIELDS_MAX) {
        let text = format!(
            "an exported struct has at most {EXPORT_FIELDS_MAX} fields and this one has {count}: put some of them into \
             a struct of their own"
        );
        complaints.about(&field.ident, text);
    }
    for field in &data.fields {
        check_field(field, complaints);
    }
}

fn check_field(field: &Field, complaints: &mut Complaints) {
    none(field, complaints);
    let Some(name) = &field.ident else { return };
    let text = plain_name(name);
    if RESERVED.contains(&text.as_str()) {
        complaints.about(
            name,
            format!("`{text}` is a method of exports and their paths: rename the field"),
        );
    } else if let Some(flaw) = flaw_of_name(&text) {
        complaints.about(name, format!("{flaw}: rename the field"));
    }
}
