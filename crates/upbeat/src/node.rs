//! The node: the part of one process or thread in a program. One thread owns it.

mod builder;

mod connecting;

mod connect;

mod spawn;

mod exporting;

mod counts;

pub use builder::Builder;
pub use connect::Connect;
pub(crate) use connecting::{Origin, Whom};
pub use spawn::spawn;

use crate::client::Client;
use crate::compute::Compute;
use crate::dispatch::{Dispatcher, Enter};
use crate::driver::Cause;
use crate::error::{BuildError, ConnectError, ServeError};
use crate::export::Exports;
use crate::handle::{self, ConnectTerms, HandleClient, Target};
use crate::service::{Bare, Methods, Serve};
use crate::statistics::{Collected, Statistics};
use crate::time;
use crate::wake::{MAIN, Wakeup};
use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use upbeat_core::address::NodeAddress;
use upbeat_core::limits::LEAVING_MS_MAX;
use upbeat_environment::time::Instant;
use upbeat_memory::local::Local;

/// How often a closing node looks whether all accepted calls have their replies.
const CLOSING_LOOK: Duration = Duration::from_millis(1);

/// A node, which is cheap to clone within its thread.
///
/// A node ends with its last clone: its tasks are dropped, its sessions are closed, and its name is free. A
/// clone that a task or a service of the node itself keeps counts too, so such a node is ended
/// by [`Node::shut_down`], which should end every node that has accepted calls.
///
/// The futures of a node (calls, one-way messages, [`Node::connect`], tasks' handles) make progress only
/// while its thread drives the node: by [`Node::block_on`], by [`Node::turn`] in a loop of the application, or by
/// `upbeat::tokio_runtime::drive`. Another executor may poll such a future between two turns. If nobody drives
/// the node, the future would wait for ever: it panics after some seconds, and says what to write instead.
///
/// A forked child has none of its parent's nodes: there, dropping a node does nothing, and driving a node
/// panics. The child may build a node of its own.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/node").local_only().build()?;
/// let answer = node.block_on(async { 6 * 7 });
/// assert_eq!(answer, 42);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Node {
    inner: Local<Rc<Dispatcher>>,
    end: Local<Rc<End>>,
}

/// Ends the node when its last [`Node`] is dropped, even if clients and tasks still exist.
struct End {
    inner: Rc<Dispatcher>,
    statistics: Collected,
    exports: OnceCell<Rc<Exports>>,
}

impl End {
    fn end(&self, most: Duration) {
        self.exports.get().into_iter().for_each(|exports| exports.shut_down());
        self.inner.end(most);
        self.statistics.report(|| self.read());
    }

    fn read(&self) -> Statistics {
        let name = self.inner.home.name().map(ToString::to_string);
        self.statistics.read(name.unwrap_or_default(), &self.inner.over_runs())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.inner.is_here() {
            // Sockets, their files and the epoll are shared with the parent, and belong to it.
            std::mem::forget(Rc::clone(&self.inner));
            return;
        }
        self.end(Duration::from_millis(LEAVING_MS_MAX));
    }
}

impl Node {
    /// Makes a node of this name with default settings.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::new(&format!("doc/new/{}", std::process::id()))?;
    /// assert!(node.name().starts_with("doc/new/"));
    /// # Ok(()) }
    /// ```
    pub fn new(name: &str) -> Result<Node, BuildError> {
        Node::builder(name).build()
    }

    /// Returns a builder for a node of this name.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use upbeat::{Node, Waiting};
    ///
    /// let node = Node::builder("worker/3").program("doc").waiting(Waiting::Sleeping).local_only().build()?;
    /// assert_eq!(node.name(), "worker/3");
    /// # Ok(()) }
    /// ```
    pub fn builder(name: &str) -> Builder {
        Builder::new(Some(name))
    }

