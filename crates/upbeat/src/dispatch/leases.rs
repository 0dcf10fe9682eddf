//! Deadlines that a callee asks its caller to have extended.
//!
//! A call that may be extended is a *loan* where it was made and a *lease* where it is served. A
//! handler asks through its lease, over the session of its call; what it has called for that asks its
//! loan, which asks the lease of the handler that made it where the answer lies above. Who may what is
//! decided in `core::term`. Invariant: each question is answered once; one of a lease is under way at a
//! time; what is gone refuses.

use super::{Dispatcher, Request};
use crate::session::Session;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::term::{Step, Term};
use upbeat_memory::pool::Key;

/// A call by its session and number.
type Of = (Option<Key>, u64);

/// Of a node.
#[derive(Default)]
pub(super) struct Extensible {
    leases: RefCell<BTreeMap<Of, Weak<Lease>>>,
    loans: RefCell<BTreeMap<Of, Weak<Loan>>>,
}

fn of(session: &Session, call: CallNumber) -> Of {
    (session.key.get(), call.as_u64())
}

/// A call that is served and whose time may be extended. Its handler keeps it.
pub(crate) struct Lease {
    node: Rc<Dispatcher>,
    session: Rc<Session>,
    call: CallNumber,
    end: Cell<u64>,
    /// The first is under way.
    asks: RefCell<VecDeque<Ask>>,
}

/// A question: until when, and whose.
struct Ask {
    wanted: u64,
    whose: Whose,
}

enum Whose {
    Handler(Rc<Reply>),
    Loan(Rc<Loan>),
}

/// What a handler is told: whether it was granted.
#[derive(Default)]
pub(crate) struct Reply {
    said: Cell<Option<bool>>,
    waker: Cell<Option<Waker>>,
}

