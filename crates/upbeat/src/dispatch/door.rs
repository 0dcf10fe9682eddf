//! The listeners of a node, and the limits that `core::admission` sets for their callers.

use crate::reactor::Source;
use crate::session::Session;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use upbeat_core::admission::{HandshakeLimit, Paused, Pauses, Prefix};
use upbeat_transport::watch::Watch;
use upbeat_transport::{local, remote, shared};

/// A source of callers who may have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// Other processes of this host.
    Processes,
    /// Other hosts.
    Hosts,
}

impl Outside {
    pub(super) const ALL: [Outside; 2] = [Outside::Processes, Outside::Hosts];

    pub(super) fn source(self) -> Source {
        match self {
            Outside::Processes => Source::SharedArrivals,
            Outside::Hosts => Source::RemoteArrivals,
        }
    }

    /// Returns the pause in which its callers are left in the queue of their socket.
    pub(super) fn paused(self) -> Paused {
        match self {
            Outside::Processes => Paused::Processes,
            Outside::Hosts => Paused::Hosts,
        }
    }

    /// Returns the limit that decides which handshakes give way.
    pub(super) fn crowd(self) -> HandshakeLimit {
        match self {
            Outside::Processes => HandshakeLimit::Processes,
            Outside::Hosts => HandshakeLimit::Hosts,
        }
    }
}

/// The listeners of a node.
#[derive(Default)]
pub(crate) struct Listeners {
    pub(crate) shared: Option<shared::Listener>,
    pub(crate) local: Option<local::Listener>,
    pub(crate) remote: Option<remote::Listener>,
}

impl Listeners {
    pub(super) fn outside(&self, from: Outside) -> Option<BorrowedFd<'_>> {
        match from {
            Outside::Processes => self.shared.as_ref().map(AsFd::as_fd),
            Outside::Hosts => self.remote.as_ref().map(AsFd::as_fd),
        }
    }

    /// Returns whether callers that another node of this name has accepted wait for this node.
    pub(super) fn has_caller(&self, from: Outside) -> bool {
        match from {
            Outside::Processes => self.shared.as_ref().is_some_and(shared::Listener::has_caller),
            Outside::Hosts => self.remote.as_ref().is_some_and(remote::Listener::has_caller),
        }
    }

    /// Takes callers back from nodes of the same name that do not accept them. Returns when to look again, if a caller
    /// waits for another node.
    pub(super) fn look_after(&self, now_ms: u64) -> Option<u64> {
        let local = self.local.as_ref().and_then(|listener| listener.look_after(now_ms));
        let shared = self.shared.as_ref().and_then(|listener| listener.look_after(now_ms));
        let remote = self.remote.as_ref().and_then(|listener| listener.look_after(now_ms));
        [local, shared, remote].into_iter().flatten().min()
    }

    /// Returns the number of handshakes of callers from there that are under way.
    pub(super) fn pending(&self, from: Outside) -> usize {
        let pending = match from {
            Outside::Processes => self.shared.as_ref().map(shared::Listener::pending),
            Outside::Hosts => self.remote.as_ref().map(remote::Listener::pending),
        };
        pending.unwrap_or(0)
    }

    /// Returns whether the process has a descriptor with which a caller can be turned away.
    pub(super) fn has_spare(&self, from: Outside) -> bool {
        match from {
            Outside::Processes => self.shared.as_ref().is_none_or(shared::Listener::has_spare),
            Outside::Hosts => self.remote.as_ref().is_none_or(remote::Listener::has_spare),
        }
    }
}

/// The listeners of a node, and the callers that wait at them.
#[derive(Default)]
pub(super) struct Door {
    pub(super) listeners: Listeners,
    pub(super) watch: Watch,
    /// The sockets that are not polled for a while, each with the time of the next look.
    pub(super) pauses: Pauses,
    /// When to look after callers that wait for other nodes of the same name, if there are any.
    pub(super) looks_after_at_ms: Option<u64>,
}

/// Returns the address of a session's caller, if the session was accepted from another host.
pub(super) fn caller_of(session: &Session) -> Option<Prefix> {
    let at = session.carrier.peer.at.filter(|_| session.noted.opened_as.get().is_none());
    at.map(|at| Prefix::of(at.ip()))
}

impl Listeners {
    /// Returns the address at which the node listens for other hosts.
    pub(super) fn remote_address(&self) -> Option<SocketAddr> {
        self.remote.as_ref().map(remote::Listener::address)
    }
}
