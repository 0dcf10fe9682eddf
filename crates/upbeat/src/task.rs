//! Tasks: threads of control of a node, each a future that the dispatcher polls when it is woken.
//!
//! A task is a handler that has had to wait, or was spawned by the application. Its memory is its future, the data of
//! its wakers, and a table entry of 24 bytes. When a task has ended, all but the entry is a slot in which the next
//! task of its type starts. The dispatcher polls tasks, and `wake` wakes them. Invariant: an end for which a joiner
//! waits is reported once; after it nothing of the future is left.

mod place;

mod slots;

mod table;

mod spawned;

mod children;

mod scope;

pub(crate) use place::Reserved;
pub use scope::{Child, Scope, TryScope, all, race, scope, try_all, try_scope};
pub(crate) use slots::{Slots, TaskSlot};
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
use upbeat_memory::waker::WakeTarget;

/// The caller whose request has become a task; the call is none for a one-way message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) session: Option<Key>,
    pub(crate) call: Option<CallNumber>,
}

/// A future that the dispatcher polls.
pub(crate) trait Task {
    /// Polls the future until its next wait. Ready when the task is done.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done>;

    /// Returns the caller, if the task is a handler.
    fn caller(&self) -> Option<Caller> {
        None
    }

    /// Returns whether the task is a handler, also one that continues without its caller.
    fn is_handler(&self) -> bool {
        false
    }

    /// Returns whether the task continues although a caller asked for its end. Then only that caller gets the
    /// outcome.
    fn outlives(self: Pin<&mut Self>, _why: Cancelled) -> bool {
        false
    }

    /// Ends the task before it is done: drops its future, and wakes the task's joiner.
    fn cancel(self: Pin<&mut Self>, why: Cancelled);

    /// Takes back the slot of a handler that has ended. `next` is the identity of the next task in its place.
    fn done(self: Pin<Box<Self>>, _wakeup: WakeTarget<Wakeup>, _next: TaskId) {}

    /// Returns whether the task was spawned and has ended, and its outcome was not taken yet.
    fn has_ended(&self) -> bool {
        false
    }

    /// Returns the task as one that the application has spawned, if it is one.
    fn spawned(self: Pin<&mut Self>) -> Option<Pin<&mut dyn Spawned>> {
        None
    }
}

/// The kind of a task that is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Done {
    /// A handler: its slot goes back to its method.
    Handler,
    /// A task of the application: its outcome is kept until it is joined.
    Spawned,
}

/// A task that the application has spawned.
pub(crate) trait Spawned {
    /// Returns the kind of its slot.
    fn slots(&self) -> Slots;

    /// Moves its outcome, if it has ended, into an `Option` of its type.
    fn take(self: Pin<&mut Self>, into: &mut dyn Any);

    /// Moves the next future out of an `Option` of its type into its slot.
    fn begin(self: Pin<&mut Self>, future: &mut dyn Any);

    /// Ends it with the message of its panic.
    fn panicked(self: Pin<&mut Self>, text: &str);

    /// Drops the contents of its slot.
    fn clear(self: Pin<&mut Self>);
}

/// The reason why a task is ended before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cancelled {
    /// The caller canceled the call, or the application the task.
    ByCaller,
    /// The deadline passed.
    Deadline,
    /// The caller was lost, or the node ends.
    Lost,
}

impl Cancelled {
    /// Returns the counter of handlers that end for this reason.
    pub(crate) const fn counter(self) -> Counter {
        match self {
            Cancelled::ByCaller | Cancelled::Lost => Counter::OrphansEnded,
            Cancelled::Deadline => Counter::OrphansExpired,
        }
    }
}

/// Yields: messages that have come are handled, and ready tasks run, except those of a lower priority, for which
/// [`Priority`](crate::Priority) says when they run.
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
