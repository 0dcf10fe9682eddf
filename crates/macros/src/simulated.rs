//! Tests that run in simulated worlds.

use crate::complaint::Complaints;
use crate::option::read;
use crate::runtime::simulator;
use proc_macro2::TokenStream;
use quote::quote;
use std::collections::HashSet;
use syn::{ItemFn, LitInt, ReturnType, parse_quote};

const OPTIONS: &str = "`seeds = 500`";
const FORM: &str =
    "a test in a simulated world is `async fn name(sim: Sim) { … }`, with `sim: upbeat_sim::Sim`";

/// Makes a test of an async function, whose argument is the program of a world.
pub(crate) fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut complaints = Complaints::default();
    let mut seeds: LitInt = parse_quote!(100);
    read(options, OPTIONS, &mut HashSet::new(), &mut complaints, |option| {
        if !option.path.is_ident("seeds") {
            return Err(option.error(format!("this is not an option: write {OPTIONS}")));
        }
        seeds = option.value()?.parse()?;
        seeds.base10_parse::<u64>().map(drop)
    });
    let function = match syn::parse2::<ItemFn>(item) {
        Ok(function) => function,
        Err(error) => {
            complaints.add(syn::Error::new(error.span(), FORM));
            return complaints.emit();
        }
    };
    let signature = &function.sig;
    if signature.asyncness.is_none() || signature.inputs.len() != 1 {
        complaints.about(signature, FORM);
    } else if !matches!(signature.output, ReturnType::Default) {
        let text = "a test in a simulated world returns nothing: unwrap its errors";
        complaints.about(&signature.output, text);
    }
    if !complaints.is_empty() {
        return complaints.emit();
    }
    let (simulator, name) = (simulator(), &signature.ident);
    let ItemFn { attrs, vis, block, .. } = &function;
    quote! {
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis fn #name() {
            #signature #block
            #simulator::check(#seeds, |sim| sim.block_on(#name(::core::clone::Clone::clone(sim))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(options: TokenStream, item: TokenStream) -> String {
        test(options, item).to_string()
    }

    #[test]
    fn an_async_function_becomes_a_test() {
        let item = quote! {
            #[ignore]
            async fn sums(sim: Sim) { act(sim).await }
        };
        let expected = quote! {
            #[ignore]
            #[::core::prelude::v1::test]
            fn sums() {
                async fn sums(sim: Sim) { act(sim).await }
                ::upbeat_sim::check(7, |sim| sim.block_on(sums(::core::clone::Clone::clone(sim))));
            }
        };
        assert_eq!(made(quote!(seeds = 7), item), expected.to_string());
    }

    #[test]
    fn wrong_uses_say_what_to_write() {
        for item in [
            quote!(
                fn a(sim: Sim) {}
            ),
            quote!(
                async fn a() {}
            ),
            quote!(
                struct A;
            ),
        ] {
            assert!(made(quote!(), item).contains("is `async fn name(sim: Sim)"));
        }
        let item = quote!(
            async fn a(sim: Sim) {}
        );
        assert!(made(quote!(seed = 3), item.clone()).contains("write `seeds = 500`"));
        assert!(made(quote!(seeds = -1), item).contains("compile_error"));
        let returns = quote!(
            async fn a(sim: Sim) -> u32 {
                3
            }
        );
        assert!(made(quote!(), returns).contains("returns nothing: unwrap its errors"));
    }
}
