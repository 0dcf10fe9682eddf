//! Handlers that have become tasks: their share of the node's budgets, and their deadlines.

use super::Dispatcher;
use crate::error::Why;
use crate::sample::Reason;
use crate::session::Session;
use crate::task::{Cancelled, Reserved, TaskSlot};
use crate::wake::{Priority, TaskId, Wakeup};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;
use upbeat_core::backoff::Jitter;
use upbeat_core::bill::Counter;
use upbeat_core::fault::Rule;
use upbeat_core::flow::{self, ReplyBudget};
use upbeat_core::frame::CallNumber;
use upbeat_core::session::{self, Expiries};
use upbeat_memory::waker::WakeTarget;

/// The budgets of a node.
pub(super) struct NodeBudgets {
    requests: flow::SharedBudget,
    replies: ReplyBudget,
    /// Whether replies were sent that had kept requests from being accepted.
    replied: Cell<bool>,
}

impl NodeBudgets {
    pub(super) fn new(budget: u64) -> NodeBudgets {
        let (requests, replies) = (flow::SharedBudget::new(budget), ReplyBudget::new(budget));
        NodeBudgets { requests, replies, replied: Cell::new(false) }
    }

    /// Returns the bytes for requests that were accepted and are not finished.
    #[inline(always)]
    pub(super) fn requests(&self) -> &flow::SharedBudget {
        &self.requests
    }

    /// Returns the bytes for replies that wait until their callers read.
    pub(super) fn replies(&self) -> &ReplyBudget {
        &self.replies
    }

    /// Notes whether requests may be accepted that had to wait for replies to be sent.
    pub(super) fn set_replied(&self, replied: bool) {
        self.replied.set(replied);
    }

    /// Returns whether there may be such requests: a node does not sleep before it has looked at them.
    pub(super) fn has_replied(&self) -> bool {
        self.replied.get()
    }

    /// Returns whether bytes were freed, so that waiting requests need a look.
    #[inline(always)]
    pub(super) fn was_freed(&self) -> bool {
        self.requests.take_freed()
    }
}

/// An accepted request's hold on its node and its session, and on the bytes of their budgets,
/// until its handler is dropped.
pub(crate) struct Charge {
    pub(crate) node: Rc<Dispatcher>,
    pub(crate) session: Rc<Session>,
    charge: session::Charge,
}

impl Charge {
    /// Charges the bytes of a request that continues as a task, after its handler was polled.
    #[inline(always)]
    pub(crate) fn new(node: &Rc<Dispatcher>, session: &Rc<Session>, bytes: u64) -> Charge {
        let mut charge = session::Charge::new(bytes);
        let awaits = node.run.polled.awaits();
        session.charge(&mut charge, awaits, node.flow.budgets.requests());
        if charge.held() != 0 {
            node.close_if_full();
            node.press_if_freed();
        }
        Charge { node: Rc::clone(node), session: Rc::clone(session), charge }
    }

    /// Charges the bytes again after the handler was polled and waits on.
    #[inline]
    pub(crate) fn again(&mut self) {
        let Charge { node, session, charge } = self;
        let awaits = node.run.polled.awaits();
        session.charge(charge, awaits, node.flow.budgets.requests());
        node.close_if_full();
        node.press_if_freed();
    }

    #[inline(never)]
    fn give_back(&mut self) {
        self.session.release(&mut self.charge, self.node.flow.budgets.requests());
    }
}

impl Drop for Charge {
    #[inline(always)]
    fn drop(&mut self) {
        if self.charge.held() != 0 {
            self.give_back();
        }
    }
}

/// The flow of requests: the budgets that they are charged to, and the sessions where they wait.
pub(super) struct Flow {
    pub(super) budgets: NodeBudgets,
    pub(super) expiries: RefCell<Expiries<TaskId>>,
    /// Sessions in which requests wait to be accepted.
    pub(super) waiting: RefCell<VecDeque<Rc<Session>>>,
    /// The jitter for callers that must not come back together.
    pub(super) jitter: Cell<Jitter>,
}

impl Flow {
    /// Makes the flow of a node where nothing waits yet.
    pub(super) fn new(budgets: NodeBudgets, jitter: Jitter) -> Flow {
        let (expiries, waiting) = (RefCell::default(), RefCell::default());
        Flow { budgets, expiries, waiting, jitter: Cell::new(jitter) }
    }
}

