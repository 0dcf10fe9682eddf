//! The errors of building a node.

use super::{ServeError, debug_as_text};
use crate::execution::UnknownExecution;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::path::PathBuf;
use upbeat_core::address::AddressError;
use upbeat_core::name::NameError;
use upbeat_transport::error::{BindError, HomeError, PlaceError, Unreached};
use upbeat_transport::identity::IdentityError;

/// The reason why a node cannot be built.
///
/// ```
/// use upbeat::{BuildError, Node};
///
/// let Err(BuildError::Name(error)) = Node::builder("no name").local_only().build() else {
///     unreachable!("a name has no blanks")
/// };
/// assert!(error.to_string().contains("' ' at byte 2 is not allowed"));
/// ```
#[non_exhaustive]
pub enum BuildError {
    /// The name of the node or of its program is not valid.
    Name(NameError),
    /// The node's memory cannot be made.
    Home(HomeError),
    /// The directory of the sockets cannot be used.
    Place(PlaceError),
    /// The name cannot be taken, or the node cannot listen.
    Bind(BindError),
    /// The address to listen at is not valid.
    Listen(AddressError),
    /// The host in the address to listen at has no address.
    ListenHost {
        /// The address.
        at: String,
        /// The system's reason.
        why: Unreached,
    },
    /// The identity cannot be used.
    Identity(IdentityError),
    /// The identity belongs to another node or program.
    OtherIdentity {
        /// The file of the identity.
        path: PathBuf,
        /// The names in the identity.
        names: String,
        /// The names that the node needs.
        wanted: String,
    },
    /// The node has an identity and also permits plaintext: only one of both is possible.
    Protection,
    /// The node listens for other hosts, but has neither an identity nor permission for plaintext.
    Unprotected {
        /// The address.
        at: String,
    },
    /// `UPBEAT_SAMPLING` is no number.
    Sampling {
        /// The value of the variable.
        text: String,
    },
    /// `UPBEAT_STUCK_MS` is no number.
    Stuck {
        /// The value of the variable.
        text: String,
    },
    /// `UPBEAT_STATISTICS` is neither `0`, `1` nor `json`.
    Statistics {
        /// The value of the variable.
        text: String,
    },
    /// `UPBEAT_EXECUTION` is no execution.
    Execution(UnknownExecution),
    /// The process has no descriptor left.
    Descriptors {
        /// The most descriptors that the process may have.
        limit: u64,
    },
    /// A service cannot be served. A function that builds a node and serves there can so return one error type.
    Serve(ServeError),
    /// The system refused an operation.
    System(std::io::Error),
}

impl From<std::io::Error> for BuildError {
    fn from(error: std::io::Error) -> BuildError {
        match descriptors_in(&error) {
            Some(limit) => BuildError::Descriptors { limit },
            None => BuildError::System(error),
        }
    }
}

impl From<ServeError> for BuildError {
    fn from(error: ServeError) -> BuildError {
        BuildError::Serve(error)
    }
}

/// Returns the limit of descriptors of this process, if an error is about that.
fn descriptors_in(error: &std::io::Error) -> Option<u64> {
    let limit = || getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (Errno::from_io_error(error) == Some(Errno::MFILE)).then(limit)
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Name(error) => error.fmt(f),
            BuildError::Home(error) => error.fmt(f),
            BuildError::Place(error) => error.fmt(f),
            BuildError::Bind(error) => error.fmt(f),
            BuildError::Listen(error) => error.fmt(f),
            BuildError::ListenHost { at, why } => write!(f, "{at}: {why}"),
            BuildError::Identity(error) => error.fmt(f),
            BuildError::OtherIdentity { path, names, wanted } => write!(
                f,
                "the identity {} is for {names}, and not for {wanted}: issue one with `upbeat keys issue`",
                path.display()
            ),
            BuildError::Protection => write!(
                f,
                "a node with an identity sends nothing as it is: leave out `identity` or \
                 `insecure_plaintext()`"
            ),
            BuildError::Unprotected { at } => write!(
                f,
                "messages of other hosts would come to {at} over the network as they are: give the node an \
                 identity (`upbeat keys issue`), or, where the network is safe, say so by \
                 `insecure_plaintext()` on both sides"
            ),
            BuildError::Sampling { text } => write!(
                f,
                "UPBEAT_SAMPLING is `{text}`: give the number of messages of which one is sampled \
                 for the bill, or 0 for none"
            ),
            BuildError::Stuck { text } => write!(
                f,
                "UPBEAT_STUCK_MS is `{text}`: give the milliseconds after which a wait is \
                 reported, or 0 for never"
            ),
            BuildError::Statistics { text } => {
                write!(f, "UPBEAT_STATISTICS is `{text}`, and not `0`, `1` or `json`")
            }
            BuildError::Execution(error) => write!(f, "UPBEAT_EXECUTION: {error}"),
            BuildError::Descriptors { limit } => HomeError::Descriptors { limit: *limit }.fmt(f),
            BuildError::Serve(error) => error.fmt(f),
            BuildError::System(error) => write!(f, "the system refused: {error}"),
        }
    }
}

impl std::error::Error for BuildError {}

debug_as_text!(BuildError {
    Name,
    Home,
    Place,
    Bind,
    Listen,
    ListenHost,
    Identity,
    OtherIdentity,
    Protection,
    Unprotected,
    Sampling,
    Stuck,
    Statistics,
    Execution,
    Descriptors,
    Serve,
    System
});
