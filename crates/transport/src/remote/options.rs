//! The socket options of connections between hosts.

use super::RemoteOptions;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::os::fd::AsFd;
use std::time::Duration;
use upbeat_environment::is_simulated;
use upbeat_memory::socket::hold_unsent;

/// The number of probes of a silent connection before the peer is lost.
const PROBES: u32 = 4;
/// The bytes that the system accepts before it can send them: replies wait behind these bytes.
const UNSENT_BYTES_MAX: u32 = 128 << 10;
const SECOND: Duration = Duration::from_secs(1);

/// Sets the options, unless a simulated world has made the socket: small messages are sent at once, and little data waits
/// in the system ahead of replies. A peer that does not answer is lost in time: by the user timeout if it owes an
/// acknowledgement, else by probes.
pub(super) fn set(socket: impl AsFd, terms: &RemoteOptions) -> Result<(), Errno> {
    if is_simulated() {
        return Ok(());
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    hold_unsent(socket.as_fd(), UNSENT_BYTES_MAX)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    let Probing { after, every } = Probing::within(terms.peer_timeout_ms);
    sockopt::set_tcp_keepidle(&socket, after)?;
    sockopt::set_tcp_keepintvl(&socket, every)?;
    sockopt::set_tcp_keepcnt(&socket, PROBES)?;
    sockopt::set_tcp_user_timeout(&socket, terms.peer_timeout_ms)
}

/// The times at which an idle connection is probed.
#[derive(Debug, PartialEq, Eq)]
struct Probing {
    /// The time from the last received packet to the first probe.
    after: Duration,
    every: Duration,
}

impl Probing {
    /// Chooses times with which the last probe is due when the timeout is over, in whole seconds as the system counts
    /// them. The system gives a connection up at the first probe that is due after the user timeout, and never at the
    /// first probe of all.
    fn within(peer_timeout_ms: u32) -> Probing {
        let whole = Duration::from_secs(u64::from(peer_timeout_ms).div_ceil(1_000));
        let every = Duration::from_secs(whole.as_secs() / u64::from(PROBES + 1)).max(SECOND);
        Probing { after: whole.saturating_sub(PROBES * every).max(SECOND), every }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The system gives up at the first probe after the timeout, which is less than a second late.
    #[test]
    fn the_last_probe_is_due_when_the_timeout_is_over() {
        for peer_timeout_ms in (1_000..200_000).step_by(100) {
            let Probing { after, every } = Probing::within(peer_timeout_ms);
            let timeout = Duration::from_millis(peer_timeout_ms.into());
            let due = (1..).map(|probe| after + probe * every).find(|due| *due >= timeout).unwrap();
            let late = due - timeout;
            assert!(late < SECOND || timeout == SECOND && late == SECOND, "{timeout:?}: {late:?}");
        }
        let [after, every] = [2, 2].map(Duration::from_secs);
        assert_eq!(Probing::within(10_000), Probing { after, every });
    }
}
