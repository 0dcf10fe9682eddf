//! The options of `#[shared(…)]`, which stand over a struct.

use crate::complaint::Complaints;
use crate::option;
use crate::parse::crate_option;
use crate::runtime::Runtime;
use syn::meta::ParseNestedMeta;
use syn::{DeriveInput, Field};
use upbeat_core::channel::export::Shape;
use upbeat_core::limits::IDENT_BYTES_MAX;

/// The options of a struct.
#[derive(Default)]
pub(super) struct Options {
    /// The name in the description, where it differs from the name of the struct.
    pub(super) name: Option<String>,
    pub(super) runtime: Runtime,
}

impl Options {
    pub(super) fn read(input: &DeriveInput, complaints: &mut Complaints) -> Options {
        let mut options = Options::default();
        let instead = "`#[shared(name = \"…\")]` or `#[shared(crate = path)]`";
        let each = |option: &ParseNestedMeta<'_>| options.one(option);
        option::read_all((&input.attrs, "shared"), instead, complaints, each);
        options
    }

    fn one(&mut self, option: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if option.path.is_ident("name") {
            self.name = Some(name(option)?);
        } else if option.path.is_ident("crate") {
            self.runtime = crate_option(option)?;
        } else {
            return Err(option.error(
                "`#[shared]` has no such option; there are `name = \"…\"` and `crate = path`",
            ));
        }
        Ok(())
    }
}

fn name(option: &ParseNestedMeta<'_>) -> syn::Result<String> {
    let literal = option::text(option, "`name = \"Row\"`")?;
    match flaw_of_name(&literal.value()) {
        None => Ok(literal.value()),
        Some(flaw) => {
            let text = format!("{flaw}: write one such as `name = \"Row\"`");
            Err(syn::Error::new_spanned(literal, text))
        }
    }
}

/// Complains about each `#[shared(…)]` over a field.
pub(super) fn none(field: &Field, complaints: &mut Complaints) {
    for attribute in option::attributes(&field.attrs, "shared") {
        complaints
            .about(attribute, "`#[shared]` is written over the struct; leave it out over a field");
    }
}

/// Returns why the description of an export cannot have this name.
pub(super) fn flaw_of_name(name: &str) -> Option<String> {
    let shape = Shape::Struct { name: name.into(), fields: Vec::new() };
    shape.check().is_err().then(|| {
        format!(
            "`{name}` is no name in the description of an export, which has identifiers of at most {IDENT_BYTES_MAX} \
             bytes, and no names of scalars such as `u8`"
        )
    })
}
