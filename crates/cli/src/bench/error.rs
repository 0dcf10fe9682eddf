//! Why a benchmark cannot be run.

use crate::bench::pin::PinError;
use rustix::io::Errno;
use std::fmt;
use std::path::{Path, PathBuf};
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
    /// The peers' benchmarks are not here.
    NoPeers {
        /// The directory from which they were looked for.
        here: PathBuf,
    },
    /// The peers' benchmarks could not be built and started.
    Cargo {
        /// Why not.
        error: std::io::Error,
    },
    /// What was asked for has no picture.
    Plot,
    /// Nothing that was asked for is sent optimistically.
    Conservative,
    /// A picture could not be written.
    Picture {
        /// Where it should go.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// The results could not be written.
    Output {
        /// Why not.
        error: std::io::Error,
    },
}

impl BenchError {
    /// For `map_err`: the system refused `act`.
    pub(crate) fn system(act: &'static str) -> impl FnOnce(Errno) -> BenchError {
        move |error| BenchError::System { act, error }
    }

    /// For `map_err`: the segment called `label` could not be made or opened.
    pub(crate) fn segment(label: &'static str) -> impl FnOnce(SegmentError) -> BenchError {
        move |error| BenchError::Segment { label, error }
    }

    /// For `map_err`: the picture could not be written there.
    pub(crate) fn picture(path: &Path) -> impl FnOnce(std::io::Error) -> BenchError {
        let path = path.to_owned();
        move |error| BenchError::Picture { path, error }
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
            BenchError::Case { name } => write!(
                f,
                "no case is called `{name}`, nor does one begin so; \
                 `upbeat bench --list` names them all"
            ),
            BenchError::Start { error } => {
                write!(f, "the second process of the benchmark did not start: {error}")
            }
            BenchError::Runtime { act, text } => write!(f, "{act} failed: {text}"),
            BenchError::PeerGone => write!(f, "the second process of the benchmark is gone"),
            BenchError::Protocol { what } => {
                write!(f, "the two processes of the benchmark disagree: {what}")
            }
            BenchError::NoPeers { here } => write!(
                f,
                "the peers' benchmarks are not below {} nor above it: they are built in dev/bench \
                 of Upbeat's repository, so clone that and try again in it",
                here.display()
            ),
            BenchError::Cargo { error } => write!(
                f,
                "cargo, which builds the peers' benchmarks, cannot be started: {error}; \
                 install Rust, or set CARGO to its path"
            ),
            BenchError::Plot => write!(
                f,
                "there is a picture of `size`, of `throughput` and of `arguments`: name one of them, \
                 and nothing else, with --plot"
            ),
            BenchError::Conservative => write!(
                f,
                "--conservative leaves out what `size` and `throughput` send optimistically, and none of \
                 that was asked for: name one of them, or leave --conservative out"
            ),
            BenchError::Picture { path, error } => {
                write!(f, "the picture cannot be written to {}: {error}", path.display())
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
