//! Slots in which handlers run, and of which a method keeps one.
//!
//! Invariant: a slot is kept only while no handler is in it.

use super::Kept;
use super::waiting::{Promoted, Rare};
use crate::dispatch::Dispatcher;
use crate::task::Reserved;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::task::Waker;
use upbeat_memory::future_slot::{EmptySlot, FutureSlot};

/// Room for a handler's future, its waker, and a place among the tasks. A handler that has to wait is a task where
/// it is: the slot itself.
pub(super) type Slot<F> = FutureSlot<F, Beside<F>>;

/// A slot in which no handler is.
pub(super) type Empty<F> = EmptySlot<F, Beside<F>>;

/// What stands in a slot beside the future.
pub(super) struct Beside<F> {
    pub(super) waker: Waker,
    pub(super) reserved: Reserved,
    /// What is known of the task, as long as the handler is one.
    pub(super) task: Option<Promoted>,
    /// Where the slot serves again. None while no handler in it is a task.
    pub(super) kept: Option<Rc<Kept<F>>>,
    /// What few tasks have.
    pub(super) rare: Option<Box<Rare>>,
}

/// A new slot.
#[cold]
#[inline(never)]
pub(super) fn vacant<F>(node: &Dispatcher) -> Empty<F> {
    let (reserved, waker) = node.reserve();
    EmptySlot::new(Beside { waker, reserved, task: None, kept: None, rare: None })
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

    /// Keeps a slot. There is another one already where a task of the method has ended within a handler.
    #[inline(always)]
    pub(super) fn keep(&self, slot: Empty<F>) {
        if let Some(other) = self.0.replace(Some(ManuallyDrop::new(slot))) {
            let_go(other);
        }
    }
}

#[cold]
#[inline(never)]
fn let_go<F>(slot: ManuallyDrop<Empty<F>>) {
    drop(ManuallyDrop::into_inner(slot));
}

impl<F> Drop for Spare<F> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
