//! The rules for a method of a service.

use super::name;
use crate::complaint::{Complaints, shown};
use crate::model::plain_name;
use crate::parse::is_oneway;
use crate::rules;
use crate::types::{self, Place};
use std::collections::HashSet;
use syn::{
    Attribute, FnArg, GenericParam, Meta, Pat, PatType, Receiver, ReturnType, Signature,
    TraitItemFn, Type,
};

/// The most elements that a tuple of the wire format has.
const ARGUMENTS_MAX: usize = 12;

/// Complains about a method, as its author wrote it.
pub(super) fn check(function: &TraitItemFn, complaints: &mut Complaints) {
    let signature = &function.sig;
    name::check_method(&signature.ident, complaints);
    attributes(&function.attrs, complaints);
    qualifiers(signature, complaints);
    generics(signature, complaints);
    receiver(signature, complaints);
    arguments(signature, complaints);
    let oneway = function.attrs.iter().any(is_oneway);
    output(signature, oneway, complaints);
    if let Some(body) = &function.default {
        complaints.about(
            body,
            format!(
                "a method of a service has no body here: write `;` and move the body to the \
                 `impl`, as `async fn {}`",
                signature.ident
            ),
        );
    }
}

fn attributes(attributes: &[Attribute], complaints: &mut Complaints) {
    let mut oneways = 0;
    let nack = rules::of_trait(attributes, complaints);
    if nack && attributes.iter().any(is_oneway) {
        let attribute = attributes.iter().find(|attribute| rules::is_method(attribute));
        complaints.about(
            attribute,
            "nobody waits for a one-way message, to send it again: leave `nack` out",
        );
    }
    for attribute in attributes {
        if is_oneway(attribute) {
            let path = attribute.path();
            oneways += 1;
            if !path.is_ident("oneway") {
                complaints.about(attribute, "write `#[oneway]`");
            } else if !matches!(attribute.meta, Meta::Path(_)) {
                complaints.about(attribute, "`#[oneway]` has no options: write `#[oneway]`");
            } else if oneways > 1 {
                complaints.about(attribute, "the method is one-way already: leave this one out");
            }
        }
    }
}

fn qualifiers(signature: &Signature, complaints: &mut Complaints) {
    let name = &signature.ident;
    if let Some(constness) = &signature.constness {
        complaints.about(
            constness,
            format!("a method runs when it is called: leave `const` out, as in `async fn {name}`"),
        );
    } else if signature.asyncness.is_none() {
        complaints.about(
            signature.fn_token,
            format!(
                "a method of a service is async: write `async fn {name}`{}",
                advice_for_future(signature)
            ),
        );
    }
    if let Some(unsafety) = &signature.unsafety {
        complaints.about(
            unsafety,
            "callers in other address spaces cannot keep the conditions of an unsafe method: leave \
             `unsafe` out",
        );
    }
    if let Some(abi) = &signature.abi {
        complaints.about(
            abi,
            format!("a method is called through its stubs: leave `{}` out", shown(abi)),
        );
    }
    if let Some(variadic) = &signature.variadic {
        complaints
            .about(variadic, "both sides must know the arguments: write a `Vec` instead of `...`");
    }
}

/// Returns the end of the advice for a method that returns `impl Future`.
fn advice_for_future(signature: &Signature) -> String {
    let ReturnType::Type(_, ty) = &signature.output else { return String::new() };
    match types::future_output(ty) {
        Some(output) => format!(" with `-> {}`", shown(output)),
        None => String::new(),
    }
}

fn generics(signature: &Signature, complaints: &mut Complaints) {
    let generics = &signature.generics;
    if generics.params.iter().any(|param| !matches!(param, GenericParam::Lifetime(_))) {
        complaints.about(
            generics,
            "both sides must know the types of a method: leave the parameters out and write \
             concrete types",
        );
    } else if !generics.params.is_empty() {
        complaints.about(
            generics,
            "a reference is good for one call: leave the lifetimes out and write `&T` as an \
             argument, and types that own their parts as results, such as `String`",
        );
    }
    if let Some(clause) = &generics.where_clause
        && generics.params.is_empty()
    {
        complaints.about(clause, "a method of a service has no `where` clause: leave it out");
    }
}

