//! What the sockets between hosts are told.

use super::Terms;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::os::fd::AsFd;
use std::time::Duration;

/// Probes of a silent connection before the peer is lost.
const PROBES: u32 = 4;

/// Has small messages go at once, and a peer that does not answer lost in time: one that owes an
/// acknowledgement by the user timeout, one that owes nothing by probes.
pub(super) fn set(socket: impl AsFd, terms: &Terms) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    // The system counts these in seconds. The first part of the time passes before the first probe.
    let part = Duration::from_millis(terms.peer_timeout_ms.into()) / (PROBES + 1);
    let part = Duration::from_secs(part.as_secs().max(1));
    sockopt::set_tcp_keepidle(&socket, part)?;
    sockopt::set_tcp_keepintvl(&socket, part)?;
    sockopt::set_tcp_keepcnt(&socket, PROBES)?;
    sockopt::set_tcp_user_timeout(&socket, terms.peer_timeout_ms)
}
