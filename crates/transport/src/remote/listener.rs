//! The socket at which nodes of other hosts call.

use super::{Terms, options, secured, socket};
use crate::error::{BindError, OpenError, Whom, descriptor_limit};
use crate::handshake::Side;
use crate::home::Home;
use crate::host;
use crate::opening::Opening;
use crate::remote_handshake::RemoteHandshake;
use crate::spare::SpareDescriptor;
use crate::stream::Pipe;
use crate::tls::TlsStream;
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use upbeat_core::hello::Listening;
use upbeat_core::name::NodeName;

/// The connections that may wait to be accepted, if the system allows that many.
const BACKLOG: i32 = 4096;

/// A node's port, at which nodes of other hosts call.
pub struct Listener {
    socket: OwnedFd,
    name: NodeName,
    at: SocketAddr,
    terms: Terms,
    spare: SpareDescriptor,
    /// A counter, of which every handshake in progress holds a clone.
    pending: Arc<()>,
}

impl Listener {
    /// Listens at an address, for the node of this home. With port 0 the system chooses one.
    pub fn bind(at: SocketAddr, home: &Home, terms: Terms) -> Result<Listener, BindError> {
        let name = home.name().ok_or(BindError::Unnamed)?.clone();
        let failed = |error| match error {
            Errno::MFILE => BindError::Descriptors { limit: descriptor_limit() },
            error => BindError::Port { at, error },
        };
        let open = || {
            let socket = socket(at)?;
            // This makes a port available whose last owner has just died.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            rustix::net::bind(&socket, &at)?;
            rustix::net::listen(&socket, BACKLOG)?;
            let bound = rustix::net::getsockname(&socket)?;
            let also_ipv4 = at.is_ipv6() && !sockopt::ipv6_v6only(&socket)?;
            let at = SocketAddr::try_from(bound).unwrap_or(at);
            Ok((socket, at, also_ipv4, SpareDescriptor::new()?))
        };
        let (socket, at, also_ipv4, spare) = open().map_err(failed)?;
        if let Some(network) = host::network() {
            home.info().listens(Listening::new(at, also_ipv4, network));
        }
        Ok(Listener { socket, name, at, terms, spare, pending: Arc::new(()) })
    }

    /// Returns the address at which the node listens.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// Returns the number of this listener's handshakes in progress. The owner decides how many there may be, and
    /// leaves the other callers in the socket's queue.
    pub fn pending(&self) -> usize {
        Arc::strong_count(&self.pending) - 1
    }

    /// Accepts the next caller, for the session with this number. Returns None if there is no caller.
    ///
    /// An error concerns one caller; the next caller may be accepted at once. After [`OpenError::Descriptors`] the
    /// remaining callers should wait for the next turn, because turning a caller away needs the spare descriptor,
    /// which may not be available again.
    pub fn accept(
        &self,
        home: &Home,
        session: usize,
        now_ms: u64,
    ) -> Result<Option<Opening>, OpenError> {
        let us = Side::remote(home.info(), session)?;
        let socket = match self.accept_socket() {
            Err(Errno::MFILE | Errno::NFILE) => {
                self.spare.lend(|| drop(self.accept_socket()));
                return Err(OpenError::Descriptors { limit: descriptor_limit() });
            }
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            // Any other error belongs to a connection that has ended already.
            other => other.map_err(OpenError::system("accepting a caller"))?,
        };
        self.spare.restock();
        let system = OpenError::system;
        let at = rustix::net::getpeername(&socket)
            .and_then(|at| at.ok_or(Errno::NOTCONN)?.try_into())
            .map_err(system("asking for the peer"))?;
        options::set(&socket, &self.terms).map_err(system("setting up a socket"))?;
        let peer = || Whom { at: Some(at), ..Whom::default() };
        let pipe = match &self.terms.identity {
            None => Pipe::Plain(socket),
            Some(identity) => secured(TlsStream::server(socket, identity), peer)?,
        };
        let pending = Arc::clone(&self.pending);
        let handshake = RemoteHandshake::answer(us, pipe, &self.name, pending, at, now_ms);
        Ok(Some(Opening::remote(handshake.keeping(self.terms.resume_within_ms))))
    }

    fn accept_socket(&self) -> Result<OwnedFd, Errno> {
        rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
