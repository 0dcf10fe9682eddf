//! The stub compiler of Upbeat: the code behind `#[upbeat::service]`, `#[derive(Wire)]` and `#[derive(Shared)]`.
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

use proc_macro::TokenStream;

/// Makes a service of a trait: a server, a client, and a handle for other threads.
///
/// ```ignore
/// #[upbeat::service]
/// pub trait Counter {
///     /// Adds to the count and returns it.
///     async fn add(&self, n: u64) -> u64;
///     async fn describe(&self, name: String) -> Result<Description, CounterError>;
///     #[oneway]
///     async fn reset(&self);
/// }
/// ```
///
/// The trait stays, and is implemented with `async fn`s. Beside it stand
///
/// - `CounterServer::new(service)`, which a node serves;
/// - `CounterClient`, whose methods are calls that are awaited on a node;
/// - `CounterHandle`, with the same methods, for any thread and any async runtime. `CounterHandle::blocking` has
///   the methods for threads without a runtime, and its `filling(&mut buffer)` writes the result of the next
///   call into a buffer;
/// - `CounterCaller`, a trait with the same methods, which return `impl Future<Output = Result<T, CallError>>`: the
///   client and the handle implement it, and mocks can;
/// - `CounterLocal::new(service)`, which implements that trait and calls a service directly, without a node.
///
/// A method that returns `Result<T, E>` is called with `Result<T, CallError<E>>`. A method under
/// `#[oneway]` has no reply: its caller learns that the message was sent, and nothing more.
///
/// A method under `#[method(nack)]` may send a call back to its caller, if a lock or a condition that it needs is
/// missing: a client keeps the arguments, backs off, and sends the call again. Calls of a handle are not sent back.
///
/// The `impl` states the rules that the server alone decides, if it is under the attribute as well:
///
/// ```text
/// #[upbeat::service]
/// impl Bank for Vault {
///     #[method(needs(self.lock, self.balance.get() >= *sum))]
///     async fn withdraw(&self, sum: u64) -> u64 { … }
///
///     #[method(yields, budget = "1ms")]
///     async fn audit(&self) -> Report { … }
/// }
/// ```
///
/// | option | meaning |
/// |---|---|
/// | `needs(…)` | locks that must be free and conditions that must hold, tried before the body; arguments are there as references. If one fails, nothing of the body has run: it is run as a task from its beginning, where it waits by itself, or is sent back |
/// | `budget = "…"` | how long a handler may run without a pause, in `us`, `ms` or `s` |
/// | `yields` | a `checkpoint().await` at the head of each loop that is written out in the body, outside of closures and macros: others may run in between |
/// | `outlives = "…"` | a handler goes on, as a task, when its caller gives up or is lost, for so long at most, and no longer than its caller's deadline; without, it is dropped, or goes on for 10 s if its method is one-way |
/// | `max_bytes = …` | the most bytes of arguments that the method takes, as a constant expression: calls with more are refused before any memory is asked for them. What the node takes at most (`Builder::max_message_bytes`) holds beside it |
/// | `execution = "…"` | `am`, `orpc`, `trpc`, `trpc-back` or `adaptive`, whatever the node is told |
///
/// `#[upbeat::service(serial)]` over the `impl` has the handlers of the service run one after another,
/// in the order in which their requests came: a handler that waits holds up all later ones.
///
/// Arguments and results are `Wire`. An argument may be a reference to such a value, or `&str`, or `&[T]`:
///
/// ```ignore
/// #[upbeat::service]
/// pub trait Store {
///     async fn put(&self, key: &str, value: &[u8]) -> u64;
///     async fn place(&self, order: &Order) -> Receipt;
/// }
/// ```
///
/// A caller passes its value, and the call borrows that value until the call is over. At the callee the reference
/// points into memory that the method keeps for its next request (up to 256 KiB of each argument), so that no
/// memory is allocated; the handler may use the value until the handler ends. On the wire `&str` is `String`, `&[T]`
/// is `Vec<T>` and `&T` is `T`: one side may write the one, and the other side the other.
///
/// `#[upbeat::service(crate = path)]` names the runtime where it has another name.
#[proc_macro_attribute]
pub fn service(options: TokenStream, item: TokenStream) -> TokenStream {
    emit::service(options.into(), item.into()).into()
}

/// Lets a type travel as an argument or a result.
///
/// A type that serde carries travels in postcard:
///
/// ```ignore
/// #[derive(Serialize, Deserialize, upbeat::Wire)]
/// struct Description {
///     text: String,
///     #[wire(opaque = "uuid/1")]
///     id: uuid::Uuid,
/// }
/// ```
///
/// Plain data travels as it lies in memory:
///
/// ```ignore
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, upbeat::Wire)]
/// #[repr(C)]
/// #[wire(plain)]
/// struct Position {
///     x: f64,
///     y: f64,
/// }
/// ```
///
/// | option | on | meaning |
/// |---|---|---|
/// | `plain` | a struct | moved as it lies in memory; zerocopy says which structs can be |
/// | `name = "…"` | the type | its name in the schema, where the type was renamed |
/// | `version = 2` | the type | a number behind its name in the schema: another meaning, another type |
/// | `opaque = "uuid/1"` | a field | what the schema says of a type that is not `Wire` |
/// | `crate = path` | the type | the runtime, where it has another name |
///
/// Two sides agree on a type if its name, its fields' names and types and their order are the same.
#[proc_macro_derive(Wire, attributes(wire))]
pub fn derive_wire(item: TokenStream) -> TokenStream {
    wire::derive(item.into()).into()
}

/// Lets a struct be exported, so that other nodes read its fields.
///
/// ```ignore
/// #[derive(Clone, Copy, upbeat::Shared)]
/// pub struct Row {
///     /// The best bid.
///     pub bid: f64,
///     pub ask: f64,
/// }
///
/// #[derive(upbeat::Shared)]
/// pub struct Book {
///     pub name: upbeat::export::Text<16>,
///     pub rows: [Row; 64],
/// }
/// ```
///
/// The fields are numbers, `bool`, `char`, arrays, `upbeat::export::Text` and other structs that are `Shared`. The
/// struct has no parameters. An update of a value of the struct is seen as a whole or not at all.
///
/// Beside the struct stands `RowFields`, with a method for each field. The method returns the path to the field: the
/// owner sets the field by that path, and a reader reads it. The method has the visibility and the documentation of the
/// field.
///
/// | option | on | meaning |
/// |---|---|---|
/// | `name = "…"` | the struct | its name in the description of the export, where the struct was renamed |
/// | `crate = path` | the struct | the runtime, where it has another name |
///
/// Owner and reader agree on a struct if its name, its fields' names and types and their order are the same.
#[proc_macro_derive(Shared, attributes(shared))]
pub fn derive_shared(item: TokenStream) -> TokenStream {
    shared::derive(item.into()).into()
}
