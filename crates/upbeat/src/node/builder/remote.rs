//! What a node is told of other hosts.

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

/// The environment variable that says where a node listens for other hosts, where the application does not.
const LISTEN_VARIABLE: &str = "UPBEAT_LISTEN";

impl Builder {
    /// Has nodes of other hosts reach the node at an address: `0.0.0.0:7411` for every IPv4 address of this
    /// host, `[::]:7411` for IPv6 ones and IPv4 ones too, `localhost:7411` for this host alone. They
    /// [connect](crate::Node::connect) to `name@host:7411`. Port 0 has the system choose one, which
    /// [`Node::listens_at`](crate::Node::listens_at) tells. If nobody says, it is what the environment
    /// variable `UPBEAT_LISTEN` says, else other hosts do not reach the node.
    ///
    /// Messages go under TLS, by the node's [identity](Builder::identity), or as they are where both sides
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

    /// Has messages between hosts go under TLS 1.3, by an identity that `upbeat keys issue` has made: both
    /// sides show a certificate of the program's own authority, and each checks the other's before a frame is
    /// read. It has to be for this program and this node. If its file is replaced while the node runs, new
    /// connections use what it holds then. If nobody says, it is the file that the environment variable
    /// `UPBEAT_IDENTITY` names.
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

    /// Permits messages between hosts to go as they are: whoever is between the two can read and change them,
    /// and whoever reaches the port can call. It is for networks where nobody else is.
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

    /// After what time a connection to another host is taken for broken whose other side does not answer: its
    /// host, or the network, is down. 10 seconds if nobody says. What becomes of the session then says
    /// [`resume_within`](Builder::resume_within).
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
    /// When it is less than a second.
    pub fn peer_timeout(mut self, time: Duration) -> Builder {
        self.remote.peer_timeout = Some(peer_timeout(time));
        self
    }

    /// How many sessions nodes and handles of one address may have with this node, as a listener: an IPv4
    /// address, or the first 64 bits of an IPv6 address. 4,096 if nobody says. Further callers are told so, the
    /// node warns once on standard error, and the counter `callers turned away` counts them.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::Node::builder("doc/public").local_only();
    /// let node = builder.sessions_per_address(16).build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When it is 0.
    pub fn sessions_per_address(mut self, sessions: usize) -> Builder {
        assert!(sessions > 0, "a node that permits no sessions need not listen");
        self.remote.gate.sessions_per_address = sessions;
        self
    }

    /// How many sessions the node has with nodes and handles of other hosts at most, whichever side opens them: each
    /// takes a descriptor. 61,504 if nobody says, which is also the most. Further callers are told so. A session that has lost
    /// its connection goes on over another all the same.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::Node::builder("doc/bounded").local_only();
    /// let node = builder.remote_sessions(1_000).build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When it is 0, or more than 61,504.
    pub fn remote_sessions(mut self, sessions: usize) -> Builder {
        assert!(
            (1..=REMOTE_SESSIONS_MAX).contains(&sessions),
            "{sessions} sessions with other hosts: give 1 to {REMOTE_SESSIONS_MAX}"
        );
        self.remote.sessions = Some(sessions);
        self
    }

    /// How many connections of other hosts the node accepts a second, and as many at once after a pause. The
    /// others wait in the system's queue. 1,000 if nobody says: a handshake under TLS takes a processor about a
    /// millisecond.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::Node::builder("doc/calm").local_only();
    /// let node = builder.accepts_per_second(100).build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When it is 0.
    pub fn accepts_per_second(mut self, connections: u32) -> Builder {
        assert!(connections > 0, "a node that accepts no connections need not listen");
        self.remote.gate.accepts_per_second = connections;
        self
    }

    /// How many bytes nodes and handles of other hosts make this node hold, all together: the rings into which their
    /// lanes grow, and the buffers of their long messages. Where no more fit, a peer goes on with the ring and the buffers
    /// that it has; a message for which it has none fails at its sender with
    /// [`CallError::NoMemory`](crate::CallError::NoMemory), and the counter `remote bytes declined` counts it.
    /// [`Node::remote_bytes`](crate::Node::remote_bytes) says what is held. 256 MiB if nobody says, or four of the
    /// [longest messages](Builder::max_message_bytes) where these take more.
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

    /// For how long a session with a node of another host outlives its connection. While it does, the side
    /// that has opened it connects again, and calls, one-way messages and streams wait; then they go on as if
    /// nothing had been, each once and in order. When the time is over, calls that were sent end as
    /// [`Unknown`](crate::CallError::Unknown), others as [`NotSent`](crate::CallError::NotSent). 5 seconds if
    /// nobody says; the shorter time of both sides counts, and nothing outlives its connection if it is
    /// nothing.
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

/// Listens for other hosts, if the application says so or the environment.
pub(super) fn listener(
    remote: &Remote,
    home: &LocalNode,
    local_only: bool,
) -> Result<Option<Listener>, BuildError> {
    let of_environment = || std::env::var(LISTEN_VARIABLE).ok().filter(|_| !local_only);
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
    // Of several addresses of a name the first that is this host's.
    let mut failed = BindError::Unnamed;
    for at in found {
        match Listener::bind(at, home, remote.terms()) {
            Ok(listener) => return Ok(Some(listener)),
            Err(error) => failed = error,
        }
    }
    Err(BuildError::Bind(failed))
}
