//! Handshakes under way and their purposes, and the sessions that wait for another connection.

use crate::contain::wake;
use crate::remote::{Addresses, Place};
use crate::session::Session;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use upbeat_core::address::NodeAddress;
use upbeat_core::resume::Attempt;
use upbeat_memory::pool::Key;
use upbeat_transport::error::OpenError;
use upbeat_transport::opening::Opening;

/// A handshake under way.
pub(super) struct Pending {
    pub(super) opening: Opening,
    pub(super) purpose: Purpose,
}

impl Pending {
    /// Returns when the handshake has lasted too long.
    pub(super) fn ends_ns(&self) -> u64 {
        self.opening.deadline_ms().saturating_mul(1_000_000)
    }

    /// Returns whether a caller of another host has begun the handshake.
    pub(super) fn is_from_other_host(&self) -> bool {
        matches!(self.purpose, Purpose::Caller) && self.opening.is_remote()
    }

    /// Tells the session that is to be resumed whether its host has answered.
    pub(super) fn note_answer(&self) {
        if let Purpose::Again(again) = &self.purpose
            && let Some(heard_ms) = self.opening.under_way().heard_ms
        {
            again.session.link(|link| link.answered(heard_ms.saturating_mul(1_000_000)));
        }
    }
}

/// The purpose of a handshake.
pub(super) enum Purpose {
    /// A caller wants a session, or resumes one.
    Caller,
    /// This node opens a session, for which futures wait.
    Session(Rc<Connecting>),
    /// This node resumes a session that it has opened.
    Again(Again),
}

/// An attempt to resume a session.
pub(super) struct Again {
    pub(super) session: Rc<Session>,
    pub(super) attempt: Attempt,
    pub(super) place: Place,
}

/// A connection that this node opens, shared by all futures that wait for it.
pub(crate) struct Connecting {
    pub(super) to: NodeAddress,
    outcome: OnceCell<Result<Rc<Session>, OpenError>>,
    wakers: RefCell<Vec<Waker>>,
}

impl Connecting {
    pub(super) fn new(to: NodeAddress) -> Connecting {
        Connecting { to, outcome: OnceCell::new(), wakers: RefCell::default() }
    }

    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<Rc<Session>, OpenError>> {
        let outcome = self.outcome.get().cloned();
        let knows = || self.wakers.borrow().iter().any(|known| known.will_wake(waker));
        if outcome.is_none() && !knows() {
            let waker = waker.clone();
            self.wakers.borrow_mut().push(waker);
        }
        outcome
    }

    pub(super) fn end(&self, outcome: Result<Rc<Session>, OpenError>) {
        // An opening ends once.
        let _ = self.outcome.set(outcome);
        self.wakers.take().into_iter().for_each(wake);
    }
}

/// A session that has lost its connection and waits for another.
pub(super) struct Suspended {
    pub(super) session: Rc<Session>,
    /// The attempts under way, by the keys of their openings.
    pub(super) attempts: Vec<Key>,
    /// The addresses at which this node connects again. None if the peer does.
    pub(super) addresses: Option<Addresses>,
}
