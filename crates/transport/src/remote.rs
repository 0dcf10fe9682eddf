//! Sessions between hosts: the listener at a port, and the caller.
//!
//! The runtime resolves a host's name; this module makes one connection to one address. `remote_handshake` defines
//! the records before the first frame. Invariant: a connection belongs to one session, and no data on it costs
//! another session anything.

mod options;

mod listener;

use crate::error::{OpenError, PeerIdentity};
use crate::handshake::Side;
use crate::identity::Identity;
use crate::local_node::{LocalNode, NodeInfo};
use crate::opening::Opening;
use crate::remote_handshake::{RemoteHandshake, ResumeProof, unreached};
use crate::stream::Pipe;
use crate::tls::{TlsError, TlsStream};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use upbeat_core::hello::Ticket;
use upbeat_core::name::NodeName;
use upbeat_environment::network;
use upbeat_environment::process::{Resource, obtain, with_socket};

pub use crate::remote_handshake::{ResumeError, Resuming};
pub use listener::Listener;

/// The settings of connections to other hosts.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// The identity of this side and the authorities that it trusts, for TLS. None sends bytes in plaintext.
    pub identity: Option<Identity>,
    /// The milliseconds after which a connection is closed whose peer does not answer.
    pub peer_timeout_ms: u32,
    /// The milliseconds for which a session outlives its connection; 0 means not at all.
    pub resume_within_ms: u32,
}

/// Calls the node `to` at an address, for our session of this number. The connection must be established by the
/// second of the two times; the first is the present.
pub fn connect(
    home: &LocalNode,
    to: &NodeName,
    at: SocketAddr,
    session: usize,
    times: [u64; 2],
    terms: &RemoteOptions,
) -> Result<Opening, OpenError> {
    let us = Side::remote(home.info(), session)?;
    if !home.is_reachable() {
        return Err(OpenError::LocalOnly);
    }
    call(us, (to, None), at, times, terms)
}

/// A session to be resumed, with the proof that the side which opened it shows to the listener.
#[derive(Clone)]
pub struct ResumeRequest {
    info: Arc<NodeInfo>,
    shown: ResumeProof,
}

impl ResumeRequest {
    /// Returns the request for a session of this home, with the number of slots of the listener's lane that have
    /// come.
    pub fn new(home: &LocalNode, ticket: Ticket, position: u64) -> ResumeRequest {
        let shown = ResumeProof { ticket, position, attempt: 0 };
        ResumeRequest { info: Arc::clone(home.info()), shown }
    }

    /// Returns the request of the attempt with this number. A listener accepts no attempt with a smaller number than
    /// one that it has accepted.
    #[must_use]
    pub fn attempt(&self, attempt: u64) -> ResumeRequest {
        let shown = ResumeProof { attempt, ..self.shown };
        ResumeRequest { info: Arc::clone(&self.info), shown }
    }
}

/// Calls the node `to` at an address, as [`connect`] does, to resume our session of this number. The owner is
/// [told](crate::opening::Step::Ready) when the connection stands.
pub fn connect_again(
    to: &NodeName,
    again: &ResumeRequest,
    at: SocketAddr,
    session: usize,
    times: [u64; 2],
    terms: &RemoteOptions,
) -> Result<Opening, OpenError> {
    call(Side::remote(&again.info, session)?, (to, Some(again.shown)), at, times, terms)
}

fn call(
    us: Side,
    (to, shown): (&NodeName, Option<ResumeProof>),
    at: SocketAddr,
    times: [u64; 2],
    terms: &RemoteOptions,
) -> Result<Opening, OpenError> {
    let socket = socket(at).map_err(OpenError::system("making a socket"))?;
    options::set(&socket, terms).map_err(OpenError::system("setting up a socket"))?;
    let socket = network::connect(socket, at, terms.peer_timeout_ms).map_err(unreached(at))?;
    let peer = || PeerIdentity { name: Some(to.clone()), pid: None, at: Some(at) };
    let pipe = match &terms.identity {
        None => Pipe::Plain(socket),
        Some(identity) => secured(TlsStream::client(socket, identity), peer)?,
    };
    let handshake = RemoteHandshake::call(us, pipe, (to, shown), at, times);
    Ok(Opening::remote(handshake.keeping(terms.resume_within_ms)))
}

/// Returns a pipe under TLS, if the identity can be used.
fn secured(
    made: Result<TlsStream, TlsError>,
    peer: impl FnOnce() -> PeerIdentity,
) -> Result<Pipe, OpenError> {
    match made {
        Ok(secured) => Ok(Pipe::Tls(Box::new(secured))),
        Err(why) => Err(OpenError::Tls { peer: peer(), why: Box::new(why) }),
    }
}

fn socket(at: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    obtain(Resource::Descriptors)?;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None).map(with_socket)
}