impl Dispatcher {
    /// Has waiting requests looked at, if a handler has given bytes back.
    #[inline]
    pub(super) fn press_if_freed(&self) {
        if self.flow.budgets.was_freed() {
            self.pressed.set(true);
        }
    }

    /// Stops all sessions from accepting requests at once, if the budget was filled.
    #[inline]
    pub(super) fn close_if_full(&self) {
        if self.flow.budgets.requests().take_filled() {
            self.close_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn close_all(&self) {
        for session in self.sessions() {
            session.look_clear(self.flow.budgets.requests());
        }
    }

    /// Reserves a place for the handlers of a slot, and makes their waker.
    pub(crate) fn reserve(&self) -> (Reserved, Waker) {
        Reserved::new(&self.work.tasks, &self.work.roster)
    }

    /// Gives the handler of a slot, which becomes a task, its identity and its wake target. Returns `None` if there
    /// are too many tasks.
    #[inline(always)]
    pub(crate) fn name_handler(
        &self,
        reserved: &mut Reserved,
    ) -> Option<(TaskId, WakeTarget<Wakeup>)> {
        if self.work.tasks.is_full() { None } else { reserved.take() }
    }

    /// Returns the reason for which the polled handler waits, if it gave one.
    #[inline(always)]
    pub(crate) fn reason(&self) -> Reason {
        self.run.polled.reason()
    }

    /// Counts a handler that was polled and continues as a task.
    #[inline(always)]
    pub(crate) fn loses_bet(&self, session: &Session) {
        let reason = self.reason();
        self.count(reason.counter());
        if reason == Reason::Budget {
            session.stop_short();
        }
    }

    /// Runs a request as a task from its beginning: before the tasks that are ready to
    /// run, or after them; until a deadline, if its caller set one.
    pub(crate) fn start(&self, task: TaskId, end: Option<u64>, in_front: bool) {
        if let Some(end) = end {
            self.expire(task, end);
        }
        if in_front {
            self.work.front.borrow_mut().push_back(task);
        } else {
            self.work.ready.borrow_mut().push(task);
        }
        self.work.roster.keep(Priority::Normal);
    }

    /// Takes over a handler as a task with this identity, for a call or a one-way message. Returns false if the peer
    /// breaks a rule.
    #[inline(always)]
    pub(crate) fn take_in(
        self: &Rc<Self>,
        session: &Rc<Session>,
        (id, live): (TaskId, TaskSlot),
        call: Option<CallNumber>,
    ) -> bool {
        self.work.tasks.fill(id, live);
        self.note_handler(id);
        let entered = match call {
            Some(call) => session.serving().insert(call, id),
            None => {
                session.serving().begin_oneway();
                Ok(())
            }
        };
        match entered {
            Ok(()) => true,
            Err(rule) => {
                self.misbehaved(session, id, rule);
                false
            }
        }
    }

    /// Ends the session of a peer that has used the number of this task twice.
    #[cold]
    #[inline(never)]
    fn misbehaved(self: &Rc<Self>, session: &Rc<Session>, task: TaskId, rule: Rule) {
        self.work.tasks.abandon(task);
        self.lose(session, Why::Misbehaved(rule));
    }

    /// Sets the deadline of a handler's task.
    #[cold]
    pub(crate) fn expire(&self, task: TaskId, at: u64) {
        let (tasks, lives) = (self.work.tasks.len(), |task| self.work.tasks.has(task));
        self.flow.expiries.borrow_mut().expire(task, at, tasks, lives);
    }

    /// Moves the deadline of a handler's task.
    pub(super) fn postpone(&self, task: TaskId, end: u64) {
        let (tasks, lives) = (self.work.tasks.len(), |task| self.work.tasks.has(task));
        self.flow.expiries.borrow_mut().postpone(task, end, tasks, lives);
    }

    /// Lets the task of a handler whose caller is gone continue until then at most.
    pub(crate) fn leave_alone(&self, task: TaskId, until: u64) {
        self.count(Counter::OrphansLeft);
        self.postpone(task, until);
    }

    /// Ends handlers whose time is over. Returns whether there were any.
    pub(super) fn expire_due(&self, now: u64) -> bool {
        let mut any = false;
        loop {
            let due = self.flow.expiries.borrow_mut().pop_due(now);
            let Some(due) = due else { return any };
            any |= self.cancel(due, Cancelled::Deadline);
        }
    }

    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.flow.expiries.borrow().next()
    }
}
