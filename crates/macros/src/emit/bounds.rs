//! `where` clauses that ask for `Wire`.
//!
//! Each item that needs a type to travel asks for that itself, and in the same words at the same
//! place, so that the compiler reports a type that cannot travel once, at its first use.

use crate::complaint::shown;
use crate::model::{Method, Service};
use crate::types::unknown;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use std::collections::{HashMap, HashSet};
use syn::Type;
use syn::spanned::Spanned;

/// The `where` clauses of a service's methods.
pub(super) struct Bounds {
    /// The predicates, by the text of their type.
    predicates: HashMap<String, TokenStream>,
}

impl Bounds {
    pub(super) fn new(service: &Service) -> Bounds {
        let wire = service.runtime.wire();
        let mut predicates = HashMap::new();
        // A service with errors gets no further error for a missing `Wire`.
        for ty in asked(service.methods.iter().filter(|_| service.sound)) {
            let predicate = || at(quote!(#ty: #wire), ty.span());
            predicates.entry(shown(ty)).or_insert_with(predicate);
        }
        Bounds { predicates }
    }

    /// Returns the `where` clause of one method.
    pub(super) fn of_method(&self, method: &Method) -> TokenStream {
        self.clause(std::iter::once(method))
    }

    /// Returns the `where` clause of all methods together, without methods that are compiled under a condition.
    pub(super) fn of_service(&self, service: &Service) -> TokenStream {
        let certain = |method: &&Method| method.conditions().next().is_none();
        self.clause(service.methods.iter().filter(certain))
    }

    fn clause<'m>(&self, methods: impl Iterator<Item = &'m Method>) -> TokenStream {
        let mut seen = HashSet::new();
        let texts = asked(methods).into_iter().map(shown).filter(|text| seen.insert(text.clone()));
        let predicates: Vec<_> = texts.filter_map(|text| self.predicates.get(&text)).collect();
        if predicates.is_empty() { quote!() } else { quote!(where #(#predicates),*) }
    }
}

/// Returns the types for which only the compiler knows whether they travel.
fn asked<'m>(methods: impl Iterator<Item = &'m Method>) -> Vec<&'m Type> {
    let mut asked = Vec::new();
    methods.flat_map(Method::types).for_each(|ty| unknown(ty, &mut asked));
    asked
}

/// Returns the same code with all errors reported at `place`.
pub(super) fn at(code: TokenStream, place: Span) -> TokenStream {
    let relocated = code.into_iter().map(|mut token| {
        if let TokenTree::Group(group) = &token {
            let inner = at(group.stream(), place);
            let mut moved = proc_macro2::Group::new(group.delimiter(), inner);
            moved.set_span(group.span().located_at(place));
            return TokenTree::Group(moved);
        }
        token.set_span(token.span().located_at(place));
        token
    });
    relocated.collect()
}
