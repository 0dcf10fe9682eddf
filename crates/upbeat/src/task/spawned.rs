//! Tasks that the application spawns, their slots, and the handles that wait for them.

use super::{Cancelled, Done, Slots, Spawned, Task, TaskSlot, Tasks};
use crate::wake::{Priority, TaskId, WakeQueue, Wakeup};
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use upbeat_memory::local::Local;
use upbeat_memory::stage::Stage;

/// A task's slot: memory for its future, then for its outcome.
type Slot<F> = Stage<F, Result<<F as Future>::Output, TaskEnded>>;

/// Whether a task starts in the slot of a task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Began {
    InKeptSlot,
    InNewSlot,
}

impl Tasks {
    /// Makes a task that is ready. If there are too many tasks, the future is dropped, and None is returned.
    pub(crate) fn spawn<F: Future + 'static>(
        &self,
        future: F,
        priority: Priority,
        roster: &Arc<WakeQueue>,
    ) -> Option<(TaskId, Began)> {
        if self.is_full() {
            return None;
        }
        let (live, began) = match self.spares.take::<F>() {
            Some(mut live) => {
                if let Some(spawned) = live.task.as_mut().spawned() {
                    spawned.begin(&mut Some(future));
                }
                (live, Began::InKeptSlot)
            }
            None => {
                let slot: Pin<Box<Slot<F>>> = Box::pin(Stage::new(future));
                (TaskSlot { task: slot, wakeup: Wakeup::unnamed(roster) }, Began::InNewSlot)
            }
        };
        let id = self.insert_ready(live, priority).ok()?;
        Some((id, began))
    }
}

impl<F: Future + 'static> Task for Slot<F> {
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done> {
        // A task that was woken after its end has nothing to do.
        let Some(future) = self.as_mut().future() else { return Poll::Pending };
        future.poll(context).map(|value| {
            self.end(Ok(value));
            Done::Spawned
        })
    }

    fn cancel(self: Pin<&mut Self>, why: Cancelled) {
        self.end(Err(match why {
            Cancelled::ByCaller | Cancelled::Deadline => TaskEnded::Cancelled,
            Cancelled::Lost => TaskEnded::ShutDown,
        }));
    }

    fn has_ended(&self) -> bool {
        self.is_ended()
    }

    fn spawned(self: Pin<&mut Self>) -> Option<Pin<&mut dyn Spawned>> {
        Some(self)
    }
}

impl<F: Future + 'static> Spawned for Slot<F> {
    fn slots(&self) -> Slots {
        Slots::of::<F>(size_of::<Slot<F>>())
    }

    fn panicked(self: Pin<&mut Self>, text: &str) {
        self.end(Err(TaskEnded::Panicked { text: text.into() }));
    }

    fn take(self: Pin<&mut Self>, into: &mut dyn Any) {
        if let Some(into) = into.downcast_mut::<Option<Result<F::Output, TaskEnded>>>() {
            *into = Stage::take(self);
        }
    }

    fn begin(self: Pin<&mut Self>, future: &mut dyn Any) {
        if let Some(future) = future.downcast_mut::<Option<F>>().and_then(Option::take) {
            Stage::begin(self, future);
        }
    }

    fn clear(self: Pin<&mut Self>) {
        Stage::clear(self);
    }
}

/// A future of a task's value. Dropping it lets the task run on.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/join").local_only().build()?;
/// let (one, two) = (node.spawn(async { 1 }), node.spawn(async { 2 }));
/// let sum = node.block_on(async { Ok::<_, upbeat::TaskEnded>(one.await? + two.await?) });
/// assert_eq!(sum, Ok(3));
/// # Ok(()) }
/// ```
///
/// A task is joined once:
///
/// ```compile_fail,E0382
/// # async fn twice(node: upbeat::Node) {
/// let task = node.spawn(async { 1 });
/// let first = task.await;
/// let again = task.await;
/// # }
/// ```
#[must_use = "if this is dropped, the task runs on by itself"]
pub struct JoinHandle<T> {
    tasks: Local<Rc<Tasks>>,
    state: State,
    gives: PhantomData<fn() -> T>,
}

