//! The errors of `upbeat read`.

use crate::exit::{self, Failure};
use std::fmt;
use std::time::Duration;
use upbeat::export::{ImportError, PathError, ShapeError};
use upbeat::{BuildError, CallError};

/// The reason why `upbeat read` fails or ends.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The command has no node for its own tasks.
    Node(BuildError),
    /// The node cannot be reached, or has no such export.
    Import(ImportError),
    /// The type of the export is not known to this version.
    Type {
        /// The node and the export.
        name: String,
        /// The error in the type.
        error: ShapeError,
    },
    /// The value has no such part.
    Path {
        /// The node and the export.
        name: String,
        /// The error in the path.
        error: PathError,
    },
    /// The value has more bytes than an answer may have.
    Large {
        /// The node, the export and the path.
        name: String,
        /// The bytes of the value.
        bytes: usize,
        /// The most bytes of an answer.
        most: usize,
    },
    /// The owner has withdrawn the export.
    Ended {
        /// The node, the export and the path.
        name: String,
    },
    /// The value was not read.
    Unread {
        /// The node, the export and the path.
        name: String,
        /// The error of reading.
        error: upbeat::export::ReadError,
    },
    /// The owner did not answer in time.
    Silent {
        /// The node, and what was read.
        name: String,
        /// How long the command waited.
        waited: Duration,
    },
    /// A node is to be watched instead of an export.
    WatchesNode,
    /// Ctrl-C cannot be awaited.
    Signals(std::io::Error),
    /// The output cannot be written.
    Output(std::io::Error),
    /// The user pressed ctrl-c.
    Interrupted,
}

impl ReadError {
    /// Returns the error of a part of so many bytes that was not read.
    pub(crate) fn of_part(error: upbeat::export::ReadError, name: &str, bytes: usize) -> ReadError {
        use upbeat::export::ReadError as Unread;
        let name = name.to_owned();
        match error {
            Unread::Ended => ReadError::Ended { name },
            Unread::Call(CallError::ResultTooLarge { most, .. }) => {
                ReadError::Large { name, bytes, most }
            }
            error => ReadError::Unread { name, error },
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Node(error) => write!(f, "the command cannot run: {error}"),
            ReadError::Import(error) => error.fmt(f),
            ReadError::Type { name, error } => write!(
                f,
                "this version cannot read the type of `{name}`: {error}; use the `upbeat` of the version with \
                 which the program was built"
            ),
            ReadError::Path { name, error } => write!(f, "`{name}` has no such part: {error}"),
            ReadError::Large { name, bytes, most } => write!(
                f,
                "`{name}` has {bytes} bytes, and a read returns at most {most}: read a part of it, such as one element"
            ),
            ReadError::Ended { name } => {
                write!(f, "`{name}` was withdrawn by its owner: read it again once it is exported again")
            }
            ReadError::Unread { name, error } => write!(f, "`{name}` was not read: {error}"),
            ReadError::Silent { name, waited } => write!(
                f,
                "`{name}` was not read: its node has not answered within {waited:?}; it is stopped, or one of its \
                 handlers runs without a pause"
            ),
            ReadError::WatchesNode => f.write_str(
                "--watch needs an export, such as `prices/quotes`: without --watch, a node's exports are listed",
            ),
            ReadError::Signals(error) => write!(f, "Ctrl-C cannot be awaited: {error}"),
            ReadError::Output(error) => write!(f, "the value cannot be written: {error}"),
            ReadError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for ReadError {}

impl Failure for ReadError {
    fn code(&self) -> u8 {
        match self {
            ReadError::WatchesNode => exit::COMMAND_LINE,
            ReadError::Output(error) => exit::of_output(error),
            ReadError::Interrupted => exit::INTERRUPTED,
            _ => exit::FAILED,
        }
    }
}
