//! The times at which handlers that have become tasks expire.

use crate::mutant::{Mutant, mutated};
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// The tasks that expire at a time. `K` identifies a task, and is never reused for another.
///
/// ```
/// use upbeat_core::session::Expiries;
///
/// let mut expiries = Expiries::new();
/// expiries.expire("first", 100, 2, |_| true);
/// expiries.expire("second", 200, 2, |_| true);
/// expiries.postpone("first", 300, 2, |_| true);
/// assert_eq!((expiries.next(), expiries.pop_due(150)), (Some(200), None));
/// assert_eq!((expiries.pop_due(300), expiries.pop_due(300)), (Some("second"), Some("first")));
/// ```
#[derive(Debug)]
pub struct Expiries<K> {
    heap: BinaryHeap<Reverse<(u64, K)>>,
}

/// The number of entries from which on entries of ended tasks are removed.
const ENTRIES_MIN: usize = 64;

impl<K: Copy + Ord> Expiries<K> {
    /// Creates a table in which no task expires.
    pub const fn new() -> Expiries<K> {
        Expiries { heap: BinaryHeap::new() }
    }

    /// Sets the time at which a task expires. `tasks` is the number of tasks, and `lives` returns whether a task
    /// still exists: a task that ends before its time leaves its entry behind.
    pub fn expire(&mut self, task: K, at: u64, tasks: usize, lives: impl Fn(K) -> bool) {
        self.heap.push(Reverse((at, task)));
        if self.heap.len() > ENTRIES_MIN && self.heap.len() > 2 * tasks {
            self.heap.retain(|Reverse((_, task))| lives(*task));
        }
    }

    /// Replaces the time at which a task expires.
    pub fn postpone(&mut self, task: K, at: u64, tasks: usize, lives: impl Fn(K) -> bool) {
        if !mutated(Mutant::PostponedEnds) {
            self.heap.retain(|Reverse((_, other))| *other != task);
        }
        self.expire(task, at, tasks, lives);
    }

    /// Removes and returns a task that has expired.
    pub fn pop_due(&mut self, now: u64) -> Option<K> {
        let Reverse((at, task)) = *self.heap.peek()?;
        if at > now || mutated(Mutant::ExpiryForgotten) {
            return None;
        }
        self.heap.pop();
        Some(task)
    }

    /// Returns the time at which the next task expires.
    pub fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns whether no task expires.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<K: Copy + Ord> Default for Expiries<K> {
    fn default() -> Expiries<K> {
        Expiries::new()
    }
}
