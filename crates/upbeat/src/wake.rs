//! Wakers, and the list of tasks that want to run.
//!
//! A task is woken from any thread. Its waker keeps a flag, so that it stands in the list once,
//! and rings the node only when that sleeps. Invariant: a wake that comes while a future is being
//! polled, or before it has become a task, is not lost: the flag is taken down before each poll,
//! and read when the future becomes a task.

use rustix::event::EventfdFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use upbeat_memory::ticks::ticks;

/// Which task: its key in the pool, packed.
pub(crate) type TaskId = u64;

/// The future that drives the node: not in the pool.
pub(crate) const MAIN: TaskId = u64::MAX;
/// A handler that has not become a task. On the list it means nobody, but wakes the node.
const NO_TASK: TaskId = u64::MAX - 1;

/// The tasks of a node that want to run.
pub(crate) struct Roster {
    woken: Mutex<Vec<TaskId>>,
    any: AtomicBool,
    asleep: AtomicBool,
    bell: OwnedFd,
    /// Computations of the node's on other threads that have not ended.
    computing: AtomicUsize,
}

impl Roster {
    pub(crate) fn new() -> rustix::io::Result<Arc<Roster>> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Roster {
            woken: Mutex::new(Vec::new()),
            any: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            bell,
            computing: AtomicUsize::new(0),
        }))
    }

    /// Puts a task on the list.
    pub(crate) fn push(&self, task: TaskId) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        self.any.store(true, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            // Only a full counter refuses, and then the node is awake already.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Whether a task is on the list.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// A computation begins on another thread.
    pub(crate) fn computation_begins(&self) {
        self.computing.fetch_add(1, Ordering::SeqCst);
    }

    /// A computation has ended. The node is told by [`Roster::nudge`].
    pub(crate) fn computation_ends(&self) {
        self.computing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the node for nobody, unless it is about to look at the list.
    pub(crate) fn nudge(&self) {
        if !self.any.load(Ordering::SeqCst) {
            self.push(NO_TASK);
        }
    }

    /// Whether a computation is under way.
    pub(crate) fn is_computing(&self) -> bool {
        self.computing.load(Ordering::SeqCst) != 0
    }

    /// Has the owner look, who keeps a list of his own.
    pub(crate) fn look(&self) {
        self.any.store(true, Ordering::Relaxed);
    }

    /// Takes the list as it stands, and leaves an empty one in the memory of `into`.
    pub(crate) fn take(&self, into: Vec<TaskId>) -> Woken<'_> {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::SeqCst);
        let tasks = std::mem::replace(&mut *woken, into);
        Woken { roster: self, tasks, next: 0 }
    }

    /// Says that the node is about to sleep, and whether it may.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        !self.any.load(Ordering::SeqCst)
    }

    /// Says that the node is awake, and takes the rings down.
    pub(crate) fn awake(&self, rung: bool) {
        self.asleep.store(false, Ordering::SeqCst);
        if rung {
            let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        }
    }
}

impl AsFd for Roster {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Tasks that were on the list, to be run in their order. Those that are not, because one before
/// them panicked, go back.
pub(crate) struct Woken<'r> {
    roster: &'r Roster,
    tasks: Vec<TaskId>,
    next: usize,
}

impl Woken<'_> {
    /// The next one.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<TaskId> {
        let task = self.tasks.get(self.next).copied();
        self.next += 1;
        task
    }

    /// Whether one is still to be run.
    pub(crate) fn has_more(&self) -> bool {
        self.next < self.tasks.len()
    }

    /// The memory of the list, for the next one.
    pub(crate) fn into_empty(mut self) -> Vec<TaskId> {
        let mut tasks = std::mem::take(&mut self.tasks);
        tasks.clear();
        tasks
    }
}

impl Drop for Woken<'_> {
    fn drop(&mut self) {
        self.tasks.iter().skip(self.next).for_each(|task| self.roster.push(*task));
    }
}

/// What a waker points to.
pub(crate) struct Wakeup {
    roster: Arc<Roster>,
    task: AtomicU64,
    queued: AtomicBool,
    /// When it was woken, in ticks, if somebody asks ([`ASKED`]).
    woken: AtomicU64,
}

/// Somebody asks when the task is woken.
const ASKED: u64 = 1;

impl Wakeup {
    /// For a future that is no task yet.
    pub(crate) fn unnamed(roster: &Arc<Roster>) -> Arc<Wakeup> {
        Wakeup::of(roster, NO_TASK)
    }

    pub(crate) fn of(roster: &Arc<Roster>, task: TaskId) -> Arc<Wakeup> {
        let roster = Arc::clone(roster);
        let (task, queued) = (AtomicU64::new(task), AtomicBool::new(false));
        Arc::new(Wakeup { roster, task, queued, woken: AtomicU64::new(0) })
    }

    /// Asks when the task is woken next.
    pub(crate) fn ask(&self) {
        self.woken.store(ASKED, Ordering::Relaxed);
    }

    /// When it was woken since it was asked, in ticks; 0 if it was not.
    pub(crate) fn woken(&self) -> u64 {
        match self.woken.swap(0, Ordering::Relaxed) {
            ASKED => 0,
            ticks => ticks,
        }
    }

    /// The future has become this task. What woke it before is made up for.
    pub(crate) fn name(&self, task: TaskId) {
        self.task.store(task, Ordering::SeqCst);
        if self.queued.load(Ordering::SeqCst) {
            self.roster.push(task);
        }
    }

    /// The future is no task any more.
    pub(crate) fn unname(&self) {
        self.task.store(NO_TASK, Ordering::SeqCst);
    }

    /// Takes the flag down, before a poll.
    #[inline]
    pub(crate) fn begin_poll(&self) {
        if self.queued.load(Ordering::Relaxed) {
            // Swapped, so that what the waker wrote before is seen by the poll.
            self.queued.swap(false, Ordering::SeqCst);
        }
    }

    pub(crate) fn waker(self: &Arc<Wakeup>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst) {
            if self.woken.load(Ordering::Relaxed) == ASKED {
                self.woken.store(ticks(), Ordering::Relaxed);
            }
            let task = self.task.load(Ordering::SeqCst);
            if task != NO_TASK {
                self.roster.push(task);
            }
        }
    }
}

#[cfg(test)]
mod tests;
