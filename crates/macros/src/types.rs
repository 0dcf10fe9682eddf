//! Types that can travel, as far as their text tells. The compiler checks the rest, by `Wire`.

use crate::complaint::shown;
use crate::runtime::Runtime;
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Expr, ExprLit, FnArg, GenericArgument, Lit, PathArguments, ReturnType, Signature, Type,
    TypeParamBound, TypePath, TypeReference, TypeTraitObject, parse_quote, parse_quote_spanned,
};

/// The use of a type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A part of an argument of a method.
    Argument,
    /// A result of a method.
    Result,
    /// A field of a type that travels.
    Field,
}

/// Returns the first reason why a type cannot travel.
pub(crate) fn flaw(ty: &Type, place: Place) -> Option<syn::Error> {
    let error = |text: String| Some(syn::Error::new_spanned(ty, text));
    match ty {
        Type::Reference(reference) => error(of_reference(reference, place)),
        Type::Path(path) => of_path(path, place),
        Type::Array(array) => flaw(&array.elem, place),
        Type::Group(group) => flaw(&group.elem, place),
        Type::Paren(paren) => flaw(&paren.elem, place),
        Type::Tuple(tuple) => tuple.elems.iter().find_map(|elem| flaw(elem, place)),
        Type::Slice(slice) => error(format!(
            "`{}` has no size of its own: write `Vec<{}>` instead",
            shown(slice),
            shown(&slice.elem)
        )),
        Type::ImplTrait(_) => error(format!(
            "both sides must know the type: write a concrete type instead of `{}`",
            shown(ty)
        )),
        Type::TraitObject(object) => error(of_object(object)),
        Type::Ptr(_) | Type::BareFn(_) => error(format!(
            "`{}` has a meaning in one address space only: write the data itself instead",
            shown(ty)
        )),
        Type::Infer(_) => error("both sides must know the type: write it instead of `_`".into()),
        Type::Never(_) => error(
            "a method that never returns has no result: write `#[oneway]` over it and leave \
                   `-> !` out"
                .into(),
        ),
        _ => None,
    }
}

/// Returns the first reason why a type cannot be an argument's type, which may be a reference.
/// `lifetimes` says whether lifetimes are complained about elsewhere.
pub(crate) fn flaw_of_argument(ty: &Type, lifetimes: bool) -> Option<syn::Error> {
    let Type::Reference(reference) = ungrouped(ty) else { return flaw(ty, Place::Argument) };
    let error = |text: String| Some(syn::Error::new_spanned(ty, text));
    if reference.mutability.is_some() {
        return error(of_reference(reference, Place::Argument));
    }
    let named = reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident != "_");
    if named && !lifetimes {
        return error(format!(
            "a reference is good for one call: leave the lifetime out and write `&{}`",
            shown(&reference.elem)
        ));
    }
    match ungrouped(&reference.elem) {
        Type::Path(path) if path.path.is_ident("str") || is_host_text(path) => None,
        Type::Slice(slice) => flaw(&slice.elem, Place::Argument),
        referent => flaw(referent, Place::Argument),
    }
}

fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        Type::Paren(paren) => ungrouped(&paren.elem),
        ty => ty,
    }
}

/// Returns the type that an argument refers to, if it is a reference.
pub(crate) fn referent(ty: &Type) -> Option<&Type> {
    match ungrouped(ty) {
        Type::Reference(reference) => Some(ungrouped(&reference.elem)),
        _ => None,
    }
}

/// Returns whether a path is `Path` or `OsStr`, as far as its text tells.
fn is_host_text(path: &TypePath) -> bool {
    let last = path.path.segments.last();
    last.is_some_and(|last| last.ident == "Path" || last.ident == "OsStr")
}

