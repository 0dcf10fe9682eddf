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
//! let node = upbeat::Node::new("client")?;
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

pub mod wire;

mod warning;

mod contain;

mod metadata;

mod watchdog;

mod wait;

mod wake;

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
pub use upbeat_macros::{Shared, Wire, service};
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
