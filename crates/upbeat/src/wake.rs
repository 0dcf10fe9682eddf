//! Wakers, and the list of woken tasks.
//!
//! A task may be woken from any thread. Its waker keeps a flag, so that the task stands in a list once. The node's
//! own thread has a list without a lock; other threads share one with a lock, and ring the node's doorbell only when
//! the node sleeps. Invariant: a wake that comes while a future is being polled, or before it has become a task, is
//! not lost: the flag is cleared before each poll, and read when the future becomes a task.

mod foreign;
mod here;
mod ready;

pub(crate) use foreign::{ForeignWaker, HoldWakers};
pub(crate) use ready::Ready;
pub use ready::{Priority, Start};

use rustix::event::EventfdFlags;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use upbeat_environment::Origin;
use upbeat_environment::process::{Resource, obtain};
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_memory::pool::Key;
use upbeat_memory::ticks::ticks;
use upbeat_memory::wake_signal::WakeSignal;
use upbeat_memory::waker::{WakeTarget, Wakeable};

/// The identity of a task: from the lowest bits its slot (24 bits), its priority (2), flags (6, always 0 here), and
/// the generation of the task in its slot (32).
pub(crate) type TaskId = u64;

/// The most slots for tasks that an identity can name.
pub(crate) const PLACES_MAX: u32 = INDEX as u32 - 1;

const INDEX: u64 = (1 << 24) - 1;
const PRIORITY_SHIFT: u32 = 24;
const GENERATION_SHIFT: u32 = 32;
/// The flag of a task that is on a list, or has a wake from before it became a task.
const QUEUED: u64 = 1 << 26;
/// The flag of a task whose next wake is stamped.
const ASKED: u64 = 1 << 27;
/// The flag of a task whose end nobody waits for.
const ALONE: u64 = 1 << 28;
const FLAGS: u64 = 0b11_1111 << 26;

/// The main future, which drives the node and has no slot.
pub(crate) const MAIN: TaskId =
    u64::MAX << GENERATION_SHIFT | (Priority::Normal as u64) << PRIORITY_SHIFT | INDEX;
/// A handler that has not become a task. On the list it stands for no task, but wakes the node.
pub(crate) const NO_TASK: TaskId = MAIN - 1;

/// Returns the identity of the task in this slot.
pub(crate) fn name(place: Key, priority: Priority) -> TaskId {
    let low = u64::from(place.index) | (priority as u64) << PRIORITY_SHIFT;
    u64::from(place.generation) << GENERATION_SHIFT | low
}

/// Returns whether a task's slot is one of the first `places`, which is a power of two.
#[inline]
pub(crate) const fn is_below(task: TaskId, places: u32) -> bool {
    task & INDEX & !(places as u64 - 1) == 0
}

/// Returns the identity of the next task in a task's slot.
#[inline]
pub(crate) fn next(task: TaskId) -> TaskId {
    task.wrapping_add(1 << GENERATION_SHIFT)
}

/// Returns the slot of a task.
#[inline]
pub(crate) fn place(task: TaskId) -> Key {
    Key { index: (task & INDEX) as u32, generation: (task >> GENERATION_SHIFT) as u32 }
}

/// The future that is being polled.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) task: TaskId,
    /// The data of its waker.
    pub(crate) waker: *const (),
}

/// The data of no waker. A waker that does nothing has null data, so null cannot stand for no future.
static NO_WAKER: u8 = 0;

/// The value while no future is being polled.
pub(crate) const NOBODY: Current = Current { task: 0, waker: (&raw const NO_WAKER).cast() };

/// The future that is being polled; after its poll, its task alone, until the next poll.
pub(crate) struct Polling {
    task: Cell<TaskId>,
    waker: Cell<*const ()>,
}

impl Default for Polling {
    fn default() -> Polling {
        Polling { task: Cell::new(NOBODY.task), waker: Cell::new(NOBODY.waker) }
    }
}

impl Polling {
    /// Begins a poll.
    #[inline(always)]
    pub(crate) fn begin(&self, current: Current) {
        self.task.set(current.task);
        self.waker.set(current.waker);
    }

    /// Ends the poll. One store suffices.
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.waker.set(NOBODY.waker);
    }

    /// Returns the task that is being polled or was polled last, and the data of its waker while it is polled.
    #[inline(always)]
    pub(crate) fn current(&self) -> Current {
        Current { task: self.task.get(), waker: self.waker.get() }
    }

    /// Returns the task that is being polled, if one is.
    pub(crate) fn task(&self) -> Option<TaskId> {
        let Current { task, waker } = self.current();
        (waker != NOBODY.waker && task != NOBODY.task).then_some(task)
    }
}