fn receiver(signature: &Signature, complaints: &mut Complaints) {
    let Some(receiver) = signature.receiver() else {
        complaints.about(
            &signature.ident,
            format!(
                "a method is called on a service: write `&self` as its first argument, as in \
                 `async fn {}(&self{})`",
                signature.ident,
                if signature.inputs.is_empty() { "" } else { ", …" }
            ),
        );
        return;
    };
    let Receiver { reference, mutability, colon_token, .. } = receiver;
    let bare = matches!(reference, Some((_, None)));
    if bare && mutability.is_none() && colon_token.is_none() {
        return;
    }
    let text = match (reference, mutability) {
        (Some(_), Some(_)) => {
            "calls run side by side and share the service: write `&self`, and keep what changes \
             in a `Cell` or a `RefCell`"
                .to_owned()
        }
        // The check of the generics complains about the declaration of the lifetime.
        (Some((_, Some(_))), None) if !signature.generics.params.is_empty() => return,
        (Some((_, Some(_))), None) => "leave the lifetime out: write `&self`".to_owned(),
        _ => format!(
            "the service stays for the next call: write `&self` instead of `{}`",
            shown(receiver)
        ),
    };
    complaints.about(receiver, text);
}

fn arguments(signature: &Signature, complaints: &mut Complaints) {
    let mut names = HashSet::new();
    let mut count = 0;
    for input in &signature.inputs {
        let FnArg::Typed(argument) = input else { continue };
        count += 1;
        if let Some(attribute) = argument.attrs.first() {
            complaints.about(
                attribute,
                "both sides must know the arguments: leave the attribute out; for arguments under \
                 a condition write two methods",
            );
        }
        if let Some(name) = argument_name(argument, complaints)
            && !names.insert(name.clone())
        {
            complaints.about(
                &argument.pat,
                format!("there is an argument `{name}` before it: give one of them another name"),
            );
        }
        let has_lifetimes = !signature.generics.params.is_empty();
        if let Some(error) = types::flaw_of_argument(&argument.ty, has_lifetimes) {
            complaints.add(error);
        }
        if count == ARGUMENTS_MAX + 1 {
            complaints.about(
                argument,
                format!(
                    "a method has at most {ARGUMENTS_MAX} arguments: put them into a struct that \
                     derives `Wire`"
                ),
            );
        }
    }
}

/// Returns the name of an argument, if the pattern is a single name.
fn argument_name(argument: &PatType, complaints: &mut Complaints) -> Option<String> {
    let name = match &*argument.pat {
        Pat::Ident(pattern) if pattern.subpat.is_none() && pattern.by_ref.is_none() => {
            if pattern.mutability.is_some() {
                complaints.about(
                    pattern,
                    format!("whether it changes is the `impl`'s: write `{}`", pattern.ident),
                );
            }
            return Some(plain_name(&pattern.ident));
        }
        Pat::Wild(_) => "an argument has a name, for clients show it: write one instead of `_`",
        _ => {
            "an argument has a name: write one instead of the pattern, and take it apart in the \
             `impl`"
        }
    };
    complaints.about(&argument.pat, name);
    None
}

fn output(signature: &Signature, oneway: bool, complaints: &mut Complaints) {
    let ReturnType::Type(_, ty) = &signature.output else { return };
    if types::future_output(ty).is_some() && signature.asyncness.is_none() {
        return;
    }
    if oneway {
        if !matches!(&**ty, Type::Tuple(tuple) if tuple.elems.is_empty()) {
            complaints.about(
                &signature.output,
                format!(
                    "nobody waits for a one-way method: leave `{}` out, or leave `#[oneway]` out",
                    shown(&signature.output)
                ),
            );
        }
        return;
    }
    if let Some(error) = types::flaw(ty, Place::Result) {
        complaints.add(error);
    }
}
