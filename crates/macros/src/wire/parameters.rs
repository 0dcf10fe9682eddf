//! The type parameters of a type, and how its fields use them.

use super::all_fields;
use super::options::FieldOptions;
use super::serde::{is_skipped, states_bounds};
use crate::complaint::Complaints;
use proc_macro2::Ident;
use syn::visit_mut::{self, VisitMut};
use syn::{DeriveInput, Field, Type, TypePath};

/// Returns whether fields use the parameter in a `PhantomData` alone, so that no value of it travels.
pub(super) fn is_marker(input: &DeriveInput, parameter: &Ident) -> bool {
    !all_fields(input).into_iter().any(|field| uses(&field.ty, parameter))
}

/// Returns whether serde's derives ask that serde carries the parameter.
pub(super) fn is_bounded_by_serde(input: &DeriveInput, parameter: &Ident) -> bool {
    let asks = |field: &Field| {
        let is_opaque = FieldOptions::read(field, &mut Complaints::default()).opaque.is_some();
        !is_opaque && !is_skipped(field) && !states_bounds(&field.attrs)
    };
    !states_bounds(&input.attrs)
        && all_fields(input).into_iter().any(|field| asks(field) && uses(&field.ty, parameter))
}

/// Returns whether a type names the parameter outside of a `PhantomData`.
fn uses(ty: &Type, parameter: &Ident) -> bool {
    struct Uses<'p>(&'p Ident, bool);

    impl VisitMut for Uses<'_> {
        fn visit_type_path_mut(&mut self, path: &mut TypePath) {
            let segments = &path.path.segments;
            if segments.last().is_some_and(|last| last.ident == "PhantomData") {
                return;
            }
            self.1 |= segments.first().is_some_and(|first| first.ident == *self.0);
            visit_mut::visit_type_path_mut(self, path);
        }
    }

    let mut uses = Uses(parameter, false);
    uses.visit_type_mut(&mut ty.clone());
    uses.1
}
