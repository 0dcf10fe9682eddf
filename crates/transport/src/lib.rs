//! What carries a session of Upbeat: lanes in one process, lanes between processes.
//!
//! This crate finds the peer, checks it, and joins the memory of both sides into a
//! [`carrier::Carrier`]; what is said over it is decided above. Everything here is non-blocking and
//! driven by readiness: no thread, no clock (time is an argument), no loop that waits.
//!
//! Invariant: nothing that a peer sends is used before it was checked, and a peer that goes wrong
//! at any point costs its own session and no descriptor beyond it.
//!
//! The order of the modules below is the order of their floors: a module imports only modules
//! above it in this list.
#![forbid(unsafe_code)]

pub mod error;

pub mod place;

mod packet;

pub mod home;

pub mod carrier;

pub mod watch;

mod handshake;

mod knock;

pub mod opening;

mod claim;

pub mod shared;

pub mod local;
