//! The carriers of Upbeat's sessions: lanes within a process, lanes between processes, and byte streams.
//!
//! This crate finds a peer, checks it, and joins the memory of both sides into a [`carrier::Carrier`]. The meaning of
//! the messages is decided above. Every function here is non-blocking and driven by readiness: the crate has no
//! thread, no clock (time is an argument), and no loop that waits.
//!
//! Invariant: no data of a peer is used before it was checked, and a faulty peer costs its own session and no
//! descriptor beyond it.
//!
//! Two nodes of a program open a session:
//!
//! ```
//! use upbeat_core::name::ProgramId;
//! use upbeat_transport::{carrier::Kind, local_node::LocalNode, opening::Step, socket_directory::SocketDirectory, shared};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = std::env::temp_dir().join(format!("upbeat-doc-{}", std::process::id()));
//! let place = SocketDirectory::at(&directory)?;
//! let program = ProgramId::named("demo".parse()?);
//! let counter = LocalNode::new(program.clone(), Some("counter".parse()?))?;
//! let listener = shared::Listener::bind(&place, &counter)?;
//!
//! let handle = LocalNode::new(program, None)?;
//! let mut near = shared::connect(&place, &handle, &"counter".parse()?, 0, 0)?;
//! let mut far = listener.accept(&counter, 0, 0)?.expect("a caller");
//! // A real program calls `step` when the descriptor of the opening is readable.
//! assert!(matches!(far.step(1)?, Step::Waiting));
//! assert!(matches!(near.step(1)?, Step::Waiting));
//! let Step::Done(carrier) = far.step(2)? else { panic!() };
//! assert_eq!(carrier.kind, Kind::Shared);
//! assert!(matches!(near.step(2)?, Step::Done(_)));
//! # drop(listener);
//! # std::fs::remove_dir_all(directory)?;
//! # Ok(())
//! # }
//! ```
//!
//! The order of the modules below is the order of their floors: a module imports only modules
//! above it in this list.
#![forbid(unsafe_code)]

mod pieces;

pub mod identity;

pub mod tls;

pub mod error;

pub mod socket_directory;

pub mod host;

pub mod transfers;

mod packet;

mod member;

pub mod local_node;

mod group;

mod events;

mod doorbell;

mod stream;

pub mod carrier;

pub mod watch;

mod handshake;

mod remote_handshake;

mod local_request;

pub mod opening;

mod claim;

mod spare;

pub mod shared;

pub mod remote;

pub mod local;

#[cfg(all(test, upbeat_mutants))]
#[test]
fn each_fault_is_found_by_its_unit_test() {
    upbeat_core::mutant::units::find_faults("transport");
}
