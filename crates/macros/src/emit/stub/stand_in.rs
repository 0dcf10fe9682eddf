//! Stubs of a service with errors. They are never run, but they have types, so that callers of the service get no
//! second error for the same mistake.

use super::form::{Form, head, result};
use crate::check::is_reserved;
use crate::model::{Argument, Method, Outcome, Service};
use crate::types::{has_self, has_word};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Generics, Type, parse_quote};

/// Returns a method of such a service, or nothing for a method that no stub can have.
pub(super) fn method(service: &Service, method: &Method, form: Form) -> TokenStream {
    let inputs = method.arguments.iter().map(|argument| &argument.ty);
    let result = result(method);
    if has_self(quote!(#(#inputs)* #result)) || is_reserved(&method.wire_name()) {
        return quote!();
    }
    let generics = joined(&service.written.generics, &method.written.sig.generics);
    let method = Method {
        written: method.written.clone(),
        arguments: method.arguments.iter().map(as_written).collect(),
        outcome: outcome(&method.outcome),
        nack: method.nack,
    };
    let head = head(service, &method, form, &quote!(()), Some(&generics));
    match form {
        Form::Caller => quote!(#head { async { ::core::unreachable!() } }),
        _ => quote!(#head { ::core::unreachable!() }),
    }
}

/// Returns an argument that is passed as it was written, reference or not.
fn as_written(argument: &Argument) -> Argument {
    Argument { referent: None, ..argument.clone() }
}

/// Returns the outcome without the parts that have no meaning in a body that does not return.
fn outcome(outcome: &Outcome) -> Outcome {
    let named = |ty: &Type| has_word(quote!(#ty), "impl") || matches!(ty, Type::Never(_));
    match outcome {
        Outcome::Value(ty) if named(ty) => Outcome::Value(Box::new(parse_quote!(()))),
        Outcome::Fallible { value, error } if named(value) || named(error) => {
            Outcome::Value(Box::new(parse_quote!(())))
        }
        other => other.clone(),
    }
}

/// The parameters of a trait and of its method, as the method's own.
fn joined(outer: &Generics, inner: &Generics) -> Generics {
    let mut generics = outer.clone();
    generics.params.extend(inner.params.iter().cloned());
    for parameter in generics.type_params_mut() {
        parameter.default = None;
    }
    for parameter in generics.const_params_mut() {
        parameter.default = None;
    }
    let clauses = [&outer.where_clause, &inner.where_clause];
    let predicates = clauses.into_iter().flatten().flat_map(|clause| &clause.predicates);
    let predicates: Vec<_> = predicates.filter(|predicate| !has_self(predicate)).cloned().collect();
    generics.where_clause = None;
    if !predicates.is_empty() {
        generics.make_where_clause().predicates.extend(predicates);
    }
    generics
}
