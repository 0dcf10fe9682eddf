//! Slots in which handlers run. Each method keeps one of them.
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

/// Room for a handler's future, its waker, and its reserved place among the tasks. A handler that has to wait is not
/// moved: the slot itself is the task.
pub(super) type Slot<F> = FutureSlot<F, Beside<F>>;

/// A slot without a handler.
pub(super) type Empty<F> = EmptySlot<F, Beside<F>>;

/// The parts of a slot besides the future.
pub(super) struct Beside<F> {
    pub(super) waker: Waker,
    pub(super) reserved: Reserved,
    /// The state of the task, while the handler is one.
    pub(super) task: Option<Promoted>,
    /// The method to which the slot goes back. There is none while no handler in the slot is a task.
    pub(super) kept: Option<Rc<Kept<F>>>,
    /// The parts that only few tasks have.
    pub(super) rare: Option<Box<Rare>>,
}

/// Returns a new slot.
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

    /// Keeps a slot. Another one is kept already if a task of the method has ended during a handler's poll.
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
