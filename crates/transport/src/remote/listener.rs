//! The socket at which nodes of other hosts call.

use super::{RemoteOptions, options, secured, socket};
use crate::error::{BindError, OpenError, PeerIdentity, descriptor_limit};
use crate::group::{Caller, Group, Membership, NotHanded};
use crate::handshake::Side;
use crate::host;
use crate::local_node::LocalNode;
use crate::opening::Opening;
use crate::remote_handshake::{RemoteHandshake, Resuming};
use crate::spare::SpareDescriptor;
use crate::stream::Pipe;
use crate::tls::TlsStream;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use upbeat_core::hello::Listening;
use upbeat_core::limits::PENDING_HANDSHAKES_MAX;
use upbeat_core::name::NodeName;
use upbeat_environment::network;
use upbeat_environment::process::{process_number, with_socket};
use upbeat_environment::turns::{Mutex, MutexGuard};

/// The connections that may wait to be accepted, if the system allows that many.
const BACKLOG: i32 = 4096;

/// The ports of this process's nodes, by process, name and the address that was asked for.
static PORTS: Mutex<Option<Ports>> = Mutex::new(None);

type Key = (u32, PathBuf, SocketAddr);

type Ports = HashMap<Key, Arc<Port>>;

/// A node's port, at which nodes of other hosts call. Nodes of a process that share a name share the ports at which
/// they are told to listen.
pub struct Listener {
    /// None if no other node of this process can have the node's name.
    key: Option<Key>,
    /// None while it is dropped.
    part: Option<Part>,
    name: NodeName,
    terms: RemoteOptions,
    /// One clone is held by every handshake under way.
    pending: Arc<()>,
}

/// A node's part in a port.
struct Part {
    membership: Membership<Called>,
    port: Arc<Port>,
}

/// A caller of a port.
enum Called {
    /// A caller whose connection was accepted.
    New(OwnedFd, SocketAddr),
    /// A caller that wants to resume a session.
    Again(Resuming),
}

impl Caller for Called {
    /// Returns whether any node may have the caller: a session is resumed by its own node alone.
    fn is_anybodys(&self) -> bool {
        matches!(self, Called::New(..))
    }

    /// Returns whether the caller tries once more to resume the session of the other.
    fn follows(&self, earlier: &Called) -> bool {
        match (self, earlier) {
            (Called::Again(later), Called::Again(earlier)) => later.follows(earlier),
            _ => false,
        }
    }
}

/// A listening port.
struct Port {
    socket: OwnedFd,
    /// The node that was the first to listen.
    name: NodeName,
    at: SocketAddr,
    /// Whether callers over IPv4 reach the port of an IPv6 address.
    also_ipv4: bool,
    spare: SpareDescriptor,
    group: Arc<Group<Called>>,
}

impl Port {
    /// Listens at an address.
    fn new(at: SocketAddr, name: &NodeName) -> Result<Port, BindError> {
        let open = || {
            let socket = socket(at)?;
            // A port whose last owner has just died is free.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            let also_ipv4 = at.is_ipv6() && !sockopt::ipv6_v6only(&socket)?;
            let (socket, at) = network::listen(socket, at, BACKLOG)?;
            let (spare, group) = (SpareDescriptor::new()?, Arc::new(Group::new()));
            Ok(Port { socket, name: name.clone(), at, also_ipv4, spare, group })
        };
        open().map_err(|error| match error {
            Errno::MFILE => BindError::Descriptors { limit: descriptor_limit() },
            error => BindError::Port { at, error },
        })
    }

    /// Accepts a caller. Returns its address, if it has not gone again.
    fn accept(&self) -> Result<(OwnedFd, Result<SocketAddr, Errno>), Errno> {
        network::accept(&self.socket).map(|(socket, at)| (with_socket(socket), at))
    }
}

/// Names the node of this process that has the port, if an address is taken by one.
fn own_port(ports: &Ports, error: BindError) -> BindError {
    let BindError::Port { at, error: Errno::ADDRINUSE } = error else { return error };
    let ours = ports.iter().filter(|((pid, ..), _)| *pid == process_number());
    // An address of all interfaces is in the way of each of them.
    let is_in_way = |port: &&Arc<Port>| {
        let (one, other) = (port.at.ip(), at.ip());
        port.at.port() == at.port()
            && (one == other || one.is_unspecified() || other.is_unspecified())
    };
    match ours.map(|(_, port)| port).find(is_in_way) {
        Some(port) => BindError::OwnPort { at, by: port.name.clone() },
        None => error,
    }
}

