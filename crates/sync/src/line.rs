//! The line of those who wait, one for everything that is waited for.
//!
//! Who waits has a place, which it keeps until it leaves it, whether it was called or not. Places are
//! linked in the order of arrival; a [`Queue`] has the ends, [`Ranks`] those of each priority. To
//! enter, to be called and to leave takes constant time, from the middle as well, and the logarithm
//! of the number of priorities that are waited with. Wakers come out, to be woken or dropped where
//! nothing is borrowed: they are not ours, and may do anything.
//!
//! Invariant: a place that is in a queue has a waker, one that was called has none and is in no queue.

use slab::Slab;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::task::Waker;

/// The places of a crowd that has gone are given back where there were more.
const KEPT: usize = 256;

/// Where somebody waits. Its owner gives it up when the place is left, so it needs no generation.
pub(super) type Key = usize;

/// Who waits.
struct Waiter {
    /// None once it was called.
    waker: Option<Waker>,
    before: Option<Key>,
    behind: Option<Key>,
    /// What it says of itself; later, what whoever called it says.
    note: u32,
}

/// The places of all who wait for one thing.
pub(super) struct Places {
    waiters: Slab<Waiter>,
    /// The most since there was none.
    most: usize,
}

impl Places {
    pub(super) const fn new() -> Places {
        Places { waiters: Slab::new(), most: 0 }
    }

    fn get(&mut self, key: Key) -> &mut Waiter {
        match self.waiters.get_mut(key) {
            Some(waiter) => waiter,
            None => unreachable!("who waits keeps its place until it leaves it"),
        }
    }

    /// Takes somebody in, for a queue to link.
    pub(super) fn insert(&mut self, waker: Waker, note: u32) -> Key {
        let waiter = Waiter { waker: Some(waker), before: None, behind: None, note };
        let key = self.waiters.insert(waiter);
        self.most = self.most.max(self.waiters.len());
        key
    }

    /// Calls somebody who is in no queue any more. Gives what wakes it.
    pub(super) fn call(&mut self, key: Key) -> Option<Waker> {
        self.get(key).waker.take()
    }

    pub(super) fn is_called(&mut self, key: Key) -> bool {
        self.get(key).waker.is_none()
    }

    pub(super) fn note(&mut self, key: Key) -> u32 {
        self.get(key).note
    }

    pub(super) fn set_note(&mut self, key: Key, note: u32) {
        self.get(key).note = note;
    }

    /// Whether another waker is to be set.
    pub(super) fn is_other(&mut self, key: Key, waker: &Waker) -> bool {
        self.get(key).waker.as_ref().is_some_and(|old| !old.will_wake(waker))
    }

    /// Sets another waker, and gives the one before.
    pub(super) fn set_waker(&mut self, key: Key, waker: Waker) -> Option<Waker> {
        self.get(key).waker.replace(waker)
    }

    /// Gives up a place that is in no queue any more.
    pub(super) fn remove(&mut self, key: Key) -> Option<Waker> {
        let waiter = self.waiters.try_remove(key);
        if self.waiters.is_empty() && self.most > KEPT {
            *self = Places::new();
        }
        waiter.and_then(|waiter| waiter.waker)
    }
}

/// Some of those who wait, the first and the last of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    first: Option<Key>,
    last: Option<Key>,
    pub(super) len: u32,
}

impl Queue {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn first(&self) -> Option<Key> {
        self.first
    }

    /// Somebody stands behind all others.
    pub(super) fn push(&mut self, places: &mut Places, key: Key) {
        let last = self.last.replace(key);
        let waiter = places.get(key);
        (waiter.before, waiter.behind) = (last, None);
        match last {
            Some(last) => places.get(last).behind = Some(key),
            None => self.first = Some(key),
        }
        self.len += 1;
    }

    /// Somebody steps out, wherever it stands.
    pub(super) fn cut(&mut self, places: &mut Places, key: Key) {
        let waiter = places.get(key);
        let (before, behind) = (waiter.before.take(), waiter.behind.take());
        match before {
            Some(before) => places.get(before).behind = behind,
            None => self.first = behind,
        }
        match behind {
            Some(behind) => places.get(behind).before = before,
            None => self.last = before,
        }
        self.len -= 1;
    }

    /// The first steps out.
    #[inline]
    pub(super) fn pop(&mut self, places: &mut Places) -> Option<Key> {
        let first = self.first?;
        self.cut(places, first);
        Some(first)
    }
}

/// Queues by priority, the highest first.
#[derive(Debug, Default)]
pub(super) struct Ranks(BTreeMap<Reverse<u32>, Queue>);

impl Ranks {
    pub(super) const fn new() -> Ranks {
        Ranks(BTreeMap::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, places: &mut Places, key: Key, priority: u32) {
        self.0.entry(Reverse(priority)).or_default().push(places, key);
    }

    pub(super) fn cut(&mut self, places: &mut Places, key: Key, priority: u32) {
        let Some(queue) = self.0.get_mut(&Reverse(priority)) else { return };
        queue.cut(places, key);
        if queue.is_empty() {
            self.0.remove(&Reverse(priority));
        }
    }

    pub(super) fn pop(&mut self, places: &mut Places) -> Option<Key> {
        let mut rank = self.0.first_entry()?;
        let first = rank.get_mut().pop(places);
        if rank.get().is_empty() {
            rank.remove();
        }
        first
    }
}

/// A line in which everybody waits for the same.
pub(super) struct Line(RefCell<(Places, Queue)>);

/// What became of somebody who has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) was_called: bool,
    pub(super) note: u32,
}

impl Line {
    pub(super) const fn new() -> Line {
        Line(RefCell::new((Places::new(), Queue { first: None, last: None, len: 0 })))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().1.is_empty()
    }

    pub(super) fn len(&self) -> u32 {
        self.0.borrow().1.len
    }

    /// The note of the first.
    pub(super) fn first(&self) -> Option<u32> {
        let (places, queue) = &mut *self.0.borrow_mut();
        queue.first().map(|first| places.note(first))
    }

    /// Takes somebody in behind all others.
    pub(super) fn enter(&self, waker: &Waker, note: u32) -> Key {
        let waker = waker.clone();
        let (places, queue) = &mut *self.0.borrow_mut();
        let key = places.insert(waker, note);
        queue.push(places, key);
        key
    }

    /// Has somebody woken by this waker from now on. False if it was called already.
    pub(super) fn waits(&self, key: Key, waker: &Waker) -> bool {
        let mut borrowed = self.0.borrow_mut();
        if borrowed.0.is_called(key) {
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

    /// Calls the first, with a note for it, and gives what wakes it.
    pub(super) fn call_first(&self, note: u32) -> Option<Waker> {
        let (places, queue) = &mut *self.0.borrow_mut();
        let first = queue.pop(places)?;
        places.set_note(first, note);
        places.call(first)
    }

    /// Somebody goes, called or not.
    pub(super) fn leave(&self, key: Key) -> Left {
        let mut borrowed = self.0.borrow_mut();
        let (places, queue) = &mut *borrowed;
        let left = Left { was_called: places.is_called(key), note: places.note(key) };
        if !left.was_called {
            queue.cut(places, key);
        }
        let waker = places.remove(key);
        drop(borrowed);
        drop(waker);
        left
    }
}
