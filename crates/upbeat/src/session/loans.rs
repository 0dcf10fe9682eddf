//! Calls of this side whose callees may ask for more time.
//!
//! `core::lease` decides the answer to a callee; this module finds the loan of a call by its number, and sends the
//! answer. Nodes and handles share it. Invariant: a call has a loan only while its caller waits for it.

use super::Session;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::lease::{CallingHandler, Loan};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::term::{Step, Term};
use upbeat_memory::local::Local;
use upbeat_memory::pool::Key;

/// A call that a node serves: its session and its number.
pub(crate) type Served = (Option<Key>, u64);

/// The loans of a session by the numbers of their calls, each with the call whose handler made it, if the time of
/// that handler is bounded.
pub(super) type Loans = RefCell<BTreeMap<u64, (Loan, Option<Served>)>>;

/// The loan of a call that a node has made. Dropping it removes the loan.
pub(crate) struct Lent {
    session: Local<Rc<Session>>,
    call: CallNumber,
}

impl Lent {
    /// Registers a call whose callee may ask for more time, as [`Session::lend`] does.
    pub(crate) fn new(
        session: &Rc<Session>,
        call: CallNumber,
        term: Term,
        above: Option<Served>,
    ) -> Lent {
        session.lend(call, term, above);
        Lent { session: Rc::clone(session).into(), call }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.session.end_loan(self.call);
    }
}

impl Session {
    /// Registers a call whose callee may ask for more time, with the call whose handler made it.
    #[cold]
    pub(crate) fn lend(&self, call: CallNumber, term: Term, above: Option<Served>) {
        self.answers.loans.borrow_mut().insert(call.as_u64(), (Loan::new(term), above));
    }

    /// Removes the loan of a call that is over.
    #[inline]
    pub(crate) fn end_loan(&self, call: CallNumber) {
        self.answers.loans.borrow_mut().remove(&call.as_u64());
    }

    /// Returns the end of a call, if its callee may ask for more time.
    pub(crate) fn end_of(&self, call: CallNumber) -> Option<u64> {
        let end = self.answers.loans.borrow().get(&call.as_u64()).map(|(loan, _)| loan.end());
        end.filter(|_| !mutated(Mutant::PutOffUnseen))
    }

    /// Decides the answer to the callee of a call that asks for an extension until `wanted`. The decision may need
    /// the caller of another call, which this side serves. `end_above` returns when the handler of that call ends.
    pub(crate) fn extension_asked(
        &self,
        call: CallNumber,
        wanted: u64,
        end_above: impl FnOnce(Served) -> Option<u64>,
    ) -> (Step, Option<Served>) {
        let mut loans = self.answers.loans.borrow_mut();
        let Some((loan, above)) = loans.get_mut(&call.as_u64()) else {
            return (Loan::asked(None, wanted, CallingHandler::Nobody), None);
        };
        let ends = match above.map(end_above) {
            None => CallingHandler::Nobody,
            Some(None) => CallingHandler::Gone,
            Some(Some(end)) => CallingHandler::Ends(end),
        };
        (Loan::asked(Some(loan), wanted, ends), *above)
    }

    /// Decides the answer to the callee of a call, after the call whose handler made it was extended to `end`, or
    /// could not be extended.
    pub(crate) fn extension_told(&self, call: CallNumber, wanted: u64, end: Option<u64>) -> Step {
        let mut loans = self.answers.loans.borrow_mut();
        let loan = loans.get_mut(&call.as_u64());
        loan.map_or(Step::Refused, |(loan, _)| loan.told(wanted, end))
    }

    /// Tells the callee of a call how much time it has from `now` on, or that it gets no more.
    pub(crate) fn say_extended(&self, call: CallNumber, step: Step, now: u64) {
        let left = step.left(now).map_or(0, |left| left.div_ceil(1000).max(1));
        self.say_time(Head::extended(call), left);
    }

    /// Sends a control frame whose payload is a time in microseconds.
    pub(crate) fn say_time(&self, head: Head, microseconds: u64) {
        if self.ended().is_none() {
            self.send_surely(head, microseconds.to_le_bytes().to_vec());
        }
    }
}
