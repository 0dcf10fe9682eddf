//! The errors on the way to a session, in words for the user.
//!
//! There is one enum for each step: making a node's memory, taking a name, opening a session. Each variant carries
//! names and numbers; its text says what happened, to whom, and what to do. An error that the peer caused names the
//! peer.

mod open;
mod remote;

use rustix::io::Errno;
use rustix::process::Resource;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use upbeat_core::name::NodeName;
use upbeat_memory::segment::SegmentError;

pub use open::{OpenError, PeerIdentity};
pub use remote::Unreached;

/// The error of a node whose own memory cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HomeError {
    /// A segment cannot be made.
    Segment(SegmentError),
    /// The process has no descriptor left.
    Descriptors {
        /// The process's limit of descriptors.
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

/// The error of a directory of sockets that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceError {
    /// The path is no directory (or is a link to one).
    NoDirectory {
        /// The path.
        path: PathBuf,
    },
    /// The directory belongs to another user.
    Owner {
        /// The directory.
        path: PathBuf,
        /// The user to whom the directory belongs.
        uid: u32,
        /// The user to whom it must belong.
        ours: u32,
    },
    /// Other users have permissions in the directory that they must not have.
    Mode {
        /// The directory.
        path: PathBuf,
        /// The mode of the directory.
        mode: u32,
    },
    /// The process has no descriptor left.
    Descriptors {
        /// The process's limit of descriptors.
        limit: u64,
    },
    /// A system call failed.
    System {
        /// The step that failed.
        act: &'static str,
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        error: Errno,
    },
}

/// The advice where the directory of the sockets cannot be used.
const ANOTHER: &str =
    "choose a directory of yours, by XDG_RUNTIME_DIR or by `directory` of the builder";

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::NoDirectory { path } => write!(
                f,
                "{} must be the directory of the nodes' sockets, but it is not a directory: remove it, \
                 or {ANOTHER}",
                path.display()
            ),
            PlaceError::Owner { path, uid, ours } => write!(
                f,
                "{} belongs to user {uid}, but this process runs as user {ours}: have it removed, \
                 or {ANOTHER}",
                path.display()
            ),
            PlaceError::Mode { path, mode } => write!(
                f,
                "{} has the mode {:04o}, so other users could replace the sockets: run `chmod 700 {}`",
                path.display(),
                mode & 0o7777,
                path.display()
            ),
            PlaceError::Descriptors { limit } => descriptors_text(f, *limit),
            PlaceError::System { act, path, error } => {
                write!(
                    f,
                    "{act} {} for the nodes' sockets failed: {error}; {ANOTHER}",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for PlaceError {}

/// The error of a node whose name cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindError {
    /// The node has no name under which other nodes could find it.
    Unnamed,
    /// The node was made for its own process only ([`crate::local_node::LocalNode::local`]).
    LocalOnly,
    /// A live node has the name.
    NameTaken {
        /// The name.
        name: NodeName,
        /// The process that has the name, if it is known; it may be this process.
        pid: Option<u32>,
    },
    /// The directory of the sockets cannot be used.
    Place(PlaceError),
    /// The node cannot listen at an address.
    Port {
        /// The address.
        at: SocketAddr,
        /// The error of the system.
        error: Errno,
    },
    /// Another node of this process listens at the address.
    OwnPort {
        /// The address.
        at: SocketAddr,
        /// The node that listens there.
        by: NodeName,
    },
    /// The process has no descriptor left.
    Descriptors {
        /// The process's limit of descriptors.
        limit: u64,
    },
    /// A system call failed.
    System {
        /// The step that failed.
        act: &'static str,
        /// The error of the system.
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
                    Some(pid) if *pid == std::process::id() => {
                        return write!(
                            f,
                            "this process with which it cannot be shared: nodes of a process share a name if they \
                             have the same program and the same directory, or are all local only. Build this one \
                             so, or choose another name"
                        );
                    }
                    Some(pid) => write!(f, "process {pid}")?,
                    None => write!(f, "a process of another PID namespace")?,
                }
                write!(f, ": stop that node or choose another name")
            }
            BindError::Place(error) => error.fmt(f),
            BindError::Port { at, error: Errno::ADDRINUSE } => write!(
                f,
                "the port of {at} is taken: stop the program that listens there, or choose another port"
            ),
            BindError::OwnPort { at, by } => write!(
                f,
                "node `{by}` of this process listens at {at} already: give each node an address of its own by \
                 `Builder::listen`. `UPBEAT_LISTEN` is the address of every node that is given none, so it suits \
                 processes with one node that listens"
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

/// Returns the process's limit of descriptors.
pub(crate) fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns the limit of descriptors if `error` says that the limit is reached.
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
