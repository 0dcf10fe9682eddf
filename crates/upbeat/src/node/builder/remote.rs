//! The settings of a node for other hosts.

use super::Builder;
use crate::error::BuildError;
use crate::remote::{Remote, peer_timeout, resolve};
use std::time::Duration;
use upbeat_core::address::Address;
use upbeat_core::limits::REMOTE_SESSIONS_MAX;
use upbeat_transport::error::{BindError, OpenError};
use upbeat_transport::identity::Identity;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::remote::Listener;

/// The environment variable with the address at which a node listens for other hosts, if the application sets none.
const LISTEN_VARIABLE: &str = "UPBEAT_LISTEN";

impl Builder {
    /// Makes the node reachable for other hosts at an address: `0.0.0.0:7411` for every IPv4 address of this
    /// host, `[::]:7411` for IPv6 and IPv4 addresses, `localhost:7411` for this host alone. Other nodes
    /// [connect](crate::Node::connect) to `name@host:7411`. With port 0 the system chooses a port, which
    /// [`Node::listens_at`](crate::Node::listens_at) returns. The default is the value of the environment
    /// variable `UPBEAT_LISTEN`; without it, other hosts do not reach the node.
    ///
    /// Messages go under TLS, by the node's [identity](Builder::identity), or in plaintext where both sides
    /// [permit it](Builder::insecure_plaintext).
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = std::env::temp_dir().join(format!("upbeat-doc-listen-{}", std::process::id()));
    /// let builder = upbeat::Node::builder("doc/listens").directory(&directory);
    /// let node = builder.listen("127.0.0.1:0").insecure_plaintext().build()?;
    /// println!("connect to doc/listens@{}", node.listens_at().expect("it listens"));
    /// # drop(node);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok(()) }
    /// ```
    pub fn listen(mut self, at: &str) -> Builder {
        self.remote.listen = Some(at.to_owned());
        self
    }

    /// Sends messages between hosts under TLS 1.3, by an identity that `upbeat keys issue` has made: both
    /// sides show a certificate of the program's own authority, and each checks the other's before a frame is
    /// read. The identity must be for this program and this node. If its file is replaced while the node runs, new
    /// connections use the new content. The default is the file in the environment variable
    /// `UPBEAT_IDENTITY`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use upbeat::{Identity, Node};
    ///
    /// let builder = Node::builder("counter").listen("0.0.0.0:7411");
    /// let node = builder.identity(Identity::load("counter.pem")?).build()?;
    /// # Ok(()) }
    /// ```
    pub fn identity(mut self, identity: Identity) -> Builder {
        self.remote.identity = Some(identity);
        self
    }

