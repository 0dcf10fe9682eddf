//! Calls that this side has made and whose callees may ask for more time.
//!
//! `core::lease` decides what a callee is answered; this finds the loan of a call by its number, and answers. Nodes
//! and handles keep their loans here alike. Invariant: a call has a loan at most while its caller waits for it.

use super::Session;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::lease::{Above, Loan};
use upbeat_core::term::{Step, Term};
use upbeat_memory::pool::Key;

/// A call that a node serves: its session and its number.
pub(crate) type Served = (Option<Key>, u64);

/// The loans of a session by the numbers of their calls, each beside the call for whose handler it was made, if the
/// time of that handler is bounded.
pub(super) type Loans = RefCell<BTreeMap<u64, (Loan, Option<Served>)>>;

/// The loan of a call that a node has made. Dropped, it is forgotten.
pub(crate) struct Lent {
    session: Rc<Session>,
    call: CallNumber,
}

impl Lent {
    /// Notes that the callee of a call may ask for more time, as [`Session::lend`] does.
    pub(crate) fn new(
        session: &Rc<Session>,
        call: CallNumber,
        term: Term,
        above: Option<Served>,
    ) -> Lent {
        session.lend(call, term, above);
        Lent { session: Rc::clone(session), call }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.session.end_loan(self.call);
    }
}

impl Session {
    /// Notes that the callee of a call may ask for more time, and for whose handler the call was made.
    #[cold]
    pub(crate) fn lend(&self, call: CallNumber, term: Term, above: Option<Served>) {
        self.answers.loans.borrow_mut().insert(call.as_u64(), (Loan::new(term), above));
    }

    /// Forgets the loan of a call that is over.
    #[inline]
    pub(crate) fn end_loan(&self, call: CallNumber) {
        self.answers.loans.borrow_mut().remove(&call.as_u64());
    }

    /// Returns when a call ends, if its callee may ask for more time.
    pub(crate) fn end_of(&self, call: CallNumber) -> Option<u64> {
        self.answers.loans.borrow().get(&call.as_u64()).map(|(loan, _)| loan.end())
    }

    /// Decides what the callee of a call is answered that asks for it to last until `wanted`. The answer may lie with
    /// the caller of another call, which this side serves. `end_above` says when the handler of that call ends.
    pub(crate) fn extension_asked(
        &self,
        call: CallNumber,
        wanted: u64,
        end_above: impl FnOnce(Served) -> Option<u64>,
    ) -> (Step, Option<Served>) {
        let mut loans = self.answers.loans.borrow_mut();
        let Some((loan, above)) = loans.get_mut(&call.as_u64()) else {
            return (Loan::asked(None, wanted, Above::Nobody), None);
        };
        let ends = match above.map(end_above) {
            None => Above::Nobody,
            Some(None) => Above::Gone,
            Some(Some(end)) => Above::Ends(end),
        };
        (Loan::asked(Some(loan), wanted, ends), *above)
    }

    /// Decides what the callee of a call is answered, now that the call for whose handler it was made ends at `end`,
    /// or nobody can say.
    pub(crate) fn extension_told(&self, call: CallNumber, wanted: u64, end: Option<u64>) -> Step {
        let mut loans = self.answers.loans.borrow_mut();
        let loan = loans.get_mut(&call.as_u64());
        loan.map_or(Step::Refused, |(loan, _)| loan.told(wanted, end))
    }

    /// Tells the callee of a call how much time that has from `now` on, or that it has no more than it had.
    pub(crate) fn say_extended(&self, call: CallNumber, step: Step, now: u64) {
        let left = step.left(now).map_or(0, |left| (left / 1000).max(1));
        self.say_time(Head::extended(call), left);
    }

    /// Sends a frame of control whose payload is a time in microseconds.
    pub(crate) fn say_time(&self, head: Head, microseconds: u64) {
        if self.ended().is_none() {
            self.send_surely(head, microseconds.to_le_bytes().to_vec());
        }
    }
}