#[derive(Clone, Copy)]
enum State {
    Spawned(TaskId),
    /// There was no room for the task.
    Refused,
    Joined,
}

impl<T> JoinHandle<T> {
    /// Returns the handle of this task; without an ID, of a task for which there was no room.
    pub(crate) fn new(tasks: &Rc<Tasks>, id: Option<TaskId>) -> JoinHandle<T> {
        let state = id.map_or(State::Refused, State::Spawned);
        JoinHandle { tasks: Rc::clone(tasks).into(), state, gives: PhantomData }
    }

    /// Ends the task at its current await: the values that it holds are dropped before this returns, and joining it
    /// returns [`TaskEnded::Cancelled`]. A task that cancels itself runs on to its next await. A task that has ended
    /// keeps its value.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/cancel").local_only().build()?;
    /// let held = std::rc::Rc::new(());
    /// let task = node.spawn({
    ///     let held = std::rc::Rc::clone(&held);
    ///     async move {
    ///         std::future::pending::<()>().await;
    ///         drop(held);
    ///     }
    /// });
    /// task.cancel();
    /// assert_eq!(std::rc::Rc::strong_count(&held), 1);
    /// assert_eq!(node.block_on(task), Err(upbeat::TaskEnded::Cancelled));
    /// # Ok(()) }
    /// ```
    pub fn cancel(&self) {
        if let State::Spawned(id) = self.state {
            self.tasks.end(id, Cancelled::ByCaller);
        }
    }
}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, TaskEnded>;

    /// # Panics
    /// If the value has been returned already.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let id = match self.state {
            State::Spawned(id) => id,
            State::Refused => return Poll::Ready(Err(TaskEnded::Full)),
            State::Joined => panic!("the task's value was taken already"),
        };
        let mut outcome: Option<Self::Output> = None;
        let take = |live: &mut TaskSlot| {
            if let Some(spawned) = live.task.as_mut().spawned() {
                spawned.take(&mut outcome);
            }
        };
        if !self.tasks.join(id, context.waker(), take) {
            return Poll::Pending;
        }
        self.state = State::Joined;
        Poll::Ready(outcome.unwrap_or(Err(TaskEnded::ShutDown)))
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let State::Spawned(id) = self.state {
            self.tasks.leave_alone(id);
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Spawned(_) => "JoinHandle(of a task)",
            State::Refused => "JoinHandle(no room)",
            State::Joined => "JoinHandle(joined)",
        })
    }
}

/// The reason why a task has ended without a value.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::TaskEnded;
///
/// let node = upbeat::Node::builder("doc/ended").local_only().build()?;
/// let task = node.spawn(std::future::pending::<()>());
/// node.shut_down(std::time::Duration::ZERO);
/// assert_eq!(node.block_on(task), Err(TaskEnded::ShutDown));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskEnded {
    /// The task was cancelled.
    Cancelled,
    /// The task panicked.
    Panicked {
        /// The message of the panic. Empty if it has none: `panic_any` of a value that is no text.
        text: Box<str>,
    },
    /// The task's node was shut down.
    ShutDown,
    /// The task was never started: its node had 1,048,576 tasks already.
    Full,
}

impl fmt::Display for TaskEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TaskEnded::Cancelled => "the task was cancelled",
            TaskEnded::Panicked { text } if text.is_empty() => "the task panicked",
            TaskEnded::Panicked { text } => return write!(f, "the task panicked: {text}"),
            TaskEnded::ShutDown => "the task's node was shut down before it was done",
            TaskEnded::Full => "the task was never started: its node had 1,048,576 tasks already",
        })
    }
}

impl std::error::Error for TaskEnded {}
