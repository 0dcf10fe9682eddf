//! Why a benchmark cannot be run.

use crate::bench::pin::PinError;
use rustix::io::Errno;
use std::fmt;
use upbeat_memory::segment::SegmentError;

/// Why a benchmark cannot be run, or was broken off.
#[derive(Debug)]
pub enum BenchError {
    /// The system refused.
    System {
        /// What was asked of it.
        act: &'static str,
        /// What it said.
        error: Errno,
    },
    /// Shared memory could not be made or opened.
    Segment {
        /// What it was for.
        label: &'static str,
        /// Why not.
        error: SegmentError,
    },
    /// The CPUs cannot be used.
    Pin(PinError),
    /// No case has this name.
    Case {
        /// The name that was given.
        name: String,
        /// The command that lists those that there are.
        command: &'static str,
    },
    /// The second process could not be started.
    Start {
        /// Why not.
        error: std::io::Error,
    },
    /// Upbeat itself refused.
    Runtime {
        /// What was asked of it.
        act: &'static str,
        /// What it said.
        text: String,
    },
    /// The second process is gone.
    PeerGone,
    /// The two processes do not understand each other, which is a fault of this program.
    Protocol {
        /// What was not understood.
        what: String,
    },
    /// The results could not be written.
    Output {
        /// Why not.
        error: std::io::Error,
    },
}

impl BenchError {
    /// For `map_err`: the system refused `act`.
    pub fn system(act: &'static str) -> impl FnOnce(Errno) -> BenchError {
        move |error| BenchError::System { act, error }
    }

    /// For `map_err`: the segment called `label` could not be made or opened.
    pub fn segment(label: &'static str) -> impl FnOnce(SegmentError) -> BenchError {
        move |error| BenchError::Segment { label, error }
    }

    /// A fault of this program in how its two processes talk.
    pub fn protocol(what: impl Into<String>) -> BenchError {
        BenchError::Protocol { what: what.into() }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::System { act, error } => write!(f, "{act} failed: {error}"),
            BenchError::Segment { label, error } => {
                write!(f, "the shared segment `{label}` cannot be used: {error}")
            }
            BenchError::Pin(error) => error.fmt(f),
            BenchError::Case { name, command } => write!(
                f,
                "no case is called `{name}`, nor does one begin so; `{command} --list` names them all"
            ),
            BenchError::Start { error } => {
                write!(f, "the second process of the benchmark did not start: {error}")
            }
            BenchError::Runtime { act, text } => write!(f, "{act} failed: {text}"),
            BenchError::PeerGone => write!(f, "the second process of the benchmark is gone"),
            BenchError::Protocol { what } => {
                write!(f, "the two processes of the benchmark disagree: {what}")
            }
            BenchError::Output { error } => write!(f, "the results cannot be written: {error}"),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<PinError> for BenchError {
    fn from(error: PinError) -> BenchError {
        BenchError::Pin(error)
    }
}
