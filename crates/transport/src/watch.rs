//! The watch for the death of peers whose socket a forked child may hold.
//!
//! End-of-file on the bell is how death is normally seen; a child that was forked without care
//! keeps the socket open, and then only the process itself tells. So each peer process is held by a
//! pidfd, one for all sessions with it. A process of another PID namespace has no number here and
//! cannot be watched: its socket alone tells. What to do about a death is the runtime's. Invariant: a
//! process costs one descriptor as long as at least one session with it is watched, and none after.

use crate::error::{descriptor_limit, descriptors_text};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The processes that a node's peers live in.
#[derive(Default)]
pub struct Watch {
    processes: HashMap<u32, Process>,
}

struct Process {
    descriptor: OwnedFd,
    sessions: usize,
}

impl Watch {
    /// Nobody is watched yet.
    #[must_use]
    pub fn new() -> Watch {
        Watch::default()
    }

    /// Watches a process for one session more. Gives the descriptor that becomes readable when the
    /// process ends, if this is its first session: then it has to be polled. Ask while the
    /// session's socket is open, so that the number is still the peer's.
    pub fn watch(&mut self, pid: u32) -> Result<Option<BorrowedFd<'_>>, WatchError> {
        match self.processes.entry(pid) {
            Entry::Occupied(entry) => {
                entry.into_mut().sessions += 1;
                Ok(None)
            }
            Entry::Vacant(entry) => {
                let process = Process { descriptor: open(pid)?, sessions: 1 };
                Ok(Some(entry.insert(process).descriptor.as_fd()))
            }
        }
    }

    /// Watches a process for one session less. True with its last: then its descriptor is closed.
    /// Take it out of the poll before, while [`Watch::is_last`] says so; a forked child that holds
    /// a copy would keep it in there.
    pub fn unwatch(&mut self, pid: u32) -> bool {
        let Entry::Occupied(mut entry) = self.processes.entry(pid) else { return false };
        entry.get_mut().sessions -= 1;
        let last = entry.get().sessions == 0;
        if last {
            entry.remove();
        }
        last
    }

    /// The descriptor of a watched process, readable once it has ended.
    pub fn as_fd(&self, pid: u32) -> Option<BorrowedFd<'_>> {
        Some(self.processes.get(&pid)?.descriptor.as_fd())
    }

    /// Whether one session alone keeps a process watched.
    pub fn is_last(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.sessions == 1)
    }

    /// How many processes are watched.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// Whether no process is watched.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }
}

fn open(pid: u32) -> Result<OwnedFd, WatchError> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or(WatchError::NoProcess { pid })?;
    rustix::process::pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => WatchError::Dead { pid },
        Errno::MFILE => WatchError::Descriptors { limit: descriptor_limit() },
        error => WatchError::System { pid, error },
    })
}

/// Why a process cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchError {
    /// It has ended.
    Dead {
        /// The process.
        pid: u32,
    },
    /// That is the number of no process.
    NoProcess {
        /// The number.
        pid: u32,
    },
    /// The process has no descriptor left.
    Descriptors {
        /// How many it may have.
        limit: u64,
    },
    /// The system refused.
    System {
        /// The process.
        pid: u32,
        /// What the system said.
        error: Errno,
    },
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchError::Dead { pid } => write!(f, "process {pid} has ended"),
            WatchError::NoProcess { pid } => write!(f, "{pid} is the number of no process"),
            WatchError::Descriptors { limit } => descriptors_text(f, *limit),
            WatchError::System { pid, error } => {
                write!(f, "pidfd_open of process {pid} failed: {error}")
            }
        }
    }
}

impl std::error::Error for WatchError {}
