//! Several nodes on threads of their own, which share a name.
//!
//! The transport chooses the node that a client gets; this module has the threads: they start together, and end
//! together. Invariant: no node accepts a client before all nodes are built, and no thread outlives its [`Cores`].

use crate::contain::{drop_payload, panic_text, wake};
use crate::error::{BuildError, CoresError};
use crate::node::Node;
use crate::service::Serve;
use crate::signal::Signals;
use rustix::event::PollFlags;
use std::future::poll_fn;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;
use upbeat_environment::thread::{Condvar, Thread, spawn};
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_environment::waiting::poll;
use upbeat_memory::fork::Process;

/// Serves a service on so many threads, each with a node of this name and a service that the closure makes.
///
/// A client's session goes to the node with the fewest sessions, and all calls of that client go there. State that all
/// threads share is behind an `Arc`, which the closure clones. Threads are not bound to processors: the system moves
/// them as it likes.
///
/// ```no_run
/// # #[upbeat::service]
/// # pub trait Counter {
/// #     async fn add(&self, n: u64) -> u64;
/// # }
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// struct Count(Arc<AtomicU64>);
///
/// impl Counter for Count {
///     async fn add(&self, n: u64) -> u64 {
///         self.0.fetch_add(n, Ordering::Relaxed) + n
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let count = Arc::new(AtomicU64::new(0));
/// let cores = upbeat::serve_on("counter", 2, move || CounterServer::new(Count(count.clone())))?;
/// cores.until_ctrl_c()?;
/// cores.shut_down(Duration::from_secs(1))?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// A node cannot be built, a thread panics meanwhile, or the system refuses a thread. All threads have ended then.
///
/// # Panics
/// When `cores` is 0.
pub fn serve_on<S: Serve>(
    name: &str,
    cores: usize,
    service: impl Fn() -> S + Send + Sync + 'static,
) -> Result<Cores, CoresError<BuildError>> {
    let name = name.to_owned();
    nodes_on(cores, move || {
        let node = Node::new(&name)?;
        node.serve(service())?;
        Ok(node)
    })
}

/// Starts so many threads, each of which drives a node that the closure builds there. Use it for nodes with options,
/// several services, or an identity.
/// Nodes that share a name are built alike: with the same program, the same directory and, where they listen for other
/// hosts, the same address.
///
/// ```
/// # #[upbeat::service]
/// # pub trait Counter {
/// #     async fn add(&self, n: u64) -> u64;
/// # }
/// # struct Count(std::cell::Cell<u64>);
/// # impl Counter for Count {
/// #     async fn add(&self, n: u64) -> u64 {
/// #         self.0.set(self.0.get() + n);
/// #         self.0.get()
/// #     }
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::{BuildError, Node, Waiting};
///
/// let cores = upbeat::nodes_on(2, || {
///     let node = Node::builder("doc/cores").local_only().waiting(Waiting::Sleeping).build()?;
///     node.serve(CounterServer::new(Count(Default::default())))?;
///     Ok::<_, BuildError>(node)
/// })?;
/// // Each thread has a counter of its own, and each client goes to one of them.
/// let client = Node::builder("doc/client").local_only().build()?;
/// client.block_on(async {
///     let counter: CounterClient = client.connect("doc/cores").await?;
///     assert_eq!(counter.add(1).await?, 1);
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// cores.shut_down(std::time::Duration::from_secs(1))?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The errors of [`serve_on`], and the error of the closure where that returns one.
///
/// # Panics
/// When `cores` is 0.
pub fn nodes_on<E: Send + 'static>(
    cores: usize,
    build: impl Fn() -> Result<Node, E> + Send + Sync + 'static,
) -> Result<Cores, CoresError<E>> {
    assert!(cores > 0, "nodes on 0 threads serve nobody: give the number of threads");
    let (ours, theirs) = UnixStream::pair()?;
    let (build, theirs) = (Arc::new(build), Arc::new(theirs));
    let builds = Arc::new(Builds::new(cores));
    let shared = Arc::<Shared>::default();
    let mut all = Cores { threads: Vec::new(), shared, ours, theirs, process: Process::this() };
    // The guard is dropped before `all`, so that no thread waits to start when the threads are joined.
    let starting = Starting(&builds);
    for core in 0..cores {
        let (build, builds) = (Arc::clone(&build), Arc::clone(&builds));
        let (shared, theirs) = (Arc::clone(&all.shared), Arc::clone(&all.theirs));
        let part = move || {
            let drives = AssertUnwindSafe(|| drive(core, &*build, &builds, &shared));
            if let Err(panic) = catch_unwind(drives) {
                shared.state().panicked.get_or_insert((core, panic_text(&*panic)));
                drop_payload(panic);
            }
            // This wakes `until_ctrl_c`, which looks whether the thread has panicked.
            let _ = Write::write(&mut &*theirs, &[0]);
        };
        all.threads.push(spawn(&format!("core {core}"), part)?);
    }
    let failed = match builds.wait_for_all() {
        None => {
            builds.start(true);
            return Ok(all);
        }
        Some(failed) => failed.into_iter().min_by_key(|(core, _)| *core),
    };
    drop(starting);
    match (failed, all.end(None)) {
        (Some((core, error)), _) => Err(CoresError::Build { core, error }),
        (None, Err(CoresError::Panicked { core, message })) => {
            Err(CoresError::Panicked { core, message })
        }
        (None, _) => unreachable!("a thread that does not start its node has failed or panicked"),
    }
}

