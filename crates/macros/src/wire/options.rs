//! The options of `#[wire(…)]`, on a type and on its fields.

use crate::complaint::Complaints;
use crate::option;
use crate::parse::crate_option;
use crate::runtime::Runtime;
use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{DeriveInput, Field, LitInt, Path, Token, Variant};

/// The options of a type.
#[derive(Default)]
pub(super) struct Options {
    pub(super) plain: bool,
    /// Whether the value always travels through serde, and never field by field.
    pub(super) whole: bool,
    /// The name in the schema, where it differs from the name of the type.
    pub(super) name: Option<String>,
    pub(super) version: Option<u32>,
    pub(super) runtime: Runtime,
}

impl Options {
    pub(super) fn read(input: &DeriveInput, complaints: &mut Complaints) -> Options {
        let mut options = Options::default();
        let instead = "`#[wire(plain)]`, `#[wire(name = \"…\")]` or `#[wire(version = 2)]`";
        let each = |option: &ParseNestedMeta<'_>| options.one(option);
        option::read_all((&input.attrs, "wire"), instead, complaints, each);
        options
    }

    fn one(&mut self, option: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if option.path.is_ident("plain") {
            self.plain = true;
        } else if option.path.is_ident("whole") {
            self.whole = true;
        } else if option.path.is_ident("name") {
            self.name = Some(option::name(option, "a name in a schema", "geo::Position")?);
        } else if option.path.is_ident("version") {
            self.version = Some(version(option)?);
        } else if option.path.is_ident("crate") {
            self.runtime = crate_option(option)?;
        } else if option.path.is_ident("opaque") {
            return Err(option.error("`opaque` is said of a field: write it over the field"));
        } else if option.path.is_ident("default") {
            return Err(option.error("`default` is said of a field: write it over the field"));
        } else if option.path.is_ident("other") {
            return Err(option.error("`other` is said of a variant: write it over the variant"));
        } else {
            return Err(option.error(
                "`#[wire]` has no such option on a type; there are `plain`, `whole`, `name = \"…\"`, \
                 `version = 2` and `crate = path`",
            ));
        }
        Ok(())
    }
}

/// The options of a field.
#[derive(Clone, Default)]
pub(super) struct FieldOptions {
    /// The text that replaces the schema of the type.
    pub(super) opaque: Option<String>,
    /// The value of the field where the sender lacks the field, and the place of the option.
    pub(super) default: Option<(self::Default, Span)>,
}

/// The value of a field that is missing.
#[derive(Clone)]
pub(super) enum Default {
    /// The default of the field's type.
    OfType,
    /// The result of the function with this path.
    Path(Box<Path>),
}

impl FieldOptions {
    pub(super) fn read(field: &Field, complaints: &mut Complaints) -> FieldOptions {
        let mut options = FieldOptions::default();
        let instead = "`#[wire(default)]` or `#[wire(opaque = \"name/version\")]`";
        option::read_all((&field.attrs, "wire"), instead, complaints, |option| {
            if option.path.is_ident("opaque") {
                options.opaque = Some(name_and_version(option)?);
            } else if option.path.is_ident("default") {
                options.default = Some((default(option)?, option.path.span()));
            } else {
                return Err(option.error(
                    "`#[wire]` has no such option on a field; there are `default`, `default = \"path\"` and \
                     `opaque = \"name/version\"`",
                ));
            }
            Ok(())
        });
        options
    }
}

fn default(option: &ParseNestedMeta<'_>) -> syn::Result<self::Default> {
    if !option.input.peek(Token![=]) {
        return match option.input.is_empty() || option.input.peek(Token![,]) {
            true => Ok(self::Default::OfType),
            false => Err(option.error("write `#[wire(default)]` or `#[wire(default = \"path\")]`")),
        };
    }
    let literal =
        option::text(option, "`default = \"path\"`, the path of a function without arguments")?;
    literal.parse().map(|path| self::Default::Path(Box::new(path))).map_err(|_| {
        syn::Error::new_spanned(
            literal,
            "a default is the path of a function without arguments that returns the value: write one such as \
             `default = \"Order::no_note\"`",
        )
    })
}

/// Returns the place of the option `other` of a variant, if it has the option.
pub(super) fn other(variant: &Variant, complaints: &mut Complaints) -> Option<Span> {
    let mut other = None;
    option::read_all((&variant.attrs, "wire"), "`#[wire(other)]`", complaints, |option| {
        if !option.path.is_ident("other") {
            return Err(option.error(
                "`#[wire]` has no such option on a variant; there is `other`, for the variant that stands for those of a \
                 later version",
            ));
        }
        other = Some(option.path.span());
        Ok(())
    });
    other
}

fn version(option: &ParseNestedMeta<'_>) -> syn::Result<u32> {
    let number = option.value().and_then(|value| value.parse::<LitInt>());
    let number = number.and_then(|number| number.base10_parse());
    number.map_err(|_| option.error("a version is a whole number: write `version = 2`"))
}

fn name_and_version(option: &ParseNestedMeta<'_>) -> syn::Result<String> {
    let wrong = |place: &dyn quote::ToTokens| {
        syn::Error::new_spanned(
            place,
            "the schema says this instead of a type, so that two sides that mean different things \
             see it: write a name and a version, such as `opaque = \"uuid/1\"`",
        )
    };
    let Ok(literal) = option::text(option, "") else { return Err(wrong(&option.path)) };
    let text = literal.value();
    let part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
    };
    match text.split_once('/') {
        Some((name, version)) if part(name) && part(version) => Ok(text),
        _ => Err(wrong(&literal)),
    }
}
