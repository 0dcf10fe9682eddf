//! Handles: calls from any thread, and from any async runtime.
//!
//! The calls of a handle do not pass through a node of their process. [`Blocking`] calls take a session of their own,
//! which the calling thread polls. Asynchronous calls share another session, which a thread of the handle opens at the
//! first of them: a task that awaits a call never blocks within a poll. There is no order between the calls of
//! a handle and those of a node, nor between two threads. Both kinds of calls end at their deadlines, whatever
//! they wait for.
//!
//! A forked child cannot use the handles of its parent. There, a call fails with [`Why::Forked`],
//! and dropping a handle, a call or a stream does nothing, so that the parent's calls go on. The child connects
//! handles of its own. Until it ends or calls `exec` it keeps copies of the parent's sockets, and the callee sees
//! the end of such a session only then, or when the parent's process ends.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #[upbeat::service]
//! pub trait Counter {
//!     async fn add(&self, n: u64) -> u64;
//! }
//!
//! let counter: CounterHandle = upbeat::handle::connect("counter")?;
//! let other = counter.clone();
//! std::thread::spawn(move || other.blocking().add(1));
//! # Ok(()) }
//! ```

mod lasting;

mod caller;

mod side;

mod sharing;

mod builder;

mod remote;

mod awaited;

mod streaming;

mod blocking;

pub use awaited::{HandleCall, HandleRoute, HandleSend, HandleTryCall};
pub use blocking::{Blocking, BlockingFilling};
pub use builder::{HandleBuilder, builder};
pub(crate) use side::Side;
use side::Sides;
pub(crate) use streaming::wait;

use crate::call::Until;
use crate::carriers::Carriers;
use crate::dispatch::Dispatcher;
use crate::error::{BuildError, CallError, Callee, ConnectError, Lost, Why, debug_as_text};
use crate::remote::Remote;
use crate::sampling::Pages;
use crate::wait::Waiting;
use caller::Caller;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use upbeat_core::address::NodeAddress;
use upbeat_core::method::Signature;
use upbeat_core::name::{ProgramId, ProgramName};
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_memory::fork::Process;
use upbeat_transport::socket_directory::SocketDirectory;

/// The most idle sessions of blocking callers that are kept for the next caller.
const IDLE_MAX: usize = 16;

/// The type that `#[upbeat::service]` makes of a trait for callers in any thread.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handle",
    label = "write the `…Handle` that `#[upbeat::service]` has made of the trait"
)]
pub trait HandleClient: Sized {
    /// The name of the service.
    const SERVICE: &'static str;

    /// Returns the methods that the handle calls, in the order of their indexes.
    fn signatures() -> &'static [Signature];

    /// Returns the handle for a service.
    fn from_bound(handle: BoundHandle) -> Self;
}

/// Connects to a node, with the program and the directory as usual.
///
/// ```no_run
/// # #[upbeat::service]
/// # pub trait Counter {
/// #     async fn add(&self, n: u64) -> u64;
/// #     #[oneway]
/// #     async fn reset(&self);
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counter: CounterHandle = upbeat::handle::connect("counter")?;
/// println!("{}", counter.blocking().add(1)?);
/// # Ok(()) }
/// ```
pub fn connect<C: HandleClient>(name: &str) -> Result<C, HandleError> {
    builder().connect(name)
}

/// Connects to a node without blocking the thread: see [`HandleBuilder::connect_async`].
///
/// ```
/// # #[upbeat::service]
/// # pub trait Counter {
/// #     async fn add(&self, n: u64) -> u64;
/// # }
/// async fn one_more() -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
///     let counter: CounterHandle = upbeat::handle::connect_async("counter").await?;
///     Ok(counter.add(1).await?)
/// }
/// ```
pub fn connect_async<C: HandleClient>(
    name: &str,
) -> impl Future<Output = Result<C, HandleError>> + Send + use<C> {
    builder().connect_async(name)
}

/// The node that a handle calls, and how the handle waits.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) program: ProgramId,
    pub(crate) place: Option<SocketDirectory>,
    pub(crate) carriers: Carriers,
    pub(crate) to: NodeAddress,
    pub(crate) remote: Remote,
    pub(crate) waiting: Waiting,
    /// The bytes of the longest result that is accepted.
    pub(crate) longest: usize,
    /// The handle samples one of so many messages for the bill; 0 means none.
    pub(crate) sampling: u32,
    pub(crate) pages: Arc<Mutex<Pages>>,
    /// How long opening a session is tried again if the node is not there.
    pub(crate) wait_for: Option<Duration>,
    /// The deadline of calls that set none.
    pub(crate) call_deadline: Option<Duration>,
}

impl Target {
    /// Returns whether a session with one of them is as good as a session with the other.
    fn is_equal(&self, other: &Target) -> bool {
        let way = |of: &Target| (of.carriers, of.waiting, of.longest, of.sampling);
        let times = |of: &Target| (of.wait_for, of.call_deadline);
        (&self.program, &self.to, &self.place) == (&other.program, &other.to, &other.place)
            && (way(self), times(self)) == (way(other), times(other))
            && self.remote.is_equal(&other.remote)
    }

