//! Handlers that have become tasks: how they are polled on, end, outlive their caller, and are cancelled.
//!
//! Invariant: a handler's call is answered when the handler ends or is cancelled, and no more then.

use super::slot::{Beside, Slot};
use super::{From, Kept, Served, reply};
use crate::contain::contain;
use crate::dispatch::{Charge, Dispatcher, Lease};
use crate::sample::{Stamps, Timed, Unsampled};
use crate::session::Session;
use crate::task::{Caller, Cancelled, Task};
use crate::wake::TaskId;
use crate::wire::{Incoming, Wire};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use upbeat_core::bill::Counter;
use upbeat_core::frame::{CallNumber, FailCode};
use upbeat_core::orphan::{goes_on_until, oneway_goes_on_until};

/// Who waits for a handler's end.
#[derive(Clone, Copy)]
pub(super) enum Asker {
    Call(CallNumber),
    /// Nobody, but its session counts it.
    Oneway,
    /// Nobody any more.
    Gone,
    /// Nobody: it is a one-way message's, whose sender is gone.
    Left,
}

/// What is known of a handler that has become a task.
pub(super) struct Promoted<F> {
    pub(super) kept: Rc<Kept<F>>,
    pub(super) session: Rc<Session>,
    pub(super) asker: Asker,
    pub(super) charge: Charge,
    pub(super) node: Rc<Dispatcher>,
    /// When its time is over, if its caller has bounded it.
    pub(super) end: Option<u64>,
    /// Where that may be extended.
    pub(super) lease: Option<Rc<Lease>>,
    /// Ticks for which it has been polled as a task.
    pub(super) ran: u64,
    /// What is to be billed, if its message is sampled.
    pub(super) billed: Option<Box<Timed>>,
}

impl<F> Promoted<F> {
    /// The handler is done.
    #[inline]
    fn end<R: Wire>(&self, result: &R, stamps: &mut impl Stamps) {
        match self.asker {
            Asker::Call(call) => {
                self.session.serving().remove(call);
                reply((&self.node, &self.session, call), result, stamps);
            }
            Asker::Oneway => self.session.end_oneway(),
            Asker::Gone => self.node.ran_in_vain(self.ran),
            Asker::Left => {}
        }
    }
}

impl<F> Promoted<F> {
    /// The sender of its one-way message is gone: the task goes on, until a time at most.
    #[cold]
    fn leave(&mut self, task: TaskId) -> bool {
        let until = oneway_goes_on_until(self.kept.outlives_ns, self.node.now_ns());
        let until = self.end.map_or(until, |end| until.min(end));
        self.kept.count(Counter::OrphansLeft);
        self.asker = Asker::Left;
        self.end = Some(until);
        self.node.leave_alone(task, until);
        true
    }
}

impl<R: Wire, F: Future<Output = R> + 'static> Task for Slot<F> {
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (future, Beside { wakeup, task, .. }) = self.as_mut().parts();
        let (Some(this), Some(future)) = (task, future) else {
            return Poll::Pending;
        };
        if let Some(billed) = &mut this.billed {
            billed.resumed(wakeup.woken());
        }
        this.node.polls_within(this.kept.budget);
        if let Some(lease) = &this.lease {
            this.end = Some(lease.end());
        }
        this.end.into_iter().for_each(|end| this.node.bound_by(end, this.lease.as_ref()));
        let polled = future.poll(context);
        if this.end.is_some() {
            this.node.unbound();
        }
        this.ran += this.node.has_polled(this.kept.names);
        let Poll::Ready(result) = polled else {
            this.node.charge_again(&mut this.charge);
            if let Some(billed) = &mut this.billed {
                billed.paused(this.node.waited_for());
                wakeup.ask();
            }
            // Its session has ended while it was polled.
            if matches!(this.asker, Asker::Oneway) && this.session.ended().is_some() {
                this.leave(wakeup.task());
            }
            return Poll::Pending;
        };
        let asker = this.asker;
        match this.billed.take() {
            None => this.end(&result, &mut Unsampled),
            Some(billed) => {
                let mut sample = billed.finished();
                this.end(&result, &mut *sample);
                let call = match asker {
                    Asker::Call(call) => call,
                    Asker::Oneway | Asker::Gone | Asker::Left => CallNumber::NONE,
                };
                this.node.served(&this.session, call, this.kept.names, &mut sample);
            }
        }
        // The call has its reply: if the result panics when it is dropped, no second reply is sent.
        this.asker = Asker::Gone;
        Poll::Ready(())
    }

    fn caller(&self) -> Option<Caller> {
        let this = self.beside().task.as_ref()?;
        let call = match this.asker {
            Asker::Call(call) => Some(call),
            Asker::Oneway => None,
            Asker::Gone | Asker::Left => return None,
        };
        Some(Caller { session: this.session.noted.key.get(), call })
    }

    fn outlives(mut self: Pin<&mut Self>, why: Cancelled) -> bool {
        let (_, Beside { wakeup, task, .. }) = self.as_mut().parts();
        let Some(this) = task else { return false };
        let call = match this.asker {
            Asker::Call(call) => call,
            Asker::Oneway if why == Cancelled::Lost => return this.leave(wakeup.task()),
            _ => return false,
        };
        let until = goes_on_until(this.kept.outlives_ns, this.node.now_ns(), this.end);
        let Some(until) = until else { return false };
        match why {
            // Its number is free for another call.
            Cancelled::ByCaller => {
                this.session.serving().remove(call);
                this.session.fail(call, FailCode::Cancelled, "");
            }
            Cancelled::Lost if !this.node.is_closing() => {}
            _ => return false,
        }
        this.kept.count(Counter::OrphansLeft);
        this.asker = Asker::Gone;
        this.lease.take().into_iter().for_each(|lease| lease.close());
        this.end = Some(until);
        this.node.leave_alone(wakeup.task(), until);
        true
    }

    fn cancel(mut self: Pin<&mut Self>, why: Cancelled) {
        contain(|| self.as_mut().clear());
        let Some(this) = &mut self.as_mut().parts().1.task else { return };
        this.node.orphaned(why, this.ran);
        this.kept.count(why.counter());
        let call = match this.asker {
            Asker::Call(call) => call,
            Asker::Oneway => return this.session.end_oneway(),
            Asker::Gone | Asker::Left => return,
        };
        this.session.serving().remove(call);
        match why {
            Cancelled::ByCaller => this.session.fail(call, FailCode::Cancelled, ""),
            Cancelled::Deadline => this.session.fail(call, FailCode::Deadline, ""),
            Cancelled::NoRoom => this.session.fail(call, FailCode::Overloaded, ""),
            Cancelled::Lost | Cancelled::Panicked => {}
        }
    }

    fn done(self: Pin<Box<Self>>) {
        let mut slot = self.vacate();
        let Beside { wakeup, task, .. } = slot.beside();
        wakeup.unname();
        let Some(this) = task.take() else { return };
        this.kept.tally.iter().for_each(|tally| tally.ran(this.ran));
        // The slot serves again, unless another stands ready.
        let other = this.kept.spare.take();
        this.kept.spare.keep(other.unwrap_or(slot));
    }
}

impl<A: Incoming, R, M, F, const ONEWAY: bool> Served<A, R, M, F, ONEWAY> {
    /// Returns the call that a handler answers, if it answers one, and when its time is over.
    #[inline(always)]
    pub(super) fn asks(&self, from: From<'_>) -> (Option<CallNumber>, Option<u64>) {
        ((!ONEWAY).then_some(from.call), from.end)
    }
}
