//! Errors of measurement for developers.

use std::fmt;
use std::path::{Path, PathBuf};
use upbeat_cli::bench::error::BenchError;

/// The reason for which nothing can be measured or drawn.
#[derive(Debug)]
pub(crate) enum Error {
    /// A benchmark cannot be run, or was aborted.
    Bench(BenchError),
    /// The peers' benchmarks could not be built and started.
    Cargo {
        /// The reason.
        error: std::io::Error,
    },
    /// The chosen benchmarks have no plot.
    Plot,
    /// None of the chosen cases is sent optimistically.
    Conservative,
    /// A document with figures could not be read or written.
    Document {
        /// The path from the repository's root.
        name: &'static str,
        /// The reason.
        error: std::io::Error,
    },
    /// Figures could not be measured, or are not those that were.
    Figures {
        /// The text.
        text: String,
    },
    /// A plot could not be written.
    Picture {
        /// The file for the plot.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
}

impl Error {
    /// Returns a function for `map_err`: the plot could not be written to `path`.
    pub(crate) fn picture(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |error| Error::Picture { path, error }
    }

    /// Returns a function for `map_err`: a document could not be read or written.
    pub(crate) fn document(name: &'static str) -> impl FnOnce(std::io::Error) -> Error {
        move |error| Error::Document { name, error }
    }

    /// Returns the exit code that the error causes: 0 if the reader of the results closed the pipe, like `head`.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::Bench(error) => error.exit_code(),
            _ => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Bench(error) => error.fmt(f),
            Error::Cargo { error } => write!(
                f,
                "cargo, which builds the peers' benchmarks, cannot be started: {error}; \
                 install Rust, or set CARGO to its path"
            ),
            Error::Plot => write!(
                f,
                "there is a picture of `size`, of `throughput` and of `arguments`: name one of them, \
                 and nothing else, with --plot"
            ),
            Error::Conservative => write!(
                f,
                "--conservative leaves out what `size` and `throughput` send optimistically, and none of \
                 that was asked for: name one of them, or leave --conservative out"
            ),
            Error::Document { name, error } => {
                write!(f, "{name} cannot be read or written: {error}")
            }
            Error::Figures { text } => f.write_str(text),
            Error::Picture { path, error } => {
                write!(f, "the picture cannot be written to {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<BenchError> for Error {
    fn from(error: BenchError) -> Error {
        Error::Bench(error)
    }
}
