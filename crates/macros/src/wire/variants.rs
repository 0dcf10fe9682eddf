//! Enums that may gain variants: `#[wire(other)]` over the variant that is read for those which the reader does not know.
//!
//! The two sides may have different variants in a different order, so a variant's number is made of its name.

use super::options;
use crate::complaint::Complaints;
use crate::model::plain_name;
use syn::{Data, DataEnum, DeriveInput, Fields, Variant};
use upbeat_core::limits::DEFAULT_FIELDS_MAX;

/// Returns the variant that is read for unknown ones, if the enum has one.
pub(super) fn other(data: &DataEnum) -> Option<&Variant> {
    let is_other =
        |variant: &&Variant| options::other(variant, &mut Complaints::default()).is_some();
    data.variants.iter().find(is_other)
}

/// Returns the number of a variant in the tolerant form of an enum with an `other` variant (FNV-1a of the name).
pub(super) fn number(variant: &Variant) -> u32 {
    let name = plain_name(&variant.ident);
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Complains about options of variants, and about `other` where it cannot be. `is_whole` says that the enum travels as a
/// whole in the tolerant form as well.
pub(super) fn check(input: &DeriveInput, is_whole: bool, complaints: &mut Complaints) {
    let Data::Enum(data) = &input.data else { return };
    let mut known: Option<&Variant> = None;
    for variant in &data.variants {
        let Some(place) = options::other(variant, complaints) else { continue };
        let text = if known.replace(variant).is_some() {
            "an enum has one variant for those of a later version: leave one `#[wire(other)]` out"
        } else if !matches!(variant.fields, Fields::Unit) {
            "this variant stands for variants whose fields this program does not know: write it without fields, as in \
             `#[wire(other)] Other`"
        } else if is_whole {
            "this enum travels as a whole, so its variants are those of the other side: leave `#[wire(whole)]` out, and \
             write `upbeat::wire::Serde<T>` as the type of a field instead of `#[wire(opaque = …)]`"
        } else {
            continue;
        };
        complaints.add(syn::Error::new(place, text));
    }
    if known.is_none() {
        return;
    }
    if data.variants.len() > DEFAULT_FIELDS_MAX {
        let text = format!(
            "an enum with an `other` variant has at most {DEFAULT_FIELDS_MAX} variants: leave `#[wire(other)]` out, or put \
             some variants into an enum of their own"
        );
        complaints.about(&input.ident, text);
    }
    for (at, variant) in data.variants.iter().enumerate() {
        let mut before = data.variants.iter().take(at);
        if let Some(same) = before.find(|before| number(before) == number(variant)) {
            let text = format!(
                "the names `{}` and `{}` have the same number in a message: rename one of these variants",
                same.ident, variant.ident
            );
            complaints.add(syn::Error::new(variant.ident.span(), text));
        }
    }
}
