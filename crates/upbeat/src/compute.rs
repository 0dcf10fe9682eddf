//! Computations of the application beside its node.
//!
//! A node promises to poll while it is idle or runs a handler. A closure that computes runs on another thread: the
//! node sleeps meanwhile, and a message wakes the node and is served ahead of the computation. A loop within a task
//! has poll points instead, at which the node handles the messages that have come. The module `workers` decides how
//! many threads compute, and `wait` how a node waits.
//!
//! Invariant: a computation counts as under way until it has ended, even if nobody waits for it any more, and its end
//! wakes the node.

use crate::contain::{caught, contain, panics};
use crate::dispatch::Dispatcher;
use crate::sample::Reason;
use crate::wake::WakeQueue;
use crate::workers::Workers;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use upbeat_core::bill::Counter;
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_memory::local::Local;

/// A future of the result of a closure that computes on another thread.
///
/// The closure has been started already. Dropping this future, or ending the node, lets the closure run on, and its
/// result is dropped. If the closure panics, the panic continues where this future is awaited: it ends that call, or
/// that task, and nothing else.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/compute").local_only().build()?;
/// let sum: upbeat::Compute<u64> = node.compute(|| (1..=1000).sum());
/// assert_eq!(node.block_on(sum), 500_500);
/// # Ok(()) }
/// ```
#[must_use = "if this is dropped, the closure runs on, and its result is lost"]
pub struct Compute<T> {
    shared: Local<Arc<Shared<T>>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    /// The computation is under way, with the waker of its waiter.
    UnderWay(Option<Waker>),
    Ended(thread::Result<T>),
    Taken,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the outcome, and returns the waiter's waker.
    fn end(&self, outcome: thread::Result<T>) -> Option<Waker> {
        match std::mem::replace(&mut *self.state(), State::Ended(outcome)) {
            State::UnderWay(waker) => waker,
            State::Ended(_) | State::Taken => None,
        }
    }
}

/// A guard that counts a computation of the node as under way.
struct UnderWay {
    roster: Arc<WakeQueue>,
    /// The waker that is woken after the end.
    waker: Option<Waker>,
}

impl UnderWay {
    fn begin(roster: &Arc<WakeQueue>) -> UnderWay {
        roster.computation_begins();
        UnderWay { roster: Arc::clone(roster), waker: None }
    }

    /// Ends the computation, and wakes this waker.
    fn end(mut self, waker: Option<Waker>) {
        self.waker = waker;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.roster.computation_ends();
        if self.waker.take().is_some_and(|waker| panics(|| waker.wake())) {
            self.roster.contained();
        }
        // The waker may belong to another node, or there may be none.
        self.roster.nudge();
    }
}

impl<T: Send + 'static> Compute<T> {
    /// Starts a computation for this node.
    pub(crate) fn begin(
        node: &Rc<Dispatcher>,
        closure: impl FnOnce() -> T + Send + 'static,
    ) -> Compute<T> {
        let shared = Arc::new(Shared { state: Mutex::new(State::UnderWay(None)) });
        let under_way = UnderWay::begin(node.roster());
        let told = Arc::clone(&shared);
        let work = move || {
            let outcome = caught(closure);
            let roster = Arc::clone(&under_way.roster);
            under_way.end(told.end(outcome));
            // A result that nobody waits for is dropped here.
            if panics(|| drop(told)) {
                roster.contained();
            }
        };
        let begun = Workers::of_process().begin(Box::new(work));
        begun.unwrap_or_else(|error| panic!("no thread can be started to compute: {error}"));
        node.count(Counter::Computations);
        node.now_computes();
        Compute { shared: Local::from(shared) }
    }
}

impl<T> Future for Compute<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // No code of a waker runs under the lock.
        let waker = context.waker().clone();
        let mut state = self.shared.state();
        let before = match std::mem::replace(&mut *state, State::Taken) {
            State::UnderWay(before) => before,
            State::Ended(Ok(value)) => return Poll::Ready(value),
            State::Ended(Err(panic)) => {
                drop(state);
                resume_unwind(panic)
            }
            State::Taken => panic!("the result of the computation was taken already"),
        };
        *state = State::UnderWay(Some(waker));
        drop(state);
        drop(before);
        Dispatcher::if_driving(|node| node.waits_for(Reason::Other));
        Poll::Pending
    }
}

impl<T> Drop for Compute<T> {
    fn drop(&mut self) {
        // A computation that is under way goes on, and its result is dropped where it ends.
        let left = std::mem::replace(&mut *self.shared.state(), State::Taken);
        contain(|| drop(left));
    }
}

/// Runs a closure on another thread, from inside a node; see [`Node::compute`](crate::Node::compute).
///
/// # Panics
/// Outside of a node's tasks and handlers, and if no thread can be started and there is none yet.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/compute-free").local_only().build()?;
/// // While this handler computes, its node serves other calls.
/// let largest = node.block_on(async {
///     let numbers = vec![3, 1, 2];
///     upbeat::compute(move || numbers.into_iter().max()).await
/// });
/// assert_eq!(largest, Some(3));
/// # Ok(()) }
/// ```
pub fn compute<T: Send + 'static>(closure: impl FnOnce() -> T + Send + 'static) -> Compute<T> {
    Compute::begin(&Dispatcher::current("upbeat::compute"), closure)
}

/// Polls the node's lanes in the middle of a task's long computation, so that the node handles messages that have
/// come.
///
/// If no message has come, this costs a few nanoseconds: a look at the lanes, without reading the clock. If one has
/// come, the task runs on after it. Now and then the task makes way for timers and sockets only. A handler that makes
/// way becomes a task.
///
/// # Panics
/// Outside of a node's tasks and handlers.
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

/// Lets other tasks run in the middle of a long handler or task, once its budget is used up.
///
/// A future runs until it waits, and its node serves nothing else meanwhile. A method has a budget for that, of 100
/// microseconds unless its `#[method(budget = "…")]` says otherwise. A checkpoint within the budget costs a
/// decrement, and a time stamp now and then. A checkpoint beyond the budget puts the future behind all messages that
/// have come, and makes a handler a task. A lock that the future holds stays locked over that await. [`poll_point`]
/// looks at the lanes instead of the time.
///
/// # Panics
/// Outside of a node's tasks and handlers.
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

/// The functions that make way, in a message.
const POLL_POINTS: &str = "upbeat::poll_point` or `upbeat::checkpoint";

/// Puts the polled future behind others, once, if `must` says so.
#[inline]
async fn make_way(must: impl Fn(&Dispatcher) -> bool) {
    let mut made_way = false;
    poll_fn(|context| {
        if made_way || !Dispatcher::with_current(POLL_POINTS, |node| must(node)) {
            return Poll::Ready(());
        }
        made_way = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
