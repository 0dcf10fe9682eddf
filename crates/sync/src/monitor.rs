//! Monitors: data, and the conditions that are waited for with it, in one.
//!
//! One is inside at a time. Who waits for a condition is outside until it is signalled; then it goes
//! in again before those who stand at the door, for it was inside before them. So what who signals
//! leaves behind is what who was signalled finds, unless two were.
//!
//! Invariant: one is inside, or one is on its way in, or nobody waits to enter.

use super::line::{Key, Places, Queue, Ranks};
use super::wait::{Aim, Holders, Name, Wait};
use crate::runtime::Awaited;
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Stands at the door.
const OUTSIDE: u32 = 0;
/// Waits for a condition.
const WAITS: u32 = 1;
/// Was signalled alone, and waits to go in: if it is dropped, the next is signalled instead.
const SIGNALLED: u32 = 2;
/// Was signalled with all others.
const WITH_ALL: u32 = 3;

/// Data of one node, and `N` conditions by number. One task or handler is inside at a time.
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

/// Who waits, and for what.
struct Waiting<const N: usize> {
    places: Places,
    /// Whether one is inside, or on its way.
    taken: bool,
    door: Queue,
    /// Those who were signalled.
    again: Queue,
    conditions: [Ranks; N],
}

impl<const N: usize> Waiting<N> {
    /// Lets the next one in, and gives what wakes it.
    fn next(&mut self) -> Option<Waker> {
        let Waiting { places, door, again, .. } = self;
        let next = again.pop(places).or_else(|| door.pop(places));
        self.taken = next.is_some();
        self.places.call(next?)
    }

    /// Has the first who waits for a condition go in again. Gives whether there was one.
    fn signal(&mut self, condition: usize, note: u32) -> bool {
        let Waiting { places, again, conditions, .. } = self;
        let Some(first) = conditions[condition].pop(places) else { return false };
        places.set_note(first, note);
        again.push(places, first);
        true
    }
}

impl<T, const N: usize> Monitor<T, N> {
    /// A monitor without a name, whose conditions have these.
    pub fn new(value: T, conditions: [&str; N]) -> Monitor<T, N> {
        let waiting = Waiting {
            places: Places::new(),
            taken: false,
            door: Queue::default(),
            again: Queue::default(),
            conditions: [const { Ranks::new() }; N],
        };
        Monitor {
            name: None,
            conditions: conditions.map(|name| Some(name.into())),
            waiting: RefCell::new(waiting),
            holders: Holders::new(),
            value: RefCell::new(value),
        }
    }

    /// A monitor that the bill calls by this name.
    pub fn named(name: &str, value: T, conditions: [&str; N]) -> Monitor<T, N> {
        Monitor { name: Some(name.into()), ..Monitor::new(value, conditions) }
    }

    /// Waits until nobody is inside, nor goes in before.
    #[track_caller]
    #[inline]
    pub fn enter(&self) -> Enter<'_, T, N> {
        Enter { monitor: self, wait: Wait::at(Location::caller()) }
    }

    /// Goes in, if nobody is inside.
    #[track_caller]
    #[inline]
    pub fn try_enter(&self) -> Option<MonitorGuard<'_, T, N>> {
        let taken = std::mem::replace(&mut self.waiting.borrow_mut().taken, true);
        (!taken).then(|| self.go_in(Location::caller()))
    }

    /// The value, for somebody who has the monitor to himself.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value, without the monitor.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    #[inline]
    fn go_in(&self, at: &'static Location<'static>) -> MonitorGuard<'_, T, N> {
        let holder = self.holders.add(at);
        let inside = Inside { monitor: self, holder };
        MonitorGuard { value: self.value.borrow_mut(), inside }
    }

    /// What somebody waits for that wants to go in.
    fn aim(&self) -> Aim<'_> {
        Aim { what: Awaited::Monitor, name: &self.name, holders: Some(&self.holders) }
    }

    /// Goes in if it is the turn of whoever waits in this place, and gives that up.
    fn turn_of(&self, wait: &mut Wait, key: Key) -> Option<MonitorGuard<'_, T, N>> {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.places.is_called(key) {
            return None;
        }
        waiting.places.remove(key);
        drop(waiting);
        wait.key = None;
        wait.ends();
        Some(self.go_in(wait.at))
    }

    /// Has whoever waits in this place woken by another waker.
    fn waits(&self, key: Key, waker: &Waker) {
        if self.waiting.borrow_mut().places.is_other(key, waker) {
            let waker = waker.clone();
            let old = self.waiting.borrow_mut().places.set_waker(key, waker);
            drop(old);
        }
    }

    /// Somebody gives up its place; for the condition with a priority, if it waited for one.
    fn give_up(&self, key: Key, condition: Option<(usize, u32)>) {
        let mut waiting = self.waiting.borrow_mut();
        let Waiting { places, door, again, conditions, .. } = &mut *waiting;
        let (was_called, note) = (places.is_called(key), places.note(key));
        if !was_called {
            match (note, condition) {
                (WAITS, Some((number, priority))) => {
                    conditions[number].cut(places, key, priority);
                }
                (SIGNALLED | WITH_ALL, _) => again.cut(places, key),
                _ => door.cut(places, key),
            }
        }
        let old = places.remove(key);
        if let Some((number, _)) = condition
            && note == SIGNALLED
        {
            waiting.signal(number, SIGNALLED);
        }
        let next = if was_called { waiting.next() } else { None };
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

/// Waits to enter a [`Monitor`].
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
                    return Poll::Ready(monitor.go_in(wait.at));
                }
                let waker = context.waker().clone();
                let Waiting { places, door, .. } = &mut *monitor.waiting.borrow_mut();
                let key = places.insert(waker, OUTSIDE);
                door.push(places, key);
                wait.key = Some(key);
            }
            Some(key) => {
                if let Some(guard) = monitor.turn_of(wait, key) {
                    return Poll::Ready(guard);
                }
                monitor.waits(key, context.waker());
            }
        }
        wait.goes_on(context, monitor.aim());
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