/// Returns the type that owns the value of an argument of type `ty` and has the same form in a message.
pub(crate) fn owned(ty: &Type, runtime: &Runtime) -> Type {
    match referent(ty) {
        // The compiler knows whether this is the standard library's type.
        Some(Type::Path(path)) if is_host_text(path) => {
            let by_reference = runtime.by_reference();
            parse_quote_spanned!(ty.span()=> <#path as #by_reference>::Owned)
        }
        Some(Type::Path(path)) if path.path.is_ident("str") => {
            parse_quote_spanned!(ty.span()=> ::std::string::String)
        }
        Some(Type::Slice(slice)) => {
            let item = &slice.elem;
            parse_quote_spanned!(ty.span()=> ::std::vec::Vec<#item>)
        }
        Some(referent) => referent.clone(),
        None => ty.clone(),
    }
}

fn of_reference(reference: &TypeReference, place: Place) -> String {
    let shown_reference = shown(reference);
    let instead = instead_of(&reference.elem);
    if reference.mutability.is_some() {
        return format!(
            "a value in a message is moved, so nobody would see the change: write `{instead}` \
             instead of `{shown_reference}` and return what was changed"
        );
    }
    if place == Place::Argument {
        return format!(
            "an argument is a reference as a whole, or owns its parts: write `{instead}` instead of \
             `{shown_reference}` here"
        );
    }
    format!("a value in a message owns its parts: write `{instead}` instead of `{shown_reference}`")
}

/// Returns the type to write instead of a reference to `ty`.
fn instead_of(ty: &Type) -> String {
    match ty {
        Type::Path(path) if path.path.is_ident("str") => "String".into(),
        Type::Slice(slice) => format!("Vec<{}>", instead_of(&slice.elem)),
        Type::Reference(reference) => instead_of(&reference.elem),
        Type::TraitObject(_) | Type::ImplTrait(_) => "a concrete type".into(),
        other => shown(other),
    }
}

fn of_object(object: &TypeTraitObject) -> String {
    format!(
        "both sides must know the type: write an enum of the cases, or a concrete type, instead \
         of `{}`",
        shown(object)
    )
}

fn of_path(path: &TypePath, place: Place) -> Option<syn::Error> {
    let error = |text: String| Some(syn::Error::new_spanned(path, text));
    if let Some(instead) = without_size(path) {
        return error(instead);
    }
    if place != Place::Field && mentions_self(path) {
        return error(format!(
            "`Self` is one type where the service runs and another where it is called: write a \
             concrete type instead of `{}`",
            shown(path)
        ));
    }
    if let Some(instead) = self_describing(path) {
        return error(instead);
    }
    if is_wrapper(path) {
        return None;
    }
    let holds_unsized = holds_unsized(path);
    for segment in &path.path.segments {
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else { continue };
        for argument in &arguments.args {
            let found = match argument {
                GenericArgument::Lifetime(lifetime) if lifetime.ident != "static" => {
                    error(of_lifetime(path))
                }
                GenericArgument::Type(Type::Slice(slice)) if holds_unsized => {
                    flaw(&slice.elem, place)
                }
                GenericArgument::Type(Type::Path(inner))
                    if holds_unsized && inner.path.is_ident("str") =>
                {
                    None
                }
                GenericArgument::Type(Type::Slice(slice)) => error(format!(
                    "`{}` is not carried: write `Vec<{}>` instead",
                    shown(path),
                    shown(&slice.elem)
                )),
                GenericArgument::Type(Type::Path(inner)) if inner.path.is_ident("str") => {
                    error(format!("`{}` is not carried: write `String` instead", shown(path)))
                }
                GenericArgument::Type(inner) => flaw(inner, place),
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

fn of_lifetime(path: &TypePath) -> String {
    format!(
        "a value in a message owns its parts: write a type without lifetimes instead of `{}`, \
         such as `String` or `Vec`",
        shown(path)
    )
}

/// Says what to write instead of a type without a size.
fn without_size(path: &TypePath) -> Option<String> {
    let name = path.path.get_ident()?.to_string();
    let instead = match name.as_str() {
        "str" => "String",
        "OsStr" => "OsString",
        "CStr" => "CString",
        _ => return None,
    };
    Some(format!("`{name}` has no size of its own: write `{instead}` instead"))
}

/// Says what to write instead of a type whose width depends on the host. Only plain data has to know it.
pub(crate) fn of_local_width(ty: &Type) -> Option<String> {
    let Type::Path(path) = ungrouped(ty) else { return None };
    let name = path.path.get_ident()?.to_string();
    let instead = match name.as_str() {
        "usize" => "u64",
        "isize" => "i64",
        _ => return None,
    };
    Some(format!("`{name}` has another width on other hosts: write `{instead}` instead"))
}

/// Crates with types whose values say themselves which type they have, and these types.
const SELF_DESCRIBING: [(&str, &[&str]); 4] = [
    ("serde_json", &["Value", "Map", "Number"]),
    ("serde_yaml", &["Value", "Mapping"]),
    ("toml", &["Value", "Table"]),
    ("ciborium", &["Value"]),
];

/// Says what to write instead of a type that describes itself, or of a type that holds one, if the text of the
/// type tells.
pub(crate) fn self_describing(path: &TypePath) -> Option<String> {
    let (first, last) = (path.path.segments.first()?, path.path.segments.last()?);
    let is_json = last.ident == "Json";
    let known = |(of, types): &(&str, &[&str])| {
        first.ident == of && types.iter().any(|known| last.ident == known)
    };
    if path.path.segments.len() > 1 && SELF_DESCRIBING.iter().any(known) {
        let name = shown(path);
        return Some(format!(
            "`{name}` describes itself, and a message does not carry names and types: write \
             `upbeat::wire::Json<{name}>`, which carries it as text (feature `json` of upbeat)"
        ));
    }
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let inner = arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(Type::Path(inner)) if !is_json => self_describing(inner),
        _ => None,
    })?;
    Some(match last.ident == "Serde" {
        true => {
            inner.replace("which carries", &format!("instead of `{}`, which carries", shown(path)))
        }
        false => inner,
    })
}

/// Returns whether serde alone decides the content of a type: the type wraps types of other crates.
fn is_wrapper(path: &TypePath) -> bool {
    let last = path.path.segments.last();
    last.is_some_and(|last| last.ident == "Serde" || last.ident == "Json")
}

/// Returns whether a type holds a `str` or a slice that it owns.
fn holds_unsized(path: &TypePath) -> bool {
    let last = path.path.segments.last();
    let known = ["Box", "Arc", "Rc", "Cow"];
    last.is_some_and(|last| known.iter().any(|known| last.ident == known))
}

fn mentions_self(path: &TypePath) -> bool {
    let in_qself = path.qself.as_ref().is_some_and(|qself| has_self(&qself.ty));
    in_qself || path.path.segments.first().is_some_and(|first| first.ident == "Self")
}

/// Returns whether this code contains `Self`.
pub(crate) fn has_self(code: impl ToTokens) -> bool {
    has_word(code.to_token_stream(), "Self")
}

/// Returns whether this code contains a word.
pub(crate) fn has_word(code: TokenStream, word: &str) -> bool {
    code.into_iter().any(|token| match token {
        proc_macro2::TokenTree::Ident(ident) => ident == word,
        proc_macro2::TokenTree::Group(group) => has_word(group.stream(), word),
        _ => false,
    })
}

/// Replaces types about which the compiler would complain as well.
pub(crate) fn stand_in(signature: &mut Signature) {
    struct Inferred;

    impl VisitMut for Inferred {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            visit_mut::visit_type_mut(self, ty);
            if matches!(ty, Type::Infer(_)) {
                *ty = parse_quote!(());
            }
        }
    }

    let undeclared = signature.generics.params.is_empty();
    let inputs = signature.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(&mut *typed.ty),
        FnArg::Receiver(_) => None,
    });
    let output = match &mut signature.output {
        ReturnType::Type(_, ty) => Some(&mut **ty),
        ReturnType::Default => None,
    };
    for ty in inputs.chain(output) {
        Inferred.visit_type_mut(ty);
        match ty {
            Type::Slice(slice) => {
                let item = &slice.elem;
                *ty = parse_quote!(::std::vec::Vec<#item>);
            }
            Type::Path(path) if path.path.is_ident("str") => {
                *ty = parse_quote!(::std::string::String);
            }
            Type::Reference(reference) if undeclared => {
                reference.lifetime.take_if(|lifetime| lifetime.ident != "static");
            }
            _ => {}
        }
    }
}

/// Returns the output of a future, if `ty` is `impl Future<Output = …>`.
pub(crate) fn future_output(ty: &Type) -> Option<&Type> {
    let Type::ImplTrait(future) = ty else { return None };
    future.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let last = bound.path.segments.last()?;
        let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
            _ => None,
        })
    })
}

