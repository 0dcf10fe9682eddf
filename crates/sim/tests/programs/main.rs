//! Programs in worlds of many seeds, and faults that they find.
#![forbid(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;

mod exports;
mod flood;
mod library;
mod messages;
mod mixed;
mod network;
mod quiet;
mod reached;
mod room;
mod streams;
mod terms;

#[cfg(upbeat_mutants)]
mod faults;
#[cfg(upbeat_mutants)]
mod turns;
