//! A service as the emitter sees it.

use crate::runtime::Runtime;
use crate::types::is_long_array;
use proc_macro2::Ident;
use syn::{Attribute, ItemTrait, Meta, TraitItemFn, Type, Visibility, parse_quote};

/// A service: the trait as it was written, and the facts that the parser found about it.
pub(crate) struct Service {
    /// The trait, without the attributes that are ours.
    pub(crate) written: ItemTrait,
    pub(crate) runtime: Runtime,
    /// The name of the service in messages, where it differs from the name of the trait.
    pub(crate) name: Option<String>,
    /// The methods in their order, each name once.
    pub(crate) methods: Vec<Method>,
    /// Whether the service has no errors.
    pub(crate) sound: bool,
}

impl Service {
    pub(crate) fn name(&self) -> &Ident {
        &self.written.ident
    }

    pub(crate) fn visibility(&self) -> &Visibility {
        &self.written.vis
    }

    /// Returns the lints that the trait and its methods allow.
    pub(crate) fn lints(&self) -> Vec<Attribute> {
        let methods = self.methods.iter().flat_map(|method| lints(&method.written.attrs));
        lints(&self.written.attrs).chain(methods).collect()
    }

    /// Returns the name of the service in messages.
    pub(crate) fn wire_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| plain_name(self.name()))
    }
}

/// A method of a service.
pub(crate) struct Method {
    /// The method, without the attributes that are ours.
    pub(crate) written: TraitItemFn,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) outcome: Outcome,
    /// Whether its calls may be sent back to their callers.
    pub(crate) nack: bool,
}

impl Method {
    pub(crate) fn name(&self) -> &Ident {
        &self.written.sig.ident
    }

    /// Returns the name of the method in messages.
    pub(crate) fn wire_name(&self) -> String {
        plain_name(self.name())
    }

    /// Returns the names of the arguments, which the two sides compare.
    pub(crate) fn argument_names(&self) -> impl Iterator<Item = String> {
        self.arguments.iter().map(|argument| plain_name(&argument.name))
    }

    /// Returns whether some arguments are references.
    pub(crate) fn has_references(&self) -> bool {
        self.arguments.iter().any(|argument| argument.referent.is_some())
    }

    /// Returns the owned types of the arguments, and the types of the result.
    pub(crate) fn types(&self) -> impl Iterator<Item = &Type> {
        let outcome = match &self.outcome {
            Outcome::Sent => [None, None],
            Outcome::Value(ty) => [Some(&**ty), None],
            Outcome::Fallible { value, error } => [Some(&**value), Some(&**error)],
        };
        self.arguments.iter().map(|argument| &argument.owned).chain(outcome.into_iter().flatten())
    }

    /// Returns the attributes that decide whether the method is compiled.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Attribute> + Clone {
        conditions(&self.written.attrs)
    }
}

/// An argument of a method.
#[derive(Clone)]
pub(crate) struct Argument {
    pub(crate) name: Ident,
    /// The type as it was written.
    pub(crate) ty: Type,
    /// The type that the argument refers to, if it is a reference.
    pub(crate) referent: Option<Type>,
    /// The type that owns the same value and has the same form in a message.
    pub(crate) owned: Type,
}

impl Argument {
    /// Returns whether the callee reads the argument into memory that the method keeps.
    pub(crate) fn is_kept(&self) -> bool {
        self.referent.is_some() || is_long_array(&self.ty)
    }
}

/// The outcome of a call for its caller.
#[derive(Clone)]
pub(crate) enum Outcome {
    /// The method is one-way.
    Sent,
    Value(Box<Type>),
    /// A `Result` of the user's: a value, or an error.
    Fallible {
        value: Box<Type>,
        error: Box<Type>,
    },
}

/// Returns the attributes among these that decide whether an item is compiled.
pub(crate) fn conditions(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> + Clone {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"))
}

/// Returns the lints that these attributes allow or expect, as attributes that allow them: emitted code may have them
/// or not.
pub(crate) fn lints(attributes: &[Attribute]) -> impl Iterator<Item = Attribute> {
    attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("allow") || list.path.is_ident("expect") => {
            let lints = &list.tokens;
            Some(parse_quote!(#[allow(#lints)]))
        }
        _ => None,
    })
}

/// Returns a name without the `r#` that lets a keyword be a name.
pub(crate) fn plain_name(name: &Ident) -> String {
    syn::ext::IdentExt::unraw(name).to_string()
}
