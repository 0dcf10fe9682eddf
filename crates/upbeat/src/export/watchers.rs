//! Tasks that wait until an export changes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// The tasks of the owner's node that wait until an export changes, on behalf of its readers.
#[derive(Default)]
pub(super) struct Watchers {
    /// The number of changes so far.
    changes: Cell<u64>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
    next: Cell<u64>,
}

/// A task's place among those that wait, until it is dropped.
struct Waiting<'w> {
    watchers: &'w Watchers,
    number: u64,
}

impl Watchers {
    /// Returns the number of changes so far.
    pub(super) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Says that the export has changed.
    #[inline]
    pub(super) fn tell(&self) {
        self.changes.set(self.changes.get().wrapping_add(1));
        if !self.waiting.borrow().is_empty() {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.waiting.take().into_values().for_each(Waker::wake);
    }

    /// Waits until there were more changes than these.
    pub(super) async fn more_than(&self, changes: u64) {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let waiting = Waiting { watchers: self, number };
        poll_fn(|context| {
            if waiting.watchers.changes() != changes {
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            waiting.watchers.waiting.borrow_mut().insert(waiting.number, waker);
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.watchers.waiting.borrow_mut().remove(&self.number);
    }
}
