//! Runs a program of Upbeat in a simulated world.
//!
//! The program's nodes, handles and threads are the real ones. Their clock, their random numbers and the order in which
//! their threads run come from a seed: an hour of waiting takes no time, and a seed that has shown a fault shows it
//! again.
//!
//! ```
//! use std::time::Duration;
//! use upbeat::Node;
//!
//! let world = upbeat_sim::run(7, || {
//!     let node = Node::builder("doc/sleeper").local_only().build().unwrap();
//!     node.block_on(upbeat::sleep(Duration::from_secs(3600)));
//! });
//! assert!(world.ended.is_ok());
//! assert!(world.passed >= Duration::from_secs(3600));
//! ```
//!
//! [`check`] runs a program under many seeds. The program begins as one [process](Process) of the world, and may start others, kill them and start them again.
//! Threads of a process are started by [`spawn`]; one that `std::thread` starts belongs to no world.
#![forbid(unsafe_code)]

mod random;

mod network;

mod schedule;

mod world;

mod process;

mod sim;

mod check;

pub use check::check;
pub use process::Process;
pub use sim::{Host, Kills, Sim};
pub use upbeat_environment::thread::{Thread, spawn};
pub use world::{Ended, Outcome, run};