impl Reply {
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<bool> {
        match self.said.get() {
            Some(said) => Poll::Ready(said),
            None => {
                self.waker.set(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }

    fn say(&self, granted: bool) {
        self.said.set(Some(granted));
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

impl Lease {
    /// When the call ends.
    pub(crate) fn end(&self) -> u64 {
        self.end.get()
    }

    /// Asks for a handler's own time to last so many nanoseconds from now on. None if it does.
    pub(crate) fn ask(&self, nanoseconds: u64) -> Option<Rc<Reply>> {
        let wanted = self.node.now_ns().saturating_add(nanoseconds);
        if wanted <= self.end.get() {
            return None;
        }
        let reply = Rc::<Reply>::default();
        self.enter(Ask { wanted, whose: Whose::Handler(Rc::clone(&reply)) });
        Some(reply)
    }

    fn enter(&self, ask: Ask) {
        if self.session.ended().is_some() {
            return self.refuse(ask);
        }
        let wanted = ask.wanted;
        let first = {
            let mut asks = self.asks.borrow_mut();
            asks.push_back(ask);
            asks.len() == 1
        };
        if first {
            self.send(wanted);
        }
    }

    fn send(&self, wanted: u64) {
        let left = wanted.saturating_sub(self.node.now_ns()).div_ceil(1000);
        self.node.tell(&self.session, Head::extend(self.call), left);
    }

    /// The caller has answered: the call has so many microseconds from now on, or no more than before.
    fn answered(&self, microseconds: u64) {
        let Some(ask) = self.asks.borrow_mut().pop_front() else { return };
        let end = self.node.end_of(microseconds);
        if microseconds != 0 && end > self.end.get() {
            self.end.set(end);
            let task = self.session.serving.borrow_mut().task_mut(self.call).copied();
            task.into_iter().for_each(|task| self.node.postpone(task, end));
        }
        self.say(ask, microseconds != 0);
        loop {
            let next = self.asks.borrow().front().map(|ask| ask.wanted);
            match next {
                Some(wanted) if wanted <= self.end.get() => {
                    let ask = self.asks.borrow_mut().pop_front();
                    ask.into_iter().for_each(|ask| self.say(ask, true));
                }
                Some(wanted) => return self.send(wanted),
                None => return,
            }
        }
    }

    fn say(&self, Ask { wanted, whose }: Ask, granted: bool) {
        match whose {
            Whose::Handler(reply) => reply.say(granted),
            Whose::Loan(loan) => {
                loan.asks.set(false);
                let mut term = loan.term.get();
                let step = term.settle(wanted, self.end.get());
                loan.term.set(term);
                self.node.say_extended(&loan.session, loan.call, step);
            }
        }
    }

    /// Nobody answers any more. What is called in the handler's name has no more time than it had either:
    /// the handler may end sooner now than its call would have.
    fn refuse(&self, ask: Ask) {
        match ask.whose {
            Whose::Handler(reply) => reply.say(false),
            Whose::Loan(loan) => {
                loan.asks.set(false);
                self.node.say_extended(&loan.session, loan.call, Step::Refused);
            }
        }
    }

    /// The same for all who ask.
    pub(crate) fn close(&self) {
        let asks = self.asks.take();
        asks.into_iter().for_each(|ask| self.refuse(ask));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.node.extensible.leases.borrow_mut().remove(&of(&self.session, self.call));
        self.close();
    }
}

/// A call that was made and whose callee may ask for more time. The call keeps it.
pub(crate) struct Loan {
    node: Rc<Dispatcher>,
    session: Rc<Session>,
    call: CallNumber,
    term: Cell<Term>,
    /// The handler that made it, if that one's time is bounded.
    above: Option<Weak<Lease>>,
    /// Whether it was asked above, and there is no answer yet.
    asks: Cell<bool>,
}

impl Loan {
    /// When the call ends.
    pub(crate) fn end(&self) -> u64 {
        self.term.get().end()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.node.extensible.loans.borrow_mut().remove(&of(&self.session, self.call));
    }
}

impl Request<'_> {
    /// What its handler asks by for more time, if it may.
    pub(crate) fn lease(&self, node: &Rc<Dispatcher>, session: &Rc<Session>) -> Option<Rc<Lease>> {
        let left = self.deadline_us.filter(|_| self.extendable)?;
        let (call, end) = (self.call, Cell::new(node.end_of(left)));
        let (node, session) = (Rc::clone(node), Rc::clone(session));
        let lease = Rc::new(Lease { node, session, call, end, asks: RefCell::default() });
        let leases = &lease.node.extensible.leases;
        leases.borrow_mut().insert(of(&lease.session, call), Rc::downgrade(&lease));
        Some(lease)
    }
}

impl Dispatcher {
    /// A call was made whose callee may ask for more time.
    pub(crate) fn lend(
        self: &Rc<Self>,
        session: &Rc<Session>,
        call: CallNumber,
        term: Term,
        above: Option<&Rc<Lease>>,
    ) -> Rc<Loan> {
        let above = above.map(Rc::downgrade);
        let (node, session, term) = (Rc::clone(self), Rc::clone(session), Cell::new(term));
        let loan = Rc::new(Loan { node, session, call, term, above, asks: Cell::new(false) });
        let at = of(&loan.session, call);
        self.extensible.loans.borrow_mut().insert(at, Rc::downgrade(&loan));
        loan
    }

    /// A callee asks for more time. Its frame lies open.
    pub(super) fn extension_asked(self: &Rc<Self>, session: &Rc<Session>, head: &Head) {
        let wanted = self.end_of(session.first_word());
        let loan = self.extensible.loans.borrow().get(&of(session, head.call)).cloned();
        let step = match loan.and_then(|loan| loan.upgrade()) {
            // One question of a call at a time.
            Some(loan) if !loan.asks.get() => match loan.above.as_ref().map(Weak::upgrade) {
                // The handler that made it is gone.
                Some(None) => Step::Refused,
                above => match self.ask_loan(&loan, wanted, above.flatten()) {
                    Some(step) => step,
                    None => return,
                },
            },
            _ => Step::Refused,
        };
        self.say_extended(session, head.call, step);
    }

    /// What is said to a callee that asks. None if that is asked above.
    fn ask_loan(&self, loan: &Rc<Loan>, wanted: u64, above: Option<Rc<Lease>>) -> Option<Step> {
        let mut term = loan.term.get();
        let step = term.extend(wanted, above.as_ref().map(|lease| lease.end()));
        loan.term.set(term);
        match (step, above) {
            (Step::Above(wanted), Some(lease)) => {
                loan.asks.set(true);
                lease.enter(Ask { wanted, whose: Whose::Loan(Rc::clone(loan)) });
                None
            }
            (step, _) => Some(step),
        }
    }

    fn say_extended(self: &Rc<Self>, session: &Rc<Session>, call: CallNumber, step: Step) {
        let left = step.left(self.now_ns()).map_or(0, |left| (left / 1000).max(1));
        self.tell(session, Head::extended(call), left);
    }

    /// A caller has answered. Its frame lies open. What asked may be gone.
    pub(super) fn extension_answered(&self, session: &Session, head: &Head) {
        let lease = self.extensible.leases.borrow().get(&of(session, head.call)).cloned();
        if let Some(lease) = lease.and_then(|lease| lease.upgrade()) {
            lease.answered(session.first_word());
        }
    }

    fn tell(self: &Rc<Self>, session: &Rc<Session>, head: Head, microseconds: u64) {
        if session.ended().is_none() {
            session.send_surely(head, microseconds.to_le_bytes().to_vec());
            self.sent(session);
        }
    }
}
