//! A spare descriptor, which a listener closes to accept a caller when the process has no descriptor left.
//!
//! The listener accepts the caller with the number of the spare descriptor, and tells the caller why it is refused.
//! Invariant: no caller waits for a process that can never accept.

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use upbeat_environment::process::{Resource, obtain};
use upbeat_environment::turns::Mutex;

/// A descriptor that is kept open to be given up.
pub(crate) struct SpareDescriptor(Mutex<Option<OwnedFd>>);

impl SpareDescriptor {
    pub(crate) fn new() -> Result<SpareDescriptor, Errno> {
        Ok(SpareDescriptor(Mutex::new(Some(spare()?))))
    }

    /// Runs `act` while the spare descriptor is closed, so that `act` can open one.
    pub(crate) fn lend(&self, act: impl FnOnce()) {
        // Other nodes that share the name wait for their turn.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = None;
        act();
        *kept = spare().ok();
    }

    /// Returns whether the spare descriptor is open.
    pub(crate) fn is_open(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Opens the spare descriptor again, if another thread took its number meanwhile.
    pub(crate) fn restock(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = spare().ok();
        }
    }
}

fn spare() -> Result<OwnedFd, Errno> {
    obtain(Resource::Descriptors)?;
    rustix::fs::openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}
