//! The timeout of a connection: a host that answers is alive, even if its program reads nothing.
//!
//! The system ends a connection that has made no progress for the timeout that it was given. A closed window
//! counts as no progress, although the peer's host answers the probes of that window. This side therefore checks a
//! connection while something is under way, and extends the system's timeout while the host answers. The system
//! itself then detects a silent host. Other modules have the sockets, and time is an argument. Invariant: the
//! system's timeout is longer than the configured one only while the window is closed, and ends no later than the
//! configured timeout after the host's last answer that was seen.

/// The number of checks of a connection within the configured timeout.
const LOOKS: u64 = 16;
/// The number of these checks that may be missed before the system ends a connection whose peer answers.
const SPARE_LOOKS: u32 = 6;

/// The state of a connection, as the system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Whether the peer's receive window is closed.
    pub is_closed: bool,
    /// The bytes that the peer has acknowledged since the connection began.
    pub acked: u64,
    /// The milliseconds since the last packet of the peer's host.
    pub silent_ms: u32,
}

/// The decisions about the system's timeout for one connection. Times are nanoseconds of one clock.
///
/// ```
/// use upbeat_core::connection_timeout::{ConnectionTimeout, Sending};
///
/// const SECOND: u64 = 1_000_000_000;
/// let mut patience = ConnectionTimeout::new(10_000);
/// let closed = Sending { is_closed: true, acked: 700, silent_ms: 20 };
/// assert_eq!(patience.look(0, closed), None);
/// // The host answers the probes of its window, which is closed for nine seconds.
/// assert_eq!(patience.look(9 * SECOND, closed), Some(12_750));
/// assert_eq!(patience.look(10 * SECOND, Sending { is_closed: false, ..closed }), Some(10_000));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ConnectionTimeout {
    timeout_ms: u32,
    /// The system's timeout that this side has set last.
    told_ms: u32,
    /// When the window was first seen closed, and how many bytes were acknowledged then.
    closed: Option<(u64, u64)>,
    next_ns: u64,
}

impl ConnectionTimeout {
    /// Creates the state of a new connection with this timeout.
    pub const fn new(timeout_ms: u32) -> ConnectionTimeout {
        ConnectionTimeout { timeout_ms, told_ms: timeout_ms, closed: None, next_ns: 0 }
    }

    /// Returns the time of the next check, while something is under way.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns the nanoseconds between two checks.
    pub fn interval_ns(&self) -> u64 {
        u64::from(self.timeout_ms) * 1_000_000 / LOOKS
    }

    /// Handles a check of the connection. Returns the system's new timeout in milliseconds, if it changes.
    pub fn look(&mut self, now_ns: u64, seen: Sending) -> Option<u32> {
        self.next_ns = now_ns.saturating_add(self.interval_ns());
        let wanted_ms = self.wanted_ms(now_ns, seen);
        (core::mem::replace(&mut self.told_ms, wanted_ms) != wanted_ms).then_some(wanted_ms)
    }

    fn wanted_ms(&mut self, now_ns: u64, seen: Sending) -> u32 {
        if !seen.is_closed {
            self.closed = None;
            return self.timeout_ms;
        }
        let since_ns = match self.closed {
            Some((since_ns, acked)) if acked == seen.acked => since_ns,
            // The system counts its timeout from here on.
            _ => {
                self.closed = Some((now_ns, seen.acked));
                return self.timeout_ms;
            }
        };
        let spare_ms = self.timeout_ms / LOOKS as u32 * SPARE_LOOKS;
        if seen.silent_ms >= self.timeout_ms - spare_ms {
            return self.told_ms;
        }
        let lasted_ms = u32::try_from((now_ns - since_ns) / 1_000_000).unwrap_or(u32::MAX);
        self.timeout_ms.max(lasted_ms.saturating_add(spare_ms))
    }
}

#[cfg(test)]
mod tests;