/// A list to which woken tasks are added.
pub(crate) trait WakeList: Send + Sync + 'static {
    /// Adds a task to the list.
    fn push(&self, task: TaskId);

    /// Adds a task whose wake is stamped.
    fn push_timed(&self, task: TaskId);
}

/// The woken tasks of a node.
pub(crate) struct WakeQueue {
    /// The number of the node's thread; 0 when the node has ended.
    thread: AtomicU64,
    list: Mutex<List>,
    /// Its level is one more than the highest priority of the tasks that other threads have woken.
    signal: WakeSignal,
    /// 0, or one more than the highest priority of the tasks that are ready or were woken by the node's own thread,
    /// which alone writes this.
    top_here: AtomicU8,
    bell: OwnedFd,
    origin: Origin,
    /// The number of computations of the node on other threads that have not ended.
    computing: AtomicUsize,
    /// The number of panics of values that computations of the node dropped, and that the node has not counted yet.
    contained: AtomicU64,
}

#[derive(Default)]
struct List {
    woken: Vec<TaskId>,
    /// The times of stamped wakes, in ticks.
    times: Vec<(TaskId, u64)>,
}

/// The most tasks for which an empty list keeps memory.
const KEPT_MAX: usize = 1024;
/// The most times that are kept. Times of tasks that have ended are never read.
const TIMES_MAX: usize = 64;

impl WakeQueue {
    pub(crate) fn new() -> rustix::io::Result<Arc<WakeQueue>> {
        obtain(Resource::Descriptors)?;
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(WakeQueue {
            thread: AtomicU64::new(here::number()),
            list: Mutex::default(),
            signal: WakeSignal::default(),
            top_here: AtomicU8::new(0),
            bell,
            origin: Origin::of_thread(),
            computing: AtomicUsize::new(0),
            contained: AtomicU64::new(0),
        }))
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task to a list.
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
        self.origin.wakes();
        self.list().woken.push(task);
        if self.signal.raise(Priority::of(task) as u8 + 1) {
            // The write fails only if the counter is full, and then the node is awake already.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Wakes the node if it sleeps, or the application's loop that polls its descriptor.
    pub(crate) fn ring(&self) {
        self.push_from_elsewhere(NO_TASK);
    }

    /// Notes that the node itself has ready tasks, the highest with this priority.
    #[inline]
    pub(crate) fn keep(&self, priority: Priority) {
        let top = priority as u8 + 1;
        if self.top_here.load(Ordering::Relaxed) < top {
            self.top_here.store(top, Ordering::Relaxed);
        }
    }

    /// Returns whether a task is ready, or was woken by the node's own thread.
    #[inline]
    fn any_here(&self) -> bool {
        self.top_here.load(Ordering::Relaxed) != 0
    }

    /// Returns one more than the highest priority of the ready tasks, or 0 if there are none.
    #[inline]
    fn top(&self) -> u8 {
        self.signal.level().max(self.top_here.load(Ordering::Relaxed))
    }

    /// Returns whether a task is ready.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.top() != 0
    }

    /// Returns whether a task was woken that goes before those of this priority.
    #[inline]
    pub(crate) fn any_above(&self, priority: Priority) -> bool {
        self.top() > priority as u8 + 1
    }

