//! The table entry that is reserved for the handlers of a slot.
//!
//! A handler has an identity before it is a task: the call that it makes in its first poll waits under that identity,
//! so that the reply is polled in place like that of any task. The slot reserves an entry when it is made, and keeps
//! it from one handler to the next. Invariant: while no handler of the slot is a task, the entry is vacant, and
//! nothing is polled under the identity.

use super::Tasks;
use crate::wake::{Current, NOBODY, TaskId, WakeQueue, Wakeup};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use upbeat_memory::waker::WakeTarget;

/// An entry in the table of tasks, and the data of its task's wakers. Dropping this frees the entry.
pub(crate) struct Reserved {
    /// The identity of the next handler that becomes a task, and its waker; nobody if there was no free entry.
    current: Current,
    /// None while the task has it.
    wakeup: Option<WakeTarget<Wakeup>>,
    tasks: Weak<Tasks>,
}

impl Reserved {
    /// Reserves an entry, if there is one, and makes a waker.
    pub(crate) fn new(tasks: &Rc<Tasks>, roster: &Arc<WakeQueue>) -> (Reserved, Waker) {
        let wakeup = Wakeup::unnamed(roster);
        let waker = wakeup.waker();
        let tasks = Rc::downgrade(tasks);
        let mut reserved = Reserved { current: NOBODY, wakeup: Some(wakeup), tasks };
        reserved.find_place();
        (reserved, waker)
    }

    /// Reserves an entry after an earlier attempt found none.
    #[cold]
    #[inline(never)]
    fn find_place(&mut self) -> Option<()> {
        let task = self.tasks.upgrade()?.reserve()?;
        self.current = Current { task, waker: self.wakeup.as_ref()?.data() };
        Some(())
    }

    /// Returns the identity of the handler in the slot, and its waker, for its first poll.
    #[inline(always)]
    pub(crate) fn current(&self) -> Current {
        self.current
    }

    /// Returns the data of the handler's wakers, as long as the handler is no task.
    pub(crate) fn wakeup(&self) -> Option<&WakeTarget<Wakeup>> {
        self.wakeup.as_ref()
    }

    /// Gives its identity to the handler in the slot, which becomes a task. Returns None if there is no entry.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<(TaskId, WakeTarget<Wakeup>)> {
        if self.current.task == NOBODY.task {
            self.find_place()?;
        }
        Some((self.current.task, self.wakeup.take()?))
    }

    /// Takes back the waker's data of a handler that was a task and has ended. `next` is the identity of the next
    /// one.
    #[inline(always)]
    pub(crate) fn put_back(&mut self, wakeup: WakeTarget<Wakeup>, next: TaskId) {
        wakeup.unname();
        self.current.task = next;
        self.wakeup = Some(wakeup);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.release(self.current.task);
        }
    }
}