/// Finds the types in `ty` for which only the compiler knows whether they travel.
pub(crate) fn unknown<'t>(ty: &'t Type, found: &mut Vec<&'t Type>) {
    match ty {
        Type::Group(group) => unknown(&group.elem, found),
        Type::Paren(paren) => unknown(&paren.elem, found),
        Type::Tuple(tuple) => tuple.elems.iter().for_each(|elem| unknown(elem, found)),
        Type::Path(path) if is_number(path) || is_text(path) => {}
        Type::Path(path) => match container(path) {
            Some(inner) => inner.into_iter().for_each(|inner| unknown(inner, found)),
            None => found.push(ty),
        },
        _ => found.push(ty),
    }
}

/// Returns whether `ty` may be a `Serde<…>`, as far as its text tells.
pub(crate) fn is_by_serde(ty: &Type) -> bool {
    let Type::Path(path) = ungrouped(ty) else { return false };
    if let Some(of) = &path.qself {
        return has_word(of.ty.to_token_stream(), "Serde");
    }
    path.path.segments.last().is_some_and(|last| last.ident == "Serde")
}

/// Returns whether `ty` may be plain data or a sequence of plain data, as far as its text tells. A single number
/// needs no buffer.
pub(crate) fn may_fill(ty: &Type) -> bool {
    match ty {
        Type::Group(group) => may_fill(&group.elem),
        Type::Paren(paren) => may_fill(&paren.elem),
        Type::Array(_) => true,
        Type::Path(path) => {
            let last = path.path.segments.last();
            let others = ["String", "Option", "Box", "Result", "Stream"];
            let is_other = |name: &str| last.is_some_and(|last| last.ident == name);
            !is_number(path) && !others.into_iter().any(is_other)
        }
        _ => false,
    }
}

