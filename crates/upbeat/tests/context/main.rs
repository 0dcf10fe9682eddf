//! Tests of the context of calls, of layers around a service, and of the limit on handlers that run at once.

#[path = "../common/mod.rs"]
mod common;

mod carried;
mod layers;