impl Listener {
    /// Listens at an address, for the node of this home. Port 0 has the system choose one. A node that shares its name
    /// shares the port too, if another node of the name was told the same address.
    pub fn bind(
        at: SocketAddr,
        home: &LocalNode,
        terms: RemoteOptions,
    ) -> Result<Listener, BindError> {
        let name = home.name().ok_or(BindError::Unnamed)?.clone();
        let key = home.info().lock().map(|lock| (process_number(), lock.to_owned(), at));
        // Until the end, so that the port is not let go of meanwhile.
        let mut ports = ports();
        let ports = ports.get_or_insert_default();
        let port = match key.as_ref().and_then(|key| ports.get(key)) {
            Some(port) => Arc::clone(port),
            None => Arc::new(Port::new(at, &name).map_err(|error| own_port(ports, error))?),
        };
        let Some(membership) = Membership::take(&port.group, home)? else {
            return Err(own_port(ports, BindError::Port { at, error: Errno::ADDRINUSE }));
        };
        if let Some(network) = host::network() {
            home.info().listens(Listening::new(port.at, port.also_ipv4, network));
        }
        if let Some(key) = &key {
            ports.insert(key.clone(), Arc::clone(&port));
        }
        Ok(Listener {
            key,
            part: Some(Part { membership, port }),
            name,
            terms,
            pending: Arc::new(()),
        })
    }

    fn part(&self) -> &Part {
        self.part.as_ref().expect("it stands until it is dropped")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.part().port.at
    }

    /// Returns the number of handshakes of this listener that are under way. How many may be is the owner's to
    /// say, who leaves the others in the socket's queue.
    pub fn pending(&self) -> usize {
        Arc::strong_count(&self.pending) - 1
    }

    /// Whether a caller waits that another node of this name has accepted.
    pub fn has_caller(&self) -> bool {
        self.part().membership.has_caller()
    }

    /// Takes callers back from nodes of this name that do not take them. Returns when to look again, if any caller
    /// waits for another node.
    pub fn look_after(&self, now_ms: u64) -> Option<u64> {
        self.part().membership.look_after(now_ms)
    }

    /// Leaves a caller that asks to go on with a session with the node of this name that has the session. The caller is
    /// refused if there is no such node, and told to come again if as many wait for that node as may.
    pub fn hand_over(&self, mut resuming: Resuming) {
        let Some(incarnation) = resuming.listener() else { return resuming.refuse() };
        // The caller takes no place among this listener's handshakes any more.
        resuming.leaves_listener();
        match self.part().membership.hand_to(incarnation, Called::Again(resuming)) {
            Err((NotHanded::Full, Called::Again(resuming))) => resuming.turn_away(),
            Err((_, Called::Again(resuming))) => resuming.refuse(),
            Ok(()) | Err((_, Called::New(..))) => {}
        }
    }

    /// Returns whether the descriptor is there with which the next caller can be turned away.
    pub fn has_spare(&self) -> bool {
        self.part().port.spare.is_open()
    }

    /// Accepts the next caller, for the session of this number; None if nobody calls. Callers that are other nodes' of
    /// this name are left with those.
    ///
    /// An error is one caller's; the next may be accepted at once. The exception is
    /// [`OpenError::Descriptors`]: callers are turned away as long as [`Listener::has_spare`], so leave the rest for the
    /// next turn, or for later.
    pub fn accept(
        &self,
        home: &LocalNode,
        session: usize,
        now_ms: u64,
    ) -> Result<Option<Opening>, OpenError> {
        let us = Side::remote(home.info(), session)?;
        let (socket, at) = match self.next()? {
            None => return Ok(None),
            Some(Called::Again(resuming)) => return Ok(Some(Opening::again(resuming))),
            Some(Called::New(socket, at)) => (socket, at),
        };
        options::set(&socket, &self.terms).map_err(OpenError::system("setting up a socket"))?;
        let peer = || PeerIdentity { at: Some(at), ..PeerIdentity::default() };
        let pipe = match &self.terms.identity {
            None => Pipe::Plain(socket),
            Some(identity) => secured(TlsStream::server(socket, identity), peer)?,
        };
        let pending = Arc::clone(&self.pending);
        let handshake = RemoteHandshake::answer(us, pipe, &self.name, pending, at, now_ms);
        Ok(Some(Opening::remote(handshake.keeping(self.terms.resume_within_ms))))
    }

    /// Returns the next caller of this node: one that waits for it, or one that has connected.
    fn next(&self) -> Result<Option<Called>, OpenError> {
        let Part { membership, port } = self.part();
        if let Some(called) = membership.next() {
            return Ok(Some(called));
        }
        // As many as may be another node's.
        for _ in 0..PENDING_HANDSHAKES_MAX {
            let (socket, at) = match port.accept() {
                Err(Errno::MFILE | Errno::NFILE) => {
                    port.spare.lend(|| drop(port.accept()));
                    return Err(OpenError::Descriptors { limit: descriptor_limit() });
                }
                Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
                // Any other error is that of a connection which is gone again.
                other => other.map_err(OpenError::system("accepting a caller"))?,
            };
            port.spare.restock();
            let at = at.map_err(OpenError::system("asking for the peer"))?;
            if let Some(called) = membership.route(Called::New(socket, at)) {
                return Ok(Some(called));
            }
        }
        Ok(None)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.part().port.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut ports = ports();
        self.part = None;
        // The port is free when its last node is gone.
        if let Some(ports) = ports.as_mut()
            && let Some(key) = &self.key
            && ports.get(key).is_some_and(|port| Arc::strong_count(port) == 1)
        {
            ports.remove(key);
        }
    }
}

fn ports() -> MutexGuard<'static, Option<Ports>> {
    PORTS.lock().unwrap_or_else(PoisonError::into_inner)
}
