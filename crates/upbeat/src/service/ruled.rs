//! Methods that are not run as the common way runs them: where nothing may wait, as tasks at once, or
//! as it pays.
//!
//! Invariant: what stands here is entered in place of the common way, which it leaves as it is.

use super::layers::Answer;
use super::slot::Beside;
use super::{From, Lost, Served};
use crate::dispatch::{Dispatcher, Handed, Method, Request};
use crate::execution::{Execution, Luck};
use crate::sample::{Reason, Sample, Stamps, Unsampled};
use crate::session::Session;
use crate::wire::Incoming;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::backoff::is_refusable;
use upbeat_core::bill::Counter;
use upbeat_core::frame::{CallNumber, FailCode};
use upbeat_memory::future_slot::FilledSlot;

/// How the handlers of a method with a rule of its own are run.
pub(super) struct Ruling {
    execution: Execution,
    /// Ticks to which handlers are held where they first run, if the method says it.
    budget: Option<u64>,
    /// Where it is run as it pays.
    luck: Luck,
}

impl Ruling {
    pub(super) fn new(execution: Execution, budget: Option<u64>) -> Ruling {
        Ruling { execution, budget, luck: Luck::default() }
    }

    /// Whether the next handler is run where its message lies, and not as a task.
    fn bets(&self) -> bool {
        match self.execution {
            Execution::Am | Execution::Orpc => true,
            Execution::Trpc | Execution::TrpcBack => false,
            Execution::Adaptive => self.luck.bets(),
        }
    }

    /// Notes whether a handler that was run where its message lies did without waiting.
    fn settle(&self, won: bool) {
        match self.execution {
            Execution::Adaptive if won => self.luck.won(),
            Execution::Adaptive => self.luck.lost(),
            _ => {}
        }
    }
}

/// A method with a rule of its own.
pub(super) struct Ruled<A: Incoming, R, M, F, const ONEWAY: bool> {
    pub(super) served: Served<A, R, M, F, ONEWAY>,
    pub(super) ruling: Ruling,
}

impl<A, R, M, F, const ONEWAY: bool> Served<A, R, M, F, ONEWAY>
where
    A: Incoming,
    R: Answer + 'static,
    M: Fn(From<'_>, A) -> F,
    F: Future<Output = R> + 'static,
{
    /// Takes any request in and runs its handler, as the ruling says if there is one.
    pub(super) fn enter(
        &self,
        (node, session): (&Rc<Dispatcher>, &Rc<Session>),
        mut request: Request<'_>,
        ruling: Option<&Ruling>,
        stamps: &mut impl Stamps,
    ) {
        let (lease, context) = (request.lease(node, session), request.context.take());
        let handed = Handed { lease: lease.as_ref(), context: context.as_ref() };
        let taken = self.take(node, session, request, handed, stamps);
        if let Some((from, arguments)) = taken {
            self.run_ruled(from, arguments, ruling, stamps);
        }
    }

    /// Runs a handler as the ruling says, if there is one.
    #[inline(never)]
    fn run_ruled(
        &self,
        from: From<'_>,
        arguments: A,
        ruling: Option<&Ruling>,
        stamps: &mut impl Stamps,
    ) {
        let Some(ruling) = ruling.filter(|ruling| !ruling.bets()) else {
            let mut won = true;
            let budget = ruling.and_then(|ruling| ruling.budget);
            self.run(from, arguments, stamps, budget, |lost| {
                won = false;
                match ruling {
                    None => self.promote(lost),
                    Some(Ruling { execution: Execution::Am, .. }) => self.end(lost),
                    Some(_) => self.lose(lost),
                }
            });
            return ruling.into_iter().for_each(|ruling| ruling.settle(won));
        };
        self.start(from, arguments, stamps, ruling.execution != Execution::TrpcBack);
    }

    /// Runs the request as a task from the beginning.
    fn start(&self, from: From<'_>, arguments: A, stamps: &mut impl Stamps, in_front: bool) {
        let slot = self.fill(from, arguments);
        // The notes about the future that was polled before do not belong to this handler.
        from.node.polls();
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
        let From { node, session, call, end, .. } = from;
        self.kept.count(why);
        if session.ended().is_some() {
            return;
        }
        node.count(why);
        slot.parts().1.notes_rare(from, sample, || waits, true);
        if let Some(task) = self.become_task((node, session, call), from.price(), slot) {
            node.start(task, end, in_front);
        }
    }

    /// Makes a handler that has to wait continue as a task. A handler that has not begun, because a lock or a condition
    /// was missing, is refused if its caller retries, or else begins anew as a task.
    #[cold]
    fn lose(&self, lost: Lost<'_, F>) {
        let From { node, session, call, refusals, .. } = lost.from;
        if !node.lacked_needs() {
            return self.promote(lost);
        }
        let waits = node.waited_for();
        if !refusals.is_some_and(is_refusable) {
            let why = waits.0.counter();
            return self.start_slot(lost, waits, why, false);
        }
        self.give_up(lost.slot);
        node.count(Counter::HandlersRefused);
        self.kept.count(Counter::HandlersRefused);
        session.fail(call, FailCode::Refused, &waits.0.text(waits.1.as_deref()));
    }

    /// Drops a handler, and keeps its slot for the next one.
    fn give_up(&self, slot: FilledSlot<F, Beside<F>>) {
        self.kept.spare.keep(slot.vacate());
    }

    /// Ends a handler that must not wait. Its caller gets the reason for which the handler would have waited.
    #[cold]
    fn end(&self, lost: Lost<'_, F>) {
        let Lost { from: From { node, session, call, .. }, slot, .. } = lost;
        node.lacked_needs();
        let (reason, lock) = node.waited_for();
        self.give_up(slot);
        node.count(Counter::HandlersEnded);
        self.kept.count(Counter::HandlersEnded);
        if call != CallNumber::NONE {
            session.fail(call, FailCode::WouldWait, &reason.text(lock.as_deref()));
        }
    }
}

impl<A, R, M, F, const ONEWAY: bool> Method for Ruled<A, R, M, F, ONEWAY>
where
    A: Incoming,
    R: Answer + 'static,
    M: Fn(From<'_>, A) -> F,
    F: Future<Output = R> + 'static,
{
    fn call(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, call: CallNumber, len: u32) {
        let Ruled { served, ruling } = self;
        if served.is_too_long(session, call, len as usize) {
            return;
        }
        if let Some((from, arguments)) = served.plain(node, session, call, len) {
            served.run_ruled(from, arguments, Some(ruling), &mut Unsampled);
        }
    }

    fn arrive(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, request: Request<'_>) {
        self.served.enter((node, session), request, Some(&self.ruling), &mut Unsampled);
    }

    fn sampled(
        &self,
        node: &Rc<Dispatcher>,
        session: &Rc<Session>,
        request: Request<'_>,
        sample: &mut Sample,
    ) {
        self.served.enter((node, session), request, Some(&self.ruling), sample);
    }

    fn budget(&self) -> u64 {
        self.served.budget()
    }
}
