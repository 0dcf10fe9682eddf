//! The watch for the death of peer processes whose socket a forked child may hold.
//!
//! A peer's death normally shows as end-of-file on the session's socket. A careless fork leaves the socket open in
//! the child, and then only the process itself tells. This module therefore holds a pidfd for each peer process,
//! shared by all sessions with it. A process of another PID namespace has no number here and cannot be watched: its
//! socket alone tells. The runtime decides what to do about a death. Invariant: a process costs one descriptor while
//! at least one session with it is watched, and none afterwards.

use crate::error::{descriptor_limit, descriptors_text};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use upbeat_environment::process::{Resource, obtain};
use upbeat_environment::time::Instant;
use upbeat_environment::waiting::poll;
use upbeat_memory::ticks::nanoseconds;

/// The processes in which a node's peers live.
#[derive(Default)]
pub struct Watch {
    processes: HashMap<u32, Process>,
}

struct Process {
    descriptor: OwnedFd,
    sessions: usize,
}

impl Watch {
    /// Returns a watch of no process.
    #[must_use]
    pub fn new() -> Watch {
        Watch::default()
    }

    /// Watches a process for one more session. For the first session of a process this returns the descriptor to
    /// poll, which becomes readable when the process ends. The session's socket must be open during the call, so that
    /// the number still belongs to the peer.
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

    /// Watches a process for one session less. Returns true for the last session, and closes the descriptor. The
    /// owner removes the descriptor from its poll beforehand, while [`Watch::is_last`] is true, because a copy in a
    /// forked child would keep it there.
    pub fn unwatch(&mut self, pid: u32) -> bool {
        let Entry::Occupied(mut entry) = self.processes.entry(pid) else { return false };
        entry.get_mut().sessions -= 1;
        let last = entry.get().sessions == 0;
        if last {
            entry.remove();
        }
        last
    }

    /// Returns the descriptor of a watched process, which is readable once the process has ended.
    pub fn as_fd(&self, pid: u32) -> Option<BorrowedFd<'_>> {
        Some(self.processes.get(&pid)?.descriptor.as_fd())
    }

    /// Returns whether only one session keeps a process watched.
    pub fn is_last(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.sessions == 1)
    }

    /// Returns the number of watched processes.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// Returns whether no process is watched.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }
}

/// A process of a peer, for somebody who asks whether it is alive.
#[derive(Debug)]
pub struct PeerProcess {
    pid: u32,
    /// None for this process, which is alive while it asks.
    descriptor: Option<OwnedFd>,
}

impl PeerProcess {
    /// Returns the process of this number. The session's socket must be open during the call, so that the number still
    /// belongs to the peer.
    pub fn of(pid: u32) -> Result<PeerProcess, WatchError> {
        let descriptor = if pid == std::process::id() { None } else { Some(open(pid)?) };
        Ok(PeerProcess { pid, descriptor })
    }

    /// Returns the number of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Returns whether the process has ended, or does within this time.
    pub(crate) fn ends_within(&self, time: Duration) -> bool {
        let Some(descriptor) = &self.descriptor else { return false };
        let end = Instant::now() + time;
        loop {
            let left = nanoseconds(end - Instant::now());
            let [ends] = poll([(descriptor.as_fd(), PollFlags::IN)], Some(left));
            if ends || left == 0 {
                return ends;
            }
        }
    }
}

fn open(pid: u32) -> Result<OwnedFd, WatchError> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or(WatchError::NoProcess { pid })?;
    let opened = obtain(Resource::Descriptors)
        .and_then(|()| rustix::process::pidfd_open(number, PidfdFlags::empty()));
    opened.map_err(|error| match error {
        Errno::SRCH => WatchError::Dead { pid },
        Errno::MFILE => WatchError::Descriptors { limit: descriptor_limit() },
        error => WatchError::System { pid, error },
    })
}

/// The error of a process that cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchError {
    /// The process has ended.
    Dead {
        /// The process.
        pid: u32,
    },
    /// No process has this number.
    NoProcess {
        /// The number.
        pid: u32,
    },
    /// The process has no descriptor left.
    Descriptors {
        /// The process's limit of descriptors.
        limit: u64,
    },
    /// A system call failed.
    System {
        /// The process.
        pid: u32,
        /// The error of the system.
        error: Errno,
    },
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchError::Dead { pid } => write!(f, "process {pid} has ended"),
            WatchError::NoProcess { pid } => write!(f, "no process has the number {pid}"),
            WatchError::Descriptors { limit } => descriptors_text(f, *limit),
            WatchError::System { pid, error } => {
                write!(f, "pidfd_open of process {pid} failed: {error}")
            }
        }
    }
}

impl std::error::Error for WatchError {}