/// Somebody is inside while this lives.
struct Inside<'m, T, const N: usize> {
    monitor: &'m Monitor<T, N>,
    holder: Option<Key>,
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

/// Its holder is inside of a [`Monitor`].
pub struct MonitorGuard<'m, T, const N: usize> {
    // Given back before the monitor is left: fields are dropped in their order.
    value: RefMut<'m, T>,
    inside: Inside<'m, T, N>,
}

impl<'m, T, const N: usize> MonitorGuard<'m, T, N> {
    /// Leaves the monitor, waits until this condition is signalled, and goes in again.
    ///
    /// # Panics
    /// When there is no condition of this number.
    #[track_caller]
    pub fn wait(self, condition: usize) -> Signalled<'m, T, N> {
        self.wait_at(condition, 0, Location::caller())
    }

    /// The same, before those who wait with a lower priority, which is 0 if nothing is said.
    ///
    /// # Panics
    /// When there is no condition of this number.
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

    /// Waits for a condition again and again while this is true.
    ///
    /// # Panics
    /// When there is no condition of this number.
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

    /// Signals a condition: of those who wait for it, the one of the highest priority that came
    /// first goes in when this one has left. Gives whether there was one.
    ///
    /// # Panics
    /// When there is no condition of this number.
    pub fn signal(&self, condition: usize) -> bool {
        self.inside.monitor.waiting.borrow_mut().signal(condition, SIGNALLED)
    }

    /// Signals all who wait for a condition: they go in one after another.
    ///
    /// # Panics
    /// When there is no condition of this number.
    pub fn signal_all(&self, condition: usize) {
        let mut waiting = self.inside.monitor.waiting.borrow_mut();
        while waiting.signal(condition, WITH_ALL) {}
    }

    /// Whether somebody waits for a condition.
    ///
    /// # Panics
    /// When there is no condition of this number.
    pub fn awaited(&self, condition: usize) -> bool {
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

/// Waits for a condition of a [`Monitor`], and to go in again. The monitor is left when it is first
/// polled.
#[must_use = "nothing waits until it is awaited"]
pub struct Signalled<'m, T, const N: usize> {
    monitor: &'m Monitor<T, N>,
    /// Until it is first polled.
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
                let Waiting { places, conditions, .. } = &mut *waiting;
                let key = places.insert(waker, WAITS);
                conditions[*condition].push(places, key, *priority);
                wait.key = Some(key);
                drop(waiting);
                // It waits before it leaves: whoever goes in next can signal it.
                drop(guard);
            }
            Some(key) => {
                if let Some(guard) = monitor.turn_of(wait, key) {
                    return Poll::Ready(guard);
                }
                monitor.waits(key, context.waker());
            }
        }
        let Some(key) = wait.key else { return Poll::Pending };
        let waits = monitor.waiting.borrow_mut().places.note(key) == WAITS;
        let name = &monitor.conditions[*condition];
        let condition = Aim { what: Awaited::Condition, name, holders: None };
        wait.goes_on(context, if waits { condition } else { monitor.aim() });
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
