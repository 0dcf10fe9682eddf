//! Wakers, and the list of tasks that want to run.
//!
//! A task is woken from any thread. Its waker keeps a flag, so that it stands in a list once. The node's
//! own thread has a list without a lock; others have one together, and ring the node only when it
//! sleeps. Invariant: a wake that comes while a future is being
//! polled, or before it has become a task, is not lost: the flag is taken down before each poll,
//! and read when the future becomes a task.

mod here;
mod ready;

pub(crate) use ready::Ready;
pub use ready::{Priority, Start};

use rustix::event::EventfdFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use upbeat_memory::pool::Key;
use upbeat_memory::ticks::ticks;
use upbeat_memory::waker::{Counted, Rouse};

/// Which task: from below its place (24 bits), its priority (2), flags (6, here always down), and which
/// of the tasks of that place it is (32).
pub(crate) type TaskId = u64;

/// The most places for tasks that an identity can name.
pub(crate) const PLACES_MAX: u32 = INDEX as u32 - 1;

const INDEX: u64 = (1 << 24) - 1;
const PRIORITY_SHIFT: u32 = 24;
const GENERATION_SHIFT: u32 = 32;
/// The task is on a list, or is to be made up for.
const QUEUED: u64 = 1 << 26;
/// Somebody asks when the task is woken.
const ASKED: u64 = 1 << 27;
/// Nobody waits for the task's end.
const ALONE: u64 = 1 << 28;
const FLAGS: u64 = 0b11_1111 << 26;

/// The future that drives the node: it has no place.
pub(crate) const MAIN: TaskId =
    u64::MAX << GENERATION_SHIFT | (Priority::Normal as u64) << PRIORITY_SHIFT | INDEX;
/// A handler that has not become a task. On the list it means nobody, but wakes the node.
pub(crate) const NO_TASK: TaskId = MAIN - 1;

/// Names the task of this place.
pub(crate) fn name(place: Key, priority: Priority) -> TaskId {
    let low = u64::from(place.index) | (priority as u64) << PRIORITY_SHIFT;
    u64::from(place.generation) << GENERATION_SHIFT | low
}

/// Whether the place that a task is named by is one of the first so many, which are a power of two.
#[inline]
pub(crate) const fn is_below(task: TaskId, places: u32) -> bool {
    task & INDEX & !(places as u64 - 1) == 0
}

/// Names the next task of a task's place.
#[inline]
pub(crate) fn next(task: TaskId) -> TaskId {
    task.wrapping_add(1 << GENERATION_SHIFT)
}

/// The place that a task is named by.
#[inline]
pub(crate) fn place(task: TaskId) -> Key {
    Key { index: (task & INDEX) as u32, generation: (task >> GENERATION_SHIFT) as u32 }
}

/// Which future is being polled.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) task: TaskId,
    /// What its waker points to.
    pub(crate) waker: *const (),
}

/// What no waker points to. A waker that does nothing has no data, so none does not stand for nobody.
static NO_WAKER: u8 = 0;

/// No future is being polled.
pub(crate) const NOBODY: Current = Current { task: 0, waker: (&raw const NO_WAKER).cast() };

/// Where those that were woken are written down.
pub(crate) trait Roll: Send + Sync + 'static {
    /// Writes a task down.
    fn push(&self, task: TaskId);

    /// The same for one of whom somebody asks when it is woken.
    fn push_timed(&self, task: TaskId);
}

/// The tasks of a node that want to run.
pub(crate) struct Roster {
    /// The number of the node's thread; 0 when the node has ended.
    thread: AtomicU64,
    list: Mutex<List>,
    /// 0, or one more than the highest priority of those that other threads have woken.
    top: AtomicU8,
    /// The same of those that are ready or were woken here: written by the node's thread alone.
    top_here: AtomicU8,
    asleep: AtomicBool,
    bell: OwnedFd,
    /// Computations of the node's on other threads that have not ended.
    computing: AtomicUsize,
    /// Panics of values that computations of the node's dropped, not counted by it yet.
    contained: AtomicU64,
}

#[derive(Default)]
struct List {
    woken: Vec<TaskId>,
    /// When those were woken of whom somebody asks, in ticks.
    times: Vec<(TaskId, u64)>,
}

/// The most tasks for which an empty list keeps memory.
const KEPT_MAX: usize = 1024;
/// The most times that are kept: of tasks that were ended nobody asks any more.
const TIMES_MAX: usize = 64;

