//! From the tokens under the attribute to a model. The parser accepts wrong code as well as it can: the checker
//! complains about it.

use crate::complaint::Complaints;
use crate::model::{Argument, Method, Outcome};
use crate::option;
use crate::rules;
use crate::runtime::Runtime;
use crate::types;
use proc_macro2::{Ident, TokenStream};
use quote::format_ident;
use std::collections::HashSet;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, GenericArgument, Pat, PatIdent, Path, PathArguments, ReturnType, TraitItemFn,
    Type, parse_quote, parse_quote_spanned,
};

/// The options of `#[upbeat::service(…)]` over an `impl`.
#[derive(Default)]
pub(crate) struct ImplOptions {
    pub(crate) runtime: Runtime,
    /// Whether its handlers run one after another.
    pub(crate) serial: bool,
}

/// Reads the options of `#[upbeat::service(…)]` over an `impl`.
pub(crate) fn impl_options(tokens: TokenStream, complaints: &mut Complaints) -> ImplOptions {
    let mut options = ImplOptions::default();
    option::read(
        tokens,
        "`#[upbeat::service(serial)]`",
        &mut HashSet::new(),
        complaints,
        |option| {
            if option.path.is_ident("crate") {
                options.runtime = crate_option(option)?;
                return Ok(());
            }
            if option.path.is_ident("serial") {
                options.serial = true;
                return Ok(());
            }
            Err(option.error(
                "`#[upbeat::service]` over an `impl` has no such option; write \
             `#[upbeat::service(serial)]` to have its handlers run one after another",
            ))
        },
    );
    options
}

/// Returns a name without the `r#` that lets a keyword be a name.
pub(crate) fn plain_ident(name: &Ident) -> String {
    crate::model::plain_name(name)
}

/// The options of `#[upbeat::service(…)]` over a trait.
#[derive(Default)]
pub(crate) struct TraitOptions {
    pub(crate) runtime: Runtime,
    /// The name of the service in messages, where it differs from the name of the trait.
    pub(crate) name: Option<String>,
}

/// Reads the options of `#[upbeat::service(…)]` over a trait.
pub(crate) fn trait_options(tokens: TokenStream, complaints: &mut Complaints) -> TraitOptions {
    let mut options = TraitOptions::default();
    option::read(tokens, "`#[upbeat::service]`", &mut HashSet::new(), complaints, |option| {
        if option.path.is_ident("crate") {
            options.runtime = crate_option(option)?;
            return Ok(());
        }
        if option.path.is_ident("name") {
            options.name = Some(option::name(option, "the name of a service", "orders::Admin")?);
            return Ok(());
        }
        if option.path.is_ident("serial") {
            return Err(option.error(
                "the order of handlers is the server's to decide: write \
                 `#[upbeat::service(serial)]` over the `impl`",
            ));
        }
        Err(option.error(
            "`#[upbeat::service]` has no such option; write `#[upbeat::service]`, \
             `#[upbeat::service(name = \"orders::Admin\")]` where another service has the name of the trait, or \
             `#[upbeat::service(crate = path)]` where the runtime has another name",
        ))
    });
    options
}

/// Reads `crate = path`.
pub(crate) fn crate_option(option: &ParseNestedMeta<'_>) -> syn::Result<Runtime> {
    let wrong = |_| option.error("write where the runtime is, as in `crate = path::to::upbeat`");
    option.value().and_then(Path::parse_mod_style).map(Runtime::from).map_err(wrong)
}

/// Returns whether an attribute is `#[oneway]`, or a misspelt form of it.
pub(crate) fn is_oneway(attribute: &Attribute) -> bool {
    let last = attribute.path().segments.last();
    last.is_some_and(|last| last.ident == "oneway" || last.ident == "one_way")
}

/// Reads a method. The `#[oneway]` attribute is still on the method.
pub(crate) fn method(written: &TraitItemFn, runtime: &Runtime) -> Method {
    let mut written = written.clone();
    let oneway = written.attrs.iter().any(is_oneway);
    let mut unheard = Complaints::default();
    let nack = !oneway && rules::of_trait(&written.attrs, &mut unheard);
    written.attrs.retain(|attribute| !is_oneway(attribute) && !rules::is_method(attribute));
    let mut arguments = Vec::new();
    for input in &mut written.sig.inputs {
        let FnArg::Typed(typed) = input else { continue };
        let name = match &*typed.pat {
            Pat::Ident(name) if name.subpat.is_none() && !taken(&arguments, &name.ident) => {
                name.ident.clone()
            }
            _ => format_ident!("argument{}", arguments.len()),
        };
        // The compiler, too, would complain about patterns.
        *typed.pat = Pat::Ident(PatIdent {
            attrs: Vec::new(),
            by_ref: None,
            mutability: None,
            ident: name.clone(),
            subpat: None,
        });
        let ty = (*typed.ty).clone();
        let referent = types::referent(&ty).cloned();
        let owned = types::owned(&ty, runtime);
        arguments.push(Argument { name, ty, referent, owned });
    }
    let outcome = if oneway { Outcome::Sent } else { outcome(&written.sig.output, runtime) };
    Method { written, arguments, outcome, nack }
}

fn taken(arguments: &[Argument], name: &Ident) -> bool {
    arguments.iter().any(|argument| argument.name == *name)
}

fn outcome(output: &ReturnType, runtime: &Runtime) -> Outcome {
    let ReturnType::Type(_, ty) = output else { return Outcome::Value(Box::new(parse_quote!(()))) };
    let ty = types::future_output(ty).unwrap_or(ty);
    match result_arguments(ty).as_deref() {
        Some([value, error]) => {
            let (value, error) = (Box::new((*value).clone()), Box::new((*error).clone()));
            Outcome::Fallible { value, error }
        }
        // The result is an alias of `Result`: the macro does not see its two types, and the compiler does.
        Some(_) => {
            let fallible = runtime.fallible();
            let value = parse_quote_spanned!(ty.span()=> <#ty as #fallible>::Value);
            let error = parse_quote_spanned!(ty.span()=> <#ty as #fallible>::Error);
            Outcome::Fallible { value: Box::new(value), error: Box::new(error) }
        }
        None => Outcome::Value(Box::new(ty.clone())),
    }
}

/// Returns the types in the brackets of a `Result`, if `ty` is one.
fn result_arguments(ty: &Type) -> Option<Vec<&Type>> {
    let path = match ty {
        Type::Path(path) if path.qself.is_none() => &path.path,
        Type::Group(group) => return result_arguments(&group.elem),
        Type::Paren(paren) => return result_arguments(&paren.elem),
        _ => return None,
    };
    let last = path.segments.last().filter(|last| last.ident == "Result")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Some(Vec::new()) };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    Some(types.collect())
}
