//! Handlers that have become tasks: their polls, their end, their life after their caller, and their cancellation.
//!
//! Invariant: a handler's call gets one reply, when the handler ends or is cancelled.

use super::layers::Answer;
use super::slot::{Beside, Slot};
use super::waiting::{Asker, Billed, Promoted, Rare};
use super::{From, Lost, Served, Way, reply, reply_attached};
use crate::contain::contain;
use crate::dispatch::{Charge, Dispatcher, Handed};
use crate::sample::{Names, Reason, Sample, TaskTime, Unsampled};
use crate::session::Session;
use crate::task::{Caller, Cancelled, Done, Task, TaskSlot};
use crate::wake::{TaskId, Wakeup};
use crate::wire::{AnyContent, Incoming, Wire};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use upbeat_core::bill::Counter;
use upbeat_core::flow::Budget;
use upbeat_core::frame::{CallNumber, FailCode};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::orphan::{expires_at, oneway_expires_at};
use upbeat_memory::future_slot::FilledSlot;
use upbeat_memory::waker::WakeTarget;

impl Promoted {
    /// Ends a handler that is done. `answer` replies to the call, if its caller still waits.
    #[inline(always)]
    fn end(&self, answer: impl FnOnce(Way<'_>)) {
        let Charge { node, session, .. } = &self.charge;
        let Asker::Call(call) = self.asker else { return self.end_unasked() };
        session.serving().remove(call);
        answer((node, session, call));
    }

    #[cold]
    #[inline(never)]
    fn end_unasked(&self) {
        match self.asker {
            Asker::Oneway => self.charge.session.end_oneway(),
            Asker::Gone => self.charge.node.ran_in_vain(self.ran),
            Asker::Call(_) | Asker::Left => {}
        }
    }

    /// Ends a handler whose message is sampled.
    #[cold]
    #[inline(never)]
    fn end_billed<R: Answer>(&self, result: &R, names: Names, timed: TaskTime) {
        let Charge { node, session, .. } = &self.charge;
        let mut sample = timed.finished();
        self.end(|way| match result.value() {
            Ok(value) if !<R::Value as Wire>::STREAMS => {
                way.1.reply_any(way.2, AnyContent::of(value), &mut *sample)
            }
            Ok(value) => reply_attached(way, value, &mut *sample),
            Err(none) => way.1.fail(way.2, none.code, none.refusal.text()),
        });
        let call = match self.asker {
            Asker::Call(call) => call,
            Asker::Oneway | Asker::Gone | Asker::Left => CallNumber::NONE,
        };
        node.served(session, call, names, &mut sample);
    }
}

impl<F> Beside<F> {
    /// Notes the rare parts of a handler that waits, or that starts as a task, which is ready at once.
    #[inline(always)]
    pub(super) fn notes_rare(
        &mut self,
        from: From<'_>,
        sample: Option<Box<Sample>>,
        waits: impl FnOnce() -> (Reason, Option<Arc<str>>),
        starts: bool,
    ) {
        let From { end, handed: Handed { lease, context }, .. } = from;
        if end.is_none() && lease.is_none() && context.is_none() && sample.is_none() {
            return;
        }
        let billed = sample.zip(self.reserved.wakeup()).map(|(sample, wakeup)| {
            let ready = wakeup.ask() || starts;
            Billed { timed: TaskTime::new(sample, waits(), ready), wakeup: wakeup.clone() }
        });
        self.rare =
            Some(Box::new(Rare { end, lease: lease.cloned(), context: context.cloned(), billed }));
    }

    /// Returns the deadline of the task, if it has one.
    fn bound(&self) -> Option<u64> {
        self.rare.as_ref()?.end
    }

    /// Lets the task continue without its caller, until then at most.
    fn leave_alone(&mut self, asker: Asker, until: u64) -> bool {
        let Beside { task: Some(this), kept: Some(kept), rare, reserved, .. } = self else {
            return false;
        };
        kept.count(Counter::OrphansLeft);
        this.asker = asker;
        rare.get_or_insert_default().end = Some(until);
        this.charge.node.leave_alone(reserved.current().task, until);
        true
    }

