//! The queue of waiters, which all types of this crate use.
//!
//! A waiter has a slot in [`Waiters`] until its future removes it, notified or not. The slots are
//! linked in the order of arrival. A [`Queue`] has the two ends of such a list, and
//! [`PriorityQueue`] has one list for each priority. Inserting, notifying and removing a waiter
//! take constant time, also in the middle of a list; with priorities they take the logarithm of the
//! number of priorities in use. The methods return the wakers, and the callers wake or drop them
//! while nothing is borrowed, since a waker is foreign code and may do anything.
//!
//! Invariant: a waiter that is in a queue has a waker. A notified waiter has none and is in no
//! queue.

use slab::Slab;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::task::Waker;

/// The number of waiters above which the slots are deallocated once all waiters are gone.
const KEPT: usize = 256;

/// The index of a waiter's slot. The future that owns the slot removes it itself, so the index
/// needs no generation.
pub(super) type WaiterKey = usize;

/// One waiter.
struct Waiter {
    /// The waker, or none once the waiter was notified.
    waker: Option<Waker>,
    previous: Option<WaiterKey>,
    next: Option<WaiterKey>,
    /// A number that the waiter sets when it is queued, and that the notifying side replaces.
    tag: u32,
}

/// The slots of all waiters for one thing.
pub(super) struct Waiters {
    waiters: Slab<Waiter>,
    /// The largest number of waiters since the slots were last empty.
    most: usize,
}

impl Waiters {
    pub(super) const fn new() -> Waiters {
        Waiters { waiters: Slab::new(), most: 0 }
    }

    fn get(&mut self, key: WaiterKey) -> &mut Waiter {
        match self.waiters.get_mut(key) {
            Some(waiter) => waiter,
            None => unreachable!("a waiter keeps its slot until its future removes it"),
        }
    }

    /// Inserts a waiter, which the caller then links into a queue.
    pub(super) fn insert(&mut self, waker: Waker, tag: u32) -> WaiterKey {
        let waiter = Waiter { waker: Some(waker), previous: None, next: None, tag };
        let key = self.waiters.insert(waiter);
        self.most = self.most.max(self.waiters.len());
        key
    }

    /// Notifies a waiter that is in no queue any more, and returns its waker.
    pub(super) fn notify(&mut self, key: WaiterKey) -> Option<Waker> {
        self.get(key).waker.take()
    }

    pub(super) fn is_notified(&mut self, key: WaiterKey) -> bool {
        self.get(key).waker.is_none()
    }

    pub(super) fn tag(&mut self, key: WaiterKey) -> u32 {
        self.get(key).tag
    }

    pub(super) fn set_tag(&mut self, key: WaiterKey, tag: u32) {
        self.get(key).tag = tag;
    }

    /// Returns whether the waiter must get this waker because the one that it has wakes another
    /// task.
    pub(super) fn is_other(&mut self, key: WaiterKey, waker: &Waker) -> bool {
        self.get(key).waker.as_ref().is_some_and(|old| !old.will_wake(waker))
    }

    /// Sets a waiter's waker and returns the old one.
    pub(super) fn set_waker(&mut self, key: WaiterKey, waker: Waker) -> Option<Waker> {
        self.get(key).waker.replace(waker)
    }

    /// Removes a waiter that is in no queue any more.
    pub(super) fn remove(&mut self, key: WaiterKey) -> Option<Waker> {
        let waiter = self.waiters.try_remove(key);
        if self.waiters.is_empty() && self.most > KEPT {
            *self = Waiters::new();
        }
        waiter.and_then(|waiter| waiter.waker)
    }
}

/// A list of waiters: its first and its last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    first: Option<WaiterKey>,
    last: Option<WaiterKey>,
    pub(super) len: u32,
}

impl Queue {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn first(&self) -> Option<WaiterKey> {
        self.first
    }

    /// Appends a waiter.
    pub(super) fn push(&mut self, waiters: &mut Waiters, key: WaiterKey) {
        let last = self.last.replace(key);
        let waiter = waiters.get(key);
        (waiter.previous, waiter.next) = (last, None);
        match last {
            Some(last) => waiters.get(last).next = Some(key),
            None => self.first = Some(key),
        }
        self.len += 1;
    }

