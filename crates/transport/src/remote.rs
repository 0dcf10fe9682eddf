//! Sessions between hosts: the listener at a port, and the caller.
//!
//! Which host a name stands for is the runtime's to find out; here is one connection to one address. What is
//! said on it before the first frame is `greeting`'s. Invariant: a connection is one session's alone, and
//! whatever comes over it costs no other session anything.

mod options;

mod listener;

use crate::error::{OpenError, Whom};
use crate::greeting::{Greeting, unreached};
use crate::handshake::Side;
use crate::home::Home;
use crate::identity::Identity;
use crate::opening::Opening;
use crate::stream::Pipe;
use crate::tls::{Secured, TlsError};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use upbeat_core::name::NodeName;

pub use listener::Listener;

/// How connections to other hosts behave.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What this side shows, and whom it trusts: connections are under TLS. None has bytes go as they are.
    pub identity: Option<Identity>,
    /// Milliseconds after which a peer that does not answer is lost.
    pub peer_timeout_ms: u32,
}

/// Calls the node `to` at an address, for our session of this number. The connection has to stand at
/// `until_ms`.
pub fn connect(
    home: &Home,
    to: &NodeName,
    at: SocketAddr,
    session: usize,
    [now_ms, until_ms]: [u64; 2],
    terms: &Terms,
) -> Result<Opening, OpenError> {
    let us = Side::remote(home.card(), session)?;
    if !home.is_reachable() {
        return Err(OpenError::LocalOnly);
    }
    let socket = socket(at).map_err(OpenError::system("making a socket"))?;
    options::set(&socket, terms).map_err(OpenError::system("setting up a socket"))?;
    match rustix::net::connect(&socket, &at) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(error) => return Err(unreached(at)(error)),
    }
    let peer = || Whom { name: Some(to.clone()), pid: None, at: Some(at) };
    let pipe = match &terms.identity {
        None => Pipe::Plain(socket),
        Some(identity) => secured(Secured::client(socket, identity), peer)?,
    };
    let greeting = Greeting::call(us, pipe, to, at, [now_ms, until_ms]);
    Ok(Opening::remote(greeting))
}

/// A pipe under TLS, if what the identity says can be used.
fn secured(
    made: Result<Secured, TlsError>,
    peer: impl FnOnce() -> Whom,
) -> Result<Pipe, OpenError> {
    match made {
        Ok(secured) => Ok(Pipe::Tls(Box::new(secured))),
        Err(why) => Err(OpenError::Tls { peer: peer(), why: Box::new(why) }),
    }
}

fn socket(at: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}
