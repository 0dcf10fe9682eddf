//! Connections with other hosts, and the addresses of hosts.
//!
//! The sockets of a world are not those that its processes make: they have no options of TCP.

use crate::process::obtain;
use crate::world::{Resource, current};
use rustix::io::{Errno, Result};
use rustix::net::SocketFlags;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{PoisonError, RwLock};

/// Returns the address of a host that the system does not know by this name.
pub type HostNames = dyn Fn(&str) -> Option<IpAddr> + Send + Sync;

/// The hosts that this process knows beside those of the system.
static NAMES: RwLock<Option<Box<HostNames>>> = RwLock::new(None);

/// Has this process ask for the names of hosts here first, and the system for all others; or the system alone. A test over real
/// processes gives each of its hosts an address of the loopback interface.
pub fn name_hosts(names: Option<Box<HostNames>>) {
    *NAMES.write().unwrap_or_else(PoisonError::into_inner) = names;
}

/// Connects a socket, which does not block, with a port of a host. Returns the socket to use; its connection may not be
/// established yet. A world ends the connection if nothing is acknowledged for so many milliseconds.
///
/// # Errors
/// Those of `connect(2)`.
pub fn connect(socket: OwnedFd, to: SocketAddr, patience_ms: u32) -> Result<OwnedFd> {
    if let Some(world) = current() {
        return world.connect(to, patience_ms);
    }
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Listens at an address, for so many callers that wait at most. Returns the socket to use, and where it listens.
///
/// # Errors
/// Those of `bind(2)` and `listen(2)`.
pub fn listen(socket: OwnedFd, at: SocketAddr, callers: i32) -> Result<(OwnedFd, SocketAddr)> {
    if let Some(world) = current() {
        return world.listen(at);
    }
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, callers)?;
    let bound = rustix::net::getsockname(&socket)?;
    Ok((socket, SocketAddr::try_from(bound).unwrap_or(at)))
}

/// Accepts a caller at a socket that listens. Returns its address, if it has not gone again.
///
/// # Errors
/// Those of `accept(2)`.
pub fn accept(listening: impl AsFd) -> Result<(OwnedFd, Result<SocketAddr>)> {
    if let Some(world) = current() {
        obtain(Resource::Descriptors)?;
        obtain(Resource::Memory)?;
        let (socket, from) = world.accept(listening.as_fd())?;
        return Ok((socket, Ok(from)));
    }
    let socket = rustix::net::accept_with(listening, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    let from =
        rustix::net::getpeername(&socket).and_then(|from| from.ok_or(Errno::NOTCONN)?.try_into());
    Ok((socket, from))
}

/// Returns the addresses of a port of a host, in the order in which they are to be tried. A world, or
/// [`name_hosts`], knows hosts by their names; for any other the calling thread blocks on the system.
///
/// # Errors
/// If the host is not known.
pub fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let named = || NAMES.read().unwrap_or_else(PoisonError::into_inner).as_ref()?(host);
    match current().map_or_else(named, |world| world.address_of(host)) {
        Some(address) => Ok(vec![SocketAddr::new(address, port)]),
        None => Ok((host, port).to_socket_addrs()?.collect()),
    }
}

/// Returns the address of the host on which the process runs, in a world.
#[must_use]
pub fn address_in_world() -> Option<IpAddr> {
    current().map(|world| world.address())
}
