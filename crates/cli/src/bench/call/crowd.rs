//! Calls to a node that has a thousand other sessions, which are idle.
//!
//! Each session belongs to a handle, has been used once, and stays open. The memory of the sessions is the
//! growth of both processes: proportional set size, page tables, and the kernel's slab. The slab is
//! that of the whole machine, so other programs may disturb the figure.

use crate::bench::echo::EchoHandle;
use crate::bench::error::BenchError;
use crate::bench::hosts::{self, Caller, Policy, each, refused};
use crate::bench::memory::line;
use crate::bench::timing::{Round, Work};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use upbeat::Node;

/// The number of idle sessions.
pub(super) const IDLE: usize = 1000;
/// The descriptors that idle sessions may need in a process, and some for other purposes.
const DESCRIPTORS: u64 = 8 * IDLE as u64 + 256;

/// The caller, and the idle sessions.
pub(super) struct Crowd {
    scratch: PathBuf,
    /// The node that serves all sessions.
    peer: String,
    caller: Caller,
    peer_pid: u32,
    idle: Vec<EchoHandle>,
    bytes: Option<f64>,
}

impl Crowd {
    /// Creates the caller.
    pub(super) fn new(scratch: &Path, peer: String, peer_pid: u32) -> Result<Crowd, BenchError> {
        allow_descriptors()?;
        let caller = Caller::new("bench-caller/crowd", &peer, Some(scratch), Policy::Polling)?;
        let scratch = scratch.to_owned();
        Ok(Crowd { scratch, peer, caller, peer_pid, idle: Vec::new(), bytes: None })
    }

    /// Returns whether the idle sessions are open.
    pub(super) fn is_there(&self) -> bool {
        self.idle.len() == IDLE
    }

    /// Opens the idle sessions, in a round of its own.
    pub(super) fn gather(&mut self) -> Result<(), BenchError> {
        // Everything that is not an idle session is created before the memory is measured.
        self.open_one()?;
        let before = memory(self.peer_pid);
        for _ in 1..IDLE {
            self.open_one()?;
        }
        let after = memory(self.peer_pid);
        let more = |(before, after): (f64, f64)| (after - before) / (IDLE - 1) as f64;
        self.bytes = before.zip(after).map(more);
        self.caller.round(async |_| Ok(()))
    }

    /// Returns the node that calls.
    pub(super) fn node(&self) -> &Node {
        self.caller.node()
    }

    /// Does a round of calls, one after another.
    pub(super) fn round(&self, work: Work) -> Result<Round, BenchError> {
        self.caller.round(async |client| each(work, || client.null()).await)
    }

    fn open_one(&mut self) -> Result<(), BenchError> {
        let handle: EchoHandle = hosts::handle(&self.peer, &self.scratch, Policy::Polling)?;
        handle.blocking().null().map_err(refused("a call"))?;
        self.idle.push(handle);
        Ok(())
    }

    /// Returns the bytes of memory of an idle session, on both sides.
    pub(super) fn bytes_per_session(&self) -> Option<f64> {
        self.bytes.map(f64::round)
    }
}

/// Raises this process's limit of descriptors to what the sessions may need, if the system permits it.
pub(super) fn allow_descriptors() -> Result<(), BenchError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= DESCRIPTORS) {
        return Ok(());
    }
    let current = Some(maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS)));
    setrlimit(Resource::Nofile, Rlimit { current, maximum })
        .map_err(BenchError::system("setrlimit of open files"))
}

/// Returns the bytes of memory of this process and of another, with shared memory counted once, and of the
/// kernel's objects. Returns `None` if the system does not report them.
fn memory(peer: u32) -> Option<f64> {
    let own = std::process::id();
    let mut kilobytes = line("/proc/meminfo", "Slab:")?;
    for pid in [own, peer] {
        kilobytes += line(&format!("/proc/{pid}/smaps_rollup"), "Pss:")?;
        kilobytes += line(&format!("/proc/{pid}/status"), "VmPTE:")?;
    }
    Some(kilobytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::memory;

    #[test]
    fn this_process_has_memory() {
        assert!(memory(std::process::id()).is_none_or(|bytes| bytes > 1e6));
    }
}
