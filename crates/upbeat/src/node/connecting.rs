//! How a node connects to others: by their names on this host, or at their addresses.

use super::Node;
use crate::call::Bound;
use crate::client;
use crate::dispatch::{Connecting, Dispatcher, Whose};
use crate::error::ConnectError;
use crate::remote::{self, Attempts, is_worth_waiting, own_times};
use crate::session::Session;
use crate::time;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use upbeat_core::address::{Address, NodeAddress};
use upbeat_core::bind::BindRequest;
use upbeat_core::limits::CONNECT_MS_MAX;
use upbeat_environment::chance::random;
use upbeat_memory::fork::PerProcess;
use upbeat_transport::error::OpenError;
use upbeat_transport::host::is_own;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::Opening;
use upbeat_transport::remote::connect;
use upbeat_transport::socket_directory::SocketDirectory;

/// The node that has made a reference to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The scope of the node's name: nodes in the same scope find each other by their names.
    pub(crate) names: u64,
    /// The node's incarnation, by which a session with it is known.
    pub(crate) incarnation: u64,
}

/// The node that is to be connected to.
#[derive(Clone, Debug)]
pub(crate) struct Whom {
    pub(crate) to: NodeAddress,
    /// The origin in a reference, if there is one.
    pub(crate) origin: Option<Origin>,
}

impl From<NodeAddress> for Whom {
    fn from(to: NodeAddress) -> Whom {
        Whom { to, origin: None }
    }
}

impl Node {
    /// Returns the address at which the node listens for other hosts, if it does.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/listens-not").local_only().build()?;
    /// assert_eq!(node.listens_at(), None);
    /// # Ok(()) }
    /// ```
    pub fn listens_at(&self) -> Option<SocketAddr> {
        self.inner.listens_at()
    }

    /// Returns the parts of a reference to this node: its name, and its address if it listens for other hosts. Returns
    /// `None` if the node has no name.
    pub(crate) fn referred(&self) -> Option<(NodeAddress, Origin)> {
        let inner = &self.inner;
        let name = NodeAddress::from(inner.home.name()?.clone());
        let at = self.listens_at().filter(|at| !at.ip().is_unspecified());
        let to = at.and_then(|at| NodeAddress::new(&format!("{name}@{at}")).ok());
        let names = names_hold_in(inner.settings.place.as_ref());
        Some((to.unwrap_or(name), Origin { names, incarnation: inner.home.incarnation() }))
    }
}

impl Dispatcher {
    /// Opens a session with a node and binds a service there, or uses an open session.
    pub(super) async fn connect_service(
        self: &Rc<Self>,
        whom: &Whom,
        request: &BindRequest,
        service: &'static str,
    ) -> Result<Bound, ConnectError> {
        let session = match whom.origin {
            None => self.open(&whom.to).await?,
            Some(origin) => self.open_referred(&whom.to, origin).await?,
        };
        client::bind(self, session, &whom.to, request, service).await
    }

    /// Returns the session with the node of a reference: found by its name if this node is in the same scope, or an
    /// open session with that incarnation, or a new session at its address.
    async fn open_referred(
        self: &Rc<Self>,
        to: &NodeAddress,
        Origin { names, incarnation }: Origin,
    ) -> Result<Rc<Session>, ConnectError> {
        let name = NodeAddress::from(to.node().clone());
        let place = self.settings.place.as_ref();
        // A node that is local only knows the names of its process alone.
        let known = [names_hold_in(place), names_hold_in(None)];
        let holds = place.is_none() || known.contains(&names);
        match self.session_of(to.node(), incarnation) {
            Some(session) => Ok(session),
            None if holds => self.open(&name).await,
            None if to.address().is_some() => self.open(to).await,
            None => Err(ConnectError::NoAddress { to: to.to_string() }),
        }
    }

    /// Returns the session with a node: an open one, or a new one.
    async fn open(self: &Rc<Self>, to: &NodeAddress) -> Result<Rc<Session>, ConnectError> {
        if to.address().is_some() && self.settings.remote.is_unprotected() {
            return Err(ConnectError::Unprotected { to: to.to_string() });
        }
        let (began_ms, mut attempts) = (self.now_ms(), 0);
        loop {
            if self.is_closing() {
                return Err(ConnectError::ShutDown);
            }
            if let Some(session) = self.session_with(to) {
                return Ok(session);
            }
            let opened = match to.address() {
                None => self.open_by_name(to, began_ms).await,
                Some(address) => self.open_at(to, address, began_ms + CONNECT_MS_MAX).await,
            };
            match opened {
                Err(error) if error.is_busy() && self.now_ms() < began_ms + CONNECT_MS_MAX => {
                    attempts += 1;
                    time::sleep(self.connect_delay(attempts)).await;
                }
                opened => return opened.map_err(ConnectError::Open),
            }
        }
    }