    /// Lets the task of a one-way message continue after its sender is gone, until a time at most.
    #[cold]
    fn leave(&mut self) -> bool {
        let Beside { task: Some(this), kept: Some(kept), .. } = self else { return false };
        let until = oneway_expires_at(kept.outlives_ns, this.charge.node.now_ns());
        let until = self.bound().map_or(until, |end| until.min(end));
        self.leave_alone(Asker::Left, until)
    }
}

impl<R: Answer + 'static, F: Future<Output = R> + 'static> Task for Slot<F> {
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done> {
        let (Some(future), beside) = self.as_mut().parts() else { return Poll::Pending };
        let Beside { task: Some(this), kept: Some(kept), rare, .. } = beside else {
            return Poll::Pending;
        };
        this.charge.node.polls_within(kept.budget);
        if let Some(rare) = rare {
            rare.begin_poll(&this.charge.node);
        }
        let polled = future.poll(context);
        let (ran, is_blamed) = this.charge.node.has_polled(&kept.names);
        if let Some(rare) = rare {
            rare.end_poll(&this.charge.node, is_blamed.then_some(ran));
        }
        this.ran += ran;
        let Poll::Ready(result) = polled else {
            this.charge.again();
            if let Some(rare) = rare {
                rare.waits(&this.charge.node);
            }
            // The session of the message has ended during the poll.
            if matches!(this.asker, Asker::Oneway) && this.charge.session.ended().is_some() {
                beside.leave();
            }
            return Poll::Pending;
        };
        match rare.as_mut().and_then(|rare| rare.billed.take()) {
            None => this.end(|way| reply(way, &result, &mut Unsampled)),
            Some(billed) => this.end_billed(&result, kept.names, billed.timed),
        }
        // The call has its reply: if the result panics when it is dropped, no second reply is sent.
        this.asker = Asker::Gone;
        Poll::Ready(Done::Handler)
    }

    fn caller(&self) -> Option<Caller> {
        let this = self.beside().task.as_ref()?;
        let call = match this.asker {
            Asker::Call(call) => Some(call),
            Asker::Oneway => None,
            Asker::Gone | Asker::Left => return None,
        };
        Some(Caller { session: this.charge.session.noted.key.get(), call })
    }

    fn is_handler(&self) -> bool {
        self.beside().task.is_some()
    }

    fn outlives(mut self: Pin<&mut Self>, why: Cancelled) -> bool {
        let beside = self.as_mut().parts().1;
        let end = beside.bound();
        let Beside { task: Some(this), kept: Some(kept), rare, .. } = beside else {
            return false;
        };
        let Charge { node, session, .. } = &this.charge;
        let call = match this.asker {
            Asker::Call(call) => call,
            Asker::Oneway if why == Cancelled::Lost => return beside.leave(),
            _ => return false,
        };
        let Some(until) = expires_at(kept.outlives_ns, node.now_ns(), end) else { return false };
        match why {
            // The call's number is free for another call.
            Cancelled::ByCaller => {
                session.serving().remove(call);
                session.fail(call, FailCode::Cancelled, "");
            }
            // A node that ends leaves no handler behind. One that closes lets them go on for its grace.
            Cancelled::Lost if !session.is_shut_down() && !mutated(Mutant::OrphanEnds) => {}
            _ => return false,
        }
        let lease = rare.as_mut().and_then(|rare| rare.lease.take());
        lease.into_iter().for_each(|lease| lease.close());
        beside.leave_alone(Asker::Gone, until)
    }

    fn cancel(mut self: Pin<&mut Self>, why: Cancelled) {
        contain(|| self.as_mut().clear());
        let beside = self.as_mut().parts().1;
        let Beside { task: Some(this), kept: Some(kept), .. } = beside else { return };
        let Charge { node, session, .. } = &this.charge;
        node.orphaned(why, this.ran);
        kept.count(why.counter());
        let call = match this.asker {
            Asker::Call(call) => call,
            Asker::Oneway => return session.end_oneway(),
            Asker::Gone | Asker::Left => return,
        };
        session.serving().remove(call);
        match why {
            Cancelled::ByCaller => session.fail(call, FailCode::Cancelled, ""),
            Cancelled::Deadline => session.fail(call, FailCode::Deadline, ""),
            Cancelled::Lost => {}
        }
    }

