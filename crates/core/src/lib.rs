//! All decisions of Upbeat, without I/O: frames, calls, limits, errors, the bill.
//!
//! This crate decides whether a message may be sent, under which number, and what a received word means. It never
//! holds a payload in flight, opens a descriptor, reads a clock or starts a thread. Time and identities are
//! arguments. The crates above it move bytes (`upbeat-memory`, `upbeat-transport`), and the crate above those runs
//! handlers (`upbeat`).
//!
//! The order of the modules below is the order of their floors: a module imports only modules above it in this
//! list.
//!
//! The crate has no standard library, so the compiler refuses a clock, a socket or a thread in it. Only the tests,
//! and the faults that a test can put in, use the standard library.
#![cfg_attr(not(any(test, upbeat_mutants)), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod limits;
pub mod mutant;
pub mod name;
pub mod address;
pub mod method;
pub mod fault;
pub mod bill;
pub mod frame;
pub mod quote;
mod record;
pub mod context;
pub mod hello;
pub mod quota;
pub mod signal;
pub mod sweep;
pub mod looks;
pub mod long_poll;
pub mod stream;
pub mod bind;
pub mod flow;
pub mod channel;
pub mod term;
pub mod lease;
pub mod backoff;
pub mod admission;
pub mod balance;
pub mod connection_timeout;
pub mod resume;
pub mod orphan;
pub mod session;
