//! A lock for data that tasks and handlers of one node share across their awaits.
//!
//! Tasks exclude each other between awaits, so this is for what must stay whole over one. It has no
//! atomics: a node is one thread. It is fair: who waits is served in the order of arrival, and a
//! guard that is dropped hands the lock on. A handler that finds it held loses its bet, and the
//! bill says which lock it was.
//!
//! Invariant: the lock is held by one guard, or is on its way to one waiter, or is free.

use crate::dispatch::Dispatcher;
use crate::sample::Reason;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A lock for data of one node.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::rc::Rc;
/// use std::time::Duration;
/// use upbeat::{Mutex, Node};
///
/// let node = Node::builder("doc/mutex").local_only().build()?;
/// let accounts = Rc::new(Mutex::named("accounts", vec![100, 0]));
/// let transfer = |sum: i32| {
///     let accounts = Rc::clone(&accounts);
///     async move {
///         let mut accounts = accounts.lock().await;
///         accounts[0] -= sum;
///         // Nobody else sees the accounts meanwhile.
///         upbeat::sleep(Duration::from_millis(1)).await;
///         accounts[1] += sum;
///     }
/// };
/// let (one, two) = (node.spawn(transfer(10)), node.spawn(transfer(20)));
/// node.block_on(async { one.await.and(two.await) })?;
/// assert_eq!(*accounts.try_lock().ok_or("it is free")?, [70, 30]);
/// # Ok(()) }
/// ```
pub struct Mutex<T> {
    name: Option<Arc<str>>,
    value: RefCell<T>,
    state: Cell<State>,
    waiting: RefCell<VecDeque<(u64, Waker)>>,
    next: Cell<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Held,
    /// On its way to this waiter.
    Passed(u64),
}

impl<T> Mutex<T> {
    /// A lock without a name.
    pub fn new(value: T) -> Mutex<T> {
        Mutex {
            name: None,
            value: RefCell::new(value),
            state: Cell::new(State::Free),
            waiting: RefCell::default(),
            next: Cell::new(0),
        }
    }

    /// A lock that the bill calls by this name.
    pub fn named(name: &str, value: T) -> Mutex<T> {
        Mutex { name: Some(name.into()), ..Mutex::new(value) }
    }

    /// Waits until the lock is free. Dropped before that, it gives up its place.
    pub fn lock(&self) -> Lock<'_, T> {
        Lock { mutex: self, number: None }
    }

    /// The lock, if it is free.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        (self.state.get() == State::Free).then(|| self.hold())
    }

    fn hold(&self) -> Guard<'_, T> {
        self.state.set(State::Held);
        Guard { value: self.value.borrow_mut(), mutex: self }
    }

    /// Hands the lock to the one that has waited longest.
    fn pass(&self) {
        let first = self.waiting.borrow_mut().pop_front();
        let Some((number, waker)) = first else { return self.state.set(State::Free) };
        self.state.set(State::Passed(number));
        waker.wake();
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("name", &self.name).field("value", &self.value).finish()
    }
}

/// Waits for a [`Mutex`].
#[must_use = "nothing is locked until it is awaited"]
pub struct Lock<'m, T> {
    mutex: &'m Mutex<T>,
    /// The place among those who wait.
    number: Option<u64>,
}

impl<'m, T> Future for Lock<'m, T> {
    type Output = Guard<'m, T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Guard<'m, T>> {
        let mutex = self.mutex;
        let free = match self.number {
            None => mutex.state.get() == State::Free,
            Some(number) => mutex.state.get() == State::Passed(number),
        };
        if free {
            self.number = None;
            return Poll::Ready(mutex.hold());
        }
        let number = self.number.unwrap_or_else(|| mutex.next.replace(mutex.next.get() + 1));
        let mut waiting = mutex.waiting.borrow_mut();
        match waiting.iter_mut().find(|(other, _)| *other == number) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => waiting.push_back((number, context.waker().clone())),
        }
        drop(waiting);
        self.number = Some(number);
        let name = mutex.name.as_ref();
        Dispatcher::if_driving(|node| node.waits_for_named(Reason::Lock, name));
        Poll::Pending
    }
}

impl<T> Drop for Lock<'_, T> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        self.mutex.waiting.borrow_mut().retain(|(other, _)| *other != number);
        if self.mutex.state.get() == State::Passed(number) {
            self.mutex.pass();
        }
    }
}

/// The lock is held while this lives.
pub struct Guard<'m, T> {
    value: RefMut<'m, T>,
    mutex: &'m Mutex<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Guard<'_, T> {
    // The value is given back right behind this, before whoever is woken can be polled.
    fn drop(&mut self) {
        self.mutex.pass();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    fn poll<'m>(lock: Pin<&mut Lock<'m, u32>>) -> Option<Guard<'m, u32>> {
        match lock.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => Some(guard),
            Poll::Pending => None,
        }
    }

    #[test]
    fn those_who_wait_are_served_in_order_and_nobody_overtakes() {
        let mutex = Mutex::new(0);
        let (mut one, mut two) = (pin!(mutex.lock()), pin!(mutex.lock()));
        let held = mutex.try_lock().unwrap();
        assert!(poll(one.as_mut()).is_none() && poll(two.as_mut()).is_none());
        drop(held);
        assert!(mutex.try_lock().is_none(), "it is on its way");
        assert!(poll(pin!(mutex.lock())).is_none());
        assert!(poll(two.as_mut()).is_none());
        *poll(one.as_mut()).unwrap() += 1;
        *poll(two.as_mut()).unwrap() += 1;
        assert_eq!(mutex.try_lock().map(|value| *value), Some(2));
    }

    #[test]
    fn whoever_gives_up_keeps_nobody_waiting() {
        let mutex = Mutex::new(0);
        let held = mutex.try_lock().unwrap();
        let mut last = pin!(mutex.lock());
        {
            let (mut one, mut two) = (pin!(mutex.lock()), pin!(mutex.lock()));
            assert!(poll(one.as_mut()).is_none() && poll(two.as_mut()).is_none());
            assert!(poll(last.as_mut()).is_none());
            drop(held);
            // The first has the lock on its way, the second stands in the line: both leave.
        }
        assert!(poll(last.as_mut()).is_some());
        assert!(mutex.try_lock().is_some());
    }
}
