//! What can go wrong on the way to a session, in words for the user.
//!
//! One enum per family: making a node's memory, taking a name, opening a session. Each variant
//! carries the names and numbers; its text says what happened, to whom, and what to do. A fault of
//! the peer's names the peer.

mod open;
mod remote;

use rustix::io::Errno;
use rustix::process::Resource;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use upbeat_core::name::NodeName;
use upbeat_memory::segment::SegmentError;

pub use open::{OpenError, Whom};
pub use remote::Unreached;

/// A node's own memory cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeError {
    /// A segment cannot be made.
    Segment(SegmentError),
    /// The process has no descriptor left.
    Descriptors {
        /// How many it may have.
        limit: u64,
    },
    /// The system has no random numbers.
    Random(Errno),
}

impl fmt::Display for HomeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HomeError::Segment(error) => write!(f, "the node's shared memory: {error}"),
            HomeError::Descriptors { limit } => descriptors_text(f, *limit),
            HomeError::Random(error) => write!(f, "getrandom failed: {error}"),
        }
    }
}

impl std::error::Error for HomeError {}

impl From<SegmentError> for HomeError {
    fn from(error: SegmentError) -> HomeError {
        match out_of_descriptors(&error) {
            Some(limit) => HomeError::Descriptors { limit },
            None => HomeError::Segment(error),
        }
    }
}

/// The directory of the sockets cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceError {
    /// It is there, and is no directory (or is a link to one).
    NoDirectory {
        /// Where.
        path: PathBuf,
    },
    /// It belongs to another user.
    Owner {
        /// Where.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
        /// Whose it would have to be.
        ours: u32,
    },
    /// Other users have rights in it that they must not have.
    Mode {
        /// Where.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The process has no descriptor left.
    Descriptors {
        /// How many it may have.
        limit: u64,
    },
    /// The system refused.
    System {
        /// What was asked of it.
        act: &'static str,
        /// Where.
        path: PathBuf,
        /// What it said.
        error: Errno,
    },
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::NoDirectory { path } => write!(
                f,
                "{} should be the directory of the nodes' sockets, and is no directory: remove it, \
                 or set XDG_RUNTIME_DIR to a directory of yours",
                path.display()
            ),
            PlaceError::Owner { path, uid, ours } => write!(
                f,
                "{} belongs to user {uid} and not to user {ours}, who runs this: have it removed, \
                 or set XDG_RUNTIME_DIR to a directory of yours",
                path.display()
            ),
            PlaceError::Mode { path, mode } => write!(
                f,
                "{} has the mode {:04o}, so other users may interfere: run `chmod 700 {}`",
                path.display(),
                mode & 0o7777,
                path.display()
            ),
            PlaceError::Descriptors { limit } => descriptors_text(f, *limit),
            PlaceError::System { act, path, error } => {
                write!(f, "{act} {} failed: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for PlaceError {}

/// A node's name cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    /// The node has no name by which others could find it.
    Unnamed,
    /// The node was made for its own process alone ([`crate::home::Home::local`]).
    LocalOnly,
    /// A living node has the name.
    NameTaken {
        /// The name.
        name: NodeName,
        /// The process that has it, where that can be told; it may be this one.
        pid: Option<u32>,
    },
    /// The sockets' directory cannot be used.
    Place(PlaceError),
    /// The node cannot listen at a port.
    Port {
        /// Where.
        at: SocketAddr,
        /// What the system said.
        error: Errno,
    },
    /// The process has no descriptor left.
    Descriptors {
        /// How many it may have.
        limit: u64,
    },
    /// The system refused.
    System {
        /// What was asked of it.
        act: &'static str,
        /// What it said.
        error: Errno,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Unnamed => write!(f, "a node that others can reach needs a name"),
            BindError::LocalOnly => {
                write!(f, "the node's memory is on the heap, where no other process can reach it")
            }
            BindError::NameTaken { name, pid } => {
                write!(f, "the name `{name}` is taken by a node of ")?;
                match pid {
                    Some(pid) if *pid == std::process::id() => write!(f, "this process")?,
                    Some(pid) => write!(f, "process {pid}")?,
                    None => write!(f, "a process of another PID namespace")?,
                }
                write!(f, ": stop that node or choose another name")
            }
            BindError::Place(error) => error.fmt(f),
            BindError::Port { at, error: Errno::ADDRINUSE } => write!(
                f,
                "the port of {at} is taken: stop what listens there, or choose another port"
            ),
            BindError::Port { at, error } => write!(f, "listening at {at} failed: {error}"),
            BindError::Descriptors { limit } => descriptors_text(f, *limit),
            BindError::System { act, error } => write!(f, "{act} failed: {error}"),
        }
    }
}

impl std::error::Error for BindError {}

impl From<PlaceError> for BindError {
    fn from(error: PlaceError) -> BindError {
        match error {
            PlaceError::Descriptors { limit } => BindError::Descriptors { limit },
            error => BindError::Place(error),
        }
    }
}

/// How many descriptors this process may have.
pub(crate) fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The limit, if that is what `error` is about.
fn out_of_descriptors(error: &SegmentError) -> Option<u64> {
    matches!(error, SegmentError::System { error: Errno::MFILE, .. }).then(descriptor_limit)
}

pub(crate) fn descriptors_text(f: &mut fmt::Formatter<'_>, limit: u64) -> fmt::Result {
    write!(
        f,
        "this process has no descriptor left (its limit is {limit}; a session takes one): raise it \
         with `ulimit -n`, or close sessions"
    )
}
