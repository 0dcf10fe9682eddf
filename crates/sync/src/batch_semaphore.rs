//! A fair semaphore whose waiters take several permits at once: the base of mutexes, read-write
//! locks and semaphores.
//!
//! A waiter gets all its permits together, or waits in a queue until they are free. No later waiter
//! overtakes the queue, even with a smaller request. Invariant: while the queue is not empty, its
//! first waiter wants more permits than are free.

use super::wait::{Holders, Name, Target, Wait};
use super::waiters::{WaitQueue, WaiterKey};
use crate::runtime::Awaited;
use std::cell::Cell;
use std::panic::Location;
use std::task::{Context, Poll};

/// The free permits, their waiters and their holders.
pub(super) struct BatchSemaphore {
    pub(super) name: Name,
    free: Cell<u64>,
    queue: WaitQueue,
    holders: Holders,
}

impl BatchSemaphore {
    pub(super) const fn new(permits: u32) -> BatchSemaphore {
        let free = Cell::new(permits as u64);
        BatchSemaphore { name: None, free, queue: WaitQueue::new(), holders: Holders::new() }
    }

    pub(super) fn named(name: &str, permits: u32) -> BatchSemaphore {
        BatchSemaphore { name: Some(name.into()), ..BatchSemaphore::new(permits) }
    }

    /// Returns the number of free permits.
    pub(super) fn free(&self) -> u64 {
        self.free.get()
    }

    /// Adds permits, or gives some back.
    #[inline]
    pub(super) fn give(&self, permits: u32) {
        self.free.set(self.free.get().saturating_add(permits.into()));
        if !self.queue.is_empty() {
            self.notify_waiters();
        }
    }

    /// Notifies the waiters for whom there are enough permits.
    #[cold]
    fn notify_waiters(&self) {
        while let Some(wanted) = self.queue.first()
            && let Some(left) = self.free.get().checked_sub(wanted.into())
        {
            self.free.set(left);
            if let Some(waker) = self.queue.notify_first(wanted) {
                waker.wake();
            }
        }
    }

    /// Takes permits if they are free and no waiter is queued. The caller then calls
    /// [`BatchSemaphore::taken`].
    #[inline]
    pub(super) fn try_take(&self, permits: u32) -> bool {
        let left = self.free.get().checked_sub(permits.into());
        let Some(left) = left.filter(|_| self.queue.is_empty()) else { return false };
        self.free.set(left);
        true
    }

    /// Polls a wait for permits. A caller that gets them then calls [`BatchSemaphore::taken`].
    #[inline]
    pub(super) fn poll_take(
        &self,
        wait: &mut Wait,
        permits: u32,
        what: Awaited,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let taken = wait.key.is_none() && self.try_take(permits);
        if taken || self.poll_slow(wait, permits, what, context) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Returns the guard of permits that were taken at this place in the source.
    #[inline]
    pub(super) fn taken(&self, permits: u32, at: &'static Location<'static>) -> TakenPermits<'_> {
        TakenPermits { semaphore: self, permits, holder: self.holders.add(at) }
    }

    /// Returns whether the waiter was given its permits, and queues it if it is new.
    #[cold]
    fn poll_slow(
        &self,
        wait: &mut Wait,
        permits: u32,
        what: Awaited,
        context: &mut Context<'_>,
    ) -> bool {
        match wait.key {
            None => wait.key = Some(self.queue.push(context.waker(), permits)),
            Some(key) if self.queue.set_waker(key, context.waker()) => {}
            Some(key) => {
                self.queue.remove(key);
                wait.key = None;
                wait.finish();
                return true;
            }
        }
        wait.note_pending(context, Target { what, name: &self.name, holders: Some(&self.holders) });
        false
    }

    /// Ends a wait whose future is dropped.
    #[inline]
    pub(super) fn give_up(&self, wait: &mut Wait) {
        if let Some(key) = wait.key.take() {
            self.leave(key);
        }
    }

    #[cold]
    fn leave(&self, key: WaiterKey) {
        let removed = self.queue.remove(key);
        self.free
            .set(self.free.get() + if removed.was_notified { u64::from(removed.tag) } else { 0 });
        // The permits that a notified waiter had got go to the next. A waiter that was queued
        // may have held back smaller requests behind it.
        self.notify_waiters();
    }
}

/// Permits that are given back when this guard is dropped.
pub(super) struct TakenPermits<'r> {
    pub(super) semaphore: &'r BatchSemaphore,
    permits: u32,
    holder: Option<WaiterKey>,
}

impl TakenPermits<'_> {
    pub(super) fn permits(&self) -> u32 {
        self.permits
    }

    /// Drops the guard and keeps the permits taken for good.
    pub(super) fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for TakenPermits<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.holders.remove(self.holder);
        self.semaphore.give(self.permits);
    }
}
