//! What the application computes while its node keeps the contract.
//!
//! A node promises to look while it is idle or runs a handler. A closure that computes runs beside
//! it, on another thread: the node sleeps meanwhile, a message wakes it and is served ahead of the
//! computation. A loop of a task's own has poll points instead: there the node takes over what has
//! come. How many threads compute is left to `workers`, and how a node waits to `wait`.
//!
//! Invariant: a computation that was begun counts as under way until it has ended, whoever still
//! waits for it, and its end wakes the node.

use crate::contain::{contain, panics};
use crate::dispatch::Dispatcher;
use crate::sample::Reason;
use crate::wake::Roster;
use crate::workers::Workers;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use upbeat_core::bill::Counter;

/// What a closure computes on another thread, to be awaited.
///
/// It is begun already. Dropped, this lets it run on, and what it gives is dropped; so does a node
/// that ends meanwhile. If the closure panics, the panic goes on where this is awaited: it costs that
/// call, or that task, and nothing else.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/compute").local_only().build()?;
/// let sum: upbeat::Compute<u64> = node.compute(|| (1..=1000).sum());
/// assert_eq!(node.block_on(sum), 500_500);
/// # Ok(()) }
/// ```
#[must_use = "dropped, the closure runs on, and nobody is told what it gives"]
pub struct Compute<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    /// Under way, and who waits for it.
    UnderWay(Option<Waker>),
    Ended(thread::Result<T>),
    Taken,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how it has ended. Gives who waits.
    fn end(&self, outcome: thread::Result<T>) -> Option<Waker> {
        match std::mem::replace(&mut *self.state(), State::Ended(outcome)) {
            State::UnderWay(waker) => waker,
            State::Ended(_) | State::Taken => None,
        }
    }
}

/// While it stands, the node has a computation under way.
struct UnderWay {
    roster: Arc<Roster>,
    /// Who is to be woken behind it.
    waker: Option<Waker>,
}

impl UnderWay {
    fn begin(roster: &Arc<Roster>) -> UnderWay {
        roster.computation_begins();
        UnderWay { roster: Arc::clone(roster), waker: None }
    }

    /// It has ended, and this one waits.
    fn end(mut self, waker: Option<Waker>) {
        self.waker = waker;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.roster.computation_ends();
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        // The waker may be of another node, or nobody waits.
        self.roster.nudge();
    }
}

impl<T: Send + 'static> Compute<T> {
    /// Begins to compute, for this node.
    pub(crate) fn begin(
        node: &Rc<Dispatcher>,
        closure: impl FnOnce() -> T + Send + 'static,
    ) -> Compute<T> {
        let shared = Arc::new(Shared { state: Mutex::new(State::UnderWay(None)) });
        let under_way = UnderWay::begin(node.roster());
        let told = Arc::clone(&shared);
        let work = move || {
            let outcome = catch_unwind(AssertUnwindSafe(closure));
            let roster = Arc::clone(&under_way.roster);
            under_way.end(told.end(outcome));
            // What nobody waits for is dropped here.
            if panics(|| drop(told)) {
                roster.contained();
            }
        };
        let begun = Workers::of_process().begin(Box::new(work));
        begun.unwrap_or_else(|error| panic!("no thread can be started to compute: {error}"));
        node.count(Counter::Computations);
        node.now_computes();
        Compute { shared }
    }
}

impl<T> Future for Compute<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.shared.state();
        match std::mem::replace(&mut *state, State::Taken) {
            State::UnderWay(_) => *state = State::UnderWay(Some(context.waker().clone())),
            State::Ended(Ok(value)) => return Poll::Ready(value),
            State::Ended(Err(panic)) => {
                drop(state);
                resume_unwind(panic)
            }
            State::Taken => panic!("what was computed has been taken"),
        }
        drop(state);
        Dispatcher::if_driving(|node| node.waits_for(Reason::Other));
        Poll::Pending
    }
}

impl<T> Drop for Compute<T> {
    fn drop(&mut self) {
        // What is under way goes on, and is dropped where it ends.
        let left = std::mem::replace(&mut *self.shared.state(), State::Taken);
        contain(|| drop(left));
    }
}

/// Computes on another thread, inside a node; as [`Node::compute`](crate::Node::compute).
///
/// # Panics
/// Outside of a node's tasks and handlers: there is nobody to serve meanwhile. And if there is no
/// thread yet and none can be started.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/compute-free").local_only().build()?;
/// // A handler that computes so lets its node serve others.
/// let largest = node.block_on(async {
///     let numbers = vec![3, 1, 2];
///     upbeat::compute(move || numbers.into_iter().max()).await
/// });
/// assert_eq!(largest, Some(3));
/// # Ok(()) }
/// ```
pub fn compute<T: Send + 'static>(closure: impl FnOnce() -> T + Send + 'static) -> Compute<T> {
    Compute::begin(&Dispatcher::current(), closure)
}

/// A place in a long computation of a task's own at which its node takes over what has come.
///
/// Where nothing has come, that costs a few nanoseconds: a look at the lanes, and no clock. Where
/// something has, the task is put behind it. Now and then it is for timers and sockets alone. A
/// handler that has to make way becomes a task.
///
/// # Panics
/// Outside of a node's tasks and handlers: there is nothing to look at.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/poll-point").local_only().build()?;
/// let sum = node.block_on(async {
///     let mut sum = 0_u64;
///     for n in 0..10_000 {
///         sum += n * n;
///         // Calls of this node's services are answered here.
///         upbeat::poll_point().await;
///     }
///     sum
/// });
/// assert_eq!(sum, 333_283_335_000);
/// # Ok(()) }
/// ```
#[inline]
pub async fn poll_point() {
    make_way(|node| node.must_make_way()).await;
}

/// A place in a long handler, or in a task, at which it makes way once its time is used up.
///
/// What runs does so until it waits: while it does, its node serves nobody else. A method has a
/// budget for that, of 100 microseconds if its `#[method(budget = "…")]` says nothing else. A
/// checkpoint before its end costs a decrement, and a time stamp now and then; one behind it puts
/// what runs behind all that has come meanwhile, and a handler goes on as a task. What holds a lock or
/// has changed half of something holds it over that await. [`poll_point`] looks at the lanes instead
/// of the time.
///
/// # Panics
/// Outside of a node's tasks and handlers: there is nobody to make way for.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/checkpoint").local_only().build()?;
/// let sum = node.block_on(async {
///     let mut sum = 0_u64;
///     for n in 0..10_000 {
///         upbeat::checkpoint().await;
///         sum += n * n;
///     }
///     sum
/// });
/// assert_eq!(sum, 333_283_335_000);
/// # Ok(()) }
/// ```
#[inline]
pub async fn checkpoint() {
    make_way(|node| node.is_time_over()).await;
}

/// Puts what is polled behind others, once, if it must make way.
#[inline]
async fn make_way(must: impl Fn(&Dispatcher) -> bool) {
    let mut made_way = false;
    poll_fn(|context| {
        if made_way || !Dispatcher::with_current(|node| must(node)) {
            return Poll::Ready(());
        }
        made_way = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
