//! Flow control of a session, between the carrier and the code that sends and serves.
//!
//! [`core::session`](upbeat_core::session) makes all decisions; this module reads and writes the words that they
//! need, and wakes waiters.

use super::lent::Body;
use super::send_error::SendError;
use super::{Fault, Session, misbehaved};
use crate::wake::{ForeignWaker, HoldWakers, TaskId};
use crate::wire::Input;
use std::task::Waker;
use upbeat_core::flow::{Budget, ReceiverAction, SharedBudget};
use upbeat_core::frame::{CallNumber, Flags, Head};
use upbeat_core::limits::{CONTROL_SLOTS, SESSION_BUDGET_BYTES, TAKEN_BYTES_MAX};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::session::{self, Awaits, Cancelled, Charge, Grant, RequestPlacement};
use upbeat_memory::ticks::{Ticks, ticks};

/// The settings with which a node's sessions send and accept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Whether requests are sent without asking for room.
    pub(crate) optimistic: bool,
    /// The bytes of accepted requests that a session may hold.
    pub(crate) share: u64,
    /// The bytes of the longest message that is accepted.
    pub(crate) longest: usize,
}

impl Terms {
    /// Returns the settings that the state machine of a session needs.
    pub(super) const fn core(&self) -> session::Terms {
        session::Terms::new(self.optimistic, self.share)
    }
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { optimistic: true, share: SESSION_BUDGET_BYTES, longest: TAKEN_BYTES_MAX }
    }
}

/// A request that has come and waits to be accepted.
#[derive(Debug)]
pub(crate) struct KeptRequest {
    pub(crate) head: Head,
    body: Body,
    /// The time at which the request came, and the microseconds that it had left.
    deadline: Option<(u64, u64)>,
    /// The bytes of the context in front of its arguments, as its frame says.
    pub(crate) context_bytes: Option<u64>,
}

impl KeptRequest {
    /// Returns the payload.
    pub(crate) fn payload(&self) -> Input<'_> {
        self.body.input()
    }

    /// Returns the microseconds that are left until the deadline.
    pub(crate) fn deadline_us(&self, now_ns: u64) -> Option<u64> {
        let (came, had) = self.deadline?;
        Some(had.saturating_sub(now_ns.saturating_sub(came) / 1000))
    }

    /// Returns the bytes that lay in the ring and were copied.
    pub(super) fn copied(&self) -> usize {
        self.body.copied()
    }
}

/// The next step for the requests that wait.
pub(crate) type Next = ReceiverAction<KeptRequest>;

/// Returns the time by which grants and slabs are kept.
pub(super) fn now_ns() -> u64 {
    Ticks(ticks()).nanoseconds()
}

impl Session {
    /// Checks whether the peer's host answers, if a check is due. Peers on this host need no check.
    pub(crate) fn look_at_peer(&self) {
        self.carrier.look_at_peer(now_ns);
    }

    /// Returns in how many nanoseconds to [check](Session::look_at_peer) the peer, if data may be under way.
    pub(crate) fn looks_at_peer_in_ns(&self) -> Option<u64> {
        self.carrier.looks_at_peer_in_ns(now_ns)
    }

    /// Returns whether the peer's host has acknowledged everything.
    pub(crate) fn is_calm(&self) -> bool {
        self.carrier.is_calm(now_ns)
    }

    /// Returns whether frames have come or gone since the last call, or wait until the socket takes them.
    pub(crate) fn take_used(&self) -> bool {
        let carrier = &self.carrier;
        let moved = carrier.reader().consumed().wrapping_add(carrier.writer().out());
        self.noted.moved.replace(moved) != moved || self.carrier.has_output()
    }

    /// Returns whether a node that does not look at the session each turn leaves nothing undone in it.
    pub(crate) fn has_nothing_to_do(&self) -> bool {
        !self.serves()
            && !self.is_unflushed()
            && !self.is_pressed()
            && (!self.peer_wants_room() || self.carrier.is_suspended())
            && self.is_calm()
            && self.tidy_in_ns().is_none()
            && !self.carrier.has_output()
    }

