//! An `impl` under `#[upbeat::service]`: as it was written, with what it says of its methods as a
//! constant, and the tests of the locks and conditions that the methods need as methods.

use super::part::by_reference;
use crate::complaint::Complaints;
use crate::model::{conditions, lints};
use crate::parse::{ImplOptions, is_oneway, plain_ident};
use crate::rules::{self, Rule};
use crate::runtime::Runtime;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, Expr, ExprClosure, ExprForLoop, ExprLoop, ExprMethodCall, ExprWhile, FnArg, ImplItem,
    ImplItemFn, Item, ItemImpl, parse_quote,
};

/// Returns the name of the method that tests the needs of `method`.
pub(super) fn needs_name(method: &Ident) -> Ident {
    format_ident!("__upbeat_needs_{}", plain_ident(method))
}

/// Returns the `impl` with the rules that its attributes state.
pub(super) fn emit(
    options: &ImplOptions,
    mut written: ItemImpl,
    complaints: &mut Complaints,
) -> TokenStream {
    let ImplOptions { runtime, serial } = options;
    if written.trait_.is_none() {
        complaints.about(
            &written.self_ty,
            "`#[upbeat::service]` goes on a trait, or on the `impl` of one: write \
             `impl Service for Type`",
        );
    }
    let mut entries = Vec::new();
    let mut tests = Vec::new();
    for item in &mut written.items {
        let ImplItem::Fn(function) = item else { continue };
        let rule = rules::of_impl(&function.attrs, complaints);
        for attribute in function.attrs.iter().filter(|attribute| is_oneway(attribute)) {
            complaints.about(
                attribute,
                "its callers must know that nobody answers: write `#[oneway]` in the trait",
            );
        }
        function.attrs.retain(|attribute| !rules::is_method(attribute) && !is_oneway(attribute));
        let Some(rule) = rule else { continue };
        if rule.yields {
            yields(runtime, function, complaints);
        }
        if !rule.needs.is_empty() {
            // An argument may be used by the tests alone.
            function.attrs.push(parse_quote!(#[allow(unused_variables)]));
            tests.push(test(runtime, function, &rule));
        }
        entries.push(entry(runtime, function, &rule));
    }
    if complaints.is_empty() && entries.is_empty() && !serial {
        complaints.about(
            &written.self_ty,
            "this attribute selects no option: write `#[method(…)]` over some of them, or leave \
             `#[upbeat::service]` out, which stands over the trait",
        );
    }
    if complaints.is_empty() {
        let rules = runtime.rules();
        // A trait that is no service lacks this constant. The compiler reports that where the trait is named.
        let here = written.trait_.as_ref().map_or_else(Span::call_site, |(_, path, _)| path.span());
        let constant = Ident::new("__UPBEAT", Span::call_site().located_at(here));
        written.items.push(parse_quote! {
            #[doc(hidden)]
            const #constant: #rules = #rules { serial: #serial, methods: &[#(#entries),*] };
        });
        written.items.extend(tests);
    }
    quote!(#written)
}

/// Returns the rules of one method as an element of the constant.
fn entry(runtime: &Runtime, function: &ImplItemFn, rule: &Rule) -> TokenStream {
    let name = plain_ident(&function.sig.ident);
    let (kind, execution) = (runtime.rule(), runtime.execution());
    let execution = match rule.execution {
        Some(variant) => {
            let variant = format_ident!("{variant}");
            quote!(::core::option::Option::Some(#execution::#variant))
        }
        None => quote!(::core::option::Option::None),
    };
    // A method with `yields` has a budget from its beginning.
    let usual = rule.yields.then_some(upbeat_core::limits::HANDLER_BUDGET_NS);
    let budget = match rule.budget_ns.or(usual) {
        Some(budget) => quote!(::core::option::Option::Some(#budget)),
        None => quote!(::core::option::Option::None),
    };
    let outlives = match rule.outlives_ns {
        Some(outlives) => quote!(::core::option::Option::Some(#outlives)),
        None => quote!(::core::option::Option::None),
    };
    let max_bytes = match &rule.max_bytes {
        Some(max_bytes) => quote!(::core::option::Option::Some(#max_bytes)),
        None => quote!(::core::option::Option::None),
    };
    let needs = !rule.needs.is_empty();
    let conditions = conditions(&function.attrs);
    quote!(#(#conditions)* (#name, #kind {
        execution: #execution,
        budget_ns: #budget,
        outlives_ns: #outlives,
        max_bytes: #max_bytes,
        arguments: &[],
        needs: #needs,
    }))
}

/// Returns the method that tests the needs of another method. Arguments are passed as references.
fn test(runtime: &Runtime, function: &ImplItemFn, rule: &Rule) -> ImplItem {
    let mut name = needs_name(&function.sig.ident);
    name.set_span(Span::call_site().located_at(function.sig.ident.span()));
    let needs = runtime.needs_type();
    let tests = rule.needs.iter().map(|need| {
        // The compiler reports a need that cannot be tested where that need is written.
        let here = Span::call_site().located_at(need.span());
        quote_spanned!(here=> __needs.has(&(#need)))
    });
    let arguments = function.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    let arguments = arguments.map(|typed| {
        let ty = by_reference(&typed.ty);
        match &*typed.pat {
            syn::Pat::Ident(pattern) => {
                let name = &pattern.ident;
                quote!(#name: #ty)
            }
            _ => quote!(_: #ty),
        }
    });
    let (conditions, lints) = (conditions(&function.attrs), lints(&function.attrs));
    parse_quote! {
        #(#conditions)*
        #(#lints)*
        #[doc(hidden)]
        #[allow(unused_variables, clippy::ptr_arg, clippy::trivially_copy_pass_by_ref)]
        fn #name(&self, __needs: &mut #needs #(, #arguments)*) -> bool {
            true #(&& #tests)*
        }
    }
}

/// Puts a checkpoint at the head of each loop of an async body.
fn yields(runtime: &Runtime, function: &mut ImplItemFn, complaints: &mut Complaints) {
    if function.sig.asyncness.is_none() {
        complaints.about(
            function.sig.fn_token,
            format!("what yields is async: write `async fn {}`", function.sig.ident),
        );
        return;
    }
    let mut loops = Loops { checkpoint: runtime.checkpoint(), count: 0, complaints };
    loops.visit_block_mut(&mut function.block);
    if loops.count == 0 {
        loops.complaints.about(
            &function.sig.ident,
            "there is no loop to yield in: leave `yields` out, or write `upbeat::checkpoint().await` \
             where it may make way",
        );
    }
}

/// The loops of a body, but not those of closures and of items in it.
struct Loops<'c> {
    checkpoint: TokenStream,
    count: u32,
    complaints: &'c mut Complaints,
}

impl Loops<'_> {
    fn enter(&mut self, body: &mut Block) {
        self.count += 1;
        let checkpoint = &self.checkpoint;
        body.stmts.insert(0, parse_quote!(#checkpoint().await;));
    }

    /// Complains about a borrow in the head of a loop, which lasts as long as the loop, and so at its checkpoints.
    fn check_head(&mut self, head: &Expr, instead: &str) {
        let mut borrows = Borrows::default();
        borrows.visit_expr_mut(&mut head.clone());
        for borrow in borrows.found {
            self.complaints.about(
                &borrow.method,
                format!(
                    "this borrow lasts as long as the loop, which lets other handlers run in between (`yields`), and \
                     they panic if they borrow as well: {instead}, or leave `yields` out"
                ),
            );
        }
    }
}

/// Returns whether a condition is or contains a `let`.
fn contains_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => contains_let(&binary.left) || contains_let(&binary.right),
        _ => false,
    }
}

/// The borrows of a `RefCell` in an expression that last as long as the expression.
#[derive(Default)]
struct Borrows {
    found: Vec<ExprMethodCall>,
}

impl VisitMut for Borrows {
    fn visit_expr_method_call_mut(&mut self, call: &mut ExprMethodCall) {
        visit_mut::visit_expr_method_call_mut(self, call);
        let is_borrow = call.method == "borrow" || call.method == "borrow_mut";
        if is_borrow && call.args.is_empty() {
            self.found.push(call.clone());
        }
    }

    fn visit_block_mut(&mut self, _: &mut Block) {}

    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}
}

impl VisitMut for Loops<'_> {
    fn visit_expr_for_loop_mut(&mut self, one: &mut ExprForLoop) {
        visit_mut::visit_expr_for_loop_mut(self, one);
        self.check_head(&one.expr, "loop over a copy or over indexes");
        self.enter(&mut one.body);
    }

    fn visit_expr_while_mut(&mut self, one: &mut ExprWhile) {
        visit_mut::visit_expr_while_mut(self, one);
        // The values of a plain condition are dropped before the body.
        if contains_let(&one.cond) {
            self.check_head(
                &one.cond,
                "take the value in the body, `loop { let Some(value) = … else { break }; … }`",
            );
        }
        self.enter(&mut one.body);
    }

    fn visit_expr_loop_mut(&mut self, one: &mut ExprLoop) {
        visit_mut::visit_expr_loop_mut(self, one);
        self.enter(&mut one.body);
    }

    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}
