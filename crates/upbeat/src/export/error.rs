//! Why a value is not exported, not imported, or not read.

use super::owner_state::ExportOwner;
use crate::error::{BuildError, CallError, ConnectError, ServeError, debug_as_text};
use crate::handle::HandleError;
use std::convert::Infallible;
use std::fmt;
use upbeat_core::channel::export::{Denial, Refusal};
use upbeat_core::limits::{
    EXPORT_COPIES_BYTES_MAX, EXPORT_COPIES_MAX, EXPORT_PARTS_MAX, EXPORT_STEPS_MAX,
    EXPORT_WORDS_MAX, EXPRESSION_ELEMENTS_MAX,
};
use upbeat_memory::region::WORD;

/// The reason why a node does not export a value.
#[non_exhaustive]
pub enum ExportError {
    /// The name or the type cannot be exported.
    Refused(Refusal),
    /// There is no memory for the value.
    Memory {
        /// The error of the system.
        text: Box<str>,
    },
    /// A vector that grows has no room for more elements: an export has a limit.
    Full,
    /// The value has a pointer into another export.
    OtherExport,
    /// The node has shut down, or serves as many methods as it may.
    Serve(ServeError),
}

impl From<Refusal> for ExportError {
    fn from(error: Refusal) -> ExportError {
        ExportError::Refused(error)
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Refused(error) => error.fmt(f),
            ExportError::Memory { text } => write!(f, "there is no memory for the export: {text}"),
            ExportError::Full => write!(
                f,
                "the export has {} MiB, which is the most that an export may have, and no room for more elements",
                (EXPORT_WORDS_MAX * WORD) >> 20
            ),
            ExportError::OtherExport => f.write_str(
                "the value has a pointer into another export, where alone it leads to its struct: store `Ref::null()`, and set \
                 the pointer by `point_to`",
            ),
            ExportError::Serve(error) => write!(f, "the node cannot export: {error}"),
        }
    }
}

impl std::error::Error for ExportError {}

debug_as_text!(ExportError { Refused, Memory, Full, OtherExport, Serve });

/// The reason why an export was not imported.
#[non_exhaustive]
pub enum ImportError {
    /// The name has no node and export: it is written `node/export`.
    Name {
        /// The name.
        name: Box<str>,
    },
    /// The settings of the reader's handle cannot be used.
    Build(BuildError),
    /// The node cannot be reached.
    Connect(ConnectError),
    /// The node has no such export.
    NoExport {
        /// The node and the export.
        name: Box<str>,
        /// The exports of the node.
        others: Vec<String>,
    },
    /// The export has another type.
    OtherType {
        /// The node and the export.
        name: Box<str>,
        /// The type of the export.
        exported: Box<str>,
        /// The type of the reader.
        imported: Box<str>,
    },
    /// The export is for named nodes, and the reader is none of them.
    NotPermitted {
        /// The node and the export.
        name: Box<str>,
        /// The reason, with the name by which the owner knows the reader.
        denial: Denial,
    },
    /// The owner's answer did not come.
    Call(CallError),
    /// This process keeps too much memory mapped of exports that have ended or moved, so it maps nothing more.
    Copies {
        /// The node and the export.
        name: Box<str>,
        /// The number of segments that are mapped although their owners need them no more.
        segments: usize,
        /// The bytes of those.
        bytes: usize,
    },
    /// The owner's memory cannot be mapped.
    Memory {
        /// The error of the system, or the broken rule.
        text: Box<str>,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Name { name } => write!(
                f,
                "`{name}` names no export: write the node, `/` and the export, such as `prices/quotes`"
            ),
            ImportError::Build(error) => error.fmt(f),
            ImportError::Connect(error) => error.fmt(f),
            ImportError::NoExport { name, others } if others.is_empty() => {
                write!(f, "there is no export `{name}`: its node exports nothing for this reader")
            }
            ImportError::NoExport { name, others } => {
                write!(f, "there is no export `{name}`: its node exports `{}`", others.join("`, `"))
            }
            ImportError::OtherType { name, exported, imported } => write!(
                f,
                "`{name}` has another type here than at its owner, which exports `{exported}`; here it is `{imported}`: \
                 build both programs with the same struct"
            ),
            ImportError::NotPermitted { name, denial } => {
                write!(f, "`{name}` is exported for named nodes alone, and {denial}")
            }
            ImportError::Call(error) => {
                write!(f, "the owner of the export did not answer: {error}")
            }
            ImportError::Copies { name, segments, bytes } => write!(
                f,
                "`{name}` is not imported, because this process keeps {segments} segments of {bytes} bytes mapped whose \
                 exports have ended or moved, where {EXPORT_COPIES_MAX} segments and {} MiB are the most: drop the imports \
                 of exports that have ended, and import anew those that have moved",
                EXPORT_COPIES_BYTES_MAX >> 20
            ),
            ImportError::Memory { text } => {
                write!(f, "the memory of the export's owner cannot be mapped: {text}")
            }
        }
    }
}

impl std::error::Error for ImportError {}

debug_as_text!(ImportError {
    Name,
    Build,
    Connect,
    NoExport,
    OtherType,
    NotPermitted,
    Call,
    Copies,
    Memory
});

