//! The place that is reserved for the handlers of a slot.
//!
//! A handler has a name before it is a task: the call that it makes in its first poll waits under that name, so
//! that the reply is polled in place like that of any task. The slot reserves a place for that when it is made, and
//! keeps the place from one handler to the next. Invariant: while no handler of the slot is a task, the place is
//! vacant, and nothing is polled under the name.

use super::Tasks;
use crate::wake::{Current, NOBODY, Roster, TaskId, Wakeup};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use upbeat_memory::waker::Counted;

/// A place in the table of tasks, and what wakes the task that lies there. Dropped, the place is free again.
pub(crate) struct Reserved {
    /// The name of the next handler that becomes a task, and its waker; nobody where there was no place.
    current: Current,
    /// Taken by the task.
    wakeup: Option<Counted<Wakeup>>,
    tasks: Weak<Tasks>,
}

impl Reserved {
    /// Reserves a place, if there is one, and makes a waker.
    pub(crate) fn new(tasks: &Rc<Tasks>, roster: &Arc<Roster>) -> (Reserved, Waker) {
        let wakeup = Wakeup::unnamed(roster);
        let waker = wakeup.waker();
        let tasks = Rc::downgrade(tasks);
        let mut reserved = Reserved { current: NOBODY, wakeup: Some(wakeup), tasks };
        reserved.find_place();
        (reserved, waker)
    }

    /// Finds a place where there was none.
    #[cold]
    #[inline(never)]
    fn find_place(&mut self) -> Option<()> {
        let task = self.tasks.upgrade()?.reserve()?;
        self.current = Current { task, waker: self.wakeup.as_ref()?.data() };
        Some(())
    }

    /// Returns the name of the handler in the slot, and its waker, for its first poll.
    #[inline(always)]
    pub(crate) fn current(&self) -> Current {
        self.current
    }

    /// Returns what wakes the handler in the slot, as long as it is no task.
    pub(crate) fn wakeup(&self) -> Option<&Counted<Wakeup>> {
        self.wakeup.as_ref()
    }

    /// Gives the handler in the slot, which becomes a task, its name. None where there is no place.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<(TaskId, Counted<Wakeup>)> {
        if self.current.task == NOBODY.task {
            self.find_place()?;
        }
        Some((self.current.task, self.wakeup.take()?))
    }

    /// Takes back what the handler had that was the task, which has ended. The next one has this name.
    #[inline(always)]
    pub(crate) fn put_back(&mut self, wakeup: Counted<Wakeup>, next: TaskId) {
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