    /// Permits messages between hosts in plaintext: anybody between the two hosts can read and change them,
    /// and anybody who reaches the port can call. Use it only in networks without other users.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = std::env::temp_dir().join(format!("upbeat-doc-plaintext-{}", std::process::id()));
    /// let builder = upbeat::Node::builder("doc/protected").directory(&directory);
    /// let error = builder.listen("127.0.0.1:0").build().err().expect("an error");
    /// assert!(error.to_string().contains("insecure_plaintext()"));
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok(()) }
    /// ```
    pub fn insecure_plaintext(mut self) -> Builder {
        self.remote.plaintext = true;
        self
    }

    /// Sets the time after which a connection to another host counts as broken if its other side does not answer: its
    /// host, or the network, is down. The default is 10 seconds. [`resume_within`](Builder::resume_within) decides
    /// what happens to the session then.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let builder = upbeat::Node::builder("doc/impatient").local_only();
    /// let node = builder.peer_timeout(Duration::from_secs(3)).build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When the time is less than a second.
    pub fn peer_timeout(mut self, time: Duration) -> Builder {
        self.remote.peer_timeout = Some(peer_timeout(time));
        self
    }

    /// Limits the sessions that nodes and handles of one address may have with this node, as a listener. An address is
    /// an IPv4 address, or the first 64 bits of an IPv6 address. The default is 4,096. Further callers are refused with
    /// this reason, the node warns once on standard error, and the counter `callers turned away` counts them.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::Node::builder("doc/public").local_only();
    /// let node = builder.sessions_per_address(16).build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When the limit is 0.
    pub fn sessions_per_address(mut self, sessions: usize) -> Builder {
        assert!(sessions > 0, "a node that permits no sessions need not listen");
        self.remote.gate.sessions_per_address = sessions;
        self
    }

    /// Limits the sessions that the node has with nodes and handles of other hosts, whichever side opens them: each
    /// takes a descriptor. The default is 61,504, which is also the most. Further callers are refused with this reason.
    /// A session that has lost its connection may still continue over another.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::Node::builder("doc/bounded").local_only();
    /// let node = builder.remote_sessions(1_000).build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When the limit is 0, or more than 61,504.
    pub fn remote_sessions(mut self, sessions: usize) -> Builder {
        assert!(
            (1..=REMOTE_SESSIONS_MAX).contains(&sessions),
            "{sessions} sessions with other hosts: give 1 to {REMOTE_SESSIONS_MAX}"
        );
        self.remote.sessions = Some(sessions);
        self
    }

    /// Limits the first messages of callers of other hosts that the node answers a second; as many are answered at once
    /// after a pause. The other callers wait. While sessions of the node have messages, callers also get no more than a third
    /// of its thread's time. The default is 1,000: a first message under TLS takes a processor about 0.3 milliseconds.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::Node::builder("doc/calm").local_only();
    /// let node = builder.accepts_per_second(100).build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When the limit is 0.
    pub fn accepts_per_second(mut self, connections: u32) -> Builder {
        assert!(connections > 0, "a node that accepts no connections need not listen");
        self.remote.gate.accepts_per_second = connections;
        self
    }

    /// Limits the bytes that all nodes and handles of other hosts together make this node hold: the rings into which
    /// their lanes grow, and the buffers of their long messages. At the limit, a peer continues with the ring and the
    /// buffers that it has; a message that needs more fails at its sender with
    /// [`CallError::NoMemory`](crate::CallError::NoMemory), and the counter `remote bytes declined` counts it.
    /// [`Node::remote_bytes`](crate::Node::remote_bytes) returns the bytes held. The default is 256 MiB, or four of the
    /// [longest messages](Builder::max_message_bytes) if these are more.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::Node::builder("doc/frugal").local_only();
    /// let node = builder.remote_bytes(16 << 20).build()?;
    /// assert_eq!(node.remote_bytes(), 0);
    /// # Ok(()) }
    /// ```
    pub fn remote_bytes(mut self, bytes: u64) -> Builder {
        self.remote.bytes = Some(bytes);
        self
    }

    /// Sets how long a session with a node of another host outlives its connection. During that time the side
    /// that has opened the session connects again, and calls, one-way messages and streams wait; then they continue
    /// without loss, each once and in order. When the time is over, calls that were sent end as
    /// [`Unknown`](crate::CallError::Unknown). A client's calls that were not sent connect again; they, and a
    /// handle's, end as [`NotConnected`](crate::CallError::NotConnected) or [`NotSent`](crate::CallError::NotSent). The default is
    /// 5 seconds. The shorter time of both sides counts; with zero, the session ends with its
    /// connection.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let builder = upbeat::Node::builder("doc/patient").local_only();
    /// let node = builder.resume_within(Duration::from_secs(30)).build()?;
    /// # Ok(()) }
    /// ```
    pub fn resume_within(mut self, time: Duration) -> Builder {
        self.remote.resume_within = Some(time);
        self
    }
}

/// Returns the listener for other hosts, if the application or the environment sets an address.
pub(super) fn listener(
    remote: &Remote,
    home: &LocalNode,
    local_only: bool,
    is_client: bool,
) -> Result<Option<Listener>, BuildError> {
    let of_environment =
        || std::env::var(LISTEN_VARIABLE).ok().filter(|_| !local_only && !is_client);
    let Some(text) = remote.listen.clone().or_else(of_environment) else { return Ok(None) };
    if local_only {
        return Err(BuildError::Bind(BindError::LocalOnly));
    }
    let address = Address::new(&text).map_err(BuildError::Listen)?;
    if remote.is_unprotected() {
        return Err(BuildError::Unprotected { at: text });
    }
    let found = resolve(&address).map_err(|error| match error {
        OpenError::Unreached { at, why } => BuildError::ListenHost { at, why },
        error => BuildError::System(std::io::Error::other(error)),
    })?;
    // Of several addresses of a name, this is the first that belongs to this host.
    let mut failed = BindError::Unnamed;
    for at in found {
        match Listener::bind(at, home, remote.terms()) {
            Ok(listener) => return Ok(Some(listener)),
            Err(error) => failed = error,
        }
    }
    Err(BuildError::Bind(failed))
}
