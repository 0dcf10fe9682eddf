//! Finding out whether the host of a silent peer still answers, for a carrier between hosts.
//!
//! The owner of a carrier calls [`Carrier::look_at_peer`] now and then. [`upbeat_core::connection_timeout`] decides when
//! a look is due and what its result means. Invariant: other carriers do nothing here.

use super::{Carrier, Medium};

impl Carrier {
    /// Checks whether the peer's host answers while messages are under way, so that the system does not close the
    /// connection of a peer that is alive and reads nothing.
    pub fn look_at_peer(&self, now_ns: impl Fn() -> u64) {
        if let Medium::Stream { stream, .. } = &self.medium {
            stream.look_at_peer(&self.lanes, now_ns);
        }
    }

    /// Returns in how many nanoseconds to [look at the peer](Carrier::look_at_peer), if messages may be under way.
    pub fn looks_at_peer_in_ns(&self, now_ns: impl Fn() -> u64) -> Option<u64> {
        match &self.medium {
            Medium::Lanes { .. } => None,
            Medium::Stream { stream, .. } => stream.looks_at_peer_in_ns(&self.lanes, now_ns),
        }
    }

    /// Returns whether no message is under way that would make the owner [look at the peer](Carrier::look_at_peer).
    pub fn is_calm(&self, now_ns: impl Fn() -> u64) -> bool {
        match &self.medium {
            Medium::Lanes { .. } => true,
            Medium::Stream { stream, .. } => stream.is_calm(&self.lanes, now_ns),
        }
    }
}
