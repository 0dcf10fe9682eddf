//! A descriptor for nothing, kept to be closed when there is no other.
//!
//! A listener whose process has no descriptor left accepts with its number whoever calls next, and tells
//! the caller. Invariant: nobody waits for a process that can never accept.

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::fd::OwnedFd;

/// The descriptor in reserve.
pub(crate) struct Reserve(RefCell<Option<OwnedFd>>);

impl Reserve {
    pub(crate) fn new() -> Result<Reserve, Errno> {
        Ok(Reserve(RefCell::new(Some(spare()?))))
    }

    /// Does something with one descriptor more than there are.
    pub(crate) fn lend(&self, act: impl FnOnce()) {
        self.0.replace(None);
        act();
        self.restock();
    }

    /// Opens the descriptor again, where another thread has taken its number.
    pub(crate) fn restock(&self) {
        let mut reserve = self.0.borrow_mut();
        if reserve.is_none() {
            *reserve = spare().ok();
        }
    }
}

fn spare() -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}