/// The number of elements from which on an array stays in one place instead of moving with a future.
const LONG_ARRAY: usize = 64;

/// Returns whether `ty` is an array of at least that many elements, as far as its text tells.
pub(crate) fn is_long_array(ty: &Type) -> bool {
    let Type::Array(array) = ungrouped(ty) else { return false };
    let Expr::Lit(ExprLit { lit: Lit::Int(length), .. }) = &array.len else { return true };
    length.base10_parse::<usize>().is_ok_and(|length| length >= LONG_ARRAY)
}

/// Returns whether `ty` is a number or an array of numbers, which can be copied, as far as its text tells.
pub(crate) fn is_copy(ty: &Type) -> bool {
    match ungrouped(ty) {
        Type::Array(array) => is_copy(&array.elem),
        Type::Path(path) => is_number(path),
        _ => false,
    }
}

/// Returns the type of the items of an `InPlace`.
pub(crate) fn in_place_item(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ungrouped(ty) else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "InPlace")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(item)) if arguments.args.len() == 1 => Some(item),
        _ => None,
    }
}

/// Returns whether a path is `String`, as users write it or as it is emitted.
fn is_text(path: &TypePath) -> bool {
    let last = path.path.segments.last();
    // A plain `str` gets its own complaint; this `str` is the text in a `Box`.
    path.path.is_ident("String")
        || path.path.is_ident("str")
        || path.path.leading_colon.is_some() && last.is_some_and(|last| last.ident == "String")
}

fn is_number(path: &TypePath) -> bool {
    let numbers = [
        "u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "f32", "f64", "bool",
        "char", "usize", "isize",
    ];
    numbers.iter().any(|number| path.path.is_ident(number))
}

/// Types that travel if the types inside of them do.
const CONTAINERS: [&str; 12] = [
    "Vec",
    "Option",
    "Box",
    "Result",
    "Arc",
    "Rc",
    "VecDeque",
    "LinkedList",
    "Range",
    "Wrapping",
    "Reverse",
    "Bound",
];

/// Returns the types inside of a container, which travels if they do.
fn container(path: &TypePath) -> Option<Vec<&Type>> {
    let last = path.path.segments.last()?;
    let known = CONTAINERS.iter().any(|known| last.ident == known);
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let types = arguments.args.iter().map(|argument| match argument {
        GenericArgument::Type(Type::Slice(slice)) => Some(&*slice.elem),
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    if known { types.collect() } else { None }
}
