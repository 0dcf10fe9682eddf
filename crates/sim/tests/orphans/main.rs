//! Computations whose callers are gone, and deadlines, in worlds: on one host and between hosts, where waiting takes no
//! time. The library's tests `flow::orphans` show the same promises by real processes.
#![forbid(unsafe_code)]

mod chain;
#[path = "../common/mod.rs"]
mod common;
mod deadlines;
mod ends;
mod extended;
mod handled;
#[path = "../../../upbeat/tests/flow/orphans/knot.rs"]
mod knot;
mod left;
mod oneway;
mod stopped;
