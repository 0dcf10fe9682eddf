//! Slots of spawned tasks that have ended, in which the next tasks of their type start.

use super::Task;
use crate::wake::Wakeup;
use std::any::TypeId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use upbeat_memory::waker::WakeTarget;

/// The bytes of slots that are kept for one type, except that one larger slot is always kept.
const KEPT_BYTES: usize = 64 << 10;
/// The most slots that are kept for one type.
const KEPT_MAX: usize = 256;

/// A task that waits, or only its slot, with the data of its wakers.
pub(crate) struct TaskSlot {
    pub(crate) task: Pin<Box<dyn Task>>,
    pub(crate) wakeup: WakeTarget<Wakeup>,
}

/// The kind of a slot: the type of its futures.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    of: TypeId,
    /// The most slots of this kind that are kept.
    kept_max: usize,
}

impl Slots {
    /// Returns the kind of slots for futures of this type, each of this many bytes.
    pub(super) fn of<F: 'static>(bytes: usize) -> Slots {
        let kept_max = (KEPT_BYTES / bytes.max(1)).clamp(1, KEPT_MAX);
        Slots { of: TypeId::of::<F>(), kept_max }
    }
}

/// The slots that are kept. Of each type, the slot that was kept last is used first.
#[derive(Default)]
pub(super) struct Spares {
    kept: RefCell<BTreeMap<TypeId, Vec<TaskSlot>>>,
}

impl Spares {
    /// Takes a slot for a future of this type, if there is one.
    pub(super) fn take<F: 'static>(&self) -> Option<TaskSlot> {
        self.kept.borrow_mut().get_mut(&TypeId::of::<F>())?.pop()
    }

    /// Keeps the slot of a spawned task that has ended, unless there are enough. The contents of the slot are
    /// dropped.
    pub(super) fn keep(&self, mut live: TaskSlot) {
        let Some(mut spawned) = live.task.as_mut().spawned() else { return };
        let Slots { of, kept_max } = spawned.slots();
        spawned.as_mut().clear();
        live.wakeup.unname();
        let mut kept = self.kept.borrow_mut();
        let kept = kept.entry(of).or_default();
        if kept.len() < kept_max {
            kept.push(live);
        }
    }
}