impl Roster {
    pub(crate) fn new() -> rustix::io::Result<Arc<Roster>> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Roster {
            thread: AtomicU64::new(here::number()),
            list: Mutex::default(),
            top: AtomicU8::new(0),
            top_here: AtomicU8::new(0),
            asleep: AtomicBool::new(false),
            bell,
            computing: AtomicUsize::new(0),
            contained: AtomicU64::new(0),
        }))
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a task on a list.
    #[inline]
    pub(crate) fn push(&self, task: TaskId) {
        if here::push(self, task) {
            return self.keep(Priority::of(task));
        }
        self.push_from_elsewhere(task);
    }

    #[cold]
    #[inline(never)]
    fn push_from_elsewhere(&self, task: TaskId) {
        self.list().woken.push(task);
        self.top.fetch_max(Priority::of(task) as u8 + 1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            // Only a full counter refuses, and then the node is awake already.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Wakes the node if it sleeps, or a loop of the application's that waits for its descriptor.
    pub(crate) fn ring(&self) {
        self.push_from_elsewhere(NO_TASK);
    }

    /// The node itself has tasks that are ready, the highest of this priority.
    #[inline]
    pub(crate) fn keep(&self, priority: Priority) {
        let top = priority as u8 + 1;
        if self.top_here.load(Ordering::Relaxed) < top {
            self.top_here.store(top, Ordering::Relaxed);
        }
    }

    /// Whether a task is ready, or was woken here.
    #[inline]
    fn any_here(&self) -> bool {
        self.top_here.load(Ordering::Relaxed) != 0
    }

    /// One more than the highest priority of those that are ready; 0 if nobody is.
    #[inline]
    fn top(&self) -> u8 {
        self.top.load(Ordering::Relaxed).max(self.top_here.load(Ordering::Relaxed))
    }

    /// Whether a task is ready.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.top() != 0
    }

    /// Whether a task was woken that goes before those of this priority.
    #[inline]
    pub(crate) fn any_above(&self, priority: Priority) -> bool {
        self.top() > priority as u8 + 1
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
        if self.top.load(Ordering::SeqCst) == 0 {
            self.push(NO_TASK);
        }
    }

    /// A value that a computation dropped has panicked.
    pub(crate) fn contained(&self) {
        self.contained.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the number of those since this was last asked.
    pub(crate) fn take_contained(&self) -> u64 {
        match self.contained.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.contained.swap(0, Ordering::Relaxed),
        }
    }

    /// Whether a computation is under way.
    pub(crate) fn is_computing(&self) -> bool {
        self.computing.load(Ordering::SeqCst) != 0
    }

    /// Empties both lists. It is the node's thread that does it.
    #[inline]
    pub(crate) fn take(&self, mut each: impl FnMut(TaskId)) {
        if self.any_here() {
            self.top_here.store(0, Ordering::Relaxed);
            here::take(self, &mut each);
        }
        if self.top.load(Ordering::Relaxed) != 0 {
            self.take_from_elsewhere(each);
        }
    }

    #[cold]
    fn take_from_elsewhere(&self, each: impl FnMut(TaskId)) {
        let mut list = self.list();
        // Before the list is emptied: who writes another down behind that says so again.
        self.top.store(0, Ordering::SeqCst);
        empty(&mut list.woken, each);
    }

    /// The node ends, and leaves nothing to the next one of its thread.
    pub(crate) fn forget(&self) {
        self.thread.store(0, Ordering::Relaxed);
        here::take(self, |_| ());
    }

    /// Says that the node is about to sleep, and whether it may.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        self.top.load(Ordering::SeqCst) == 0 && !self.any_here()
    }

    /// Says that the node is awake, and takes the rings down.
    pub(crate) fn awake(&self, rung: bool) {
        self.asleep.store(false, Ordering::SeqCst);
        if rung {
            let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        }
    }
}

/// Empties a list.
fn empty(list: &mut Vec<TaskId>, each: impl FnMut(TaskId)) {
    list.drain(..).filter(|task| *task != NO_TASK).for_each(each);
    list.shrink_to(KEPT_MAX);
}

impl AsFd for Roster {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Roll for Roster {
    fn push(&self, task: TaskId) {
        Roster::push(self, task);
    }

