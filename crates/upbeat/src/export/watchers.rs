//! Tasks that wait until an export changes, or certain units of it.
//!
//! A unit is known by the word with its version, counted from the first word of the value: the same wherever the export
//! lies. A change looks at the tasks that watch what it changes, and at no others.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use upbeat_core::mutant::{Mutant, mutated};

/// The tasks of the owner's node that wait until an export changes, on behalf of its readers.
#[derive(Default)]
pub(super) struct Watchers {
    /// The units that tasks watch, each with the number of the task. `None` is any unit.
    watched: RefCell<BTreeSet<(Option<usize>, u64)>>,
    /// The tasks that wait. A task is none of them any more once it was woken.
    waiting: RefCell<BTreeMap<u64, Waker>>,
    /// The tasks that watch a unit which the change that is under way has changed.
    due: RefCell<Vec<u64>>,
    /// Whether tasks wait or are due.
    is_awaited: Cell<bool>,
    next: Cell<u64>,
}

impl Drop for Watchers {
    fn drop(&mut self) {
        // All tasks have gone that have waited.
        let is_empty = self.watched.get_mut().is_empty();
        debug_assert!(is_empty || std::thread::panicking(), "a task that has gone still watches");
    }
}

/// A task that waits for a change, from [`Watchers::change`] until it is dropped.
pub(super) struct Waiting<'w> {
    watchers: &'w Watchers,
    number: u64,
    units: Vec<Option<usize>>,
}

impl Watchers {
    /// Waits from now on until one of these units has changed, any unit if there is no list, or the export has ended.
    pub(super) fn change(&self, units: Option<Vec<usize>>) -> Waiting<'_> {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let units = units.map_or(vec![None], |units| units.into_iter().map(Some).collect());
        self.watched.borrow_mut().extend(units.iter().map(|unit| (*unit, number)));
        self.waiting.borrow_mut().insert(number, Waker::noop().clone());
        self.is_awaited.set(true);
        Waiting { watchers: self, number, units }
    }

    /// Says that the change that is under way has changed a unit.
    #[inline]
    pub(super) fn touch(&self, unit: usize) {
        if self.is_awaited.get() {
            self.find(Some(unit));
        }
    }

    /// Says that a change of the export is over.
    #[inline]
    pub(super) fn tell(&self) {
        if self.is_awaited.get() {
            self.find(None);
            self.wake(self.due.take());
        }
    }

    /// Says that the export has ended.
    pub(super) fn tell_all(&self) {
        let all = self.waiting.borrow().keys().copied().collect();
        self.wake(all);
    }

    /// Finds the tasks that watch a unit. They watch it no more, so that further changes do not look at them.
    #[cold]
    fn find(&self, unit: Option<usize>) {
        let mut watched = self.watched.borrow_mut();
        let found = watched.range((unit, 0)..=(unit, u64::MAX)).map(|(_, task)| *task);
        let found: Vec<u64> = found.collect();
        for task in &found {
            watched.remove(&(unit, *task));
        }
        self.due.borrow_mut().extend(found);
    }

    #[cold]
    fn wake(&self, tasks: Vec<u64>) {
        for task in tasks {
            let waker = self.waiting.borrow_mut().remove(&task);
            waker.into_iter().for_each(Waker::wake);
        }
        self.settle();
    }

    fn settle(&self) {
        let is_quiet = self.waiting.borrow().is_empty() && self.due.borrow().is_empty();
        self.is_awaited.set(!is_quiet);
    }
}

impl Future for Waiting<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.watchers.waiting.borrow_mut().get_mut(&self.number) {
            Some(waker) => {
                waker.clone_from(context.waker());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let _waker = self.watchers.waiting.borrow_mut().remove(&self.number);
        let mut watched = self.watchers.watched.borrow_mut();
        for unit in &self.units {
            if mutated(Mutant::WatcherStays) {
                break;
            }
            watched.remove(&(*unit, self.number));
        }
        drop(watched);
        self.watchers.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Polls a task that waits, and returns whether it goes on.
    fn is_done(waiting: &mut Waiting<'_>, woken: &Arc<Woken>) -> bool {
        let waker = Arc::clone(woken).into();
        Pin::new(waiting).poll(&mut Context::from_waker(&waker)).is_ready()
    }

    #[test]
    fn a_change_looks_at_the_tasks_alone_that_watch_what_it_changes() {
        let (watchers, woken) = (Watchers::default(), Arc::<Woken>::default());
        let watch = |units: Option<Vec<usize>>| {
            let mut waiting = watchers.change(units);
            assert!(!is_done(&mut waiting, &woken));
            waiting
        };
        let mut others: Vec<_> =
            (0..10_000).map(|at| watch(Some(vec![2 * at, 2 * at + 20_001]))).collect();
        let mut one = watch(Some(vec![9, 8]));
        let looks = |unit| {
            watchers.touch(unit);
            let looks = watchers.due.borrow().len();
            watchers.tell();
            looks
        };
        assert_eq!((looks(1), looks(19_999), woken.0.load(Relaxed)), (0, 0, 0));
        assert_eq!((looks(9), woken.0.load(Relaxed)), (1, 1));
        assert!(is_done(&mut one, &woken));
        assert_eq!(looks(9), 0, "the task was woken already");
        drop(one);
        assert_eq!((looks(8), woken.0.load(Relaxed)), (1, 2), "one of the others");
        assert!(is_done(&mut others[4], &woken) && !is_done(&mut others[5], &woken));
        let mut any = watch(None);
        assert_eq!((looks(1), woken.0.load(Relaxed)), (0, 3));
        assert!(is_done(&mut any, &woken));
        watchers.tell_all();
        assert!(others.iter_mut().all(|other| is_done(other, &woken)));
        assert_eq!(woken.0.load(Relaxed), 3 + others.len() - 1);
        drop((others, any));
        assert!(watchers.watched.borrow().is_empty() && !watchers.is_awaited.get());
    }

    #[test]
    fn a_task_is_woken_when_the_change_is_over() {
        let (watchers, woken) = (Watchers::default(), Arc::<Woken>::default());
        let mut waiting = watchers.change(Some(vec![1, 2]));
        // A task that was never polled misses nothing.
        [1, 2, 1].into_iter().for_each(|unit| watchers.touch(unit));
        assert!(!is_done(&mut waiting, &woken), "the change is under way");
        watchers.tell();
        assert!(is_done(&mut waiting, &woken));
        assert_eq!(woken.0.load(Relaxed), 1);
        // A task that gives up meanwhile leaves nothing behind.
        let waiting = watchers.change(Some(vec![1]));
        watchers.touch(1);
        drop(waiting);
        watchers.tell();
        assert!(watchers.due.borrow().is_empty() && !watchers.is_awaited.get());
    }
}