    /// Tries once to open a session on this host.
    async fn open_by_name(
        self: &Rc<Self>,
        to: &NodeAddress,
        began_ms: u64,
    ) -> Result<Rc<Session>, OpenError> {
        let settings = &self.settings;
        let program = self.home.program().name();
        if let Some(at) = settings.carriers.address(settings.place.as_ref(), program, to.node()) {
            return self.try_at(to, at, began_ms + CONNECT_MS_MAX).await;
        }
        let call = |home: &LocalNode, session, now_ms| {
            let (place, times) = (settings.place.as_ref(), [now_ms, began_ms]);
            settings.carriers.connect(home, place, to.node(), session, times)
        };
        self.join(to, Whose::Here, call).await
    }

    /// Tries to open a session at each of the addresses that a host has, until a time at most.
    async fn open_at(
        self: &Rc<Self>,
        to: &NodeAddress,
        address: &Address,
        until_ms: u64,
    ) -> Result<Rc<Session>, OpenError> {
        let mut attempts = Attempts::new(self.lookup(address, until_ms).await?);
        let end_ms = until_ms;
        while let Some((at, until_ms)) = attempts.next(self.now_ms(), end_ms) {
            if let Some(opened) = self.try_own(to, at, [until_ms, end_ms]).await {
                return opened;
            }
            match self.try_at(to, at, until_ms).await {
                Err(error) => attempts.failed(error),
                opened => return opened,
            }
        }
        Err(attempts.into_error(address))
    }

    async fn lookup(&self, address: &Address, until_ms: u64) -> Result<Vec<SocketAddr>, OpenError> {
        let left_ms = until_ms.saturating_sub(self.now_ms());
        let looked_up = time::within(Duration::from_millis(left_ms), remote::lookup(address)).await;
        looked_up.unwrap_or_else(|_| Err(remote::not_answered(address, left_ms)))
    }

    /// Tries to open a session through memory, if the address is one of this host, or uses an open one. Returns `None`
    /// if the listener at the address must be reached over the network.
    async fn try_own(
        self: &Rc<Self>,
        to: &NodeAddress,
        at: SocketAddr,
        [until_ms, end_ms]: [u64; 2],
    ) -> Option<Result<Rc<Session>, OpenError>> {
        if !self.home.shares() || !is_own(at.ip()) {
            return None;
        }
        if let Some(session) = self.session_at(to.node(), at) {
            return Some(Ok(session));
        }
        let call = |home: &LocalNode, session, now_ms| {
            let (place, times) = (self.settings.place.as_ref(), own_times(now_ms, until_ms));
            self.settings.carriers.connect_at(home, place, (to.node(), at), session, times)
        };
        match self.join(to, Whose::Here, call).await {
            Ok(session) => Some(Ok(session)),
            Err(error) if is_worth_waiting(&error, self.now_ms(), end_ms) => Some(Err(error)),
            Err(_) => None,
        }
    }

    async fn try_at(
        self: &Rc<Self>,
        to: &NodeAddress,
        at: SocketAddr,
        until_ms: u64,
    ) -> Result<Rc<Session>, OpenError> {
        let mut terms = self.settings.remote.terms();
        if to.address().is_none() {
            // The node cannot find this address again, so the session ends with its connection.
            terms.resume_within_ms = 0;
        }
        let call = |home: &LocalNode, number, now_ms| {
            connect(home, to.node(), at, number, [now_ms, until_ms], &terms)
        };
        self.join(to, Whose::Remote, call).await
    }

    /// Uses a session that was opened meanwhile, as while the host was looked up, or joins an attempt that has begun, or
    /// begins to open a session. Waits for it.
    async fn join(
        self: &Rc<Self>,
        to: &NodeAddress,
        whose: Whose,
        call: impl FnOnce(&LocalNode, usize, u64) -> Result<Opening, OpenError>,
    ) -> Result<Rc<Session>, OpenError> {
        if let Some(session) = self.session_with(to) {
            return Ok(session);
        }
        let connecting: Rc<Connecting> = self.connect(to, whose, call)?;
        poll_fn(|context| match connecting.poll(context.waker()) {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                self.life.drives.is_awaited(context.waker());
                Poll::Pending
            }
        })
        .await
    }
}

/// Returns a number that is the same for all nodes that find each other by their names: those that share a
/// directory of sockets, or, without one, those of this process. It is never 0.
fn names_hold_in(place: Option<&SocketDirectory>) -> u64 {
    static PROCESS: PerProcess<u64> = PerProcess::new();
    static BOOT: PerProcess<Vec<u8>> = PerProcess::new();
    let Some(place) = place else {
        return PROCESS.get(|| random().map_or(0, u64::from_le_bytes)) | 1;
    };
    let boot = BOOT.get(|| std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default());
    let directory = std::fs::metadata(place.directory());
    let directory = directory.map(|directory| (directory.dev(), directory.ino())).ok();
    let mut hasher = DefaultHasher::new();
    (boot, directory).hash(&mut hasher);
    hasher.finish() | 1
}