    /// Makes a node that calls others, and that needs no name of its own: a client. Its name is `client/` and a random
    /// number, which its peers see in errors and bills. It can serve as every node can, so a callback finds it by a
    /// [`ServiceRef`](crate::ServiceRef). It does not listen at the address in `UPBEAT_LISTEN`.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::client()?;
    /// assert!(node.name().starts_with("client/"));
    /// node.block_on(async {
    ///     let counter: CounterClient = node.connect("counter").await?;
    ///     println!("{}", counter.add(1).await?);
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn client() -> Result<Node, BuildError> {
        Node::client_builder().build()
    }

    /// Returns a builder for a client: see [`Node::client`]. An identity of a client has the name `client/*`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use upbeat::Node;
    ///
    /// let (one, other) = (Node::client_builder(), Node::client_builder());
    /// let (one, other) = (one.local_only().build()?, other.local_only().build()?);
    /// assert_ne!(one.name(), other.name());
    /// # Ok(()) }
    /// ```
    pub fn client_builder() -> Builder {
        Builder::new(None)
    }

    /// Returns the node's name.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("worker/4").local_only().build()?;
    /// assert_eq!(node.name(), "worker/4");
    /// # Ok(()) }
    /// ```
    pub fn name(&self) -> String {
        self.inner.home.name().map(ToString::to_string).unwrap_or_default()
    }

    /// Serves a service from now on: `node.serve(CounterServer::new(counter))?`.
    ///
    /// # Errors
    /// The node serves a service of this name already, it has been shut down, or its services have more methods
    /// than a session can number.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// struct Count(std::cell::Cell<u64>);
    ///
    /// impl Counter for Count {
    ///     async fn add(&self, n: u64) -> u64 {
    ///         self.0.set(self.0.get() + n);
    ///         self.0.get()
    ///     }
    ///
    ///     async fn reset(&self) {
    ///         self.0.set(0);
    ///     }
    /// }
    ///
    /// let node = upbeat::Node::builder("doc/serve").local_only().build()?;
    /// node.serve(CounterServer::new(Count(Default::default())))?;
    ///
    /// let twice = node.serve(CounterServer::new(Count(Default::default())));
    /// assert!(matches!(twice, Err(upbeat::ServeError::AlreadyServed { .. })));
    /// # Ok(()) }
    /// ```
    pub fn serve<S: Serve>(&self, service: S) -> Result<(), ServeError> {
        self.inner.may_serve(S::SERVICE)?;
        let mut entries = Vec::new();
        let mut enter = |entry| entries.push(entry);
        let (node, execution) = (&*self.inner, self.inner.settings.execution);
        let (enter, statistics) = (&mut enter, &self.end.statistics);
        let (of, wraps) = (S::SERVICE, Bare);
        let methods = Methods { service: of, enter, node, execution, statistics, wraps };
        service.methods(&mut { methods });
        let offered = self.inner.offer(S::SERVICE, entries);
        if offered.is_err() {
            statistics.leave(S::SERVICE);
        }
        offered
    }

