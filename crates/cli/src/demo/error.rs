//! Why the demo cannot be shown.

use crate::bench::error::BenchError;
use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

/// Why the demo cannot be shown, or was broken off.
#[derive(Debug)]
pub(crate) enum DemoError {
    /// The directory of the sockets cannot be made.
    Scratch {
        /// Where it should be.
        path: std::path::PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A node's process did not start.
    Start {
        /// The node.
        node: &'static str,
        /// Why not.
        error: std::io::Error,
    },
    /// A node's process ended before its node could be called.
    Ended {
        /// The node.
        node: &'static str,
        /// How it ended.
        status: ExitStatus,
    },
    /// A node could not be called in time.
    Silent {
        /// The node.
        node: &'static str,
        /// How long it had.
        waited: Duration,
    },
    /// Upbeat refused.
    Runtime {
        /// What was asked of it.
        act: &'static str,
        /// What it said.
        text: String,
    },
    /// A call ended otherwise than it must.
    Outcome {
        /// The call.
        call: &'static str,
        /// How it ended.
        text: String,
    },
    /// The floor could not be measured.
    Bench(BenchError),
    /// The results cannot be written.
    Output(std::io::Error),
    /// Ctrl-c.
    Interrupted,
}

impl DemoError {
    /// For `map_err`: Upbeat refused `act`.
    pub(crate) fn runtime<E: fmt::Display>(act: &'static str) -> impl FnOnce(E) -> DemoError {
        move |error| DemoError::Runtime { act, text: error.to_string() }
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::Scratch { path, error } => {
                write!(f, "the directory {} cannot be made: {error}", path.display())
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
                write!(f, "{call} should not have ended so: {text}")
            }
            DemoError::Bench(error) => write!(f, "the floor: {error}"),
            DemoError::Output(error) => write!(f, "the results cannot be written: {error}"),
            DemoError::Interrupted => write!(f, "interrupted; the nodes were stopped"),
        }
    }
}

impl std::error::Error for DemoError {}

impl From<BenchError> for DemoError {
    fn from(error: BenchError) -> DemoError {
        DemoError::Bench(error)
    }
}
