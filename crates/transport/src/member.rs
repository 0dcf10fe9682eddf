//! A node as the groups see it in which it takes callers: how busy it is, and how it is woken.
//!
//! Invariant: a node that was woken looks at all callers that were left with it before.

use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use upbeat_environment::process::{Resource, obtain};

/// A node that takes callers.
pub(crate) struct Member {
    sessions: AtomicUsize,
    /// Callers that wait for it in its groups.
    waiting: AtomicUsize,
    /// Whether it has left callers waiting for too long, and has looked at none since.
    is_away: AtomicBool,
    /// Readable while a caller may wait for it.
    wake: OwnedFd,
}

impl Member {
    pub(crate) fn new() -> Result<Member, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        obtain(Resource::Descriptors)?;
        let wake = rustix::event::eventfd(0, flags)?;
        let [sessions, waiting] = [0, 0].map(AtomicUsize::new);
        Ok(Member { sessions, waiting, is_away: AtomicBool::new(false), wake })
    }

    /// Has the node look at its callers.
    pub(crate) fn wake(&self) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// The node is about to look at its callers.
    pub(crate) fn has_woken(&self) {
        // The number in the eventfd does not matter.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        self.is_away.store(false, Ordering::Relaxed);
    }

    /// The node does not look at its callers.
    pub(crate) fn is_away(&self) {
        self.is_away.store(true, Ordering::Relaxed);
    }

    pub(crate) fn looks(&self) -> bool {
        !self.is_away.load(Ordering::Relaxed)
    }

    /// Returns how many sessions the node has, and callers that wait for it.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed) + self.waiting.load(Ordering::Relaxed)
    }

    /// Notes how many sessions the node has.
    pub(crate) fn has_sessions(&self, sessions: usize) {
        self.sessions.store(sessions, Ordering::Relaxed);
    }

    /// A caller waits for the node.
    pub(crate) fn waits(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// A caller waits for it no more.
    pub(crate) fn waits_no_more(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// The node takes a caller. It notes the number of its sessions when the session has its place.
    pub(crate) fn takes(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }
}

impl AsFd for Member {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