    #[cold]
    fn push_timed(&self, task: TaskId) {
        let mut list = self.list();
        if list.times.len() == TIMES_MAX {
            list.times.remove(0);
        }
        list.times.push((task, ticks()));
        drop(list);
        Roster::push(self, task);
    }
}

/// What a waker points to.
pub(crate) struct Wakeup<R: Roll = Roster> {
    roll: Arc<R>,
    /// Which task, with its flags. Only the owner of the task changes whose it is.
    word: AtomicU64,
}

impl Wakeup {
    /// For a future that is no task yet.
    pub(crate) fn unnamed(roster: &Arc<Roster>) -> Counted<Wakeup> {
        Wakeup::of(roster, NO_TASK)
    }

    /// The future has become this task. What woke it before is made up for.
    #[inline]
    pub(crate) fn name(&self, task: TaskId) {
        if self.rename(task) & QUEUED != 0 {
            self.roll.push(task);
        }
    }

    /// When it was woken since it was asked, in ticks; 0 if it was not.
    pub(crate) fn woken(&self) -> u64 {
        if self.word.fetch_and(!ASKED, Ordering::Relaxed) & ASKED != 0 {
            return 0;
        }
        let task = self.task();
        let times = &mut self.roll.list().times;
        let found = times.iter().position(|(woken, _)| *woken == task);
        found.map_or(0, |at| times.remove(at).1)
    }
}

impl<R: Roll> Wakeup<R> {
    pub(crate) fn of(roll: &Arc<R>, task: TaskId) -> Counted<Wakeup<R>> {
        Counted::new(Wakeup { roll: Arc::clone(roll), word: AtomicU64::new(task) })
    }

    /// Whose it is.
    #[inline]
    pub(crate) fn task(&self) -> TaskId {
        self.word.load(Ordering::Relaxed) & !FLAGS
    }

    /// Whether it is this task's, of the tasks of its place.
    #[inline]
    pub(crate) fn is_of(&self, task: TaskId) -> bool {
        // Which of them it is stands above everything else.
        (self.word.load(Ordering::Relaxed) ^ task) >> GENERATION_SHIFT == 0
    }

    /// Makes what is nobody's a task's. Gives the word as it was.
    #[inline]
    fn rename(&self, task: TaskId) -> u64 {
        debug_assert_eq!(self.task(), NO_TASK, "it has a name");
        // The flags stand beside the name, and there is one instruction that adds and gives what was there.
        self.word.fetch_add(task.wrapping_sub(NO_TASK), Ordering::SeqCst)
    }

    /// The future has become this task, and is on its way to be polled.
    pub(crate) fn name_ready(&self, task: TaskId) {
        // Who wakes it in between finds no task to push, and its flag is up afterwards too.
        self.word.fetch_or(QUEUED, Ordering::SeqCst);
        self.rename(task);
    }

    /// The future is no task any more. What has woken it meanwhile is forgotten.
    #[inline]
    pub(crate) fn unname(&self) {
        self.word.swap(NO_TASK, Ordering::SeqCst);
    }

    /// Asks when the task is woken next.
    pub(crate) fn ask(&self) {
        self.word.fetch_or(ASKED, Ordering::Relaxed);
    }

    /// Nobody waits for the task's end any more.
    pub(crate) fn leave_alone(&self) {
        self.word.fetch_or(ALONE, Ordering::Relaxed);
    }

    /// Whether nobody waits for the task's end.
    pub(crate) fn is_alone(&self) -> bool {
        self.word.load(Ordering::Relaxed) & ALONE != 0
    }

    /// Takes the flag down, before a poll of what is on the list no more.
    #[inline]
    pub(crate) fn begin_poll(&self) {
        if self.word.load(Ordering::Relaxed) & QUEUED != 0 {
            // In one step, so that what the waker wrote before is seen by the poll.
            self.word.fetch_and(!QUEUED, Ordering::SeqCst);
        }
    }
}

impl<R: Roll> Rouse for Wakeup<R> {
    #[inline]
    fn rouse(&self) {
        let before = self.word.fetch_or(QUEUED, Ordering::SeqCst);
        let task = before & !FLAGS;
        if before & QUEUED != 0 || task == NO_TASK {
            return;
        }
        if before & ASKED != 0 {
            self.word.fetch_and(!ASKED, Ordering::Relaxed);
            return self.roll.push_timed(task);
        }
        self.roll.push(task);
    }
}

#[cfg(test)]
mod tests;
