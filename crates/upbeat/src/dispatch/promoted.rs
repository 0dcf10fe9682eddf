//! Handlers that have become tasks, and their deadlines.

use super::Dispatcher;
use crate::error::Why;
use crate::sample::Reason;
use crate::session::Session;
use crate::task::{Cancelled, Task};
use crate::wake::TaskId;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use upbeat_core::bill::Counter;

/// Handlers that must end at a time.
pub(super) type Expiries = RefCell<BinaryHeap<Reverse<(u64, TaskId)>>>;

impl Dispatcher {
    /// A handler has to wait: it goes on as a task, until a deadline if its caller set one.
    #[cold]
    pub(crate) fn promote(
        self: &Rc<Self>,
        session: &Rc<Session>,
        task: Box<dyn Task>,
        deadline_us: Option<u64>,
        reason: Reason,
    ) {
        if session.ended().is_some() {
            return;
        }
        self.count(match reason {
            Reason::Lock => Counter::PromotedByLock,
            Reason::Call => Counter::PromotedByCall,
            Reason::Timer => Counter::PromotedByTimer,
            Reason::Other => Counter::PromotedByOther,
        });
        let call = task.caller().and_then(|caller| caller.call);
        let id = match self.tasks.insert(task) {
            Ok(id) => id,
            Err(task) => return task.cancel(Cancelled::NoRoom),
        };
        let entered = match call {
            Some(call) => session.serving.borrow_mut().insert(call, id),
            None => session.serving.borrow_mut().begin_oneway(),
        };
        if let Err(rule) = entered {
            self.tasks.remove(id);
            return self.lose(session, Why::Misbehaved(rule));
        }
        if let Some(left) = deadline_us {
            self.expire(id, left);
        }
    }

    /// Ends a handler's task in so many microseconds.
    fn expire(&self, task: TaskId, microseconds: u64) {
        let at = self.now_ns().saturating_add(microseconds.saturating_mul(1000));
        let mut expiries = self.expiries.borrow_mut();
        expiries.push(Reverse((at, task)));
        // Tasks that end before their time leave their entries behind.
        if expiries.len() > 64 && expiries.len() > 2 * self.tasks.len() {
            expiries.retain(|Reverse((_, task))| self.tasks.has(*task));
        }
    }

    /// Ends handlers whose time is over. Gives whether there were any.
    pub(super) fn expire_due(&self, now: u64) -> bool {
        let mut any = false;
        loop {
            let due = match self.expiries.borrow().peek() {
                Some(Reverse((at, task))) if *at <= now => *task,
                _ => return any,
            };
            self.expiries.borrow_mut().pop();
            any |= self.cancel(due, Cancelled::Deadline);
        }
    }

    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.expiries.borrow().peek().map(|Reverse((at, _))| *at)
    }
}