impl ImportError {
    /// Returns the error of a handle that was not made.
    pub(crate) fn of_handle(error: HandleError) -> ImportError {
        match error {
            HandleError::Build(error) => ImportError::Build(error),
            HandleError::Connect(error) => ImportError::Connect(error),
        }
    }

    /// Returns the error of a reader that has not reached the node of an export. A node that exports nothing does not
    /// serve its exports.
    pub(crate) fn of_connect(error: ConnectError, name: &str) -> ImportError {
        match error.is_not_served() {
            true => ImportError::NoExport { name: name.into(), others: Vec::new() },
            false => ImportError::Connect(error),
        }
    }
}

/// The reason why a value was not read.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The value takes a call to its owner, which [`Path::read`](super::Path::read) makes: the owner changes it again and
    /// again, the value is large, or the owner is on another host.
    Busy,
    /// An index is not below the length of its array.
    Index {
        /// The index.
        index: usize,
    },
    /// The path leads to nothing at the moment: an option has no value, a map has no entry for the key, or a pointer leads
    /// nowhere.
    Nothing,
    /// The pointer was read from another export: see [`Import::follow`](super::Import::follow).
    OtherExport,
    /// The path has more steps through options, vectors, maps and pointers, and by `index_at`, than a reader takes.
    Steps,
    /// The owner has withdrawn the export.
    Ended,
    /// The owner has died or was shut down, and another node has its name now.
    OwnerReplaced,
    /// The owner has ended, and the reader [asks for](super::Import::require_owner) one that is alive.
    OwnerEnded(Box<ExportOwner>),
    /// The memory has no value of the type.
    Invalid,
    /// A range has more elements than an expression runs over.
    Elements,
    /// A sum has more than 64 bits.
    Overflow,
    /// The parts of a snapshot are too many, or too large together.
    Large,
    /// The export is raw: its values have no versions, so several of them are not read as of one moment.
    Raw,
    /// The export is for named nodes, and the owner does not know the reader as one of them.
    NotPermitted,
    /// The call to the owner has failed.
    Call(CallError<Infallible>),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Busy => f.write_str("the value is not read without a call: write `.read().await`"),
            ReadError::Index { index } => write!(f, "the index {index} is out of range"),
            ReadError::Nothing => f.write_str(
                "the path leads to nothing at the moment: an option has no value, a map has no entry for the key, or a pointer \
                 leads nowhere",
            ),
            ReadError::OtherExport => f.write_str(
                "the pointer was read from another export: follow it by the import by which it was read",
            ),
            ReadError::Steps => write!(
                f,
                "the path has more than {EXPORT_STEPS_MAX} steps through options, vectors, maps and pointers, and by \
                 `index_at`: read a pointer on the way, and go on by `follow`"
            ),
            ReadError::Ended => f.write_str("the owner has withdrawn the export: import it again"),
            ReadError::OwnerReplaced => f.write_str(
                "the owner of the export has died or was shut down, and another node has its name now: import the \
                 export again",
            ),
            ReadError::OwnerEnded(owner) => write!(
                f,
                "the owner of the export has ended, and its memory has its last values: {owner}; import again from the node \
                 that has the name now"
            ),
            ReadError::Invalid => f.write_str("the owner's memory has no value of the type"),
            ReadError::Elements => write!(
                f,
                "an expression runs over {EXPRESSION_ELEMENTS_MAX} elements at most: write several ranges"
            ),
            ReadError::Overflow => f.write_str("the sum has more than 64 bits: add up fewer elements"),
            ReadError::Large => write!(
                f,
                "a snapshot has at most {EXPORT_PARTS_MAX} parts, of {} MiB together: read fewer of them at once",
                (EXPORT_WORDS_MAX * WORD) >> 20
            ),
            ReadError::Raw => f.write_str(
                "a raw export has no versions to read several values as of one moment: export it by `export` or `export_guarded`",
            ),
            ReadError::NotPermitted => f.write_str(
                "the export is for named nodes alone, and the reader has not called as one of them: a handle has no name, and a \
                 node's import calls as that node only where this node is driven; other threads read in memory alone",
            ),
            ReadError::Call(error) => write!(f, "the owner could not be asked: {error}"),
        }
    }
}

impl std::error::Error for ReadError {}

debug_as_text!(ReadError {
    Busy,
    Index,
    Nothing,
    OtherExport,
    Steps,
    Ended,
    OwnerReplaced,
    OwnerEnded,
    Invalid,
    Elements,
    Overflow,
    Large,
    Raw,
    NotPermitted,
    Call
});

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A reader is not told to serve exports by itself, which the runtime does.
    #[test]
    fn a_reader_that_has_waited_learns_that_there_is_no_export() {
        let not_served =
            || ConnectError::NotServed { service: "NodeExports".into(), peer: "prices".into() };
        for error in [not_served(), not_served().after(Duration::from_secs(1))] {
            let error = ImportError::of_connect(error, "prices/quotes");
            assert!(matches!(error, ImportError::NoExport { .. }), "{error}");
        }
    }
}
