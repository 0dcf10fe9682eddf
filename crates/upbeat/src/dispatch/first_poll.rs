//! The name of a handler that waits for an answer in its first poll.
//!
//! A handler is no task while it is polled for the first time, so it has no name under which it could wait.
//! One that calls another node then gets the name of the task that it is about to become: its reply is
//! polled in place like that of any task, and nothing is allocated for it. Invariant: a place that was
//! taken for a handler is filled when the handler becomes a task, and else free again behind its poll.

use super::{Current, Dispatcher, NO_WAKER, NOBODY, Running};
use crate::task::Live;
use crate::wake::TaskId;
use std::cell::Cell;
use std::ptr;
use std::task::Waker;

/// The handler that is polled for the first time.
pub(super) struct FirstPoll {
    /// What its waker points to; while no handler runs, what that of the last one did.
    waker: Cell<*const ()>,
    /// The task that it is about to become, if it has asked for a name.
    named: Cell<Option<TaskId>>,
}

impl Default for FirstPoll {
    fn default() -> FirstPoll {
        FirstPoll { waker: Cell::new((&raw const NO_WAKER).cast()), named: Cell::new(None) }
    }
}

impl Dispatcher {
    /// A handler with this waker is polled for the first time next.
    #[inline(always)]
    pub(crate) fn polls_first(&self, waker: &Waker) {
        self.run.first_poll.waker.set(waker.data());
    }

    /// It was polled. Returns whether it has a name: where it is done, that is to be forgotten.
    #[inline(always)]
    pub(crate) fn has_polled_first(&self) -> bool {
        self.run.first_poll.named.get().is_some()
    }

    /// The name of the handler that is polled for the first time, if this is its waker and there is room
    /// for one more task.
    pub(super) fn name_handler(&self, waker: &Waker) -> Option<TaskId> {
        let is_handler = matches!(self.run.running.get(), Running::Handler(..) | Running::Kept(..));
        if !is_handler || !ptr::eq(waker.data(), self.run.first_poll.waker.get()) {
            return None;
        }
        let task = self.work.tasks.reserve()?;
        self.run.first_poll.named.set(Some(task));
        // Whatever it asks for from now on finds it at once.
        self.run.current.set(Current { task, waker: waker.data() });
        Some(task)
    }

    /// The handler with a name does not become a task: it is done, or has panicked.
    #[cold]
    #[inline(never)]
    pub(crate) fn forget_name(&self) {
        if let Some(task) = self.run.first_poll.named.take() {
            self.run.current.set(NOBODY);
            self.work.tasks.release(task);
        }
    }

    /// Takes a handler in that becomes a task, under the name that it has. Gives it back where there are
    /// too many.
    pub(super) fn take_name(&self, live: Live) -> Result<TaskId, Live> {
        match self.run.first_poll.named.take() {
            Some(task) => {
                self.run.current.set(NOBODY);
                self.work.tasks.fill(task, live);
                Ok(task)
            }
            None => self.work.tasks.insert(live),
        }
    }
}
