//! Monitors: data under a lock, together with the conditions on which tasks wait for it.
//!
//! One task is inside at a time. A task that waits for a condition is outside until it is
//! signalled. Then it enters before the tasks that wait to enter for the first time, since it was
//! inside before them. A signalled task therefore finds the data as the signalling task left it,
//! unless several tasks were signalled.
//!
//! Invariant: a task is inside, or a notified task is about to enter, or no task waits to enter.

use super::wait::{Holders, Name, Target, Wait};
use super::waiters::{PriorityQueue, Queue, WaiterKey, Waiters};
use crate::runtime::Awaited;
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The tag of a task that waits to enter for the first time.
const OUTSIDE: u32 = 0;
/// The tag of a task that waits for a condition.
const WAITS: u32 = 1;
/// The tag of a task that was signalled alone and waits to enter again. If it is dropped, the next
/// is signalled.
const SIGNALLED: u32 = 2;
/// The tag of a task that was signalled with all others.
const WITH_ALL: u32 = 3;

/// Data of one node with `N` numbered conditions. One task or handler is inside at a time.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::collections::VecDeque;
/// use std::rc::Rc;
/// use upbeat::sync::Monitor;
///
/// const NOT_EMPTY: usize = 0;
/// const NOT_FULL: usize = 1;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # tokio::task::LocalSet::new().block_on(&runtime, async {
/// # use tokio::task::spawn_local as spawn;
/// let conditions = ["not empty", "not full"];
/// let buffer = Rc::new(Monitor::named("buffer", VecDeque::new(), conditions));
/// let from = Rc::clone(&buffer);
/// let sum = spawn(async move {
///     let mut sum = 0;
///     for _ in 0..100 {
///         let buffer = from.enter().await;
///         let mut buffer = buffer.wait_while(NOT_EMPTY, |buffer| buffer.is_empty()).await;
///         sum += buffer.pop_front().unwrap_or_default();
///         buffer.signal(NOT_FULL);
///     }
///     sum
/// });
/// for number in 1..=100 {
///     let mut buffer = buffer.enter().await;
///     while buffer.len() == 8 {
///         buffer = buffer.wait(NOT_FULL).await;
///     }
///     buffer.push_back(number);
///     buffer.signal(NOT_EMPTY);
/// }
/// assert_eq!(sum.await?, 5050);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })
/// # }
/// ```
pub struct Monitor<T, const N: usize> {
    name: Name,
    conditions: [Name; N],
    waiting: RefCell<Waiting<N>>,
    holders: Holders,
    value: RefCell<T>,
}

/// The waiters of a monitor.
struct Waiting<const N: usize> {
    waiters: Waiters,
    /// Whether a task is inside, or was notified that it may enter.
    taken: bool,
    entering: Queue,
    /// The signalled tasks, which enter again.
    reentering: Queue,
    conditions: [PriorityQueue; N],
}

impl<const N: usize> Waiting<N> {
    /// Admits the next task and returns its waker.
    fn next(&mut self) -> Option<Waker> {
        let Waiting { waiters, entering, reentering, .. } = self;
        let next = reentering.pop(waiters).or_else(|| entering.pop(waiters));
        self.taken = next.is_some();
        self.waiters.notify(next?)
    }

    /// Moves the first waiter of a condition to those that enter again. Returns whether there was
    /// one.
    fn signal(&mut self, condition: usize, tag: u32) -> bool {
        let Waiting { waiters, reentering, conditions, .. } = self;
        let Some(first) = conditions[condition].pop(waiters) else { return false };
        waiters.set_tag(first, tag);
        reentering.push(waiters, first);
        true
    }
}

impl<T, const N: usize> Monitor<T, N> {
    /// Creates a monitor without a name, with conditions of these names.
    pub fn new(value: T, conditions: [&str; N]) -> Monitor<T, N> {
        let waiting = Waiting {
            waiters: Waiters::new(),
            taken: false,
            entering: Queue::default(),
            reentering: Queue::default(),
            conditions: [const { PriorityQueue::new() }; N],
        };
        Monitor {
            name: None,
            conditions: conditions.map(|name| Some(name.into())),
            waiting: RefCell::new(waiting),
            holders: Holders::new(),
            value: RefCell::new(value),
        }
    }

    /// Creates a monitor with a name, which the bill shows.
    pub fn named(name: &str, value: T, conditions: [&str; N]) -> Monitor<T, N> {
        Monitor { name: Some(name.into()), ..Monitor::new(value, conditions) }
    }

