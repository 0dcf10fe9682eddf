//! The names of running handlers and tasks. The node asks for them only if long waits are reported.

use super::{Dispatcher, Running};
use crate::stuck::Who;
use crate::wake::{MAIN, TaskId};
use std::cell::RefCell;
use std::collections::HashMap;

/// The tasks that are handlers, with their methods.
pub(super) type Handlers = RefCell<HashMap<TaskId, Who>>;

impl Dispatcher {
    /// Returns the name of the handler or task that runs.
    pub(crate) fn who(&self) -> Who {
        match self.running() {
            Running::Handler(_) | Running::Kept(..) => self.handler_of(self.run.method.get()),
            Running::Task(id) => {
                self.work.handlers.borrow().get(&id).cloned().unwrap_or(Who::Task(id))
            }
            Running::Nothing if self.run.current.task() == Some(MAIN) => Who::Main,
            Running::Nothing => Who::Other,
        }
    }

    /// Returns the name of the handler of the method of this number.
    fn handler_of(&self, method: u16) -> Who {
        let methods = self.entries();
        match methods.get(usize::from(method).wrapping_sub(1)) {
            Some(entry) => Who::Handler { service: entry.offer.service, method: entry.offer.name },
            None => Who::Other,
        }
    }

    /// Notes that the handler that runs is this task from now on.
    #[inline(always)]
    pub(super) fn note_handler(&self, id: TaskId) {
        if self.settings.stuck.after.is_some() {
            self.remember_handler(id);
        }
    }

    #[cold]
    #[inline(never)]
    fn remember_handler(&self, id: TaskId) {
        let mut handlers = self.work.handlers.borrow_mut();
        // Tasks that have ended leave their entries behind.
        if handlers.len() > 64 && handlers.len() > 2 * self.work.tasks.len() {
            handlers.retain(|task, _| self.work.tasks.has(*task));
        }
        handlers.insert(id, self.who());
    }
}
