//! Timers of nodes, and of the awaited calls of handles.
//!
//! Times are nanoseconds of a node's own clock, which is read now and then and not for each message, or of the
//! monotonic clock. Wakers are the users' code: they are cloned before anything is borrowed or locked, and those that are
//! replaced or removed are returned, so that they are dropped after that.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::task::Waker;

/// A timer's number.
pub(crate) type TimerId = u64;

/// The timers of a node, or of a handle.
#[derive(Default)]
pub(crate) struct Timers {
    order: BinaryHeap<Reverse<(u64, TimerId)>>,
    wakers: HashMap<TimerId, Waker>,
    next: TimerId,
}

impl Timers {
    /// Sets a timer that wakes `waker` at `at`.
    pub(crate) fn set(&mut self, at: u64, waker: Waker) -> TimerId {
        let id = self.next;
        self.next += 1;
        self.order.push(Reverse((at, id)));
        self.wakers.insert(id, waker);
        id
    }

    /// Replaces a timer's waker, and returns the previous one. Returns the given one as an error if the timer has fired.
    pub(crate) fn change(&mut self, id: TimerId, waker: Waker) -> Result<Waker, Waker> {
        match self.wakers.get_mut(&id) {
            Some(set) => Ok(std::mem::replace(set, waker)),
            None => Err(waker),
        }
    }

    /// Removes a timer. Returns its waker, unless it has fired.
    pub(crate) fn clear(&mut self, id: TimerId) -> Option<Waker> {
        let cleared = self.wakers.remove(&id);
        // Entries in the order are removed when they come up, or when most of them are outdated.
        if self.order.len() > 64 && self.order.len() > 2 * self.wakers.len() {
            let wakers = &self.wakers;
            self.order.retain(|Reverse((_, id))| wakers.contains_key(id));
        }
        cleared
    }

    /// Returns when the next timer fires.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn timers_fire_in_the_order_of_their_times() {
        let mut timers = Timers::default();
        let counts: Vec<_> = (0..4).map(|_| Arc::<Count>::default()).collect();
        for (count, at) in counts.iter().zip([30, 10, 20, 10]) {
            timers.set(at, Arc::clone(count).into());
        }
        let fired =
            || counts.iter().map(|count| count.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert!(timers.next() == Some(10) && timers.due(9).is_none());
        for (now, so_far) in
            [(10, [0, 1, 0, 0]), (10, [0, 1, 0, 1]), (35, [0, 1, 1, 1]), (35, [1; 4])]
        {
            timers.due(now).expect("one is due").wake();
            assert_eq!(fired(), so_far);
        }
        assert!(timers.next().is_none() && timers.due(u64::MAX).is_none());
    }

    #[test]
    fn a_timer_that_was_cleared_or_has_fired_is_gone() {
        let mut timers = Timers::default();
        let (first, second) = (Arc::<Count>::default(), Arc::<Count>::default());
        let cleared = timers.set(1, Arc::clone(&first).into());
        let kept = timers.set(2, Arc::clone(&first).into());
        assert!(timers.clear(cleared).is_some());
        assert!(timers.change(cleared, Arc::clone(&second).into()).is_err());
        assert!(timers.change(kept, Arc::clone(&second).into()).is_ok());
        assert_eq!(timers.next(), Some(2));
        timers.due(2).expect("the other one").wake();
        assert!(timers.change(kept, Arc::clone(&second).into()).is_err());
        assert!(timers.clear(kept).is_none());
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn timers_that_are_set_and_cleared_repeatedly_take_no_memory() {
        let mut timers = Timers::default();
        for at in 0..100_000 {
            let timer = timers.set(1_000_000 + at, Waker::noop().clone());
            drop(timers.clear(timer));
        }
        assert!(timers.order.len() <= 128 && timers.wakers.is_empty());
    }
}
