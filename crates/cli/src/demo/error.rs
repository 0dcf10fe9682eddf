//! The errors of `upbeat demo`.

use crate::bench::error::BenchError;
use crate::exit::{self, Failure};
use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

/// The reason why the demo fails or stops early.
#[derive(Debug)]
pub(crate) enum DemoError {
    /// The directory of the sockets cannot be created.
    Scratch {
        /// The path of the directory.
        path: std::path::PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A node's process did not start.
    Start {
        /// The name of the node.
        node: &'static str,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A node's process ended before its node was ready.
    Ended {
        /// The name of the node.
        node: &'static str,
        /// The exit status of the process.
        status: ExitStatus,
    },
    /// A node was not ready in time.
    Silent {
        /// The name of the node.
        node: &'static str,
        /// The time that the demo waited.
        waited: Duration,
    },
    /// Upbeat returned an error.
    Runtime {
        /// The action that failed.
        act: &'static str,
        /// The text of the error.
        text: String,
    },
    /// A call ended in the wrong way.
    Outcome {
        /// The call.
        call: &'static str,
        /// The result of the call.
        text: String,
    },
    /// The floor could not be measured.
    Bench(BenchError),
    /// The results cannot be written.
    Output(std::io::Error),
    /// The user pressed ctrl-c.
    Interrupted,
}

impl DemoError {
    /// Returns a function for `map_err` that names the action `act`.
    pub(crate) fn runtime<E: fmt::Display>(act: &'static str) -> impl FnOnce(E) -> DemoError {
        move |error| DemoError::Runtime { act, text: error.to_string() }
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::Scratch { path, error } => {
                write!(f, "the directory {} cannot be created: {error}", path.display())
            }
            DemoError::Start { node, error } => {
                write!(f, "the process of node `{node}` did not start: {error}")
            }
            DemoError::Ended { node, status } => {
                write!(f, "the process of node `{node}` ended before it could be called: {status}")
            }
            DemoError::Silent { node, waited } => {
                write!(f, "node `{node}` could not be called within {waited:?}")
            }
            DemoError::Runtime { act, text } => write!(f, "{act} failed: {text}"),
            DemoError::Outcome { call, text } => {
                write!(f, "{call} ended with an unexpected result: {text}")
            }
            DemoError::Bench(error) => write!(f, "the floor: {error}"),
            DemoError::Output(error) => write!(f, "the results cannot be written: {error}"),
            DemoError::Interrupted => write!(f, "interrupted; the nodes were stopped"),
        }
    }
}

impl std::error::Error for DemoError {}

impl Failure for DemoError {
    fn code(&self) -> u8 {
        match self {
            DemoError::Interrupted => exit::INTERRUPTED,
            DemoError::Bench(error) => error.exit_code(),
            DemoError::Output(error) => exit::of_output(error),
            _ => exit::FAILED,
        }
    }
}

impl From<BenchError> for DemoError {
    fn from(error: BenchError) -> DemoError {
        DemoError::Bench(error)
    }
}
