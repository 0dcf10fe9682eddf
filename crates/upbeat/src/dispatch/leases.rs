//! Deadlines that a callee asks its caller to extend.
//!
//! A call that may be extended is a *loan* at its caller and a *lease* at its callee. A
//! handler asks through its lease, over the session of its call. A callee that the handler itself has called asks
//! the loan of that call, and the loan asks the handler's lease where only the caller above can answer. `core::lease`
//! decides questions and answers; this file finds leases by their calls, and passes answers on. The session of a
//! call keeps its loan.

use super::{Dispatcher, Request};
use crate::contain::wake;
use crate::session::{Served, Session};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::lease::{self, LeaseAnswer, Next};
use upbeat_core::mutant::{Mutant, mutated};

/// The calls that are served here and whose deadlines may be extended.
pub(super) type Leases = RefCell<BTreeMap<Served, Weak<Lease>>>;

fn served(session: &Session, call: CallNumber) -> Served {
    (session.noted.key.get(), call.as_u64())
}

/// A call that is served and whose deadline may be extended. Its handler keeps it.
pub(crate) struct Lease {
    node: Rc<Dispatcher>,
    session: Rc<Session>,
    call: CallNumber,
    lease: RefCell<lease::Lease<Whose>>,
}

/// The source of a question.
enum Whose {
    Handler(Rc<Reply>),
    /// The callee of a call that the handler has made.
    Callee(Rc<Session>, CallNumber),
}

/// The answer to a handler: whether its extension was granted.
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
        self.waker.take().into_iter().for_each(wake);
    }
}

impl Lease {
    /// Returns the call.
    pub(crate) fn served(&self) -> Served {
        served(&self.session, self.call)
    }

    /// Returns the deadline of the call.
    pub(crate) fn end(&self) -> u64 {
        self.lease.borrow().end()
    }

    /// Asks for so many more nanoseconds from now for the handler itself. Returns `None` if it has them already.
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

    /// Handles the questions that wait.
    fn go_on(&self) {
        loop {
            let next = self.lease.borrow_mut().poll_next();
            match next {
                Some(Next::Tell(told)) => self.say(told),
                Some(Next::Send(wanted)) => {
                    let left = wanted.saturating_sub(self.node.now_ns()).div_ceil(1000);
                    self.session.say_time(Head::extend(self.call), left);
                    self.node.sent(&self.session);
                }
                None => return,
            }
        }
    }

    /// Handles the caller's answer: the call has so many microseconds from now on, or no more than before for 0.
    fn answered(&self, microseconds: u64) {
        let before = self.end();
        let end = (microseconds != 0).then(|| self.node.end_of(microseconds));
        let answered = self.lease.borrow_mut().answered(end);
        let Some(told) = answered else { return };
        if self.end() > before {
            let task = self.session.serving().task_mut(self.call).copied();
            if !mutated(Mutant::ExtensionUnnoted) {
                task.into_iter().for_each(|task| self.node.postpone(task, self.end()));
            }
        }
        self.say(told);
        self.go_on();
    }

    fn say(&self, LeaseAnswer { whose, wanted, granted, end }: LeaseAnswer<Whose>) {
        match whose {
            Whose::Handler(reply) => reply.say(granted),
            Whose::Callee(session, call) => {
                if mutated(Mutant::AnswerNotPassed) {
                    return;
                }
                let step = session.extension_told(call, wanted, end);
                session.say_extended(call, step, self.node.now_ns());
                self.node.sent(&session);
            }
        }
    }

    /// Refuses all questions, because no answer can arrive any more.
    pub(crate) fn close(&self) {
        let told = self.lease.borrow_mut().close();
        told.for_each(|told| self.say(told));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.node.run.leases.borrow_mut().remove(&self.served());
        self.close();
    }
}

impl Request<'_> {
    /// Returns the lease by which the handler asks for more time, if it may.
    pub(crate) fn lease(&self, node: &Rc<Dispatcher>, session: &Rc<Session>) -> Option<Rc<Lease>> {
        let left = self.deadline_us.filter(|_| self.extendable)?;
        let (call, lease) = (self.call, RefCell::new(lease::Lease::new(node.end_of(left))));
        let (node, session) = (Rc::clone(node), Rc::clone(session));
        let lease = Rc::new(Lease { node, session, call, lease });
        let leases = &lease.node.run.leases;
        leases.borrow_mut().insert(lease.served(), Rc::downgrade(&lease));
        Some(lease)
    }
}

impl Dispatcher {
    /// Returns the lease of a call that is served, if its handler may still ask for more time.
    pub(super) fn lease(&self, served: Served) -> Option<Rc<Lease>> {
        self.run.leases.borrow().get(&served)?.upgrade()
    }

    /// Asks the caller of a call that is served for more time, in the name of the callee of a call that the handler
    /// has made.
    pub(super) fn ask_above(
        &self,
        served: Served,
        wanted: u64,
        (session, call): (&Rc<Session>, CallNumber),
    ) {
        if let Some(lease) = self.lease(served) {
            lease.enter(wanted, Whose::Callee(Rc::clone(session), call));
        }
    }

    /// Handles a caller's answer, whose frame lies open. The handler that asked may be gone.
    pub(super) fn extension_answered(&self, session: &Session, head: &Head) {
        if let Some(lease) = self.lease(served(session, head.call)) {
            lease.answered(session.first_word());
        }
    }
}
