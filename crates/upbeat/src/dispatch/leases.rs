//! Deadlines that a callee asks its caller to have extended.
//!
//! A call that may be extended is a *loan* where it was made and a *lease* where it is served. A
//! handler asks through its lease, over the session of its call; what it has called for that asks its
//! loan, which asks the lease of the handler that made it where the answer lies above. What is asked and
//! answered is decided in `core::lease`; this finds leases and loans by their calls, and tells.

use super::{Dispatcher, Request};
use crate::session::Session;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::lease::{self, Above, Next, Told};
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
    (session.noted.key.get(), call.as_u64())
}

/// A call that is served and whose time may be extended. Its handler keeps it.
pub(crate) struct Lease {
    node: Rc<Dispatcher>,
    session: Rc<Session>,
    call: CallNumber,
    lease: RefCell<lease::Lease<Whose>>,
}

/// Whose question it is.
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
        self.lease.borrow().end()
    }

    /// Asks for a handler's own time to last so many nanoseconds from now on. None if it does.
    pub(crate) fn ask(&self, nanoseconds: u64) -> Option<Rc<Reply>> {
        let wanted = self.node.now_ns().saturating_add(nanoseconds);
        if wanted <= self.end() {
            return None;
        }
        let reply = Rc::<Reply>::default();
        self.enter(wanted, Whose::Handler(Rc::clone(&reply)));
        Some(reply)
    }

    fn enter(&self, wanted: u64, whose: Whose) {
        self.lease.borrow_mut().ask(wanted, whose);
        match self.session.ended() {
            Some(_) => self.close(),
            None => self.go_on(),
        }
    }

    /// Does what there is to do for the questions that wait.
    fn go_on(&self) {
        loop {
            let next = self.lease.borrow_mut().poll_next();
            match next {
                Some(Next::Tell(told)) => self.say(told),
                Some(Next::Send(wanted)) => {
                    let left = wanted.saturating_sub(self.node.now_ns()).div_ceil(1000);
                    self.node.tell(&self.session, Head::extend(self.call), left);
                }
                None => return,
            }
        }
    }

    /// The caller has answered: the call has so many microseconds from now on, or no more than before.
    fn answered(&self, microseconds: u64) {
        let before = self.end();
        let end = (microseconds != 0).then(|| self.node.end_of(microseconds));
        let answered = self.lease.borrow_mut().answered(end);
        let Some(told) = answered else { return };
        if self.end() > before {
            let task = self.session.serving().task_mut(self.call).copied();
            task.into_iter().for_each(|task| self.node.postpone(task, self.end()));
        }
        self.say(told);
        self.go_on();
    }

    fn say(&self, Told { whose, wanted, granted, end }: Told<Whose>) {
        match whose {
            Whose::Handler(reply) => reply.say(granted),
            Whose::Loan(loan) => {
                let mut state = loan.loan.get();
                let step = state.told(wanted, end);
                loan.loan.set(state);
                self.node.say_extended(&loan.session, loan.call, step);
            }
        }
    }

    /// Nobody answers any more: all who ask are refused.
    pub(crate) fn close(&self) {
        let told = self.lease.borrow_mut().close();
        told.for_each(|told| self.say(told));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.node.run.extensible.leases.borrow_mut().remove(&of(&self.session, self.call));
        self.close();
    }
}

/// A call that was made and whose callee may ask for more time. The call keeps it.
pub(crate) struct Loan {
    node: Rc<Dispatcher>,
    session: Rc<Session>,
    call: CallNumber,
    loan: Cell<lease::Loan>,
    /// The handler that made it, if that one's time is bounded.
    above: Option<Weak<Lease>>,
}

impl Loan {
    /// When the call ends.
    pub(crate) fn end(&self) -> u64 {
        self.loan.get().end()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.node.run.extensible.loans.borrow_mut().remove(&of(&self.session, self.call));
    }
}

impl Request<'_> {
    /// What its handler asks by for more time, if it may.
    pub(crate) fn lease(&self, node: &Rc<Dispatcher>, session: &Rc<Session>) -> Option<Rc<Lease>> {
        let left = self.deadline_us.filter(|_| self.extendable)?;
        let (call, lease) = (self.call, RefCell::new(lease::Lease::new(node.end_of(left))));
        let (node, session) = (Rc::clone(node), Rc::clone(session));
        let lease = Rc::new(Lease { node, session, call, lease });
        let leases = &lease.node.run.extensible.leases;
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
        let (node, session) = (Rc::clone(self), Rc::clone(session));
        let loan = Cell::new(lease::Loan::new(term));
        let loan = Rc::new(Loan { node, session, call, loan, above });
        let at = of(&loan.session, call);
        self.run.extensible.loans.borrow_mut().insert(at, Rc::downgrade(&loan));
        loan
    }

    /// A callee asks for more time. Its frame lies open.
    pub(super) fn extension_asked(self: &Rc<Self>, session: &Rc<Session>, head: &Head) {
        let wanted = self.end_of(session.first_word());
        let loan = self.run.extensible.loans.borrow().get(&of(session, head.call)).cloned();
        let Some(loan) = loan.and_then(|loan| loan.upgrade()) else {
            let step = lease::Loan::asked(None, wanted, Above::Nobody);
            return self.say_extended(session, head.call, step);
        };
        let above = loan.above.as_ref().map(Weak::upgrade);
        let ends = match &above {
            None => Above::Nobody,
            Some(None) => Above::Gone,
            Some(Some(lease)) => Above::Ends(lease.end()),
        };
        let mut state = loan.loan.get();
        let step = lease::Loan::asked(Some(&mut state), wanted, ends);
        loan.loan.set(state);
        match (step, above.flatten()) {
            (Step::Above(wanted), Some(lease)) => lease.enter(wanted, Whose::Loan(loan)),
            (step, _) => self.say_extended(session, head.call, step),
        }
    }

    fn say_extended(self: &Rc<Self>, session: &Rc<Session>, call: CallNumber, step: Step) {
        let left = step.left(self.now_ns()).map_or(0, |left| (left / 1000).max(1));
        self.tell(session, Head::extended(call), left);
    }

    /// A caller has answered. Its frame lies open. What asked may be gone.
    pub(super) fn extension_answered(&self, session: &Session, head: &Head) {
        let lease = self.run.extensible.leases.borrow().get(&of(session, head.call)).cloned();
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