    /// Removes a waiter from any position.
    pub(super) fn remove(&mut self, waiters: &mut Waiters, key: WaiterKey) {
        let waiter = waiters.get(key);
        let (previous, next) = (waiter.previous.take(), waiter.next.take());
        match previous {
            Some(previous) => waiters.get(previous).next = next,
            None => self.first = next,
        }
        match next {
            Some(next) => waiters.get(next).previous = previous,
            None => self.last = previous,
        }
        self.len -= 1;
    }

    /// Removes the first waiter.
    #[inline]
    pub(super) fn pop(&mut self, waiters: &mut Waiters) -> Option<WaiterKey> {
        let first = self.first?;
        self.remove(waiters, first);
        Some(first)
    }
}

/// One queue for each priority, the highest first.
#[derive(Debug, Default)]
pub(super) struct PriorityQueue(BTreeMap<Reverse<u32>, Queue>);

impl PriorityQueue {
    pub(super) const fn new() -> PriorityQueue {
        PriorityQueue(BTreeMap::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, waiters: &mut Waiters, key: WaiterKey, priority: u32) {
        self.0.entry(Reverse(priority)).or_default().push(waiters, key);
    }

    pub(super) fn remove(&mut self, waiters: &mut Waiters, key: WaiterKey, priority: u32) {
        let Some(queue) = self.0.get_mut(&Reverse(priority)) else { return };
        queue.remove(waiters, key);
        if queue.is_empty() {
            self.0.remove(&Reverse(priority));
        }
    }

    pub(super) fn pop(&mut self, waiters: &mut Waiters) -> Option<WaiterKey> {
        let mut rank = self.0.first_entry()?;
        let first = rank.get_mut().pop(waiters);
        if rank.get().is_empty() {
            rank.remove();
        }
        first
    }
}

/// A queue whose waiters have no priorities.
pub(super) struct WaitQueue(RefCell<(Waiters, Queue)>);

/// The state of a waiter when it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) was_notified: bool,
    pub(super) tag: u32,
}

impl WaitQueue {
    pub(super) const fn new() -> WaitQueue {
        WaitQueue(RefCell::new((Waiters::new(), Queue { first: None, last: None, len: 0 })))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().1.is_empty()
    }

    pub(super) fn len(&self) -> u32 {
        self.0.borrow().1.len
    }

    /// Returns the tag of the first waiter.
    pub(super) fn first(&self) -> Option<u32> {
        let (waiters, queue) = &mut *self.0.borrow_mut();
        queue.first().map(|first| waiters.tag(first))
    }

    /// Appends a waiter.
    pub(super) fn push(&self, waker: &Waker, tag: u32) -> WaiterKey {
        let waker = waker.clone();
        let (waiters, queue) = &mut *self.0.borrow_mut();
        let key = waiters.insert(waker, tag);
        queue.push(waiters, key);
        key
    }

    /// Sets the waker of a waiter. Returns false if the waiter was notified already.
    pub(super) fn set_waker(&self, key: WaiterKey, waker: &Waker) -> bool {
        let mut borrowed = self.0.borrow_mut();
        if borrowed.0.is_notified(key) {
            return false;
        }
        let is_other = borrowed.0.is_other(key, waker);
        drop(borrowed);
        if is_other {
            let waker = waker.clone();
            let old = self.0.borrow_mut().0.set_waker(key, waker);
            drop(old);
        }
        true
    }

    /// Notifies the first waiter with a new tag, and returns its waker.
    pub(super) fn notify_first(&self, tag: u32) -> Option<Waker> {
        let (waiters, queue) = &mut *self.0.borrow_mut();
        let first = queue.pop(waiters)?;
        waiters.set_tag(first, tag);
        waiters.notify(first)
    }

    /// Removes a waiter, notified or not.
    pub(super) fn remove(&self, key: WaiterKey) -> Removed {
        let mut borrowed = self.0.borrow_mut();
        let (waiters, queue) = &mut *borrowed;
        let removed = Removed { was_notified: waiters.is_notified(key), tag: waiters.tag(key) };
        if !removed.was_notified {
            queue.remove(waiters, key);
        }
        let waker = waiters.remove(key);
        drop(borrowed);
        drop(waker);
        removed
    }
}
