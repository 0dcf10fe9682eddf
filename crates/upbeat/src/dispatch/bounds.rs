//! Deadlines that handlers have of their callers, and hand on to what they call.
//!
//! A call that is made while such a handler is polled has no more time than is left of the handler's
//! own, whatever it was given. Invariant: when nobody of that kind is polled, there is no bound.

use super::Dispatcher;
use super::leases::Lease;
use crate::task::Cancelled;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use upbeat_core::bill::Counter;
use upbeat_memory::ticks::Ticks;

/// The end of the time of the handler that is polled, by the node's clock, and by what it may ask for
/// more.
pub(super) struct Bound(Cell<u64>, RefCell<Option<Rc<Lease>>>);

const NONE: u64 = u64::MAX;

impl Default for Bound {
    fn default() -> Bound {
        Bound(Cell::new(NONE), RefCell::default())
    }
}

impl Dispatcher {
    /// When so many microseconds are over.
    pub(crate) fn end_of(&self, microseconds: u64) -> u64 {
        self.now_ns().saturating_add(microseconds.saturating_mul(1000))
    }

    /// What is polled from here on has time until then.
    pub(crate) fn bound_by(&self, end: u64, lease: Option<&Rc<Lease>>) {
        self.run.bound.0.set(end);
        self.run.bound.1.replace(lease.cloned());
        self.account.sampling.divert(true);
    }

    /// It was polled.
    pub(crate) fn unbound(&self) {
        self.run.bound.0.set(NONE);
        self.run.bound.1.take();
        self.account.sampling.divert(false);
    }

    /// When the handler that is polled ends, if its caller bounded it, and by what it may ask for more.
    pub(crate) fn bound(&self) -> Option<(u64, Option<Rc<Lease>>)> {
        match self.run.bound.0.get() {
            NONE => None,
            end => Some((end, self.run.bound.1.borrow().clone())),
        }
    }

    /// A handler that had run so many ticks as a task was ended before it was done.
    pub(crate) fn orphaned(&self, why: Cancelled, ran: u64) {
        // Those are counted where they are found.
        if why == Cancelled::Panicked {
            return;
        }
        self.count(why.counter());
        self.ran_in_vain(ran);
    }

    /// A handler had run so many ticks as a task, and nobody takes its result.
    pub(crate) fn ran_in_vain(&self, ran: u64) {
        let wasted = Duration::from(Ticks(ran)).as_nanos() as u64;
        self.count_more(Counter::OrphanTime, wasted);
    }

    /// The microseconds that are left to the handler that is polled, if its caller bounded it.
    pub(crate) fn time_left_us(&self) -> Option<u64> {
        match self.run.bound.0.get() {
            NONE => None,
            end => Some(end.saturating_sub(self.now_ns()) / 1000),
        }
    }
}
