//! Why there is no bill to show.

use std::fmt;
use std::path::PathBuf;
use upbeat_memory::observe::ObserveError;

/// How a program is told to take more samples.
const SAMPLE_MORE: &str = "one message in 1,000 is sampled where nobody says otherwise; build the \
    node with `.sampling(10)`, or start its program with UPBEAT_SAMPLING=10, for one in ten";

/// Why there is no bill to show.
#[derive(Debug)]
pub(crate) enum BillError {
    /// There is no such process.
    NoProcess(u32),
    /// The system does not let us look at it.
    Refused {
        /// The process.
        pid: u32,
        /// What the system said.
        error: String,
    },
    /// What it offers cannot be read.
    Unreadable {
        /// The process.
        pid: u32,
        /// Why not.
        error: ObserveError,
    },
    /// It has no node.
    NoNode(u32),
    /// No node has that name.
    NoSuchNode {
        /// The name that was asked for.
        name: String,
        /// Those that there are.
        seen: Vec<String>,
    },
    /// There is nothing to look at.
    NobodyThere,
    /// None of the nodes has a page of samples: it is made for the first.
    NotSampling(Vec<String>),
    /// They take samples, and none has come.
    NothingYet {
        /// The nodes that take samples.
        nodes: Vec<String>,
        /// For so long we have looked.
        seconds: f64,
        /// What could not be used.
        unusable: u64,
    },
    /// No method has that text in its name.
    NoSuchMethod {
        /// The text.
        text: String,
        /// The methods that there are.
        seen: Vec<String>,
    },
    /// A file cannot be read or written.
    File {
        /// What was to be done.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it cannot.
        error: std::io::Error,
    },
    /// A file is no recording that we know.
    Recording {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: String,
    },
    /// The results cannot be written.
    Output(std::io::Error),
}

impl fmt::Display for BillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BillError::NoProcess(pid) => write!(
                f,
                "there is no process {pid}; without a number, `upbeat bill` looks at all nodes"
            ),
            BillError::Refused { pid, error } => write!(
                f,
                "process {pid} may not be looked at ({error}): be the user whose process it is, \
                 or root; a process that guards itself shows nothing"
            ),
            BillError::Unreadable { pid, error } => write!(
                f,
                "the pages of process {pid} cannot be read: {error}; use the `upbeat` of the \
                 version with which the program was built"
            ),
            BillError::NoNode(pid) => {
                write!(f, "process {pid} has no node of Upbeat that others can see")
            }
            BillError::NoSuchNode { name, seen } => {
                write!(f, "no node is named `{name}`; {}", listed("there are", seen))
            }
            BillError::NobodyThere => {
                write!(f, "no process of this user has a node; start a program, then ask again")
            }
            BillError::NotSampling(nodes) => {
                let nodes = listed("nodes", nodes);
                write!(f, "no message was sampled yet, or sampling is off; {nodes}; {SAMPLE_MORE}")
            }
            BillError::NothingYet { nodes, seconds, unusable } => {
                write!(f, "nothing was sampled within {seconds:.1} s; {}", listed("nodes", nodes))?;
                match unusable {
                    0 => write!(f, "; look for longer with --seconds; {SAMPLE_MORE}"),
                    n => write!(
                        f,
                        "; {n} samples came that this version does not understand: use the \
                         `upbeat` of the version with which the program was built"
                    ),
                }
            }
            BillError::NoSuchMethod { text, seen } => {
                write!(f, "no sampled method has `{text}` in its name; {}", listed("seen", seen))
            }
            BillError::File { act, path, error } => {
                write!(f, "{} cannot be {act}: {error}", path.display())
            }
            BillError::Recording { path, error } => write!(
                f,
                "{} is no recording of `upbeat bill --save` that this version reads: {error}",
                path.display()
            ),
            BillError::Output(error) => write!(f, "the bill cannot be written: {error}"),
        }
    }
}

impl std::error::Error for BillError {}

/// A few names, and how many more.
fn listed(what: &str, names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => format!("{what}: none"),
        more if more > SHOWN => format!("{what}: {} and {} more", shown.join(", "), more - SHOWN),
        _ => format!("{what}: {}", shown.join(", ")),
    }
}
