//! Handlers that have become tasks: what they hold of the node's budget, and their deadlines.

use super::Dispatcher;
use crate::error::Why;
use crate::sample::Reason;
use crate::session::{ReplyBudget, Session};
use crate::task::{Cancelled, Live};
use crate::wake::{Priority, TaskId};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::flow::Budget;

/// Handlers that must end at a time.
pub(super) type Expiries = RefCell<BinaryHeap<Reverse<(u64, TaskId)>>>;

/// What the node may hold of requests that were accepted and are not finished.
pub(super) struct Purse {
    budget: Cell<Budget>,
    /// Whether something was given back since requests that wait were looked at.
    freed: Cell<bool>,
    /// Bytes of the replies that wait until their callers read.
    replies: ReplyBudget,
    /// Whether such replies were sent since, for which requests had to wait.
    replied: Cell<bool>,
}

impl Purse {
    pub(super) fn new(budget: u64) -> Purse {
        Purse {
            budget: Cell::new(Budget::new(budget)),
            freed: Cell::new(false),
            replies: ReplyBudget::new(budget),
            replied: Cell::new(false),
        }
    }

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

    pub(super) fn budget(&self) -> Budget {
        self.budget.get()
    }

    pub(super) fn with<R>(&self, with: impl FnOnce(&mut Budget) -> R) -> R {
        let mut budget = self.budget.get();
        let result = with(&mut budget);
        self.budget.set(budget);
        result
    }

    /// Whether requests that wait are to be looked at.
    #[inline(always)]
    pub(super) fn was_freed(&self) -> bool {
        self.freed.get() && self.freed.replace(false)
    }
}

/// What an accepted request holds until it is finished.
///
/// While its handler waits for an answer of another node it holds nothing: two nodes whose budgets
/// are full of handlers that call each other would wait for ever. The tables of open calls bound it
/// meanwhile.
pub(crate) struct Charge {
    purse: Rc<Purse>,
    session: Rc<Session>,
    bytes: u64,
    held: bool,
}

impl Charge {
    /// Gives back what is held, for a while.
    fn release(&mut self) {
        if std::mem::take(&mut self.held) {
            let Charge { purse, session, bytes, .. } = self;
            purse.with(|budget| session.with_share(|share| budget.release(share, *bytes)));
            purse.freed.set(true);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.release();
    }
}

impl Dispatcher {
    /// Takes room for a request of so many bytes that goes on as a task. Its handler was polled.
    pub(crate) fn charge(&self, session: &Rc<Session>, bytes: u64) -> Charge {
        let (purse, session) = (Rc::clone(&self.purse), Rc::clone(session));
        let mut charge = Charge { purse, session, bytes, held: false };
        self.charge_again(&mut charge);
        charge
    }

    /// The handler that holds this was polled, and waits on: for an answer, or for something here.
    pub(crate) fn charge_again(&self, charge: &mut Charge) {
        if self.polled.answer_awaited() {
            charge.release();
        } else if !std::mem::replace(&mut charge.held, true) {
            self.hold(&charge.session, charge.bytes);
        }
    }

    fn hold(&self, session: &Session, bytes: u64) {
        let had_room = self.purse.budget().has_room();
        self.purse.with(|budget| session.with_share(|share| budget.charge(share, bytes)));
        let budget = self.purse.budget();
        session.look_clear(&budget);
        self.close_if_full(had_room);
    }

    /// Something was charged, before which there was room or none: if that has filled the budget, no
    /// session accepts requests at once any more.
    pub(super) fn close_if_full(&self, had_room: bool) {
        let budget = self.purse.budget();
        if had_room && !budget.has_room() {
            for session in self.sessions() {
                session.look_clear(&budget);
            }
        }
    }

    /// A handler has to wait: it goes on as a task, until a deadline if its caller set one.
    #[cold]
    pub(crate) fn promote(
        self: &Rc<Self>,
        session: &Rc<Session>,
        live: Live,
        end: Option<u64>,
        reason: Reason,
    ) {
        if session.ended().is_some() {
            return self.forget_name();
        }
        self.count(reason.counter());
        if reason == Reason::Budget {
            session.stop_short();
        }
        self.take_in(session, live, end);
    }

    /// A request is run as a task at once, or begins anew as one: in front of the tasks that want to
    /// run, or behind them.
    pub(crate) fn start(
        self: &Rc<Self>,
        session: &Rc<Session>,
        live: Live,
        end: Option<u64>,
        why: Counter,
        in_front: bool,
    ) {
        if session.ended().is_some() {
            return self.forget_name();
        }
        self.count(why);
        if let Some(id) = self.take_in(session, live, end) {
            if in_front {
                self.front.borrow_mut().push_back(id);
            } else {
                self.ready.borrow_mut().push(id);
            }
            self.roster.keep(Priority::Normal);
        }
    }

    /// Takes in a handler as a task, until a deadline if its caller set one.
    fn take_in(
        self: &Rc<Self>,
        session: &Rc<Session>,
        live: Live,
        end: Option<u64>,
    ) -> Option<TaskId> {
        let call = live.task.caller().and_then(|caller| caller.call);
        let id = match self.take_name(live) {
            Ok(id) => id,
            Err(mut live) => {
                live.task.as_mut().cancel(Cancelled::NoRoom);
                return None;
            }
        };
        self.note_handler(id);
        let entered = match call {
            Some(call) => session.serving.borrow_mut().insert(call, id),
            None => {
                session.serving.borrow_mut().begin_oneway();
                Ok(())
            }
        };
        if let Err(rule) = entered {
            self.tasks.abandon(id);
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
        let mut expiries = self.expiries.borrow_mut();
        expiries.push(Reverse((at, task)));
        // Tasks that end before their time leave their entries behind.
        if expiries.len() > 64 && expiries.len() > 2 * self.tasks.len() {
            expiries.retain(|Reverse((_, task))| self.tasks.has(*task));
        }
    }

    /// Ends a handler's task then, and not when it was to end.
    pub(super) fn postpone(&self, task: TaskId, end: u64) {
        self.expiries.borrow_mut().retain(|Reverse((_, other))| *other != task);
        self.expire(task, end);
    }

    /// Lets a handler's task go on whose caller is gone, until then at most.
    pub(crate) fn leave_alone(&self, task: TaskId, until: u64) {
        self.count(Counter::OrphansLeft);
        self.expire(task, until);
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
