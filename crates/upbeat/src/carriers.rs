//! The carriers of the sessions of a node or a handle, as the application or the environment chooses them.

use crate::error::BuildError;
use crate::remote::Remote;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddr};
use upbeat_core::name::{NodeName, ProgramId, ProgramName};
use upbeat_transport::error::{HomeError, OpenError};
use upbeat_transport::identity::Identity;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::Opening;
use upbeat_transport::socket_directory::SocketDirectory;
use upbeat_transport::{local, shared};

/// The environment variable that forbids shared memory with other processes if it is 0 and the application does not
/// choose.
const MEMORY_VARIABLE: &str = "UPBEAT_SHARED_MEMORY";
/// The environment variable that selects one carrier for every session, for the tests of this library. Only builds with
/// debug assertions read it: the environment of a program that is deployed never permits plaintext.
const CARRIER_VARIABLE: &str = "UPBEAT_TEST_CARRIER";

/// The choice of carriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carriers {
    /// The heap within a process, and shared memory between processes if possible.
    Any,
    /// The heap within a process, and byte streams between processes.
    NoMemory,
    /// Byte streams, within a process too.
    Streams,
    /// Shared memory, within a process too.
    Memory,
    /// TCP through the loopback interface, within a process too.
    Tcp,
    /// TLS over TCP through the loopback interface, within a process too.
    Tls,
}

/// The lowest port of tests, below the ports that the system gives to connections.
const PORT_MIN: u16 = 10_000;
const PORTS: u16 = 20_000;

impl Carriers {
    /// Returns the choice of the application, or of the environment.
    pub(crate) fn of(shared_memory: Option<bool>) -> Carriers {
        let of_tests = cfg!(debug_assertions).then(|| std::env::var(CARRIER_VARIABLE).ok());
        match of_tests.flatten().as_deref() {
            Some("stream") => return Carriers::Streams,
            Some("shared") => return Carriers::Memory,
            Some("tcp") => return Carriers::Tcp,
            Some("tls") => return Carriers::Tls,
            _ => {}
        }
        let of_environment = || std::env::var_os(MEMORY_VARIABLE).is_none_or(|text| text != "0");
        match shared_memory.unwrap_or_else(of_environment) {
            true => Carriers::Any,
            false => Carriers::NoMemory,
        }
    }

    /// Makes the home of a node with this name, or of a handle. Other processes can reach a node that has a place.
    pub(crate) fn home(
        self,
        program: ProgramId,
        name: Option<NodeName>,
        reachable: bool,
    ) -> Result<LocalNode, HomeError> {
        let home = match (self, reachable, name) {
            (_, false, name) => LocalNode::local(program, name)?,
            (Carriers::Any | Carriers::Memory, true, None) => LocalNode::of_handle(program)?,
            (Carriers::Any | Carriers::Memory, true, name) => LocalNode::new(program, name)?,
            (_, true, name) => LocalNode::without_memory(program, name)?,
        };
        Ok(if self == Carriers::Streams { home.over_streams_alone() } else { home })
    }

    /// Returns the terms on which nodes of other hosts are met. If a test has every session go over a network, a node
    /// listens at an address that follows from its name, in plaintext, or under TLS with the identity that lies
    /// beside the directory of the sockets.
    pub(crate) fn terms(
        self,
        mut remote: Remote,
        place: Option<&SocketDirectory>,
        program: &ProgramName,
        name: Option<&NodeName>,
    ) -> Result<Remote, BuildError> {
        let (Carriers::Tcp | Carriers::Tls, Some(place)) = (self, place) else { return Ok(remote) };
        if let (None, Some(name)) = (&remote.listen, name) {
            let at = loopback(place, program, name, std::process::id());
            remote.listen = Some(at.to_string());
        }
        if remote.is_unprotected() {
            remote.plaintext = self == Carriers::Tcp;
        }
        if remote.is_unprotected() {
            let path = place.directory().with_extension("pem");
            remote.identity = Some(Identity::load(path).map_err(BuildError::Identity)?);
        }
        Ok(remote)
    }

    /// Returns the address of a node of this host, if a test has every session go over a network.
    pub(crate) fn address(
        self,
        place: Option<&SocketDirectory>,
        program: &ProgramName,
        name: &NodeName,
    ) -> Option<SocketAddr> {
        let (Carriers::Tcp | Carriers::Tls, Some(place)) = (self, place) else { return None };
        let pid = shared::process_of(place, program, name)?;
        Some(loopback(place, program, name, pid))
    }

    /// Calls a node: in this process first, if the choice of carriers allows that.
    pub(crate) fn connect(
        self,
        home: &LocalNode,
        place: Option<&SocketDirectory>,
        name: &NodeName,
        session: usize,
        [now_ms, began_ms]: [u64; 2],
    ) -> Result<Opening, OpenError> {
        self.here_first(
            place,
            || local::connect(home, name, session, now_ms),
            |place| shared::connect(place, home, name, session, began_ms),
        )
    }

    /// Calls a node in memory, as [`Carriers::connect`] does, if the node listens at this address of our host. The
    /// node must answer by a given time.
    pub(crate) fn connect_at(
        self,
        home: &LocalNode,
        place: Option<&SocketDirectory>,
        (name, at): (&NodeName, SocketAddr),
        session: usize,
        times: [u64; 2],
    ) -> Result<Opening, OpenError> {
        self.here_first(
            place,
            || local::connect_at(home, name, at, session, times[0]),
            |place| shared::connect_at(place, home, name, at, session, times),
        )
    }

    /// Calls a node of this process, if the choice of carriers allows that, or else of another process.
    fn here_first(
        self,
        place: Option<&SocketDirectory>,
        here: impl FnOnce() -> Result<Opening, OpenError>,
        beside: impl FnOnce(&SocketDirectory) -> Result<Opening, OpenError>,
    ) -> Result<Opening, OpenError> {
        if let (Carriers::Memory, Some(place)) = (self, place) {
            return beside(place);
        }
        match (place, here()) {
            (Some(place), Err(OpenError::NoSuchNode { .. })) => beside(place),
            (_, here) => here,
        }
    }
}

/// Returns the address of a node, given its name and process. A hash, which is the same in every process of a build,
/// chooses one of 2^38 addresses, so those of different nodes differ.
fn loopback(
    place: &SocketDirectory,
    program: &ProgramName,
    name: &NodeName,
    pid: u32,
) -> SocketAddr {
    let mut hasher = DefaultHasher::new();
    (place.socket_path(program, name), pid).hash(&mut hasher);
    let [a, b, c, ports @ ..] = hasher.finish().to_be_bytes();
    let port = PORT_MIN + u16::from_be_bytes([ports[0], ports[1]]) % PORTS;
    // These bounds exclude the usual loopback address, and the addresses of networks and broadcasts.
    let ip = Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254));
    SocketAddr::from((ip, port))
}