    /// Waits until no task is inside and no task is to enter before this one.
    #[track_caller]
    #[inline]
    pub fn enter(&self) -> Enter<'_, T, N> {
        Enter { monitor: self, wait: Wait::at(Location::caller()) }
    }

    /// Enters if no task is inside.
    #[track_caller]
    #[inline]
    pub fn try_enter(&self) -> Option<MonitorGuard<'_, T, N>> {
        let taken = std::mem::replace(&mut self.waiting.borrow_mut().taken, true);
        (!taken).then(|| self.enter_at(Location::caller()))
    }

    /// Returns the value without entering, since `&mut self` excludes every other task.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns the value and drops the monitor.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    #[inline]
    fn enter_at(&self, at: &'static Location<'static>) -> MonitorGuard<'_, T, N> {
        let holder = self.holders.add(at);
        let inside = Inside { monitor: self, holder };
        MonitorGuard { value: self.value.borrow_mut(), inside }
    }

    /// Returns the wait's target for a task that wants to enter.
    fn target(&self) -> Target<'_> {
        Target { what: Awaited::Monitor, name: &self.name, holders: Some(&self.holders) }
    }

    /// Enters if this waiter was notified, and removes the waiter.
    fn poll_turn(&self, wait: &mut Wait, key: WaiterKey) -> Option<MonitorGuard<'_, T, N>> {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.waiters.is_notified(key) {
            return None;
        }
        waiting.waiters.remove(key);
        drop(waiting);
        wait.key = None;
        wait.finish();
        Some(self.enter_at(wait.at))
    }

    /// Sets the waker of a waiter.
    fn set_waker(&self, key: WaiterKey, waker: &Waker) {
        if self.waiting.borrow_mut().waiters.is_other(key, waker) {
            let waker = waker.clone();
            let old = self.waiting.borrow_mut().waiters.set_waker(key, waker);
            drop(old);
        }
    }

    /// Removes a waiter whose future is dropped, also from the queue of the condition that it
    /// waited for.
    fn give_up(&self, key: WaiterKey, condition: Option<(usize, u32)>) {
        let mut waiting = self.waiting.borrow_mut();
        let Waiting { waiters, entering, reentering, conditions, .. } = &mut *waiting;
        let (was_notified, tag) = (waiters.is_notified(key), waiters.tag(key));
        if !was_notified {
            match (tag, condition) {
                (WAITS, Some((number, priority))) => {
                    conditions[number].remove(waiters, key, priority);
                }
                (SIGNALLED | WITH_ALL, _) => reentering.remove(waiters, key),
                _ => entering.remove(waiters, key),
            }
        }
        let old = waiters.remove(key);
        if let Some((number, _)) = condition
            && tag == SIGNALLED
        {
            waiting.signal(number, SIGNALLED);
        }
        let next = if was_notified { waiting.next() } else { None };
        drop(waiting);
        drop(old);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for Monitor<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("name", &self.name).field("value", &self.value).finish()
    }
}

/// A future that waits to enter a [`Monitor`].
#[must_use = "nothing is entered until it is awaited"]
pub struct Enter<'m, T, const N: usize> {
    monitor: &'m Monitor<T, N>,
    wait: Wait,
}

impl<'m, T, const N: usize> Future for Enter<'m, T, N> {
    type Output = MonitorGuard<'m, T, N>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Enter { monitor, wait } = &mut *self;
        match wait.key {
            None => {
                if !std::mem::replace(&mut monitor.waiting.borrow_mut().taken, true) {
                    return Poll::Ready(monitor.enter_at(wait.at));
                }
                let waker = context.waker().clone();
                let Waiting { waiters, entering, .. } = &mut *monitor.waiting.borrow_mut();
                let key = waiters.insert(waker, OUTSIDE);
                entering.push(waiters, key);
                wait.key = Some(key);
            }
            Some(key) => {
                if let Some(guard) = monitor.poll_turn(wait, key) {
                    return Poll::Ready(guard);
                }
                monitor.set_waker(key, context.waker());
            }
        }
        wait.note_pending(context, monitor.target());
        Poll::Pending
    }
}

impl<T, const N: usize> Drop for Enter<'_, T, N> {
    fn drop(&mut self) {
        if let Some(key) = self.wait.key.take() {
            self.monitor.give_up(key, None);
        }
    }
}

/// The presence of a task inside a monitor, which ends when this is dropped.
struct Inside<'m, T, const N: usize> {
    monitor: &'m Monitor<T, N>,
    holder: Option<WaiterKey>,
}

impl<T, const N: usize> Drop for Inside<'_, T, N> {
    #[inline]
    fn drop(&mut self) {
        self.monitor.holders.remove(self.holder);
        let next = self.monitor.waiting.borrow_mut().next();
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// A guard of the task that is inside a [`Monitor`].
pub struct MonitorGuard<'m, T, const N: usize> {
    // Fields are dropped in their order: the borrow ends before the monitor is left.
    value: RefMut<'m, T>,
    inside: Inside<'m, T, N>,
}

