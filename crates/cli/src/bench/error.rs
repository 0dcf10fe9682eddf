//! The errors of benchmarks.

use crate::bench::pin::PinError;
use crate::exit::{self, Failure};
use rustix::io::Errno;
use std::fmt;
use upbeat_memory::segment::SegmentError;

/// The reason why a benchmark fails.
#[derive(Debug)]
pub enum BenchError {
    /// A system call failed.
    System {
        /// The action that failed.
        act: &'static str,
        /// The error of the system.
        error: Errno,
    },
    /// A segment of shared memory could not be created or opened.
    Segment {
        /// The purpose of the segment.
        label: &'static str,
        /// The error of the segment.
        error: SegmentError,
    },
    /// The CPUs cannot be used.
    Pin(PinError),
    /// No case has this name.
    Case {
        /// The name that the user gave.
        name: String,
        /// The command that lists the cases.
        command: &'static str,
    },
    /// The second process could not be started.
    Start {
        /// The error of the system.
        error: std::io::Error,
    },
    /// Upbeat returned an error.
    Runtime {
        /// The action that failed.
        act: &'static str,
        /// The text of the error.
        text: String,
    },
    /// The second process has ended.
    PeerGone,
    /// The two processes do not understand each other, which is an error in this program.
    Protocol {
        /// A description of the wrong message.
        what: String,
    },
    /// The results cannot be written.
    Output {
        /// The error of the system.
        error: std::io::Error,
    },
}

impl BenchError {
    /// Returns a function for `map_err` that names the failed action `act`.
    pub fn system(act: &'static str) -> impl FnOnce(Errno) -> BenchError {
        move |error| BenchError::System { act, error }
    }

    /// Returns a function for `map_err` that names the segment `label`.
    pub fn segment(label: &'static str) -> impl FnOnce(SegmentError) -> BenchError {
        move |error| BenchError::Segment { label, error }
    }

    /// Returns the error of two processes that do not understand each other.
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
                "no case has the name `{name}` or begins with it; `{command} --list` lists all cases"
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

impl BenchError {
    /// Returns the exit code that the error causes: 0 if the reader of the results closed the pipe, like `head`.
    pub fn exit_code(&self) -> u8 {
        match self {
            BenchError::Case { .. } => exit::COMMAND_LINE,
            BenchError::Output { error } => exit::of_output(error),
            _ => exit::FAILED,
        }
    }
}

impl Failure for BenchError {
    fn code(&self) -> u8 {
        self.exit_code()
    }
}

impl From<PinError> for BenchError {
    fn from(error: PinError) -> BenchError {
        BenchError::Pin(error)
    }
}
