//! Deadlines and contexts that handlers get from their callers, and pass on to their own calls.
//!
//! A call that such a handler makes has no more time than the handler has left,
//! whatever its own deadline, and carries the handler's context. Tasks that the handler spawns have the context too.
//! Invariant: while no such handler or task is polled, there is no bound and no context.

use super::Dispatcher;
use super::leases::Lease;
use crate::task::Cancelled;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use upbeat_core::bill::Counter;
use upbeat_core::context::Context as Entries;
use upbeat_memory::ticks::Ticks;

/// The deadline and context that the polled handler or task has from a caller and passes on.
pub(super) struct Bound {
    /// The deadline, by the node's clock.
    end: Cell<u64>,
    /// The lease through which the handler may ask for more time.
    lease: RefCell<Option<Rc<Lease>>>,
    /// The values that the caller has sent along.
    context: RefCell<Option<Arc<Entries>>>,
}

const NONE: u64 = u64::MAX;

impl Default for Bound {
    fn default() -> Bound {
        Bound { end: Cell::new(NONE), lease: RefCell::default(), context: RefCell::default() }
    }
}

/// The parts of a request for its handler besides arguments and deadline.
#[derive(Clone, Copy, Default)]
pub(crate) struct Handed<'a> {
    /// The lease through which the deadline may be extended.
    pub(crate) lease: Option<&'a Rc<Lease>>,
    /// The values that the caller has sent along.
    pub(crate) context: Option<&'a Arc<Entries>>,
}

impl Dispatcher {
    /// Returns the time at which so many microseconds from now are over.
    pub(crate) fn end_of(&self, microseconds: u64) -> u64 {
        self.now_ns().saturating_add(microseconds.saturating_mul(1000))
    }

    /// Sets the deadline, if there is one, and the context of the handler or task that is polled next.
    pub(crate) fn bound_by(&self, end: Option<u64>, handed: Handed<'_>) {
        let Bound { end: until, lease, context } = &self.run.bound;
        until.set(end.unwrap_or(NONE));
        lease.replace(handed.lease.cloned());
        context.replace(handed.context.cloned());
        self.account.sampling.divert(true);
    }

    /// Clears the deadline and the context, after the poll.
    pub(crate) fn unbound(&self) {
        let Bound { end, lease, context } = &self.run.bound;
        end.set(NONE);
        lease.take();
        context.take();
        self.account.sampling.divert(false);
    }

    /// Returns the context of the polled handler, or of the polled task that such a handler has spawned.
    pub(crate) fn inherited_context(&self) -> Option<Arc<Entries>> {
        self.run.bound.context.borrow().clone()
    }

    /// Returns the deadline of the polled handler, if its caller set one, and the lease by which it may ask for more.
    pub(crate) fn bound(&self) -> Option<(u64, Option<Rc<Lease>>)> {
        match self.run.bound.end.get() {
            NONE => None,
            end => Some((end, self.run.bound.lease.borrow().clone())),
        }
    }

    /// Counts a handler that was ended before it was done, after so many ticks as a task.
    pub(crate) fn orphaned(&self, why: Cancelled, ran: u64) {
        self.count(why.counter());
        self.ran_in_vain(ran);
    }

    /// Counts the time of a handler whose result nobody takes, after so many ticks as a task.
    pub(crate) fn ran_in_vain(&self, ran: u64) {
        let wasted = Duration::from(Ticks(ran)).as_nanos() as u64;
        self.count_more(Counter::OrphanTime, wasted);
    }

    /// Returns the microseconds that the polled handler has left, if its caller set a deadline.
    pub(crate) fn time_left_us(&self) -> Option<u64> {
        match self.run.bound.end.get() {
            NONE => None,
            end => Some(end.saturating_sub(self.now_ns()).div_ceil(1000)),
        }
    }
}

/// A task that a handler with a context has spawned.
pub(super) struct Within<T> {
    pub(super) future: Pin<Box<dyn Future<Output = T>>>,
    pub(super) context: Arc<Entries>,
}

impl<T> Future for Within<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Within { future, context: carried } = &mut *self;
        let handed = Handed { lease: None, context: Some(carried) };
        Dispatcher::if_driving(|node| node.bound_by(None, handed));
        let polled = future.as_mut().poll(context);
        Dispatcher::if_driving(|node| node.unbound());
        polled
    }
}
