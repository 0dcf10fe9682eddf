//! The environment of the runtime: the clock, chance, waiting, threads, other hosts, and what ends with a process.
//!
//! A thread takes these from the system, unless a simulated [`World`] runs the thread. Threads that it
//! [starts](thread::spawn) belong to the same world. Other crates of the runtime reach the system's clock, random
//! numbers, waits and threads only through this crate, so the same code runs in both:
//!
//! ```
//! use std::time::Duration;
//! use upbeat_environment::time::Instant;
//!
//! let began = Instant::now();
//! upbeat_environment::waiting::sleep(Duration::from_millis(1));
//! assert!(began.elapsed() >= Duration::from_millis(1));
//! ```
//!
//! Invariant: in a process that has never entered a world, the question costs one load.
#![forbid(unsafe_code)]

mod world;

pub mod turns;

pub mod process;

pub mod time;

pub mod chance;

pub mod waiting;

pub mod thread;

pub mod network;

pub use world::{
    Awaited, FileNumber, Origin, State, Turn, Value, World, WorldIsOver, enter, is_observed,
    is_simulated, note_message, state_in_world,
};
