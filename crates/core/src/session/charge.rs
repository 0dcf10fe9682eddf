//! The bytes that an accepted request holds of the budgets until its handler has finished.

use super::{Session, Side};
use crate::flow::SharedBudget;
use crate::mutant::{Mutant, mutated};

/// The charge of a handler that has become a task.
///
/// While the handler waits for a reply of another node it holds nothing. Otherwise two nodes whose budgets are
/// full of handlers that call each other would wait for ever. The tables of open calls bound such handlers.
/// Invariant: every released byte was charged before.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    bytes: u64,
    held: bool,
}

impl Charge {
    /// Creates the charge of a request of `bytes` bytes, none of which is held yet.
    pub const fn new(bytes: u64) -> Charge {
        Charge { bytes, held: false }
    }

    /// Returns the bytes that are held now.
    #[inline]
    pub const fn held(&self) -> u64 {
        if self.held { self.bytes } else { 0 }
    }

    /// Records that the handler was polled and has not finished. If it waits for a reply of another node it holds
    /// nothing; otherwise it is charged, whatever the budgets allow.
    #[inline(always)]
    pub fn polled<S: Side>(
        &mut self,
        awaits_reply: bool,
        session: &Session<S>,
        shared_budget: &SharedBudget,
    ) {
        if awaits_reply && !mutated(Mutant::WaitingCounted) {
            self.release(session, shared_budget);
        } else if !self.held {
            self.held = true;
            hold(self.bytes, session, shared_budget);
        }
    }

    /// Releases the held bytes.
    #[inline(always)]
    pub fn release<S: Side>(&mut self, session: &Session<S>, shared_budget: &SharedBudget) {
        if core::mem::take(&mut self.held) {
            give_back(self.bytes, session, shared_budget);
        }
    }
}

#[inline(never)]
fn hold<S: Side>(bytes: u64, session: &Session<S>, shared_budget: &SharedBudget) {
    shared_budget.with(|budget| {
        session.inbound().with_share(|share| budget.charge(share, bytes));
    });
    session.look_clear(shared_budget);
}

#[inline(never)]
fn give_back<S: Side>(bytes: u64, session: &Session<S>, shared_budget: &SharedBudget) {
    shared_budget.with(|budget| {
        session.inbound().with_share(|share| budget.release(share, bytes));
    });
}