impl<'m, T, const N: usize> MonitorGuard<'m, T, N> {
    /// Leaves the monitor, waits until this condition is signalled, and enters again.
    ///
    /// # Panics
    /// Panics when the monitor has no condition of this number.
    #[track_caller]
    pub fn wait(self, condition: usize) -> Signalled<'m, T, N> {
        self.wait_at(condition, 0, Location::caller())
    }

    /// Leaves the monitor, waits until this condition is signalled, and enters again. A waiter
    /// of a higher priority is signalled first; the priority of [`MonitorGuard::wait`] is 0.
    ///
    /// # Panics
    /// Panics when the monitor has no condition of this number.
    #[track_caller]
    pub fn wait_with(self, condition: usize, priority: u32) -> Signalled<'m, T, N> {
        self.wait_at(condition, priority, Location::caller())
    }

    fn wait_at(
        self,
        condition: usize,
        priority: u32,
        at: &'static Location<'static>,
    ) -> Signalled<'m, T, N> {
        assert!(condition < N, "the monitor has {N} conditions, and none of number {condition}");
        let monitor = self.inside.monitor;
        Signalled { monitor, guard: Some(self), condition, priority, wait: Wait::at(at) }
    }

    /// Waits for a condition again and again while `is_so` returns true.
    ///
    /// # Panics
    /// Panics when the monitor has no condition of this number.
    #[track_caller]
    pub fn wait_while(
        mut self,
        condition: usize,
        mut is_so: impl FnMut(&mut T) -> bool,
    ) -> impl Future<Output = MonitorGuard<'m, T, N>> {
        let at = Location::caller();
        async move {
            while is_so(&mut self) {
                self = self.wait_at(condition, 0, at).await;
            }
            self
        }
    }

    /// Signals a condition: its waiter of the highest priority enters when this guard is
    /// dropped; among waiters of one priority, the one that came first. Returns whether there was a
    /// waiter.
    ///
    /// # Panics
    /// Panics when the monitor has no condition of this number.
    pub fn signal(&self, condition: usize) -> bool {
        self.inside.monitor.waiting.borrow_mut().signal(condition, SIGNALLED)
    }

    /// Signals all waiters of a condition, which enter one after another.
    ///
    /// # Panics
    /// Panics when the monitor has no condition of this number.
    pub fn signal_all(&self, condition: usize) {
        let mut waiting = self.inside.monitor.waiting.borrow_mut();
        while waiting.signal(condition, WITH_ALL) {}
    }

    /// Returns whether a task waits for a condition.
    ///
    /// # Panics
    /// Panics when the monitor has no condition of this number.
    pub fn has_waiters(&self, condition: usize) -> bool {
        !self.inside.monitor.waiting.borrow().conditions[condition].is_empty()
    }
}

impl<T, const N: usize> Deref for MonitorGuard<'_, T, N> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T, const N: usize> DerefMut for MonitorGuard<'_, T, N> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for MonitorGuard<'_, T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// A future that waits for a condition of a [`Monitor`] and then to enter again. The monitor is
/// left at the first poll.
#[must_use = "nothing waits until it is awaited"]
pub struct Signalled<'m, T, const N: usize> {
    monitor: &'m Monitor<T, N>,
    /// The guard, until the first poll.
    guard: Option<MonitorGuard<'m, T, N>>,
    condition: usize,
    priority: u32,
    wait: Wait,
}

impl<'m, T, const N: usize> Future for Signalled<'m, T, N> {
    type Output = MonitorGuard<'m, T, N>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Signalled { monitor, guard, condition, priority, wait } = &mut *self;
        match wait.key {
            None => {
                let Some(guard) = guard.take() else { return Poll::Pending };
                let waker = context.waker().clone();
                let mut waiting = monitor.waiting.borrow_mut();
                let Waiting { waiters, conditions, .. } = &mut *waiting;
                let key = waiters.insert(waker, WAITS);
                conditions[*condition].push(waiters, key, *priority);
                wait.key = Some(key);
                drop(waiting);
                // The task is queued before it leaves the monitor, so the next task inside can
                // signal it.
                drop(guard);
            }
            Some(key) => {
                if let Some(guard) = monitor.poll_turn(wait, key) {
                    return Poll::Ready(guard);
                }
                monitor.set_waker(key, context.waker());
            }
        }
        let Some(key) = wait.key else { return Poll::Pending };
        let waits = monitor.waiting.borrow_mut().waiters.tag(key) == WAITS;
        let name = &monitor.conditions[*condition];
        let condition = Target { what: Awaited::Condition, name, holders: None };
        wait.note_pending(context, if waits { condition } else { monitor.target() });
        Poll::Pending
    }
}

impl<T, const N: usize> Drop for Signalled<'_, T, N> {
    fn drop(&mut self) {
        if let Some(key) = self.wait.key.take() {
            self.monitor.give_up(key, Some((self.condition, self.priority)));
        }
    }
}
