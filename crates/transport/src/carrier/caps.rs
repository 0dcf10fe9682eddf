//! The properties of a carrier that its owner has to know: its capabilities, its demands, and how far the peer is.

use super::{Carrier, Medium};
use std::fmt;

/// The capabilities of a carrier, and its demands on its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The peer reads messages and segments where this side wrote them.
    pub shares_memory: bool,
    /// The owner has to [pump](Carrier::pump) the carrier. Each look and each flush costs a system call.
    pub is_pumped: bool,
    /// Messages are encrypted on their way.
    pub encrypts: bool,
}

/// How far the peer is, which says who can vouch for its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The peer is in this process.
    Process,
    /// The peer is in a process of this host, or over a byte stream within this process.
    Host,
    /// The peer is on another host.
    Network {
        /// Whether the peer has shown a certificate for its name.
        certified: bool,
    },
}

/// The kind of a session's carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Lanes on the heap, between nodes of one process.
    Local,
    /// Lanes in shared memory, between processes of one host.
    Shared,
    /// A byte stream over a Unix socket, between processes of one host that share no memory.
    Stream,
    /// A byte stream over TCP in plaintext, between hosts.
    Tcp,
    /// A byte stream under TLS, between hosts.
    Tls,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Local => "local",
            Kind::Shared => "shared",
            Kind::Stream => "stream",
            Kind::Tcp => "tcp",
            Kind::Tls => "tls",
        })
    }
}

impl Carrier {
    /// Returns the capabilities of this carrier, and its demands on its owner.
    #[inline]
    pub fn caps(&self) -> Caps {
        let is_pumped = matches!(self.medium, Medium::Stream { .. });
        Caps { shares_memory: !is_pumped, is_pumped, encrypts: self.kind == Kind::Tls }
    }

    /// Returns how far the peer is.
    pub fn reach(&self) -> Reach {
        match self.kind {
            Kind::Local => Reach::Process,
            Kind::Shared | Kind::Stream => Reach::Host,
            Kind::Tcp => Reach::Network { certified: false },
            Kind::Tls => Reach::Network { certified: true },
        }
    }
}
