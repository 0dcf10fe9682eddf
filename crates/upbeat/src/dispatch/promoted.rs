//! Handlers that have become tasks: what they hold of the node's budget, and their deadlines.

use super::Dispatcher;
use crate::error::Why;
use crate::sample::Reason;
use crate::session::Session;
use crate::task::{Cancelled, Live};
use crate::wake::{Priority, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use upbeat_core::backoff::Jitter;
use upbeat_core::bill::Counter;
use upbeat_core::flow::{self, ReplyBudget};
use upbeat_core::frame::CallNumber;
use upbeat_core::session::{self, Expiries};

/// The budgets of a node.
pub(super) struct Purse {
    requests: flow::Purse,
    replies: ReplyBudget,
    /// Whether such replies were sent since, for which requests had to wait.
    replied: Cell<bool>,
}

impl Purse {
    pub(super) fn new(budget: u64) -> Purse {
        let (requests, replies) = (flow::Purse::new(budget), ReplyBudget::new(budget));
        Purse { requests, replies, replied: Cell::new(false) }
    }

    /// Returns the bytes for requests that were accepted and are not finished.
    #[inline(always)]
    pub(super) fn requests(&self) -> &flow::Purse {
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

    /// Whether such requests are to be looked at: a node does not sleep before that.
    pub(super) fn has_replied(&self) -> bool {
        self.replied.get()
    }

    /// Whether requests that wait are to be looked at.
    #[inline(always)]
    pub(super) fn was_freed(&self) -> bool {
        self.requests.take_freed()
    }
}

/// The bytes that an accepted request holds until its handler is dropped.
pub(crate) struct Charge {
    purse: Rc<Purse>,
    session: Rc<Session>,
    charge: session::Charge,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.session.release(&mut self.charge, self.purse.requests());
    }
}

/// The flow of requests: the purse that they are charged to, and those that wait.
pub(super) struct Flow {
    pub(super) purse: Rc<Purse>,
    pub(super) expiries: RefCell<Expiries<TaskId>>,
    /// Sessions in which requests wait to be accepted.
    pub(super) waiting: RefCell<VecDeque<Rc<Session>>>,
    /// For callers that must not come back together.
    pub(super) jitter: Cell<Jitter>,
}

impl Flow {
    /// Makes the flow of a node where nothing waits yet.
    pub(super) fn new(purse: Purse, jitter: Jitter) -> Flow {
        let (expiries, waiting) = (RefCell::default(), RefCell::default());
        Flow { purse: Rc::new(purse), expiries, waiting, jitter: Cell::new(jitter) }
    }
}

impl Dispatcher {
    /// Takes room for a request of so many bytes that goes on as a task. Its handler was polled.
    pub(crate) fn charge(&self, session: &Rc<Session>, bytes: u64) -> Charge {
        let (purse, session) = (Rc::clone(&self.flow.purse), Rc::clone(session));
        let mut charge = Charge { purse, session, charge: session::Charge::new(bytes) };
        self.charge_again(&mut charge);
        charge
    }

    /// The handler that holds this was polled, and waits on: for an answer, or for something here.
    #[inline]
    pub(crate) fn charge_again(&self, charge: &mut Charge) {
        let awaits_reply = self.run.polled.answer_awaited();
        charge.session.charge(&mut charge.charge, awaits_reply, self.flow.purse.requests());
        self.close_if_full();
        self.press_if_freed();
    }

    /// If a handler has given bytes back, requests that wait are looked at.
    #[inline]
    pub(super) fn press_if_freed(&self) {
        if self.flow.purse.was_freed() {
            self.pressed.set(true);
        }
    }

    /// If the budget was filled, no session accepts requests at once any more.
    #[inline]
    pub(super) fn close_if_full(&self) {
        if self.flow.purse.requests().take_filled() {
            self.close_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn close_all(&self) {
        for session in self.sessions() {
            session.look_clear(self.flow.purse.requests());
        }
    }

    /// A handler has to wait: it goes on as a task, until a deadline if its caller set one.
    #[cold]
    pub(crate) fn promote(
        self: &Rc<Self>,
        session: &Rc<Session>,
        live: Live,
        (call, end): (Option<CallNumber>, Option<u64>),
        reason: Reason,
    ) {
        if session.ended().is_some() {
            return self.forget_name();
        }
        self.count(reason.counter());
        if reason == Reason::Budget {
            session.stop_short();
        }
        self.take_in(session, live, call, end);
    }

    /// A request is run as a task at once, or begins anew as one: in front of the tasks that want to
    /// run, or behind them.
    pub(crate) fn start(
        self: &Rc<Self>,
        session: &Rc<Session>,
        live: Live,
        (call, end): (Option<CallNumber>, Option<u64>),
        why: Counter,
        in_front: bool,
    ) {
        if session.ended().is_some() {
            return self.forget_name();
        }
        self.count(why);
        if let Some(id) = self.take_in(session, live, call, end) {
            if in_front {
                self.work.front.borrow_mut().push_back(id);
            } else {
                self.work.ready.borrow_mut().push(id);
            }
            self.work.roster.keep(Priority::Normal);
        }
    }

    /// Takes in a handler as a task, of a call or of a one-way message, until a deadline if its caller set one.
    #[inline(always)]
    fn take_in(
        self: &Rc<Self>,
        session: &Rc<Session>,
        live: Live,
        call: Option<CallNumber>,
        end: Option<u64>,
    ) -> Option<TaskId> {
        let id = match self.take_name(live) {
            Ok(id) => id,
            Err(mut live) => {
                live.task.as_mut().cancel(Cancelled::NoRoom);
                return None;
            }
        };
        self.note_handler(id);
        let entered = match call {
            Some(call) => session.serving().insert(call, id),
            None => {
                session.serving().begin_oneway();
                Ok(())
            }
        };
        if let Err(rule) = entered {
            self.work.tasks.abandon(id);
            self.lose(session, Why::Misbehaved(rule));
            return None;
        }
        if let Some(end) = end {
            self.expire(id, end);
        }
        Some(id)
    }

    /// Ends a handler's task then.
    fn expire(&self, task: TaskId, at: u64) {
        let (tasks, lives) = (self.work.tasks.len(), |task| self.work.tasks.has(task));
        self.flow.expiries.borrow_mut().expire(task, at, tasks, lives);
    }

    /// Ends a handler's task then, and not when it was to end.
    pub(super) fn postpone(&self, task: TaskId, end: u64) {
        let (tasks, lives) = (self.work.tasks.len(), |task| self.work.tasks.has(task));
        self.flow.expiries.borrow_mut().postpone(task, end, tasks, lives);
    }

    /// Lets a handler's task go on whose caller is gone, until then at most.
    pub(crate) fn leave_alone(&self, task: TaskId, until: u64) {
        self.count(Counter::OrphansLeft);
        self.postpone(task, until);
    }

    /// Ends handlers whose time is over. Gives whether there were any.
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
