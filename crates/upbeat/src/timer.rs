//! Timers: who is woken when.
//!
//! Times are nanoseconds of the node's own clock, which is read now and then and not per message.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::task::Waker;

/// A timer's number.
pub(crate) type TimerId = u64;

/// The timers of a node.
#[derive(Default)]
pub(crate) struct Timers {
    order: BinaryHeap<Reverse<(u64, TimerId)>>,
    wakers: HashMap<TimerId, Waker>,
    next: TimerId,
}

impl Timers {
    /// Wakes `waker` at `at`.
    pub(crate) fn set(&mut self, at: u64, waker: Waker) -> TimerId {
        let id = self.next;
        self.next += 1;
        self.order.push(Reverse((at, id)));
        self.wakers.insert(id, waker);
        id
    }

    /// Wakes another one instead. False if the timer has fired.
    pub(crate) fn change(&mut self, id: TimerId, waker: &Waker) -> bool {
        match self.wakers.get_mut(&id) {
            Some(old) => {
                old.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// Takes a timer back.
    pub(crate) fn clear(&mut self, id: TimerId) {
        self.wakers.remove(&id);
        // The places in the order are cleared when they come up, or when they are the most.
        if self.order.len() > 64 && self.order.len() > 2 * self.wakers.len() {
            let wakers = &self.wakers;
            self.order.retain(|Reverse((_, id))| wakers.contains_key(id));
        }
    }

    /// When the next timer fires.
    pub(crate) fn next(&mut self) -> Option<u64> {
        while let Some(Reverse((at, id))) = self.order.peek() {
            if self.wakers.contains_key(id) {
                return Some(*at);
            }
            self.order.pop();
        }
        None
    }

    /// Takes the waker of a timer that is due.
    pub(crate) fn due(&mut self, now: u64) -> Option<Waker> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, id)) = self.order.pop()?;
        self.wakers.remove(&id)
    }
}
