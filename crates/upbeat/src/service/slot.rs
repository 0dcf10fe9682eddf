//! Slots in which handlers run, and of which a method keeps one.
//!
//! Invariant: a slot is kept only while no handler is in it.

use super::promoted::Promoted;
use crate::wake::{Roster, Wakeup};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::Waker;
use upbeat_memory::seat::{Seat, Vacant};
use upbeat_memory::waker::Counted;

/// Room for a handler's future, and its waker. A handler that has to wait is a task where it is: the slot itself.
pub(super) type Slot<F> = Seat<F, Beside<F>>;

/// A slot in which no handler is.
pub(super) type Empty<F> = Vacant<F, Beside<F>>;

/// What stands in a slot beside the future.
pub(super) struct Beside<F> {
    pub(super) wakeup: Counted<Wakeup>,
    pub(super) waker: Waker,
    /// What is known of the task, as long as the handler is one.
    pub(super) task: Option<Promoted<F>>,
}

/// A new slot.
pub(super) fn vacant<F>(roster: &Arc<Roster>) -> Empty<F> {
    let wakeup = Wakeup::unnamed(roster);
    let waker = wakeup.waker();
    Vacant::new(Beside { wakeup, waker, task: None })
}

/// A slot that is kept for the next handler, if there is one.
pub(super) struct Spare<F>(Cell<Option<ManuallyDrop<Empty<F>>>>);

impl<F> Spare<F> {
    pub(super) const fn new(slot: Empty<F>) -> Spare<F> {
        Spare(Cell::new(Some(ManuallyDrop::new(slot))))
    }

    #[inline(always)]
    pub(super) fn take(&self) -> Option<Empty<F>> {
        self.0.take().map(ManuallyDrop::into_inner)
    }

    /// Keeps a slot where none is kept: whoever had the last one brings it back. It is not asked whether there is
    /// another, which would be left in memory.
    #[inline(always)]
    pub(super) fn keep(&self, slot: Empty<F>) {
        self.0.set(Some(ManuallyDrop::new(slot)));
    }
}

impl<F> Drop for Spare<F> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
