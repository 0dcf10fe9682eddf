//! Typed calls between threads and processes for the price of a cache line.
//!
//! A program is a set of nodes, one to an address space or a thread. A node serves services, which
//! are traits under [`macro@service`], and calls those of others. A call is written into a line of
//! memory that both sides map; its handler runs where the message lies, and becomes a task only when
//! it has to wait.
#![forbid(unsafe_code)]

extern crate self as upbeat;

pub mod error;

pub mod wire;

mod wait;

mod wake;

mod task;

mod timer;

mod reactor;

mod session;

mod dispatch;

mod time;

pub mod call;

pub mod service;

pub mod client;

mod setup;

pub mod handle;

mod signal;

mod node;

pub use error::{BuildError, CallError, ConnectError, Lost, Why};
pub use node::{Builder, Node};
pub use serde;
pub use signal::ctrl_c;
pub use task::{JoinHandle, TaskEnded};
pub use time::{Elapsed, sleep, within};
pub use upbeat_core::bill::Counter;
pub use upbeat_macros::{Wire, service};
pub use wait::Waiting;
pub use wire::Wire;
pub use zerocopy;
