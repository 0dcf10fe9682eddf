//! Connections with other hosts, and the addresses of hosts.

use crate::world::current;
use rustix::io::Result;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::BorrowedFd;

/// Connects a socket, which does not block, with a port of a host.
///
/// # Errors
/// Those of `connect(2)`. `EINPROGRESS` says that the connection is not yet established.
pub fn connect(socket: BorrowedFd<'_>, to: SocketAddr) -> Result<()> {
    match current() {
        Some(world) => world.connect(socket, to),
        None => rustix::net::connect(socket, &to),
    }
}

/// Returns the addresses of a port of a host, in the order in which they are to be tried. A world knows its hosts by their
/// names; for any other the calling thread blocks on the system.
///
/// # Errors
/// If the host is not known.
pub fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match current().and_then(|world| world.address(host)) {
        Some(address) => Ok(vec![SocketAddr::new(address, port)]),
        None => Ok((host, port).to_socket_addrs()?.collect()),
    }
}
