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
//! [`check`] runs a program under many seeds, and `#[upbeat_sim::test]` makes a test of that. The program begins as one
//! [process](Process) of the world, and may start others, on any [host](Host), kill them and start them again.
//! Threads of a process are started by [`spawn`]; one that `std::thread` starts belongs to no world.
#![forbid(unsafe_code)]

mod random;

mod outcome;

mod network;

mod schedule;

mod world;

mod process;

mod happened;

mod real;

mod sim;

mod host;

mod faults;

mod check;

pub use check::{check, play};
pub use faults::{Fault, Faults, Siege};
pub use host::Host;
pub use outcome::{Ended, Outcome};
pub use process::Process;
pub use sim::Sim;
pub use upbeat_environment::process::Resource;
pub use upbeat_environment::thread::{Thread, spawn};
/// Makes a test of an async function, which runs in a world for each of 100 seeds, or as many as `seeds = …` says, as
/// [`check`] does.
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
/// use upbeat_sim::Sim;
///
/// /// A counter.
/// #[upbeat::service]
/// trait Counter {
///     /// Returns the sum.
///     async fn add(&self, a: u64, b: u64) -> u64;
/// }
///
/// struct Adds;
///
/// impl Counter for Adds {
///     async fn add(&self, a: u64, b: u64) -> u64 {
///         a + b
///     }
/// }
///
/// #[upbeat_sim::test(seeds = 20)]
/// async fn sums_are_right(sim: Sim) {
///     sim.start("counter", |sim| {
///         let node = sim.node("counter").build()?;
///         node.serve(CounterServer::new(Adds))?;
///         node.block_on(std::future::pending::<()>());
///         Ok::<_, Box<dyn std::error::Error>>(())
///     });
///     let handles = sim.handles().wait_for(Duration::from_secs(5));
///     let counter: CounterHandle = handles.connect_async("counter").await.unwrap();
///     assert_eq!(counter.add(1, 2).await, Ok(3));
/// }
/// ```
pub use upbeat_macros::simulated_test as test;
pub use world::run;