    /// Connects to a node of the same program, and binds a client there. Clients of one peer share
    /// a session. A session that the peer has opened is used as well, if the peer proves its name by holding
    /// the lock of that name in its process. A node that is too busy has ten
    /// seconds to accept the connection. [`wait_for`](Connect::wait_for) waits for a node that does not
    /// exist yet.
    ///
    /// A method that the peer has with another signature is a clash: calls of this method alone fail, with
    /// [`CallError::Clash`](crate::CallError::Clash). Connecting warns of clashes in a line on standard error, once for
    /// each service of a peer, and fails only if they leave no method that can be called.
    ///
    /// The client reconnects by itself. After its peer has died or was shut down, a call that was sent fails with
    /// [`CallError::Unknown`](crate::CallError::Unknown), because it may have run. The next call opens a session with the node that has the
    /// name now, and is sent over that session. If the attempt fails, the call fails with
    /// [`CallError::NotConnected`](crate::CallError::NotConnected); a client that was connected with [`wait_for`](Connect::wait_for) tries again for
    /// that time. Calls that wait for the same service share the attempts, and deadlines hold while they wait.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::client()?;
    /// node.block_on(async {
    ///     let counter: CounterClient = node.connect("counter").await?;
    ///     println!("{}", counter.add(1).await?);
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })?;
    /// # Ok(()) }
    /// ```
    pub fn connect<C: Client>(&self, name: &str) -> Connect<'_, C> {
        Connect::new(self, NodeAddress::new(name).map(Whom::from).map_err(ConnectError::from))
    }

    /// Returns a handle for other threads, to a node of the same program. Connecting blocks this thread, so call it
    /// outside of the node's tasks.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::client()?;
    /// let counter: CounterHandle = node.handle("counter")?;
    /// std::thread::spawn(move || counter.blocking().add(1));
    /// # Ok(()) }
    /// ```
    pub fn handle<C: HandleClient>(&self, name: &str) -> Result<C, ConnectError> {
        handle::open(self.target(name)?, ConnectTerms::default())
    }

    /// Returns the terms of a handle of this node.
    fn target(&self, name: &str) -> Result<Target, ConnectError> {
        let to = NodeAddress::new(name)?;
        let inner = &self.inner;
        let (program, place) = (inner.home.program().clone(), inner.settings.place.clone());
        let (waiting, longest) = (inner.settings.waiting, inner.settings.terms.longest);
        let carriers = inner.settings.carriers;
        let sampling = inner.sampling().every();
        let pages = handle::pages(&to, program.name(), place.is_some());
        let remote = inner.settings.remote.clone();
        Ok(Target {
            program,
            place,
            carriers,
            to,
            remote,
            waiting,
            longest,
            sampling,
            pages,
            wait_for: None,
            call_deadline: None,
        })
    }

    /// Computes on another thread, while this node serves others. The closure starts at once and
    /// borrows nothing of the node; if there are more computations than processors, it waits for
    /// earlier ones. Use it for computations, and not for blocking waits.
    ///
    /// While a computation is under way, a node that has nothing to do sleeps, with any [`Waiting`](crate::Waiting),
    /// so that the processor is left to the computation. A message wakes the node and is served first.
    ///
    /// # Panics
    /// When there is no thread yet and none can be started. A panic of the closure is resumed where the
    /// [`Compute`] is awaited.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/node-compute").local_only().build()?;
    /// let primes = node.block_on(async {
    ///     let is_prime = |n: &u32| (2..*n).all(|d| n % d != 0);
    ///     node.compute(move || (2..1000).filter(is_prime).count()).await
    /// });
    /// assert_eq!(primes, 168);
    /// # Ok(()) }
    /// ```
    pub fn compute<T: Send + 'static>(
        &self,
        closure: impl FnOnce() -> T + Send + 'static,
    ) -> Compute<T> {
        Compute::begin(&self.inner, closure)
    }

    /// Drives the node until a future is done. Handlers and tasks run meanwhile.
    ///
    /// # Panics
    /// Inside of a task or handler of a node: that would stop the node for good.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/block-on").local_only().build()?;
    /// assert_eq!(node.block_on(async { 6 * 7 }), 42);
    /// # Ok(()) }
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let inner = &self.inner;
        let _enter = Enter::new(inner);
        let wakeup = Wakeup::of(inner.roster(), MAIN);
        let waker = wakeup.waker();
        // The node is left after the future, even if that panics: messages of the future's drop are sent first.
        let _leave = Leave(inner);
        let mut future = pin!(future);
        let mut value = None;
        let done = Cell::new(false);
        let mut main = |cause| {
            if done.get() {
                return;
            }
            if cause == Cause::Ready {
                wakeup.begin_poll();
            }
            inner.polling_main(&waker, || {
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                if let Poll::Ready(result) = polled {
                    value = Some(result);
                    done.set(true);
                }
            });
        };
        waker.wake_by_ref();
        inner.run_until(&mut main, &done);
        match value {
            Some(value) => value,
            None => unreachable!("the future is done"),
        }
    }

    /// Looks once at all sources of messages, for a loop of the application; at timers and sockets once in a
    /// millisecond at most. Returns whether there was anything. Before such a loop waits for [`Node::as_fd`] it calls
    /// [`Node::may_wait`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::os::fd::AsFd;
    ///
    /// let node = upbeat::Node::builder("doc/turn").local_only().build()?;
    /// let task = node.spawn(async { 6 * 7 });
    /// while node.turn() {}
    /// if node.may_wait() {
    ///     // Nothing more has arrived: the loop may wait until `node.as_fd()` is readable.
    ///     let _ = node.as_fd();
    /// }
    /// assert_eq!(node.block_on(task), Ok(42));
    /// # Ok(()) }
    /// ```
    pub fn turn(&self) -> bool {
        let _enter = Enter::new(&self.inner);
        self.inner.turn(&mut |_| {}) || self.inner.check_in_loop()
    }

    /// Runs code of an application's loop inside the node, as a task of the node would.
    #[cfg(feature = "tokio")]
    pub(crate) fn inside<T>(&self, act: impl FnOnce() -> T) -> T {
        let _enter = Enter::new(&self.inner);
        act()
    }

    /// Ends a drive: `drops` drops the application's future inside the node, and everything that was sent is flushed.
    #[cfg(feature = "tokio")]
    pub(crate) fn leave(&self, drops: impl FnOnce()) {
        if !self.inner.is_here() || Dispatcher::is_driving() {
            return drops();
        }
        let _enter = Enter::new(&self.inner);
        let _leave = Leave(&self.inner);
        drops();
    }

    /// Runs turns of a runtime that does nothing else meanwhile.
    #[cfg(feature = "tokio")]
    pub(crate) fn driven<T>(&self, turns: impl FnOnce() -> T) -> T {
        self.inner.begins_drive();
        let result = turns();
        self.inner.ends_drive();
        result
    }

    /// Announces that the loop is about to wait for the node's descriptor, so that peers ring it. Returns false if
    /// something has arrived: the loop then turns instead.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/may-wait").local_only().build()?;
    /// drop(node.spawn(async {}));
    /// assert!(!node.may_wait(), "the task has not run");
    /// while node.turn() {}
    /// assert!(node.may_wait());
    /// # Ok(()) }
    /// ```
    pub fn may_wait(&self) -> bool {
        if !self.inner.is_here() {
            return true;
        }
        self.inner.may_wait()
    }

    /// Closes the node: accepts no more requests, and closes its sessions when the handlers of accepted calls and
    /// one-way messages are done and everything that the node has sent has left it, or when `grace` has passed. Spawned
    /// tasks do not delay it.
    ///
    /// # Panics
    /// Inside of a task or handler of a node: that would stop the node for good.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/shut-down").local_only().build()?;
    /// // Accepted calls have a second to get their replies.
    /// node.shut_down(std::time::Duration::from_secs(1));
    /// assert_eq!(node.sessions(), 0);
    /// # Ok(()) }
    /// ```
    pub fn shut_down(&self, grace: Duration) {
        let began = Instant::now();
        drop(Enter::new(&self.inner));
        self.inner.begin_closing();
        let inner = Rc::clone(&self.inner);
        self.block_on(async {
            let quiet = async {
                while !inner.is_quiet() {
                    time::sleep(CLOSING_LOOK).await;
                }
            };
            // Handlers that are not done end with their sessions.
            let _ = time::within(grace, quiet).await;
        });
        self.end.end(grace.saturating_sub(began.elapsed()));
    }
}

/// A guard that leaves the node when it is no longer driven.
struct Leave<'n>(&'n Rc<Dispatcher>);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
