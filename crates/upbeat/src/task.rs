//! Tasks: threads of control of a node, each a future that the dispatcher polls when it is woken.
//!
//! A task is a handler that has had to wait, or was spawned by the application. Its memory is its future,
//! what its wakers point to, and a place of 24 bytes; the slot of one that has ended, which is all but the
//! place, is where the next of its type starts. When tasks are polled is left to the dispatcher, and what
//! wakes them to `wake`. Invariant: an end that somebody waits for is told once; after it nothing of the
//! future is left.

mod place;

mod slots;

mod table;

mod spawned;

mod children;

mod scope;

pub(crate) use place::Reserved;
pub use scope::{Child, Scope, TryScope, all, race, scope, try_all, try_scope};
pub(crate) use slots::{Live, Slots};
pub(crate) use spawned::Began;
pub use spawned::{JoinHandle, TaskEnded};
pub(crate) use table::Tasks;

use crate::wake::{TaskId, Wakeup};
use std::any::Any;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use upbeat_core::bill::Counter;
use upbeat_core::frame::CallNumber;
use upbeat_memory::pool::Key;
use upbeat_memory::waker::Counted;

/// Whose request has become a task; no call for a one-way message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) session: Option<Key>,
    pub(crate) call: Option<CallNumber>,
}

/// What the dispatcher polls.
pub(crate) trait Task {
    /// Goes on until the next wait. Ready when it is done with.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done>;

    /// Whose request it was, if it is a handler that has become a task.
    fn caller(&self) -> Option<Caller> {
        None
    }

    /// Whether it goes on nevertheless: then whoever wanted its end is told, and no one else of it.
    fn outlives(self: Pin<&mut Self>, _why: Cancelled) -> bool {
        false
    }

    /// Ends it before it is done: drops its future and says so to who waits for it.
    fn cancel(self: Pin<&mut Self>, why: Cancelled);

    /// It was a handler and has ended: gives back what can serve again. The next task of its place has this name.
    fn done(self: Pin<Box<Self>>, _wakeup: Counted<Wakeup>, _next: TaskId) {}

    /// Whether it was spawned and has ended, and its outcome is still here.
    fn has_ended(&self) -> bool {
        false
    }

    /// The same as one that the application has spawned.
    fn spawned(self: Pin<&mut Self>) -> Option<Pin<&mut dyn Spawned>> {
        None
    }
}

/// What a task was that is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Done {
    /// A handler: its slot goes back to its method.
    Handler,
    /// The application's: its outcome lies there until it is joined.
    Spawned,
}

/// A task that the application has spawned.
pub(crate) trait Spawned {
    /// Which slots its own is one of.
    fn slots(&self) -> Slots;

    /// Puts its outcome, if it has ended, into an `Option` of its type.
    fn take(self: Pin<&mut Self>, into: &mut dyn Any);

    /// Puts the next future, out of an `Option` of its type, into its slot.
    fn begin(self: Pin<&mut Self>, future: &mut dyn Any);

    /// Drops whatever is in its slot.
    fn clear(self: Pin<&mut Self>);
}

/// Why a task is ended before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cancelled {
    /// The caller took the call back, or somebody the task.
    ByCaller,
    /// The deadline passed.
    Deadline,
    /// The caller was lost, or the node ends.
    Lost,
    /// It panicked.
    Panicked,
}

impl Cancelled {
    /// What counts handlers that are ended so.
    pub(crate) const fn counter(self) -> Counter {
        match self {
            Cancelled::ByCaller | Cancelled::Lost => Counter::OrphansEnded,
            Cancelled::Deadline => Counter::OrphansExpired,
            Cancelled::Panicked => Counter::Panics,
        }
    }
}

/// Lets others run: messages that have come, and the tasks that are ready, but for those of a lower
/// priority, which [`Priority`](crate::Priority) says when they run.
///
/// A handler that yields becomes a task.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// let node = upbeat::Node::builder("doc/yield").local_only().build()?;
/// let met = Rc::new(Cell::new(false));
/// let other = Rc::clone(&met);
/// let first = node.spawn(async move {
///     upbeat::yield_now().await;
///     met.get()
/// });
/// drop(node.spawn(async move { other.set(true) }));
/// assert_eq!(node.block_on(first), Ok(true));
/// # Ok(()) }
/// ```
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