    fn done(mut self: Pin<Box<Self>>, wakeup: WakeTarget<Wakeup>, next: TaskId) {
        self.as_mut().parts().1.reserved.put_back(wakeup, next);
        let mut slot = self.vacate();
        let Beside { task, kept, rare, .. } = slot.beside();
        let ran = task.take().map_or(0, |this| this.ran);
        if rare.is_some() {
            *rare = None;
        }
        let Some(kept) = kept.take() else { return };
        kept.tally.iter().for_each(|tally| tally.ran(ran));
        kept.spare.keep(slot);
    }
}

impl From<'_> {
    /// Returns whether the time of the call is over, and tells its caller in that case.
    #[inline(always)]
    pub(super) fn is_late(&self) -> bool {
        let is_over = self.end.is_some_and(|end| end <= self.node.now_ns());
        let is_late = is_over && self.call != CallNumber::NONE;
        if is_late {
            self.session.fail(self.call, FailCode::Deadline, "");
        }
        is_late
    }

    /// Returns the bytes for which the request is charged while its handler waits.
    #[inline(always)]
    pub(super) fn price(&self) -> u64 {
        Budget::price_in_memory(self.bytes, self.memory, self.node.settings.terms.share)
    }
}

impl<A, R, M, F, const ONEWAY: bool> Served<A, R, M, F, ONEWAY>
where
    A: Incoming,
    R: Answer + 'static,
    F: Future<Output = R> + 'static,
{
    /// Turns a slot whose handler has lost its bet into a task. The handler of a plain message has no rare parts.
    #[inline(always)]
    pub(super) fn promote(&self, lost: Lost<'_, F>) {
        let Lost { from, mut slot, sample } = lost;
        let From { node, session, call, end, .. } = from;
        let beside = slot.parts().1;
        let task = beside.reserved.current().task;
        beside.notes_rare(from, sample, || node.waited_for_by(task), false);
        let task = self.promote_slot(node, session, call, from.price(), slot);
        if let (Some(end), Some(task)) = (end, task) {
            node.expire(task, end);
        }
    }

    #[inline(never)]
    fn promote_slot(
        &self,
        node: &Rc<Dispatcher>,
        session: &Rc<Session>,
        call: CallNumber,
        price: u64,
        slot: FilledSlot<F, Beside<F>>,
    ) -> Option<TaskId> {
        self.kept.count(node.reason().counter());
        if session.ended().is_some() {
            return None;
        }
        node.loses_bet(session);
        self.become_task((node, session, call), price, slot)
    }

    /// Makes a handler that waits, or has not begun, the task of its slot. Returns `None` if there are too many
    /// tasks, after telling the caller, or if the peer breaks a rule.
    #[inline(always)]
    pub(super) fn become_task(
        &self,
        (node, session, call): Way<'_>,
        price: u64,
        mut slot: FilledSlot<F, Beside<F>>,
    ) -> Option<TaskId> {
        let beside = slot.parts().1;
        let Some((id, wakeup)) = node.name_handler(&mut beside.reserved) else {
            self.refuse_task(node, session, call);
            return None;
        };
        let asker = if ONEWAY { Asker::Oneway } else { Asker::Call(call) };
        let charge = Charge::new(node, session, price);
        beside.task = Some(Promoted { charge, asker, ran: 0 });
        beside.kept = Some(Rc::clone(&self.kept));
        let task: Pin<Box<Slot<F>>> = slot.into_slot();
        let call = (!ONEWAY).then_some(call);
        node.take_in(session, (id, TaskSlot { task, wakeup }), call).then_some(id)
    }

    /// Ends a handler that would be one task too many.
    #[cold]
    #[inline(never)]
    fn refuse_task(&self, node: &Dispatcher, session: &Session, call: CallNumber) {
        node.count(Counter::TasksRefused);
        self.kept.count(Counter::TasksRefused);
        if !ONEWAY {
            session.fail(call, FailCode::Overloaded, "");
        }
    }
}
