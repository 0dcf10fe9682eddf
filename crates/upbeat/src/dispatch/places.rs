//! Requests that may have to wait for their turn, or for room.
//!
//! A request is accepted when all earlier requests of its session were and the budget has room.
//! Until then its session keeps its place. Where room is made, the sessions accept one request
//! each in turn, so that no session is passed over for ever.

use super::{Dispatcher, Request, Running};
use crate::session::{Fault, KeptRequest, Next, Session, misbehaved};
use crate::wire::Input;
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::bill::Counter;
use upbeat_core::context::Context;
use upbeat_core::frame::{Flags, Head, Kind};
use upbeat_core::mutant::{Mutant, mutated};

/// The values in front of a request's payload that the handler's run needs.
#[derive(Clone, Copy)]
struct Terms {
    deadline_us: Option<u64>,
    refusals: Option<u64>,
    context_bytes: Option<u64>,
}

/// Takes the context of a request from the start of its payload, if an extension of its frame announces one. A payload
/// that is too long, or for which there is no memory, is not read, and its request fails for that.
#[inline]
pub(super) fn take_context(
    bytes: Option<u64>,
    payload: &mut Input<'_>,
) -> Result<Option<Arc<Context>>, Fault> {
    match bytes {
        None => Ok(None),
        Some(bytes) => read_context(bytes, payload),
    }
}

#[cold]
fn read_context(bytes: u64, payload: &mut Input<'_>) -> Result<Option<Arc<Context>>, Fault> {
    let bytes = Context::bytes_in(bytes, payload.remaining()).map_err(misbehaved)?;
    let Ok(block) = payload.front(bytes) else { return Ok(None) };
    let context = Context::parse(block).map_err(misbehaved)?;
    Ok(Some(context).filter(|context| !context.is_empty()).map(Arc::new))
}

impl Dispatcher {
    /// Runs or keeps the request that lies open, where the common path does not take it.
    #[inline(never)]
    pub(super) fn request_came(
        self: &Rc<Self>,
        session: &Rc<Session>,
        head: &Head,
    ) -> Result<(), Fault> {
        if head.kind == Kind::Reserve {
            self.count(Counter::ProtocolFrames);
            session.keep_reservation()?;
        } else if self.may_accept(session, head) {
            session.accept();
            return self.request(session, head);
        } else {
            session.keep_request(head, self.now_ns())?;
            if !head.flags.has(Flags::GRANTED) {
                self.count(Counter::RefusedHere);
            }
        }
        self.unflushed.sent();
        while self.step_places(session) {}
        self.await_turn(session);
        Ok(())
    }

    /// Returns whether the request that lies open is accepted at once.
    pub(super) fn may_accept(&self, session: &Session, head: &Head) -> bool {
        session.may_accept(head, self.flow.budgets.requests())
    }

    /// Runs the request that lies open.
    pub(super) fn request(
        self: &Rc<Self>,
        session: &Rc<Session>,
        head: &Head,
    ) -> Result<(), Fault> {
        let terms = Terms {
            deadline_us: session.deadline_us(head),
            refusals: session.refusals(head),
            context_bytes: session.context_bytes(head),
        };
        let hold = session.hold(head)?;
        let payload = hold.as_ref().map_or_else(|| session.payload(head), Input::lent);
        self.run_request(session, head, terms, Running::Handler(head.call), payload)
    }

    fn run_request(
        self: &Rc<Self>,
        session: &Rc<Session>,
        head: &Head,
        terms: Terms,
        running: Running,
        mut payload: Input<'_>,
    ) -> Result<(), Fault> {
        let Head { kind, call, .. } = *head;
        let Terms { deadline_us, refusals, context_bytes } = terms;
        let extendable = head.flags.has(Flags::EXTENDABLE);
        let context = take_context(context_bytes, &mut payload)?;
        let request = Request { kind, call, deadline_us, refusals, extendable, context, payload };
        if kind == Kind::Operation {
            self.operation_came(session, head, request, running);
            return Ok(());
        }
        let methods = self.served.methods.hold();
        let Some(entry) = methods.get(usize::from(head.method).wrapping_sub(1)) else {
            drop(methods);
            self.request_slowly(session, head, request, running);
            return Ok(());
        };
        self.run.running.set(running);
        self.run.method.set(head.method);
        entry.method.arrive(self, session, request);
        self.ran();
        Ok(())
    }

    /// Handles one of the requests that wait in this session. Returns whether there was one that could be handled.
    fn step_places(self: &Rc<Self>, session: &Rc<Session>) -> bool {
        let Some(step) = session.next_step(self.flow.budgets.requests()) else { return false };
        // A grant takes room as well.
        self.close_if_full();
        // The session may be a cold one, and the peer must learn of the step.
        self.sent(session);
        match step {
            Next::Grant(number) => session.send_surely(Head::grant(number), Vec::new()),
            Next::Accept { request, .. } => {
                // The charge of the grant is free again. If the request completes at once, only this note makes
                // the requests that wait in other sessions be looked at.
                self.pressed.set(true);
                if !request.head.flags.has(Flags::GRANTED) {
                    self.count(Counter::AcceptedLater);
                }
                self.run_kept(session, &request);
            }
        }
        true
    }

    /// Runs a request that had to wait.
    pub(super) fn run_kept(self: &Rc<Self>, session: &Rc<Session>, kept: &KeptRequest) {
        let KeptRequest { head, .. } = kept;
        let Some(key) = session.noted.key.get() else { return };
        // A request that has waited for room is not refused again.
        let deadline_us = kept.deadline_us(self.now_ns());
        let terms = Terms { deadline_us, refusals: None, context_bytes: kept.context_bytes };
        let running = Running::Kept(key, head.call);
        if let Err(why) = self.run_request(session, head, terms, running, kept.payload()) {
            self.lose(session, *why);
        }
    }

    /// Has the session looked at when room is made, if requests wait in it.
    pub(super) fn await_turn(&self, session: &Rc<Session>) {
        if session.waiting() == 0 {
            session.look_clear(self.flow.budgets.requests());
        } else if !mutated(Mutant::TurnForgotten) && !session.noted.awaits_turn.replace(true) {
            self.flow.waiting.borrow_mut().push_back(Rc::clone(session));
        }
    }

    /// Accepts requests that have waited for room, one of each session in turn.
    #[cold]
    pub(super) fn accept_waiting(self: &Rc<Self>) {
        let mut idle = 0;
        while idle < self.flow.waiting.borrow().len() {
            let Some(session) = self.flow.waiting.borrow_mut().pop_front() else { break };
            session.noted.awaits_turn.set(false);
            let lost = session.ended().is_some();
            idle = if !lost && self.step_places(&session) { 0 } else { idle + 1 };
            if !lost {
                session.publish_progress();
                self.await_turn(&session);
                if session.peer_wants_room() {
                    self.relieve(&session);
                }
            }
        }
    }
}
