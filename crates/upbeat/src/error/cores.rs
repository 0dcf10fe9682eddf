//! The errors of nodes on several threads.

use std::convert::Infallible;
use std::fmt;

/// The error of nodes on threads of their own. `E` is the error of the closure that builds a node.
///
/// ```
/// use upbeat::{CoresError, Node};
///
/// let Err(CoresError::Build { error, .. }) = upbeat::nodes_on(2, || Node::builder("no name").build()) else {
///     unreachable!("a name has no blanks")
/// };
/// assert!(error.to_string().contains("' ' at byte 2 is not allowed"));
/// ```
#[non_exhaustive]
pub enum CoresError<E = Infallible> {
    /// A node could not be built. All threads have ended.
    Build {
        /// The number of the thread, from 0 on.
        core: usize,
        /// The error of the closure.
        error: E,
    },
    /// A thread has panicked, and its node has ended.
    Panicked {
        /// The number of the thread, from 0 on.
        core: usize,
        /// The message of the panic.
        message: String,
    },
    /// The system refused a thread, a socket or a signal.
    System(std::io::Error),
}

impl<E> From<std::io::Error> for CoresError<E> {
    fn from(error: std::io::Error) -> CoresError<E> {
        CoresError::System(error)
    }
}

impl<E> CoresError<E> {
    /// Writes the text for a user. `build` writes the closure's own error.
    fn show(
        &self,
        f: &mut fmt::Formatter<'_>,
        build: impl FnOnce(&E, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        match self {
            CoresError::Build { core, error } => {
                write!(f, "the node of thread {core} was not built: ")?;
                build(error, f)
            }
            CoresError::Panicked { core, message } => {
                write!(f, "thread {core} has panicked, and its node has ended: {message}")
            }
            CoresError::System(error) => write!(f, "the system refused: {error}"),
        }
    }
}

impl<E: fmt::Display> fmt::Display for CoresError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, E::fmt)
    }
}

/// Prints the text for a user, and the variant behind it: a `main` that returns this error prints it so.
impl<E: fmt::Debug> fmt::Debug for CoresError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            CoresError::Build { .. } => "Build",
            CoresError::Panicked { .. } => "Panicked",
            CoresError::System(_) => "System",
        };
        self.show(f, E::fmt)?;
        write!(f, " (CoresError::{variant})")
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for CoresError<E> {}
