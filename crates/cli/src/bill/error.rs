//! The errors of `upbeat bill`.

use crate::exit::{self, Failure};
use std::fmt;
use std::path::PathBuf;
use upbeat_memory::observe::ObserveError;

/// The advice on how to take more samples.
const SAMPLE_MORE: &str = "the sender of a message decides whether it is sampled, by default one in 1,000; to sample one \
    in ten, build the nodes and handles that send with `.sampling(10)`, or start their programs with UPBEAT_SAMPLING=10";

/// The reason why `upbeat bill` fails.
#[derive(Debug)]
pub(crate) enum BillError {
    /// No process has this number.
    NoProcess(u32),
    /// The system does not permit reading the process.
    Refused {
        /// The number of the process.
        pid: u32,
        /// The error of the system.
        error: String,
    },
    /// The pages of the process cannot be read.
    Unreadable {
        /// The number of the process.
        pid: u32,
        /// The error of reading.
        error: ObserveError,
    },
    /// The process has no node.
    NoNode(u32),
    /// No node has this name.
    NoSuchNode {
        /// The name that the user gave.
        name: String,
        /// The names of the existing nodes.
        seen: Vec<String>,
    },
    /// No node is of this program.
    NoSuchProgram {
        /// The name that the user gave.
        program: String,
        /// The programs of the existing nodes.
        seen: Vec<String>,
    },
    /// No process of this user has a node.
    NoNodes,
    /// None of these nodes has a page of samples; a node creates the page with its first sample.
    NotSampling(Vec<String>),
    /// The nodes take samples, but none was taken while the command collected.
    NoSamples {
        /// The names of the nodes that take samples.
        nodes: Vec<String>,
        /// The time of collecting, in seconds.
        seconds: f64,
        /// The number of samples that were not usable.
        unusable: u64,
        /// The number of samples that were there before.
        older: u64,
    },
    /// No method has this text in its name.
    NoSuchMethod {
        /// The text that the user gave.
        text: String,
        /// The methods in the recording.
        seen: Vec<String>,
    },
    /// A file cannot be read or written.
    File {
        /// The participle of the failed action: `read` or `written`.
        act: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A file is not a recording of this version.
    Recording {
        /// The path of the file.
        path: PathBuf,
        /// The error in the file.
        error: String,
    },
    /// The output cannot be written.
    Output(std::io::Error),
}

impl fmt::Display for BillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BillError::NoProcess(pid) => write!(
                f,
                "there is no process {pid}; without a number, `upbeat bill` observes all nodes"
            ),
            BillError::Refused { pid, error } => write!(
                f,
                "process {pid} may not be observed ({error}): run `upbeat bill` as the user of the \
                 process or as root; a process that forbids debuggers can be observed by root alone"
            ),
            BillError::Unreadable { pid, error } => write!(
                f,
                "the pages of process {pid} cannot be read: {error}; use the `upbeat` of the \
                 version with which the program was built"
            ),
            BillError::NoNode(pid) => {
                write!(
                    f,
                    "process {pid} has nothing of Upbeat to observe: it has no node, and its handles, if it has any, \
                     have sampled no message yet. A handle can be observed from its first sample on, which is one \
                     message in 1,000 unless `UPBEAT_SAMPLING` or `sampling` says otherwise"
                )
            }
            BillError::NoSuchNode { name, seen } => {
                write!(f, "no node is named `{name}`; {}", listed("nodes", seen))
            }
            BillError::NoSuchProgram { program, seen } => {
                write!(f, "no node is of the program `{program}`; {}", listed("programs", seen))
            }
            BillError::NoNodes => {
                write!(
                    f,
                    "no process of this user has a node; start a program, then run this command again"
                )
            }
            BillError::NotSampling(nodes) => {
                let nodes = listed("nodes", nodes);
                write!(f, "no message was sampled yet, or sampling is off; {nodes}; {SAMPLE_MORE}")
            }
            BillError::NoSamples { nodes, seconds, unusable, older } => {
                write!(
                    f,
                    "no message was sampled within {seconds:.1} s; {}",
                    listed("nodes", nodes)
                )?;
                if *older > 0 {
                    write!(f, "; --all includes {older} samples that were taken before")?;
                }
                match unusable {
                    0 => write!(f, "; collect for longer with --seconds; {SAMPLE_MORE}"),
                    n => write!(
                        f,
                        "; this version cannot read {n} samples: use the `upbeat` of the version with \
                         which the program was built"
                    ),
                }
            }
            BillError::NoSuchMethod { text, seen } => {
                write!(
                    f,
                    "no sampled method has `{text}` in its name; {}",
                    listed("sampled methods", seen)
                )
            }
            BillError::File { act, path, error } => {
                write!(f, "{} cannot be {act}: {error}", path.display())
            }
            BillError::Recording { path, error } => write!(
                f,
                "{} is not a recording of `upbeat bill --save` that this version can read: {error}",
                path.display()
            ),
            BillError::Output(error) => write!(f, "the bill cannot be written: {error}"),
        }
    }
}

impl std::error::Error for BillError {}

impl Failure for BillError {
    fn code(&self) -> u8 {
        match self {
            BillError::Output(error) => exit::of_output(error),
            _ => exit::FAILED,
        }
    }
}

/// Formats a few names, and the number of further names.
fn listed(what: &str, names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => format!("{what}: none"),
        more if more > SHOWN => format!("{what}: {} and {} more", shown.join(", "), more - SHOWN),
        _ => format!("{what}: {}", shown.join(", ")),
    }
}