/// Builds a node in this thread, and drives the node from the time when all others are built until it must end.
fn drive<E>(core: usize, build: &dyn Fn() -> Result<Node, E>, builds: &Builds<E>, shared: &Shared) {
    let builds_here = Building(builds);
    let node = build().map_err(|error| builds.failed(core, error));
    let Ok(node) = node else { return };
    builds.built();
    drop(builds_here);
    if builds.wait_for_start()
        && let Some(grace) = node.block_on(shared.is_to_end())
    {
        node.shut_down(grace);
    }
}

/// How far the threads are that build their nodes.
struct Builds<E> {
    state: Mutex<Built<E>>,
    changed: Condvar,
}

struct Built<E> {
    /// The threads that still build.
    building: usize,
    /// The threads that have not built a node.
    without: usize,
    /// The errors, and the threads that had them.
    failed: Vec<(usize, E)>,
    /// Whether the nodes serve, once that is decided.
    serve: Option<bool>,
}

impl<E> Builds<E> {
    fn new(cores: usize) -> Builds<E> {
        let state = Built { building: cores, without: cores, failed: Vec::new(), serve: None };
        Builds { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Built<E>) -> R) -> R {
        let changed = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        changed
    }

    /// Waits until `of` returns something.
    fn wait<R>(&self, mut of: impl FnMut(&mut Built<E>) -> Option<R>) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = of(&mut state) {
                return result;
            }
            state = self.changed.wait(&self.state, state);
        }
    }

    fn built(&self) {
        self.change(|state| state.without -= 1);
    }

    fn failed(&self, core: usize, error: E) {
        self.change(|state| state.failed.push((core, error)));
    }

    /// Waits until no thread builds any more. Returns the errors, unless each thread has built its node.
    fn wait_for_all(&self) -> Option<Vec<(usize, E)>> {
        self.wait(|state| {
            let failed = |state: &mut Built<E>| {
                (state.without > 0).then(|| std::mem::take(&mut state.failed))
            };
            (state.building == 0).then(|| failed(state))
        })
    }

    /// Tells the threads whether their nodes serve. The first word counts.
    fn start(&self, serve: bool) {
        self.change(|state| state.serve = state.serve.or(Some(serve)));
    }

    /// Waits until it is known whether the nodes serve.
    fn wait_for_start(&self) -> bool {
        self.wait(|state| state.serve)
    }
}

/// A thread that builds; it may panic.
struct Building<'b, E>(&'b Builds<E>);

