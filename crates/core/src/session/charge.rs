//! The bytes that an accepted request holds of the budgets until its handler has finished.

use super::{Session, Side};
use crate::flow::SharedBudget;
use crate::mutant::{Mutant, mutated};

/// An event for which a handler waits, as far as its charge depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// A reply of another node, or room there.
    Reply,
    /// Another handler of its node: a lock, a condition, or a signal.
    Handler,
    /// Any other event.
    Other,
}

/// The charge of a handler that has become a task.
///
/// While the handler waits for a reply of another node it holds nothing. Otherwise two nodes whose budgets are
/// full of handlers that call each other would wait for ever. The tables of open calls bound such handlers. While it
/// waits for another handler, its session is admitted as if it did not hold these bytes.
/// Invariant: every released byte was charged before.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    bytes: u64,
    held: bool,
    awaits_handler: bool,
}

impl Charge {
    /// Creates the charge of a request of `bytes` bytes, none of which is held yet.
    pub const fn new(bytes: u64) -> Charge {
        Charge { bytes, held: false, awaits_handler: false }
    }

    /// Returns the bytes that are held now.
    #[inline]
    pub const fn held(&self) -> u64 {
        if self.held { self.bytes } else { 0 }
    }

    /// Records that the handler was polled and has not finished, and what it waits for. If this is a reply of another
    /// node it holds nothing; otherwise it is charged, whatever the budgets allow.
    #[inline(always)]
    pub fn polled<S: Side>(
        &mut self,
        awaits: Awaits,
        session: &Session<S>,
        shared_budget: &SharedBudget,
    ) {
        if awaits == Awaits::Reply && !mutated(Mutant::WaitingCounted) {
            self.release(session, shared_budget);
        } else if !self.held || self.awaits_handler != (awaits == Awaits::Handler) {
            self.hold(awaits == Awaits::Handler, session, shared_budget);
        }
    }

    #[inline(never)]
    fn hold<S: Side>(
        &mut self,
        awaits_handler: bool,
        session: &Session<S>,
        shared_budget: &SharedBudget,
    ) {
        let was_held = core::mem::replace(&mut self.held, true);
        let awaited_handler = core::mem::replace(&mut self.awaits_handler, awaits_handler);
        shared_budget.with(|budget| {
            session.inbound().with_share(|share| {
                if !was_held {
                    budget.charge(share, self.bytes);
                }
                if awaits_handler {
                    share.begin_waiting(self.bytes);
                } else if awaited_handler {
                    share.end_waiting(self.bytes);
                }
            });
        });
        if awaits_handler && !shared_budget.budget().has_room() {
            shared_budget.admit_more();
        }
        session.look_clear(shared_budget);
    }

    /// Releases the held bytes.
    #[inline(always)]
    pub fn release<S: Side>(&mut self, session: &Session<S>, shared_budget: &SharedBudget) {
        if core::mem::take(&mut self.held) {
            self.give_back(session, shared_budget);
        }
    }

    #[inline(never)]
    fn give_back<S: Side>(&mut self, session: &Session<S>, shared_budget: &SharedBudget) {
        let awaited_handler = core::mem::take(&mut self.awaits_handler);
        shared_budget.with(|budget| {
            session.inbound().with_share(|share| {
                budget.release(share, self.bytes);
                if awaited_handler {
                    share.end_waiting(self.bytes);
                }
            });
        });
    }
}
