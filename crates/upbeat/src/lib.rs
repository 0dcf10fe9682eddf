//! Typed calls between threads and processes for the price of a cache line.
//!
//! A program is a set of nodes, one for each process or thread. A node serves services, which
//! are traits under [`macro@service`], and calls services of other nodes. A call is written into a line of
//! memory that both sides map; its handler runs where the message lies, and becomes a task only when
//! it has to wait.
//!
//! One process serves:
//!
//! ```no_run
//! use std::cell::Cell;
//!
//! #[upbeat::service]
//! pub trait Counter {
//!     async fn add(&self, n: u64) -> u64;
//!     #[oneway]
//!     async fn reset(&self);
//! }
//!
//! #[derive(Default)]
//! struct Count(Cell<u64>);
//!
//! impl Counter for Count {
//!     async fn add(&self, n: u64) -> u64 {
//!         self.0.set(self.0.get() + n);
//!         self.0.get()
//!     }
//!
//!     async fn reset(&self) {
//!         self.0.set(0);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = upbeat::Node::new("counter")?;
//! node.serve(CounterServer::new(Count::default()))?;
//! node.block_on(upbeat::ctrl_c())?;
//! # Ok(()) }
//! ```
//!
//! Another process calls, from a node of its own or, in any thread, through a handle:
//!
//! ```no_run
//! # #[upbeat::service]
//! # pub trait Counter {
//! #     async fn add(&self, n: u64) -> u64;
//! #     #[oneway]
//! #     async fn reset(&self);
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = upbeat::Node::client()?;
//! node.block_on(async {
//!     let counter: CounterClient = node.connect("counter").await?;
//!     counter.reset().await?;
//!     println!("the count is {}", counter.add(1).await?);
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })?;
//!
//! let counter: CounterHandle = upbeat::handle::connect("counter")?;
//! std::thread::spawn(move || counter.blocking().add(1));
//! # Ok(()) }
//! ```
//!
//! # Threads
//!
//! A [`Node`], its clients and its tasks stay on the thread that drives it, by [`Node::block_on`] or by
//! turns in a loop of the application ([`Node::turn`]). A call that another executor awaits while nobody drives the
//! node panics after some seconds, and says so. Methods take turns: between two awaits of one method no other
//! handler of the node runs. A handle is `Send`, `Sync` and `Clone`.
//!
//! A long computation belongs in [`Node::compute`], which runs it on another thread while the node serves others,
//! or needs a [`poll_point`] in its loops.
//!
//! # Outcomes
//!
//! A call runs at most once. [`CallError`] says why there is no result, and [`Lost`] names the peer that was
//! lost. Dropping a call cancels it at the callee. A method that panics fails only its own call.
//!
//! # Costs
//!
//! [`quote`](mod@quote) tells the countable costs of an operation (cache lines, bytes, copies, allocations, system
//! calls, wakes) before it is done:
//!
//! ```
//! use upbeat::quote::{Operation, Payload, Reader, quote};
//!
//! // `async fn find(&self, key: u64) -> Vec<u8>`, whose node sleeps and whose result has a KiB.
//! let call = Operation::Call { callee: Reader::Sleeps, caller: Reader::Polls };
//! let quote = quote(call, Payload::plain(8), Payload::sequence(1024)).expect("no message is too long");
//! assert_eq!((quote.wakes, quote.system_calls, quote.allocations), (1, 4, 1));
//! println!("{quote}");
//! ```
//!
//! # Names
//!
//! Nodes find each other by name within a program. The program is set by [`Builder::program`], or else by the
//! environment variable `UPBEAT_PROGRAM`, or else is `default`. The sockets are in `$XDG_RUNTIME_DIR/upbeat` or
//! `/tmp/upbeat-<uid>`, or in the directory that [`Builder::directory`] sets. A name belongs to one
//! process at a time, and several nodes of that process may share it ([`serve_on`]).
#![forbid(unsafe_code)]

extern crate self as upbeat;

mod execution;

pub mod error;

mod contain;

pub mod wire;

mod warning;

mod metadata;

mod wait;

mod wake;

mod watchdog;

mod drives;

mod task;

mod timer;

mod workers;

mod reactor;

mod sample;

mod session;

mod driver;

mod sampling;

mod remote;

mod carriers;

mod stuck;

mod dispatch;

mod statistics;

mod context;

mod time;

mod compute;

pub mod sync;

pub mod call;

pub mod service;

pub mod client;

mod setup;

pub mod handle;

mod stream;

pub mod export;

mod signal;

mod node;

mod cores;

mod reference;

#[cfg(feature = "tokio")]
pub mod tokio_runtime;

#[cfg(doctest)]
mod guide;

