//! The stub compiler of Upbeat: the code behind `#[upbeat::service]`, `#[derive(Wire)]`, `#[derive(Shared)]` and
//! `#[upbeat_sim::test]`.
//!
//! A service's trait is parsed into a model, the model is checked, and code is emitted from it.
//! An error is reported in one message that says what to write instead. A nearly right item is
//! emitted as well, so that the rest of the program compiles and causes no further errors.
//!
//! Invariant: the names of the runtime that generated code uses are in one table, `runtime`.
#![forbid(unsafe_code)]

mod runtime;

mod complaint;

mod types;

mod option;

mod rules;

mod model;

mod parse;

mod check;

mod emit;

mod wire;

mod shared;

mod simulated;

use proc_macro::TokenStream;

/// Makes a service of a trait. The runtime's crate documents it, where its examples are compiled.
#[proc_macro_attribute]
pub fn service(options: TokenStream, item: TokenStream) -> TokenStream {
    emit::service(options.into(), item.into()).into()
}

/// Lets a type travel as an argument or a result. The runtime's crate documents it, where its examples are compiled.
#[proc_macro_derive(Wire, attributes(wire))]
pub fn derive_wire(item: TokenStream) -> TokenStream {
    wire::derive(item.into()).into()
}

/// Lets a struct be exported. The runtime's crate documents it, where its examples are compiled.
#[proc_macro_derive(Shared, attributes(shared))]
pub fn derive_shared(item: TokenStream) -> TokenStream {
    shared::derive(item.into()).into()
}

/// Makes a test of an async function. The crate of the simulator documents it, where its examples are compiled.
#[proc_macro_attribute]
pub fn simulated_test(options: TokenStream, item: TokenStream) -> TokenStream {
    simulated::test(options.into(), item.into()).into()
}
