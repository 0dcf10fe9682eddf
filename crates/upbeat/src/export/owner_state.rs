//! The knowledge that a reader has of the owner of an export.

use std::fmt;
use std::time::Duration;

/// The owner of an export, as its reader has found it: see [`Import::owner`](super::Import::owner).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOwner {
    /// The name of the node, as the reader has written it.
    pub node: String,
    /// The number of the owner's process, if the reader knows it.
    pub pid: Option<u32>,
    /// Whether the owner is alive.
    pub state: OwnerState,
    /// The time since the owner was last known to be alive. It is zero while the owner is [alive](OwnerState::Alive). The
    /// owner has ended at some time since then.
    pub age: Duration,
}

/// Whether the owner of an export is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnerState {
    /// The process is there, and the node has not shut down. It may still be stopped, or hang.
    Alive,
    /// The node has shut down. What is read in memory are its last values.
    ShutDown,
    /// The process has ended without shutting the node down. What is read in memory are its last values.
    Died,
    /// The reader cannot know without a call: it shares no memory with the owner, the owner is in another PID namespace,
    /// this process is a forked child of the one that has imported, or
    /// the export has ended or moved from the memory in which this import has found it.
    Unknown,
}

impl OwnerState {
    /// Returns whether the owner has certainly ended.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, OwnerState::ShutDown | OwnerState::Died)
    }
}

impl fmt::Display for ExportOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node `{}`", self.node)?;
        if let Some(pid) = self.pid {
            write!(f, " (process {pid})")?;
        }
        match self.state {
            OwnerState::Alive => f.write_str(" is alive"),
            OwnerState::ShutDown => f.write_str(" has shut down"),
            OwnerState::Died => f.write_str(" has died"),
            OwnerState::Unknown => f.write_str(
                " cannot be watched: it shares no memory with this process, or gave that up",
            ),
        }?;
        match self.state {
            OwnerState::Alive => Ok(()),
            _ => write!(f, "; it was last known to be alive {:.1?} ago", self.age),
        }
    }
}