    /// Returns whether a request may be accepted at once.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.core.inbound().is_clear()
    }

    /// Notes that a request was accepted at once.
    #[inline(always)]
    pub(crate) fn accept(&self) {
        self.core.inbound().accept();
    }

    /// Tells the peer now and then how many of its requests were accepted. A peer that waits for that is told when it
    /// gets room.
    #[inline(always)]
    pub(super) fn show_accepted(&self) {
        if self.core.inbound().is_unshown() {
            self.publish_accepted();
        }
    }

    /// Tells the peer how many of its requests were accepted.
    #[cold]
    pub(crate) fn publish_accepted(&self) {
        if let Some(accepted) = self.core.inbound().show() {
            self.carrier.reader().publish_accepted(accepted);
        }
    }

    /// Tells a peer that waits for room how many of its requests were accepted.
    #[cold]
    pub(crate) fn show_waiting(&self) {
        if let Some(accepted) = self.core.inbound().show_to(true) {
            self.carrier.reader().publish_accepted(accepted);
        }
    }

    /// Returns how many requests the peer says that it has accepted.
    pub(super) fn peer_accepted(&self) -> u64 {
        self.carrier.writer().peer_accepted()
    }

    /// Returns whether a request longer than a slot may go in the ring, as far as this side knows.
    #[inline(always)]
    pub(super) fn goes_in_ring(&self, bytes: usize) -> bool {
        self.core.outbound().goes_in_ring(bytes)
    }

    /// Checks whether a request may be sent or ask for room, which the fast path does not know.
    pub(super) fn may_go_carefully(&self) -> Result<(), SendError> {
        let admits = self.core.outbound().admits(|| self.peer_accepted());
        let admits = admits.map_err(|rule| SendError::Ended(misbehaved(rule)))?;
        let admits = admits || mutated(Mutant::RequestUnasked);
        if admits { Ok(()) } else { Err(self.ended_or_full()) }
    }

    /// Returns where a request that does not fit a slot is written.
    pub(super) fn room_for(&self, bytes: usize) -> Result<RequestPlacement, SendError> {
        let room = self.core.outbound().placement(bytes, || self.peer_accepted());
        room.map_err(|rule| SendError::Ended(misbehaved(rule)))
    }

    /// Asks for room for a request of this size. Returns the number that is its place in the order.
    pub(crate) fn ask(&self, bytes: usize, waker: &Waker) -> Result<u64, SendError> {
        self.may_go_carefully()?;
        let mut claim = self.slots(1, CONTROL_SLOTS as u32)?;
        claim.write_word(0, Budget::price(bytes));
        claim.commit(Head::reserve().words(), 8);
        Ok(self.core.outbound().ask(bytes, waker.into()))
    }

    /// Returns whether there is room for the request with this number and its turn has come. If not, the waker is
    /// woken then.
    pub(crate) fn grant_of(&self, number: u64, waker: &Waker) -> Grant {
        let waker = &ForeignWaker::from(waker);
        let _hold = HoldWakers::begin();
        match self.core.outbound().poll_grant(number, waker) {
            // The sender finds the end of the session when it tries to send.
            Grant::Lost if self.ended().is_some() => Grant::Here,
            grant => grant,
        }
    }

    /// Wakes the senders that wait for room.
    pub(super) fn room_came(&self) {
        let _hold = HoldWakers::begin();
        self.core.outbound().room_came(now_ns(), ForeignWaker::wake_by_ref);
    }

    /// Gives back room that was granted to senders that do not respond, because others wait behind them here and at
    /// the receiver. Such a sender asks again when it is polled.
    pub(crate) fn withdraw_unused_grants(&self) {
        for number in self.core.outbound().unused_grants(now_ns()) {
            self.withdraw(number);
        }
    }

    /// Returns for how many nanoseconds a grant is still kept for a sender that has not responded, if there is one.
    pub(crate) fn grants_kept_ns(&self) -> Option<u64> {
        self.core.outbound().grants_kept(now_ns())
    }

    /// Notes that the request with this number was sent.
    pub(super) fn transferred(&self, number: u64) {
        let _hold = HoldWakers::begin();
        self.core.outbound().transferred(number, now_ns()).into_iter().for_each(ForeignWaker::wake);
    }

    /// Withdraws the wish for room of the request with this number, unless it was sent. Returns whether the peer is
    /// told.
    pub(crate) fn withdraw(&self, number: u64) -> bool {
        if !self.is_here() {
            return false;
        }
        let _hold = HoldWakers::begin();
        let (tell, next) = self.core.outbound().withdraw(number, now_ns());
        next.into_iter().for_each(ForeignWaker::wake);
        let tell = tell && self.ended().is_none();
        if tell {
            self.send_surely(Head::withdraw(number), Vec::new());
        }
        tell
    }

    /// Notes that the peer has no room for a request of ours. The peer fetches the request when it has room.
    pub(crate) fn refused(&self, head: &Head) -> Result<(), Fault> {
        self.core.outbound().refused(head.call.as_u64()).map_err(misbehaved)
    }

    /// Notes that the peer has room for a request of ours.
    pub(crate) fn granted(&self, head: &Head) -> Result<(), Fault> {
        let granted = self.core.outbound().granted(head.call.as_u64(), now_ns());
        granted.map_err(misbehaved)?.into_iter().for_each(ForeignWaker::wake);
        Ok(())
    }

    /// Returns the number of the peer's requests that wait to be accepted.
    pub(crate) fn waiting(&self) -> usize {
        self.core.inbound().waiting()
    }

    /// Returns whether the open request is accepted at once.
    pub(crate) fn may_accept(&self, head: &Head, shared_budget: &SharedBudget) -> bool {
        let granted = head.flags.has(Flags::GRANTED);
        self.core.may_accept(granted, self.placed_bytes(head), shared_budget)
    }

    /// Makes the next request take the slow path.
    pub(crate) fn stop_short(&self) {
        self.core.inbound().stop_short();
    }

    /// Determines anew whether a request may be accepted at once.
    pub(crate) fn look_clear(&self, shared_budget: &SharedBudget) -> bool {
        self.core.look_clear(shared_budget)
    }

    /// The bytes of the context in front of the arguments in the open frame, if it says so.
    pub(crate) fn context_bytes(&self, head: &Head) -> Option<u64> {
        let at = head.flags.offset_of(Flags::CONTEXT)?;
        Some(self.carrier.payload().read_word(at as usize))
    }

    /// Keeps the open request: a copy if it is short, else its head while the payload stays in its sender's buffer.
    pub(crate) fn keep_request(&self, head: &Head, now_ns: u64) -> Result<(), Fault> {
        let deadline = self.deadline_us(head).map(|had| (now_ns, had));
        let body = self.take_body(head)?;
        let len = body.input().remaining();
        let context_bytes = self.context_bytes(head);
        let kept = KeptRequest { head: *head, body, deadline, context_bytes };
        let inbound = self.core.inbound();
        if let Some(at) = head.flags.offset_of(Flags::GRANTED) {
            let number = self.carrier.payload().read_word(at as usize);
            return inbound.fill(number, kept, len).map_err(misbehaved);
        }
        let placed = inbound.keep(kept, len).map_err(misbehaved)?;
        if let Some(number) = placed.nack {
            self.send_surely(Head::nack(number), Vec::new());
        }
        Ok(())
    }

    /// Keeps the peer's request for room.
    pub(crate) fn keep_reservation(&self) -> Result<(), Fault> {
        self.core.inbound().reserve(self.first_word()).map_err(misbehaved)
    }

    /// Removes a reservation that the peer has withdrawn.
    pub(crate) fn withdrawn(&self, head: &Head, shared_budget: &SharedBudget) -> Result<(), Fault> {
        let kept = self.core.withdrawn(head.call.as_u64(), shared_budget);
        kept.map(drop).map_err(misbehaved)
    }

    /// Handles the peer's cancel of one of its calls.
    pub(crate) fn cancelled(
        &self,
        call: CallNumber,
        shared_budget: &SharedBudget,
    ) -> Cancelled<TaskId, KeptRequest> {
        let is_it = |kept: &KeptRequest| kept.head.kind.is_answered() && kept.head.call == call;
        self.core.cancel(call, is_it, shared_budget)
    }

    /// Returns the next step that is possible for requests that wait.
    pub(crate) fn next_step(&self, shared_budget: &SharedBudget) -> Option<Next> {
        self.core.step(shared_budget)
    }

    /// Drops all requests that wait.
    pub(crate) fn forget_kept(&self, shared_budget: &SharedBudget) -> Vec<KeptRequest> {
        self.core.forget_requests(shared_budget)
    }

    /// Charges a handler that has become a task, was polled, and waits.
    #[inline(always)]
    pub(crate) fn charge(&self, charge: &mut Charge, awaits: Awaits, shared_budget: &SharedBudget) {
        charge.polled(awaits, &self.core, shared_budget);
    }

    /// Releases the bytes that such a handler holds.
    #[inline(always)]
    pub(crate) fn release(&self, charge: &mut Charge, shared_budget: &SharedBudget) {
        charge.release(&self.core, shared_budget);
    }
}
