//! Where others come in: the listeners of a node, and how many may be on their way through each.

use crate::reactor::Source;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use upbeat_core::limits::{
    HANDSHAKE_SILENCE_MS_MAX, HELLO_MS_MAX, PENDING_HANDSHAKES_MAX, REMOTE_PENDING_MAX,
    REMOTE_SILENCE_MS_MAX,
};
use upbeat_transport::watch::Watch;
use upbeat_transport::{local, remote, shared};

/// From where others come who may have to wait.
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

    /// How many handshakes may be under way.
    pub(super) fn most(self) -> usize {
        match self {
            Outside::Processes => PENDING_HANDSHAKES_MAX,
            Outside::Hosts => REMOTE_PENDING_MAX,
        }
    }

    /// For how many milliseconds a peer may be silent while others wait.
    pub(super) fn patience_ms(self, spoke: bool) -> u64 {
        match (self, spoke) {
            (Outside::Processes, false) => HELLO_MS_MAX,
            (Outside::Processes, true) => HANDSHAKE_SILENCE_MS_MAX,
            (Outside::Hosts, false) => REMOTE_SILENCE_MS_MAX / 2,
            (Outside::Hosts, true) => REMOTE_SILENCE_MS_MAX,
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

    pub(super) fn is_full(&self, from: Outside) -> bool {
        match from {
            Outside::Processes => {
                self.shared.as_ref().is_some_and(|listener| listener.pending() >= from.most())
            }
            Outside::Hosts => self.remote.as_ref().is_some_and(remote::Listener::is_full),
        }
    }
}

/// Where others come in.
#[derive(Default)]
pub(super) struct Door {
    pub(super) listeners: Listeners,
    pub(super) watch: Watch,
    /// Whether others wait outside until a handshake has ended or gives way.
    pub(super) crowded: [bool; 2],
}

impl Listeners {
    /// Where the node listens for other hosts.
    pub(super) fn remote_address(&self) -> Option<SocketAddr> {
        self.remote.as_ref().map(remote::Listener::address)
    }
}
