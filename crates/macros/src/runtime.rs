//! The names of the runtime that generated code uses, all of them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Path;

/// Where the runtime is found.
#[derive(Clone)]
pub(crate) struct Runtime {
    root: Path,
}

impl Default for Runtime {
    fn default() -> Runtime {
        Runtime { root: syn::parse_quote!(::upbeat) }
    }
}

impl From<Path> for Runtime {
    fn from(root: Path) -> Runtime {
        Runtime { root }
    }
}

/// Returns where the simulator is found, which tests alone use.
pub(crate) fn simulator() -> Path {
    syn::parse_quote!(::upbeat_sim)
}

macro_rules! names {
    ($($name:ident: $first:ident $(:: $next:ident)*;)*) => {
        impl Runtime {$(
            pub(crate) fn $name(&self) -> TokenStream {
                let root = &self.root;
                quote!(#root::$first $(::$next)*)
            }
        )*}
    };
}

names! {
    serve: service::Serve;
    methods: service::Methods;
    wraps: service::Wraps;
    layered: service::Layered;
    layer: Layer;
    rules: service::Rules;
    rule: service::Rule;
    needs: service::needs;
    needs_type: service::Needs;
    series: service::Series;
    turn: service::Turn;
    execution: Execution;
    checkpoint: checkpoint;

    client: client::Client;
    of_service: client::OfService;
    bound: call::Bound;
    call: call::Call;
    call_options: call::CallOptions;
    try_call: call::TryCall;
    send: call::Send;
    loaning: call::Loaning;
    whole: call::Whole;
    split: call::Split;

    handle_client: handle::HandleClient;
    bound_handle: handle::BoundHandle;
    handle_call: handle::HandleCall;
    handle_try_call: handle::HandleTryCall;
    handle_send: handle::HandleSend;
    blocking: handle::Blocking;
    blocking_filling: handle::BlockingFilling;

    call_error: CallError;
    context: Context;

    signature: wire::signature;
    signature_type: wire::Signature;
    wire: wire::Wire;
    passed: wire::Passed;
    by_ref: wire::ByRef;
    by_reference: wire::ByReference;
    received: wire::Received;
    look: wire::Look;
    no_streams: wire::NoStreams;
    wire_error: wire::WireError;
    plain: wire::Plain;
    plain_reads: wire::PlainReads;
    around: wire::Around;
    fallible: wire::Fallible;
    fills: wire::Fills;
    describe: wire::Describe;
    input: wire::Input;
    output: wire::Output;

    shared: Shared;
    access: export::Access;
    place: export::Place;
    path: export::Path;
    fields: export::Fields;
    memory: export::Memory;
    writer: export::Writer;
    readable: export::Readable;
    named: export::Named;
    shape: export::Shape;
    struct_shape: export::struct_shape;

    serde: __private::serde;
    zerocopy: __private::zerocopy;
}
