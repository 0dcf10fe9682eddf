//! Nodes of two hosts with a network between them that parts, drops one direction, or loses packets.

mod ends;
pub(crate) mod ledger;
mod lookups;
mod loss;
mod namespaces;
mod outages;
mod partition;
mod primitives;
mod silence;
mod stopped;
mod writers;

use crate::common::secure::{Authority, Scratch};
use crate::common::{Directory, PROGRAM};
use ledger::{LedgerHandle, Server};
use namespaces::{Host, Network};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use upbeat::handle::HandleBuilder;
use upbeat::{Builder, Identity, Node, Waiting};

/// The kind of client, and its way of waiting.
#[derive(Clone, Copy, Debug)]
enum Client {
    Node(Waiting),
    Blocking(Waiting),
    Awaited,
}

/// How messages are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Tcp,
    Tls,
}

/// A network, servers on its far host, and what clients on the near one need.
struct Stand<'n> {
    network: &'n Network,
    servers: [Server; 2],
    identity: Identity,
    directory: Directory,
    _scratch: Scratch,
}

impl<'n> Stand<'n> {
    /// Starts servers that take a silent peer for lost after this time.
    fn new(network: &'n Network, peer_timeout: Duration) -> Stand<'n> {
        let (authority, scratch) = (Authority::new(), Scratch::new());
        let text = authority.lasting(&[&format!("upbeat://{PROGRAM}/*")]);
        let path = scratch.write("identity.pem", &text, 0o600);
        let identity = Identity::load(&path).unwrap();
        let paths = ["", path.to_str().unwrap()];
        let servers = paths.map(|path| Server::start(&network.far, peer_timeout, path));
        Stand { network, servers, identity, directory: Directory::new(), _scratch: scratch }
    }

    fn near(&self) -> &Host {
        &self.network.near
    }

    /// Returns the name to which a client connects.
    fn to(&self, over: Over) -> &str {
        &self.servers[over as usize].to
    }

    /// The builder of a client's node.
    fn node(&self, over: Over, waiting: Waiting) -> Builder {
        // The registry of this process is one for all clients.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("client/{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let builder = Node::builder(&name).program(PROGRAM).directory(self.directory.path());
        let builder = builder.waiting(waiting);
        match over {
            Over::Tcp => builder.insecure_plaintext(),
            Over::Tls => builder.identity(self.identity.clone()),
        }
    }

    /// Connects a handle whose session ends with its connection.
    fn connect_once(&self, over: Over, waiting: Waiting, peer_timeout: Duration) -> LedgerHandle {
        let builder = self.handle(over).waiting(waiting).resume_within(Duration::ZERO);
        builder.peer_timeout(peer_timeout).connect(self.to(over)).unwrap()
    }

    fn handle(&self, over: Over) -> HandleBuilder {
        let builder = upbeat::handle::builder().program(PROGRAM).directory(self.directory.path());
        match over {
            Over::Tcp => builder.insecure_plaintext(),
            Over::Tls => builder.identity(self.identity.clone()),
        }
    }
}
