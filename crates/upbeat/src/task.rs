//! Tasks: threads of control of a node, each a future that the dispatcher polls when it is woken.

use crate::wake::{Roster, TaskId, Wakeup};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use upbeat_core::frame::CallNumber;
use upbeat_memory::pool::{Key, Pool};

/// The most tasks that a node may have.
const TASKS_MAX: u32 = 1 << 20;

/// Whose request has become a task; no call for a one-way message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) session: Option<Key>,
    pub(crate) call: Option<CallNumber>,
}

/// What the dispatcher polls.
pub(crate) trait Task {
    /// Goes on until the next wait. Ready when it is done with.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// What wakes it.
    fn wakeup(&self) -> &Arc<Wakeup>;

    /// Whose request it was, if it is a handler that has become a task.
    fn caller(&self) -> Option<Caller>;

    /// Takes it out of the world before it is done.
    fn cancel(self: Box<Self>, why: Cancelled);

    /// It is done: gives back what can serve again.
    fn done(self: Box<Self>);
}

/// Why a task is ended before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// The caller took the call back.
    ByCaller,
    /// The deadline passed.
    Deadline,
    /// The caller was lost, or the node ends.
    Lost,
    /// The node has no room for it.
    NoRoom,
}

/// A task and what wakes it.
pub(crate) struct Live {
    pub(crate) task: Box<dyn Task>,
    pub(crate) wakeup: Arc<Wakeup>,
    pub(crate) waker: Waker,
}

/// A task's place: empty while the task is being polled.
struct Place {
    live: Option<Box<Live>>,
    caller: Option<Caller>,
}

/// The tasks of a node.
pub(crate) struct Tasks {
    pool: RefCell<Pool<Place>>,
}

impl Tasks {
    pub(crate) fn new() -> Tasks {
        Tasks { pool: RefCell::new(Pool::new(TASKS_MAX)) }
    }

    /// Takes a task in, and wakes it if it was woken before. Gives it back where there are too
    /// many.
    pub(crate) fn insert(&self, task: Box<dyn Task>) -> Result<TaskId, Box<dyn Task>> {
        let wakeup = Arc::clone(task.wakeup());
        let waker = wakeup.waker();
        let caller = task.caller();
        let live = Some(Box::new(Live { task, wakeup: Arc::clone(&wakeup), waker }));
        match self.pool.borrow_mut().insert(Place { live, caller }) {
            Ok(key) => {
                wakeup.name(pack(key));
                Ok(pack(key))
            }
            Err(full) => match full.0.live {
                Some(live) => Err(live.task),
                None => unreachable!("the pool gives back what it was given"),
            },
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.pool.borrow().len()
    }

    /// Whether a task has neither ended nor been ended.
    pub(crate) fn has(&self, id: TaskId) -> bool {
        self.pool.borrow().get(unpack(id)).is_some()
    }

    /// Takes a task out to be polled. None if it is gone, or being polled.
    #[inline]
    pub(crate) fn begin(&self, id: TaskId) -> Option<Box<Live>> {
        self.pool.borrow_mut().get_mut(unpack(id))?.live.take()
    }

    /// Puts a task back that waits on.
    #[inline]
    pub(crate) fn waits(&self, id: TaskId, live: Box<Live>) {
        if let Some(place) = self.pool.borrow_mut().get_mut(unpack(id)) {
            place.live = Some(live);
        }
    }

    /// Gives up the place of a task that is done, or ended.
    pub(crate) fn remove(&self, id: TaskId) -> Option<Box<Live>> {
        self.pool.borrow_mut().remove(unpack(id))?.live
    }

    /// Gives up the place of a task that panicked, and says whose request it was.
    pub(crate) fn remove_panicked(&self, id: TaskId) -> Option<Caller> {
        self.pool.borrow_mut().remove(unpack(id))?.caller
    }

    /// Takes out everything that waits.
    pub(crate) fn drain(&self) -> Vec<Box<dyn Task>> {
        let mut pool = self.pool.borrow_mut();
        let tasks =
            pool.iter_mut().filter_map(|(_, place)| Some(place.live.take()?.task)).collect();
        pool.clear();
        tasks
    }
}

fn pack(key: Key) -> TaskId {
    u64::from(key.index) | u64::from(key.generation) << 32
}

fn unpack(id: TaskId) -> Key {
    Key { index: id as u32, generation: (id >> 32) as u32 }
}

/// A task that the application has spawned.
pub(crate) struct Spawned<F: Future> {
    future: Pin<Box<F>>,
    outcome: Rc<Outcome<F::Output>>,
    wakeup: Arc<Wakeup>,
}

struct Outcome<T> {
    value: Cell<Option<T>>,
    ended: Cell<bool>,
    joiner: RefCell<Option<Waker>>,
}

impl<F: Future + 'static> Spawned<F> {
    pub(crate) fn new(future: F, roster: &Arc<Roster>) -> (Spawned<F>, JoinHandle<F::Output>) {
        let outcome = Rc::new(Outcome {
            value: Cell::new(None),
            ended: Cell::new(false),
            joiner: RefCell::new(None),
        });
        let wakeup = Wakeup::unnamed(roster);
        let handle = JoinHandle { outcome: Rc::clone(&outcome) };
        (Spawned { future: Box::pin(future), outcome, wakeup }, handle)
    }
}

impl<F: Future> Task for Spawned<F> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.future.as_mut().poll(context).map(|value| self.outcome.value.set(Some(value)))
    }

    fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    fn caller(&self) -> Option<Caller> {
        None
    }

    fn cancel(self: Box<Self>, _why: Cancelled) {}

    fn done(self: Box<Self>) {}
}

impl<F: Future> Drop for Spawned<F> {
    // Whether it is done, panicked or was cancelled: who joins it is told.
    fn drop(&mut self) {
        self.outcome.ended.set(true);
        if let Some(waker) = self.outcome.joiner.take() {
            waker.wake();
        }
    }
}

/// Waits for a task's value. Dropped, it lets the task run on.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/join").local_only().build()?;
/// let (one, two) = (node.spawn(async { 1 }), node.spawn(async { 2 }));
/// let sum = node.block_on(async { Ok::<_, upbeat::TaskEnded>(one.await? + two.await?) });
/// assert_eq!(sum, Ok(3));
/// # Ok(()) }
/// ```
#[must_use = "dropped, the task runs on by itself"]
pub struct JoinHandle<T> {
    outcome: Rc<Outcome<T>>,
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, TaskEnded>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.outcome.ended.get() {
            *self.outcome.joiner.borrow_mut() = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(self.outcome.value.take().ok_or(TaskEnded))
    }
}

/// A task has ended without a value: it panicked, or its node was shut down.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/ended").local_only().build()?;
/// let task = node.spawn(std::future::pending::<()>());
/// node.shut_down(std::time::Duration::ZERO);
/// let ended = node.block_on(task);
/// assert_eq!(ended, Err(upbeat::TaskEnded));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskEnded;

impl fmt::Display for TaskEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task ended without a value: it panicked, or its node was shut down")
    }
}

impl std::error::Error for TaskEnded {}
