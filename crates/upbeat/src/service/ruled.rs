//! Methods that are not run as the common way runs them: where nothing may wait, as tasks at once, or
//! as it pays.
//!
//! Invariant: what stands here is entered in place of the common way, which it leaves as it is.

use super::slot::Beside;
use super::{From, Lost, Rule, Served};
use crate::dispatch::{Dispatcher, Method, Request};
use crate::execution::{Execution, Luck};
use crate::sample::{Reason, Sample, Stamps, Unsampled};
use crate::session::Session;
use crate::wire::{Incoming, Wire};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::backoff::is_refusable;
use upbeat_core::bill::Counter;
use upbeat_core::frame::{CallNumber, FailCode};
use upbeat_memory::seat::Taken;

/// A method with a rule of its own.
pub(super) struct Ruled<A: Incoming, R, M, F, const ONEWAY: bool> {
    served: Served<A, R, M, F, ONEWAY>,
    execution: Execution,
    /// Ticks to which handlers are held where they first run, if the method says it.
    budget: Option<u64>,
    /// Where it is run as it pays.
    luck: Luck,
}

impl<A, R, M, F, const ONEWAY: bool> Ruled<A, R, M, F, ONEWAY>
where
    A: Incoming,
    R: Wire,
    M: Fn(A) -> F,
    F: Future<Output = R> + 'static,
{
    pub(super) fn new(
        served: Served<A, R, M, F, ONEWAY>,
        execution: Execution,
        rule: Rule,
    ) -> Ruled<A, R, M, F, ONEWAY> {
        let budget = rule.budget_ns.map(|_| served.kept.budget);
        Ruled { served, execution, budget, luck: Luck::default() }
    }

    fn run(&self, from: From<'_>, arguments: A, stamps: &mut impl Stamps) {
        let bets = match self.execution {
            Execution::Am | Execution::Orpc => true,
            Execution::Trpc | Execution::TrpcBack => false,
            Execution::Adaptive => self.luck.bets(),
        };
        if !bets {
            let in_front = self.execution != Execution::TrpcBack;
            return self.start(from, arguments, stamps, in_front);
        }
        let mut won = true;
        self.served.run(from, arguments, stamps, self.budget, |lost| {
            won = false;
            match self.execution {
                Execution::Am => self.end(lost),
                _ => self.lose(lost),
            }
        });
        match self.execution {
            Execution::Adaptive if won => self.luck.won(),
            Execution::Adaptive => self.luck.lost(),
            _ => {}
        }
    }

    /// A task from the beginning.
    fn start(&self, from: From<'_>, arguments: A, stamps: &mut impl Stamps, in_front: bool) {
        let From { node, .. } = from;
        let slot = self.served.fill(node, arguments);
        // Nothing of what was polled before is this one's.
        node.polls();
        let sample = stamps.sample().map(|sample| Box::new(sample.clone()));
        let waits = (Reason::Other, None);
        self.start_slot(Lost { from, slot, sample }, waits, Counter::StartedAsTasks, in_front);
    }

    /// Starts the handler in a slot as a task.
    fn start_slot(
        &self,
        lost: Lost<'_, F>,
        waits: (Reason, Option<Arc<str>>),
        why: Counter,
        in_front: bool,
    ) {
        let Lost { from, mut slot, sample } = lost;
        let From { node, session, call, bytes, end, .. } = from;
        self.served.kept.count(why);
        if session.ended().is_some() {
            return;
        }
        node.count(why);
        slot.parts().1.notes_rare(from, sample, || waits);
        if let Some(task) = self.served.become_task((node, session, call), bytes, slot) {
            node.start(task, end, in_front);
        }
    }

    /// A handler has to wait: it goes on as a task. One that has not begun for want of what it needs
    /// is sent back, if its caller comes again, or begins anew as a task.
    #[cold]
    fn lose(&self, lost: Lost<'_, F>) {
        let From { node, session, call, refusals, .. } = lost.from;
        if !node.lacked_needs() {
            return self.served.promote(lost);
        }
        let waits = node.waited_for();
        if !refusals.is_some_and(is_refusable) {
            let why = waits.0.counter();
            return self.start_slot(lost, waits, why, false);
        }
        self.give_up(lost.slot);
        node.count(Counter::HandlersRefused);
        self.served.kept.count(Counter::HandlersRefused);
        session.fail(call, FailCode::Refused, &waits.0.text(waits.1.as_deref()));
    }

    /// Drops a handler. Its slot serves again.
    fn give_up(&self, slot: Taken<F, Beside<F>>) {
        self.served.kept.spare.keep(slot.vacate());
    }

    /// A handler may not wait: it is ended here, and its caller told what it would have waited for.
    #[cold]
    fn end(&self, lost: Lost<'_, F>) {
        let Lost { from: From { node, session, call, .. }, slot, .. } = lost;
        node.lacked_needs();
        let (reason, lock) = node.waited_for();
        self.give_up(slot);
        node.count(Counter::HandlersEnded);
        self.served.kept.count(Counter::HandlersEnded);
        if call != CallNumber::NONE {
            session.fail(call, FailCode::WouldWait, &reason.text(lock.as_deref()));
        }
    }
}

impl<A, R, M, F, const ONEWAY: bool> Method for Ruled<A, R, M, F, ONEWAY>
where
    A: Incoming,
    R: Wire,
    M: Fn(A) -> F,
    F: Future<Output = R> + 'static,
{
    fn call(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, call: CallNumber, len: u32) {
        let served = &self.served;
        if served.is_too_long(session, call, len as usize) {
            return;
        }
        let Some((from, arguments)) = served.plain(node, session, call, len) else { return };
        self.run(from, arguments, &mut Unsampled);
    }

    fn arrive(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, request: Request<'_>) {
        let lease = request.lease(node, session);
        let taken = self.served.take(node, session, request, lease.as_ref(), &mut Unsampled);
        let Some((from, arguments)) = taken else { return };
        self.run(from, arguments, &mut Unsampled);
    }

    fn sampled(
        &self,
        node: &Rc<Dispatcher>,
        session: &Rc<Session>,
        request: Request<'_>,
        sample: &mut Sample,
    ) {
        let lease = request.lease(node, session);
        let taken = self.served.take(node, session, request, lease.as_ref(), sample);
        let Some((from, arguments)) = taken else { return };
        self.run(from, arguments, sample);
    }
}
