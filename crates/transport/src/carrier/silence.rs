//! A carrier between hosts: whether the host of a silent peer is there.
//!
//! The owner of a carrier calls [`Carrier::look_at_peer`] now and then. When a look is due, and what it means, is
//! decided by [`upbeat_core::patience`]. Invariant: other carriers do nothing here.

use super::{Carrier, Way};

impl Carrier {
    /// Between hosts, while something is under way: looks now and then whether the peer's host answers, so that the
    /// system does not end the connection of a peer that is alive and reads nothing.
    pub fn look_at_peer(&self, now_ns: impl Fn() -> u64) {
        if let Way::Stream { stream, .. } = &self.way {
            stream.look_at_peer(&self.lanes, now_ns);
        }
    }

    /// In how many nanoseconds to [look at the peer](Carrier::look_at_peer), if something may be under way.
    pub fn looks_at_peer_in_ns(&self, now_ns: impl Fn() -> u64) -> Option<u64> {
        match &self.way {
            Way::Lanes { .. } => None,
            Way::Stream { stream, .. } => stream.looks_at_peer_in_ns(&self.lanes, now_ns),
        }
    }

    /// Whether nothing is under way for which to [look at the peer](Carrier::look_at_peer).
    pub fn is_calm(&self, now_ns: impl Fn() -> u64) -> bool {
        match &self.way {
            Way::Lanes { .. } => true,
            Way::Stream { stream, .. } => stream.is_calm(&self.lanes, now_ns),
        }
    }
}