    /// Returns how long the handle tries to open a session for a caller that gives up then.
    pub(crate) fn terms(&self, until: Option<Until>) -> ConnectTerms {
        ConnectTerms { until, wait_for: self.wait_for }
    }
}

/// Returns the page in which the samples of a handle are written down, for all of its sessions.
pub(crate) fn pages(to: &NodeAddress, program: &ProgramName, is_shared: bool) -> Arc<Mutex<Pages>> {
    Arc::new(Mutex::new(Pages::new(format!("a handle of {to}\n{program}"), is_shared)))
}

/// How long a handle tries to open a session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectTerms {
    /// The time at which the handle gives up, whatever it waits for.
    pub(crate) until: Option<Until>,
    /// How long the handle tries again, if the node is not there.
    pub(crate) wait_for: Option<Duration>,
}

/// Connects to a target. Blocks the calling thread.
pub(crate) fn open<C: HandleClient>(
    target: Target,
    terms: ConnectTerms,
) -> Result<C, ConnectError> {
    if Dispatcher::is_driving() {
        return Err(ConnectError::Call(CallError::WouldBlockNode));
    }
    let handle = BoundHandle::new::<C>(target);
    let caller = handle.shared.open(terms)?;
    handle.shared.idle().push(caller);
    Ok(C::from_bound(handle))
}

struct Shared {
    target: Target,
    service: &'static str,
    signatures: &'static [Signature],
    idle: Mutex<Vec<Caller>>,
    /// The sessions of the asynchronous calls.
    sides: Arc<Mutex<Sides>>,
    /// The process that has connected the handle.
    made: Process,
}

impl Shared {
    /// Opens a session for a blocking thread.
    fn open(&self, terms: ConnectTerms) -> Result<Caller, ConnectError> {
        Caller::connect(&self.target, self.service, self.signatures, None, terms)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Caller>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error in a forked child. This is called before any lock is taken: another thread of the parent may
    /// have held the lock at the fork.
    #[inline]
    fn check_process(&self) -> Result<(), CallError> {
        match self.made.is_this() {
            true => Ok(()),
            false => Err(CallError::at_loss(false, forked(&self.target.to))),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.made.is_this() {
            let current = side::lock(&self.sides).take_current();
            // The end of this session takes the lock.
            drop(current);
            return;
        }
        // Another thread of the parent may have been changing these at the fork.
        let idle = self.idle.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget((std::mem::take(idle), Arc::clone(&self.sides)));
    }
}

/// Returns why a forked child cannot use its parent's session with this node.
#[cold]
fn forked(to: &NodeAddress) -> Lost {
    Lost::new(&to.to_string(), Why::Forked)
}

/// Returns why a call has no session.
fn not_connected(error: ConnectError) -> CallError {
    match error {
        ConnectError::Call(error) => error,
        error => CallError::not_connected(error.to_string()),
    }
}

/// A handle's way to its callee.
#[derive(Clone)]
#[doc(hidden)]
pub struct BoundHandle {
    shared: Arc<Shared>,
}

impl BoundHandle {
    /// Returns the callee of a call of this method.
    fn callee(&self, method: &'static str) -> Callee {
        let node = self.shared.target.to.to_string();
        Callee { node, service: self.shared.service, method }
    }

    /// Returns the way to a target, before any session is open.
    fn new<C: HandleClient>(target: Target) -> BoundHandle {
        let shared = Shared {
            target,
            service: C::SERVICE,
            signatures: C::signatures(),
            idle: Mutex::default(),
            sides: Arc::default(),
            made: Process::this(),
        };
        BoundHandle { shared: Arc::new(shared) }
    }

    /// Connects to a target without blocking the thread.
    pub(crate) async fn connected<C: HandleClient>(
        target: Target,
        terms: ConnectTerms,
    ) -> Result<C, ConnectError> {
        let handle = BoundHandle::new::<C>(target);
        handle.opened(terms).await?;
        Ok(C::from_bound(handle))
    }

    /// Returns the service's methods as calls that block this thread. Keep it while you call: it keeps a session.
    pub fn blocking(&self) -> Blocking<'_> {
        Blocking::new(self)
    }
}

/// The reason why a handle could not connect.
///
/// ```
/// # #[upbeat::service]
/// # pub trait Counter {
/// #     async fn add(&self, n: u64) -> u64;
/// #     #[oneway]
/// #     async fn reset(&self);
/// # }
/// use upbeat::handle::HandleError;
///
/// match upbeat::handle::connect::<CounterHandle>("no name") {
///     Err(HandleError::Connect(error)) => assert!(error.to_string().contains("is no name of a node")),
///     _ => unreachable!("a name has no blanks"),
/// }
/// ```
#[non_exhaustive]
pub enum HandleError {
    /// The name, the program or the directory cannot be used.
    Build(BuildError),
    /// The connection to the node failed.
    Connect(ConnectError),
}

impl std::fmt::Display for HandleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HandleError::Build(error) => error.fmt(f),
            HandleError::Connect(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HandleError {}

debug_as_text!(HandleError { Build, Connect });

impl From<BuildError> for HandleError {
    fn from(error: BuildError) -> HandleError {
        HandleError::Build(error)
    }
}

impl From<ConnectError> for HandleError {
    fn from(error: ConnectError) -> HandleError {
        HandleError::Connect(error)
    }
}
