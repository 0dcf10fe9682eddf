//! Deadlines and contexts that handlers have of their callers, and hand on to what they call.
//!
//! A call that is made while such a handler is polled has no more time than is left of the handler's
//! own, whatever it was given, and carries on its context. The tasks that the handler spawns have the context too.
//! Invariant: when nobody of that kind is polled, there is no bound and no context.

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

/// What the handler or task that is polled has of a caller and hands on.
pub(super) struct Bound {
    /// The end of its time, by the node's clock.
    end: Cell<u64>,
    /// Where the handler may ask for more.
    lease: RefCell<Option<Rc<Lease>>>,
    /// The values that its caller has sent along.
    context: RefCell<Option<Arc<Entries>>>,
}

const NONE: u64 = u64::MAX;

impl Default for Bound {
    fn default() -> Bound {
        Bound { end: Cell::new(NONE), lease: RefCell::default(), context: RefCell::default() }
    }
}

/// What a request says about its handler beside its arguments and its deadline.
#[derive(Clone, Copy, Default)]
pub(crate) struct Handed<'a> {
    /// Where the deadline may be extended.
    pub(crate) lease: Option<&'a Rc<Lease>>,
    /// The values that its caller has sent along.
    pub(crate) context: Option<&'a Arc<Entries>>,
}

impl Dispatcher {
    /// When so many microseconds are over.
    pub(crate) fn end_of(&self, microseconds: u64) -> u64 {
        self.now_ns().saturating_add(microseconds.saturating_mul(1000))
    }

    /// What is polled from here on has time until then, if that is said, and a context.
    pub(crate) fn bound_by(&self, end: Option<u64>, handed: Handed<'_>) {
        let Bound { end: until, lease, context } = &self.run.bound;
        until.set(end.unwrap_or(NONE));
        lease.replace(handed.lease.cloned());
        context.replace(handed.context.cloned());
        self.account.sampling.divert(true);
    }

    /// It was polled.
    pub(crate) fn unbound(&self) {
        let Bound { end, lease, context } = &self.run.bound;
        end.set(NONE);
        lease.take();
        context.take();
        self.account.sampling.divert(false);
    }

    /// Returns the context of the handler that is polled, or of the task that such a handler has spawned.
    pub(crate) fn inherited_context(&self) -> Option<Arc<Entries>> {
        self.run.bound.context.borrow().clone()
    }

    /// When the handler that is polled ends, if its caller bounded it, and by what it may ask for more.
    pub(crate) fn bound(&self) -> Option<(u64, Option<Rc<Lease>>)> {
        match self.run.bound.end.get() {
            NONE => None,
            end => Some((end, self.run.bound.lease.borrow().clone())),
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
        match self.run.bound.end.get() {
            NONE => None,
            end => Some(end.saturating_sub(self.now_ns()) / 1000),
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
