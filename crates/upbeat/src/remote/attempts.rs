//! Attempts to connect to the addresses of a host, one after another.

use std::net::SocketAddr;
use std::vec::IntoIter;
use upbeat_core::address::Address;
use upbeat_core::backoff::attempt_ms;
use upbeat_core::limits::CONNECT_MS_MAX;
use upbeat_transport::error::OpenError;

/// Returns the period in which a node of this host is tried in memory at an address: half of the address's time, so
/// that a namesake that does not answer leaves the rest to the node that listens there.
pub(crate) fn own_times(now_ms: u64, until_ms: u64) -> [u64; 2] {
    [now_ms, now_ms + until_ms.saturating_sub(now_ms) / 2]
}

/// Returns whether a node of this host that could not be reached in memory is tried again there, until a given time:
/// the node is busy, and in the second half of the time another way to connect is as good.
pub(crate) fn is_worth_waiting(error: &OpenError, now_ms: u64, end_ms: u64) -> bool {
    error.is_busy() && now_ms + CONNECT_MS_MAX / 2 < end_ms
}

/// The addresses that were not tried yet, and the errors of those that were.
pub(crate) struct Attempts {
    addresses: IntoIter<SocketAddr>,
    failed: Vec<OpenError>,
}

impl Attempts {
    pub(crate) fn new(addresses: Vec<SocketAddr>) -> Attempts {
        Attempts { addresses: addresses.into_iter(), failed: Vec::new() }
    }

    /// Returns the next address, and its deadline: each address has its share of the time that is left.
    pub(crate) fn next(&mut self, now_ms: u64, until_ms: u64) -> Option<(SocketAddr, u64)> {
        let share = attempt_ms(until_ms.saturating_sub(now_ms), self.addresses.len());
        Some((self.addresses.next()?, now_ms + share))
    }

    /// Stores the error of the last attempt.
    pub(crate) fn failed(&mut self, error: OpenError) {
        self.failed.push(error);
    }

    /// Returns the error of the only attempt, or of all of them.
    pub(crate) fn into_error(mut self, address: &Address) -> OpenError {
        match self.failed.len() {
            1 => self.failed.remove(0),
            _ => OpenError::NoAddress { at: address.to_string(), tried: self.failed },
        }
    }
}