pub use compute::{Compute, checkpoint, compute, poll_point};
pub use context::context;
pub use cores::{Cores, nodes_on, serve_on};
pub use dispatch::OverRun;
pub use error::{BuildError, CallError, ConnectError, CoresError, Lost, ServeError, Why};
pub use execution::{Execution, UnknownExecution};
pub use export::{Export, Import, Shared};
pub use metadata::Context;
pub use node::{Builder, Connect, Node, spawn};
pub use reference::ServiceRef;
pub use service::{CallInfo, Layer, Next, Outcome, Refusal};
pub use signal::ctrl_c;
pub use statistics::{MethodStatistics, Statistics};
pub use stream::{HandleStream, NotSend, Sink, Stream, StreamIter, stream};
pub use sync::Mutex;
pub use task::{Child, JoinHandle, Scope, TaskEnded, TryScope};
pub use task::{all, race, scope, try_all, try_scope, yield_now};
pub use time::{Elapsed, Late, NotExtended, extend, sleep, time_left, within};
#[doc(hidden)]
pub use upbeat_core::bill;
pub use upbeat_core::bill::Counter;
pub use upbeat_core::quote;
/// Lets a struct be exported, so that other nodes read its fields.
///
/// ```
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
pub use upbeat_macros::Shared;
/// Lets a type travel as an argument or a result.
///
/// A type that serde carries travels in postcard:
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # mod uuid {
/// #     #[derive(serde::Serialize, serde::Deserialize)]
/// #     pub struct Uuid(u128);
/// # }
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
/// ```
/// # use zerocopy::{FromBytes, Immutable, IntoBytes};
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
/// | `whole` | the type | always travels through serde, so that a hand-written `Deserialize` checks each value |
/// | `opaque = "uuid/1"` | a field | what the schema says of a type that is not `Wire` |
/// | `default`, `default = "path"` | a field | its value where the other side lacks the field |
/// | `other` | a variant | read for the variants that this side does not know |
/// | `crate = path` | the type | the runtime, where it has another name |
///
/// Two sides agree on a type if its name, its fields' names and types and their order are the same. An enum with an `other`
/// variant may have more variants on one side, and a struct more fields with a default; the guide
/// (`docs/guide/types.md`) describes both.
pub use upbeat_macros::Wire;
/// Makes a service of a trait: a server, a client, and a handle for other threads.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, upbeat::Wire)]
/// # pub struct Description;
/// # #[derive(Serialize, Deserialize, upbeat::Wire)]
/// # pub struct CounterError;
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
///   client and the handle implement it, and mocks can. Its `deadline(after)` and `with(&value)` return a caller, a
///   `CounterWithOptions`, whose calls have that deadline and take that value with them;
/// - `CounterLocal::new(service)`, which implements that trait and calls a service directly, without a node.
///
/// A method that returns `Result<T, E>`, or an alias of it that is called `Result`, is called with
/// `Result<T, CallError<E>>`. A method under `#[oneway]` has no reply: its caller learns that the message was sent, and nothing more.
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
/// | `yields` | a `checkpoint().await` at the head of each loop that is written out in the body, outside of closures and macros: others may run in between, so that a loop over `cell.borrow().iter()`, which borrows until its end, is refused |
/// | `outlives = "…"` | a handler goes on, as a task, when its caller gives up or is lost, for so long at most, and no longer than its caller's deadline; without, it is dropped, or goes on for 10 s if its method is one-way |
/// | `max_bytes = …` | the most bytes of arguments that the method takes, as a constant expression: calls with more are refused before any memory is asked for them. What the node takes at most (`Builder::max_message_bytes`) holds beside it |
/// | `execution = "…"` | `am`, `orpc`, `trpc`, `trpc-back` or `adaptive`, whatever the node is told |
///
/// `#[upbeat::service(serial)]` over the `impl` has the handlers of the service run one after another,
/// in the order in which their requests came: a handler that waits holds up all later ones.
///
/// Arguments and results are `Wire`. An argument may be a reference to such a value, or `&str`, or `&[T]`:
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, upbeat::Wire)]
/// # pub struct Order;
/// # #[derive(Serialize, Deserialize, upbeat::Wire)]
/// # pub struct Receipt;
/// #[upbeat::service]
/// pub trait Store {
///     async fn put(&self, key: &str, value: &[u8]) -> u64;
///     async fn place(&self, order: &Order) -> Receipt;
/// }
/// ```
///
/// A caller passes its value, and the call borrows that value until the call is over. At the callee the reference
/// points into memory that the method keeps, which the handler may use until it ends. For `&str`, `&Path` and a `&[T]` of
/// plain data, the next request uses that memory again (up to 256 KiB of each argument), so that none is allocated. On
/// the wire `&str` is `String`, `&[T]` is `Vec<T>` and `&T` is `T`: one side may write the one, and the other side the
/// other.
///
/// | option over the trait | meaning |
/// |---|---|
/// | `name = "…"` | the name of the service, which is that of the trait otherwise, without its path: two sides find each other by it, and a node serves each name once. Name one of two traits `Admin` so, as in `name = "orders::Admin"`, or a trait that was renamed |
/// | `crate = path` | the runtime, where it has another name |
pub use upbeat_macros::service;
pub use upbeat_transport::identity::Identity;
pub use wait::Waiting;
pub use wake::{Priority, Start};
pub use wire::{InPlace, Wire};

/// The crates that generated code names. They are no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use serde;
    pub use zerocopy;
}

#[cfg(all(test, upbeat_mutants))]
#[test]
fn each_fault_is_found_by_its_unit_test() {
    upbeat_core::mutant::units::find_faults("upbeat");
}