impl<E> Drop for Building<'_, E> {
    fn drop(&mut self) {
        self.0.change(|state| state.building -= 1);
    }
}

/// The owner while the threads build. Dropping it lets none of their nodes serve, unless they do already.
struct Starting<'b, E>(&'b Builds<E>);

impl<E> Drop for Starting<'_, E> {
    fn drop(&mut self) {
        self.0.start(false);
    }
}

/// The threads of [`serve_on`] or [`nodes_on`]. Dropping it ends their nodes at once, as dropping a [`Node`] does, and
/// waits for the threads.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cores = upbeat::nodes_on(2, || upbeat::Node::builder("doc/guard").local_only().build())?;
/// drop(cores);
/// # Ok(()) }
/// ```
#[must_use = "the nodes end when this is dropped"]
pub struct Cores {
    threads: Vec<Thread>,
    shared: Arc<Shared>,
    /// The socket that is readable when a thread has ended, or on a signal.
    ours: UnixStream,
    theirs: Arc<UnixStream>,
    process: Process,
}

impl Cores {
    /// Blocks this thread until the process is asked to stop, by SIGINT (ctrl-c) or SIGTERM. The nodes still serve:
    /// [`shut_down`](Cores::shut_down) ends them.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cores = upbeat::nodes_on(2, || upbeat::Node::new("idle"))?;
    /// cores.until_ctrl_c()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`CoresError::Panicked`] as soon as a thread has panicked.
    pub fn until_ctrl_c(&self) -> Result<(), CoresError> {
        let _signals = Signals::into(&self.theirs)?;
        loop {
            poll([(self.ours.as_fd(), PollFlags::IN)], None);
            match (&self.ours).read(&mut [0; 1]) {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.outcome()
    }

    /// Shuts all nodes down at once, as [`Node::shut_down`] does, and waits for their threads, one after the other.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let cores = upbeat::nodes_on(2, || upbeat::Node::builder("doc/ends").local_only().build())?;
    /// // Accepted calls have a second to get their replies.
    /// cores.shut_down(Duration::from_secs(1))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`CoresError::Panicked`] if a thread has panicked. The others have ended as well.
    pub fn shut_down(mut self, grace: Duration) -> Result<(), CoresError> {
        self.end(Some(grace))
    }

    /// Ends all threads.
    fn end(&mut self, grace: Option<Duration>) -> Result<(), CoresError> {
        self.shared.end(grace);
        for thread in self.threads.drain(..) {
            // The thread has stored its outcome.
            let _ = thread.join();
        }
        self.outcome()
    }

    fn outcome(&self) -> Result<(), CoresError> {
        match self.shared.state().panicked.clone() {
            Some((core, message)) => Err(CoresError::Panicked { core, message }),
            None => Ok(()),
        }
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // A forked child has none of the threads.
            std::mem::take(&mut self.threads).into_iter().for_each(std::mem::forget);
            return;
        }
        // The panic hook has printed the message of a thread that has panicked.
        let _ = self.end(None);
    }
}

impl std::fmt::Debug for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cores").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

/// The state that the threads and their owner share.
#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    /// The time that nodes have for accepted calls, once they must end.
    grace: Option<Option<Duration>>,
    wakers: Vec<Waker>,
    /// The first thread that has panicked, and its message.
    panicked: Option<(usize, String)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the nodes end.
    fn end(&self, grace: Option<Duration>) {
        let mut state = self.state();
        state.grace.get_or_insert(grace);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(wake);
    }

    /// Waits until the nodes must end. Returns the time for accepted calls, if there is any.
    async fn is_to_end(&self) -> Option<Duration> {
        poll_fn(|context| {
            let waker = context.waker().clone();
            let mut state = self.state();
            if let Some(grace) = state.grace {
                return Poll::Ready(grace);
            }
            if !state.wakers.iter().any(|known| known.will_wake(&waker)) {
                state.wakers.push(waker);
            }
            Poll::Pending
        })
        .await
    }
}
