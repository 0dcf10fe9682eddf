//! The rules for a service, with a message for each violation that says what to write instead.

mod name;
mod method;

use crate::complaint::Complaints;
use crate::model::{Service, plain_name};
use crate::parse::{self, TraitOptions};
use crate::types;
use std::collections::HashSet;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, ItemTrait, TraitItem, TraitItemFn, Visibility};
use upbeat_core::limits::METHODS_PER_SERVICE_MAX;

/// Returns whether a method must not have this name, since clients and handles use the name themselves.
pub(crate) fn is_reserved(name: &str) -> bool {
    name::RESERVED.contains(&name)
}

/// Makes a service of a trait, and complains about each rule that the trait violates.
pub(crate) fn service(
    mut written: ItemTrait,
    options: TraitOptions,
    complaints: &mut Complaints,
) -> Service {
    let TraitOptions { runtime, name } = options;
    head(&written, complaints);
    let mut methods = Vec::new();
    let mut names = HashSet::new();
    written.items.retain_mut(|item| {
        if let Some(function) = visible(item, complaints) {
            *item = TraitItem::Fn(function);
        }
        let TraitItem::Fn(function) = item else {
            other_item(item, complaints);
            return true;
        };
        let name = plain_name(&function.sig.ident);
        if names.contains(&name) && function.attrs.iter().all(|a| !a.path().is_ident("cfg")) {
            complaints.about(
                &function.sig.ident,
                format!("there is a method `{name}` above: give one of them another name"),
            );
            return false;
        }
        names.insert(name);
        method::check(function, complaints);
        types::stand_in(&mut function.sig);
        let method = parse::method(function, &runtime);
        *function = method.written.clone();
        methods.push(method);
        true
    });
    if methods.len() > METHODS_PER_SERVICE_MAX {
        complaints.about(
            &written.ident,
            format!(
                "the service has {} methods and at most {METHODS_PER_SERVICE_MAX} are bound at a \
                 time: make several services of it",
                methods.len()
            ),
        );
    }
    Service { written, runtime, name, methods, sound: complaints.is_empty() }
}

/// Reports a visibility that is written before a method, and returns the method without the visibility.
fn visible(item: &TraitItem, complaints: &mut Complaints) -> Option<TraitItemFn> {
    let TraitItem::Verbatim(tokens) = item else { return None };
    let parser = |input: ParseStream<'_>| {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility: Visibility = input.parse()?;
        let function: TraitItemFn = input.parse()?;
        Ok((visibility, TraitItemFn { attrs: attributes, ..function }))
    };
    let (visibility, function) = parser.parse2(tokens.clone()).ok()?;
    let text = "the methods of a service are seen wherever it is: leave this out";
    complaints.about(visibility, text);
    Some(function)
}

fn head(written: &ItemTrait, complaints: &mut Complaints) {
    name::check("service", &written.ident, complaints);
    if let Some(unsafety) = &written.unsafety {
        complaints.about(
            unsafety,
            "callers in other address spaces cannot keep the conditions of an unsafe service: leave \
             `unsafe` out",
        );
    }
    if let Some(auto) = &written.auto_token {
        complaints.about(auto, "a service is implemented by hand: leave `auto` out");
    }
    if !written.generics.params.is_empty() {
        complaints.about(
            &written.generics,
            "both sides must know the types of a service: leave the parameters out and write \
             concrete types in its methods",
        );
    } else if let Some(clause) = &written.generics.where_clause {
        complaints.about(
            clause,
            "a service has no `where` clause: ask for it where the service is implemented",
        );
    }
    if !written.supertraits.is_empty() {
        complaints.about(
            &written.supertraits,
            "a service has no supertraits, for its clients would not have them: ask for them \
             where the service is implemented",
        );
    }
}

fn other_item(item: &TraitItem, complaints: &mut Complaints) {
    let text = match item {
        TraitItem::Const(_) => {
            "a service has methods only: write the constant beside the trait, or a method that \
             returns it"
        }
        TraitItem::Type(_) => {
            "both sides must know the types of a service: leave the associated type out and write \
             a concrete type in its methods"
        }
        TraitItem::Macro(_) => {
            "what a macro would put here is not seen by the stub compiler: write the methods out"
        }
        _ => "a service has methods only: write `async fn name(&self, …) -> …;`",
    };
    complaints.about(item, text);
}

#[cfg(test)]
mod tests;
