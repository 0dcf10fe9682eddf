//! What travels with calls, what stands around a service, and how many of its handlers run at once.

#[path = "../common/mod.rs"]
mod common;

mod carried;
mod layers;