    /// Notes that a computation begins on another thread.
    pub(crate) fn computation_begins(&self) {
        self.computing.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that a computation has ended. [`WakeQueue::nudge`] wakes the node.
    pub(crate) fn computation_ends(&self) {
        self.computing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the node without a task, unless the node is about to read the list.
    pub(crate) fn nudge(&self) {
        if !self.signal.is_raised() {
            self.push(NO_TASK);
        }
    }

    /// Counts the panic of a value that a computation dropped.
    pub(crate) fn contained(&self) {
        self.contained.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the number of those panics since the last call.
    pub(crate) fn take_contained(&self) -> u64 {
        match self.contained.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.contained.swap(0, Ordering::Relaxed),
        }
    }

    /// Returns whether a computation is under way.
    pub(crate) fn is_computing(&self) -> bool {
        self.computing.load(Ordering::SeqCst) != 0
    }

    /// Empties both lists. Only the node's thread calls this.
    #[inline]
    pub(crate) fn take(&self, mut each: impl FnMut(TaskId)) {
        if self.any_here() {
            self.top_here.store(0, Ordering::Relaxed);
            here::take(self, &mut each);
        }
        if self.signal.level() != 0 {
            self.take_from_elsewhere(each);
        }
    }

    #[cold]
    fn take_from_elsewhere(&self, each: impl FnMut(TaskId)) {
        let mut list = self.list();
        self.signal.lower();
        empty(&mut list.woken, each);
    }

    /// Empties the lists at the end of the node, so that its thread's next node finds none of its tasks.
    pub(crate) fn forget(&self) {
        self.thread.store(0, Ordering::Relaxed);
        here::take(self, |_| ());
    }

    /// Announces that the node is about to sleep, and returns whether it may.
    pub(crate) fn may_sleep(&self) -> bool {
        self.signal.may_sleep() && !self.any_here()
    }

    /// Returns whether the node sleeps, or is about to.
    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        self.signal.is_asleep()
    }

    /// Announces that the node is awake, and takes the wake-ups off the doorbell.
    pub(crate) fn awake(&self, rung: bool) {
        self.signal.awake();
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

impl AsFd for WakeQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl WakeList for WakeQueue {
    fn push(&self, task: TaskId) {
        WakeQueue::push(self, task);
    }

    #[cold]
    fn push_timed(&self, task: TaskId) {
        let mut list = self.list();
        if list.times.len() == TIMES_MAX {
            list.times.remove(0);
        }
        list.times.push((task, ticks()));
        drop(list);
        WakeQueue::push(self, task);
    }
}

/// The data of a waker.
pub(crate) struct Wakeup<R: WakeList = WakeQueue> {
    roll: Arc<R>,
    /// The task's identity with its flags. Only the owner of the task changes the identity.
    word: AtomicU64,
}

impl Wakeup {
    /// Returns the data for a future that is not yet a task.
    pub(crate) fn unnamed(roster: &Arc<WakeQueue>) -> WakeTarget<Wakeup> {
        Wakeup::of(roster, NO_TASK)
    }

    /// Sets the task that the future has become. An earlier wake of the future is made up for.
    #[inline]
    pub(crate) fn name(&self, task: TaskId) {
        if self.rename(task) & QUEUED != 0 {
            self.roll.push(task);
        }
    }

    /// Returns when the task was woken since [`Wakeup::ask`], in ticks, or 0 if it was not.
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

impl<R: WakeList> Wakeup<R> {
    pub(crate) fn of(roll: &Arc<R>, task: TaskId) -> WakeTarget<Wakeup<R>> {
        WakeTarget::new(Wakeup { roll: Arc::clone(roll), word: AtomicU64::new(task) })
    }

    /// Returns the task.
    #[inline]
    pub(crate) fn task(&self) -> TaskId {
        self.word.load(Ordering::Relaxed) & !FLAGS
    }

    /// Returns whether the task is this one, among the tasks of its slot.
    #[inline]
    pub(crate) fn is_of(&self, task: TaskId) -> bool {
        // The generation stands above all other bits.
        (self.word.load(Ordering::Relaxed) ^ task) >> GENERATION_SHIFT == 0
    }

    /// Sets the task where there was none. Returns the previous word.
    #[inline]
    fn rename(&self, task: TaskId) -> u64 {
        debug_assert_eq!(self.task(), NO_TASK, "the future has become a task already");
        // The flags stand beside the identity, so that one instruction adds the identity and returns the flags.
        self.word.fetch_add(task.wrapping_sub(NO_TASK), Ordering::SeqCst)
    }

    /// Sets the task that the future has become, which is about to be polled.
    pub(crate) fn name_ready(&self, task: TaskId) {
        // A thread that wakes the future in between finds no task to push, and the flag is set afterwards too.
        self.word.fetch_or(QUEUED, Ordering::SeqCst);
        self.rename(task);
    }

    /// Removes the task, because the future has ended. Wakes that came meanwhile are dropped.
    #[inline]
    pub(crate) fn unname(&self) {
        self.word.swap(NO_TASK, Ordering::SeqCst);
    }

    /// Asks for the time of the task's next wake. Returns whether the task was woken before, and so has no such time.
    pub(crate) fn ask(&self) -> bool {
        self.word.fetch_or(ASKED, Ordering::Relaxed) & QUEUED != 0
    }

    /// Notes that nobody waits for the task's end any more.
    pub(crate) fn leave_alone(&self) {
        self.word.fetch_or(ALONE, Ordering::Relaxed);
    }

    /// Returns whether nobody waits for the task's end.
    pub(crate) fn is_alone(&self) -> bool {
        self.word.load(Ordering::Relaxed) & ALONE != 0
    }

    /// Clears the flag before the poll of a task that is no longer on the list.
    #[inline]
    pub(crate) fn begin_poll(&self) {
        if self.word.load(Ordering::Relaxed) & QUEUED != 0 {
            // This is one step, so that the poll sees what the waker wrote before.
            self.word.fetch_and(!QUEUED, Ordering::SeqCst);
        }
    }
}

impl<R: WakeList> Wakeable for Wakeup<R> {
    #[inline]
    fn on_wake(&self) {
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
