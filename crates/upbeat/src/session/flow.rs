//! Flow control of a session, between the carrier and those who send and serve.
//!
//! Everything is decided in [`core::session`](upbeat_core::session): this reads and writes what it asks
//! for, and wakes.

use super::lent::Body;
use super::write::Put;
use super::{Fault, Session, misbehaved};
use crate::wire::Input;
use std::task::Waker;
use upbeat_core::flow::{Budget, Share, Step};
use upbeat_core::frame::{CallNumber, Flags, Head, Kind};
use upbeat_core::limits::{CONTROL_SLOTS, PLACES_RESERVED, SESSION_BUDGET_BYTES, TAKEN_BYTES_MAX};
use upbeat_core::session::{Bounds, Grant, Inbound, Outbound, Room};
use upbeat_memory::ticks::{Ticks, ticks};

/// Requests that may be accepted before the peer is shown: a part of those that may be on their way
/// when each asks for room.
const ACCEPTED_UNSHOWN_MAX: u64 = PLACES_RESERVED as u64 / 4;

/// On what terms a node's sessions send and accept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Whether requests go without asking for room.
    pub(crate) optimistic: bool,
    /// Bytes of accepted requests that a session holds.
    pub(crate) share: u64,
    /// Bytes of the longest message that is taken.
    pub(crate) longest: usize,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { optimistic: true, share: SESSION_BUDGET_BYTES, longest: TAKEN_BYTES_MAX }
    }
}

/// A request that was heard of and has to wait.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) head: Head,
    body: Body,
    /// When it came, and the microseconds that it had.
    deadline: Option<(u64, u64)>,
}

impl Kept {
    /// Its payload.
    pub(crate) fn payload(&self) -> Input<'_> {
        self.body.input()
    }

    /// The microseconds that are left until its deadline.
    pub(crate) fn deadline_us(&self, now_ns: u64) -> Option<u64> {
        let (came, had) = self.deadline?;
        Some(had.saturating_sub(now_ns.saturating_sub(came) / 1000))
    }
}

/// The flow control of both directions.
pub(super) struct Flow {
    pub(super) outbound: Outbound<Waker>,
    inbound: Inbound<Kept>,
}

/// What is to be done for requests that wait.
pub(crate) type Next = Step<Kept>;

impl Flow {
    pub(super) fn new(terms: Terms) -> Flow {
        let outbound = Outbound::new(Bounds::new(terms.optimistic));
        let bounds = Bounds::new(true);
        let share = Share::new(terms.share);
        let copied = |kept: &Kept| kept.body.copied();
        Flow { outbound, inbound: Inbound::new(bounds, share, ACCEPTED_UNSHOWN_MAX, copied) }
    }

    /// Whether a request may go without a thought.
    #[inline(always)]
    pub(super) fn may_go(&self) -> bool {
        self.outbound.may_go()
    }

    /// It went.
    #[inline(always)]
    pub(super) fn went(&self) {
        self.outbound.went();
    }
}

/// The time by which grants are kept.
fn now_ns() -> u64 {
    Ticks(ticks()).nanoseconds()
}

impl Session {
    /// A request may be accepted at once.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.flow.inbound.is_clear()
    }

    /// A request is accepted at once.
    #[inline(always)]
    pub(crate) fn accept(&self) {
        self.flow.inbound.accept();
    }

    /// Tells the peer now and then how many of its requests were accepted. A peer that waits for
    /// that is told by whoever relieves it.
    #[inline(always)]
    pub(super) fn show_accepted(&self) {
        if self.flow.inbound.is_unshown() {
            self.publish_accepted();
        }
    }

    /// Tells the peer how many of its requests were accepted.
    #[cold]
    pub(crate) fn publish_accepted(&self) {
        if let Some(accepted) = self.flow.inbound.show() {
            self.carrier.lanes.publish_accepted(accepted);
        }
    }

    /// What the peer says that it has accepted.
    pub(super) fn peer_accepted(&self) -> u64 {
        self.carrier.lanes.peer_accepted()
    }

    /// Whether a request of so many bytes, longer than a slot, may go in the ring, as far as is known here.
    #[inline(always)]
    pub(super) fn goes_in_ring(&self, bytes: usize) -> bool {
        self.flow.outbound.goes_in_ring(bytes)
    }

    /// Whether a request may go, or ask for room, where that has to be found out.
    pub(super) fn may_go_carefully(&self) -> Result<(), Put> {
        match self
            .flow
            .outbound
            .admits(|| self.peer_accepted())
            .map_err(|it| Put::Ended(misbehaved(it)))?
        {
            true => Ok(()),
            false => Err(self.ended_or_full()),
        }
    }

    /// Where a request lies that does not fit a slot.
    pub(super) fn room_for(&self, bytes: usize) -> Result<Room, Put> {
        let room = self.flow.outbound.room(bytes, || self.peer_accepted());
        room.map_err(|rule| Put::Ended(misbehaved(rule)))
    }

    /// Asks for room for a request of so many bytes, which takes its place by this: its number.
    pub(crate) fn ask(&self, bytes: usize, waker: &Waker) -> Result<u64, Put> {
        self.may_go_carefully()?;
        let mut claim = self.slots(1, CONTROL_SLOTS as u32)?;
        claim.write_word(0, Budget::price(bytes));
        claim.commit(Head::reserve().words(), 8);
        Ok(self.flow.outbound.ask(waker.clone()))
    }

    /// Whether there is room for the request of this number, and it is its turn; if not, the waker
    /// is woken then.
    pub(crate) fn grant_of(&self, number: u64, waker: &Waker) -> Grant {
        match self.flow.outbound.poll_grant(number, waker) {
            // That it has ended is found out by whoever tries.
            Grant::Lost if self.ended().is_some() => Grant::Here,
            grant => grant,
        }
    }

    /// Whether the request of this number still waits for room.
    pub(crate) fn still_asks(&self, number: u64, waker: &Waker) -> bool {
        matches!(self.grant_of(number, waker), Grant::Awaited)
    }

    /// There is room: those that wait for it are woken.
    pub(super) fn room_came(&self) {
        self.flow.outbound.room_came(now_ns(), Waker::wake_by_ref);
    }

    /// Gives back room that was granted to senders that do not respond. Others wait behind them, here
    /// and at the receiver. When such a sender is polled again, it asks anew.
    pub(crate) fn withdraw_unused_grants(&self) {
        for number in self.flow.outbound.unused_grants(now_ns()) {
            self.withdraw(number);
        }
    }

    /// For how many nanoseconds a grant is still kept for a sender that has not responded, if there is one.
    pub(crate) fn grants_kept_ns(&self) -> Option<u64> {
        self.flow.outbound.grants_kept(now_ns())
    }

    /// The request of this number has gone.
    pub(super) fn transferred(&self, number: u64) {
        self.flow.outbound.transferred(number, now_ns()).into_iter().for_each(Waker::wake);
    }

    /// Room is no longer wanted for the request of this number, unless it has gone. Gives whether the
    /// peer is told.
    pub(crate) fn withdraw(&self, number: u64) -> bool {
        if !self.is_here() {
            return false;
        }
        let (tell, next) = self.flow.outbound.withdraw(number, now_ns());
        next.into_iter().for_each(Waker::wake);
        let tell = tell && self.ended().is_none();
        if tell {
            self.send_surely(Head::withdraw(number), Vec::new());
        }
        tell
    }

    /// The peer has no room for a request of ours. It fetches it when it has.
    pub(crate) fn refused(&self, head: &Head) -> Result<(), Fault> {
        self.flow.outbound.refused(head.call.as_u64()).map_err(misbehaved)
    }

    /// The peer has room for a request of ours.
    pub(crate) fn granted(&self, head: &Head) -> Result<(), Fault> {
        let granted = self.flow.outbound.granted(head.call.as_u64(), now_ns());
        granted.map_err(misbehaved)?.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Requests of the peer's that wait to be accepted.
    pub(crate) fn waiting(&self) -> usize {
        self.flow.inbound.waiting()
    }

    /// Whether there is room for the request that lies open, where any may be accepted at once: a
    /// long one finds none in a node that others overload.
    pub(crate) fn admits(&self, head: &Head, budget: &Budget) -> bool {
        self.placed_bytes(head).is_none_or(|bytes| self.flow.inbound.admits(bytes, budget))
    }

    /// The next request is not accepted at once.
    pub(crate) fn stop_short(&self) {
        self.flow.inbound.stop_short();
    }

    /// Finds out anew whether a request may be accepted at once.
    pub(crate) fn look_clear(&self, budget: &Budget) -> bool {
        self.flow.inbound.look_clear(budget, self.takes_requests())
    }

    /// The request that lies open waits: in its place if it is short, else in its sender's buffer.
    pub(crate) fn keep_request(&self, head: &Head, now_ns: u64) -> Result<(), Fault> {
        let deadline = self.deadline_us(head).map(|had| (now_ns, had));
        let body = self.take_body(head)?;
        let len = body.input().remaining();
        let kept = Kept { head: *head, body, deadline };
        let inbound = &self.flow.inbound;
        if let Some(at) = head.flags.offset_of(Flags::GRANTED) {
            let number = self.carrier.lanes.reader().read_word(at as usize);
            return inbound.fill(number, kept, len).map_err(misbehaved);
        }
        let placed = inbound.keep(kept, len).map_err(misbehaved)?;
        if let Some(number) = placed.nack {
            self.send_surely(Head::nack(number), Vec::new());
        }
        Ok(())
    }

    /// The peer asks for room for a request.
    pub(crate) fn keep_reservation(&self) -> Result<(), Fault> {
        self.flow.inbound.reserve(self.first_word()).map_err(misbehaved)
    }

    /// The peer takes a reservation back.
    pub(crate) fn withdrawn(&self, head: &Head, budget: &mut Budget) -> Result<(), Fault> {
        let kept = self.flow.inbound.withdrawn(head.call.as_u64(), budget);
        kept.map(drop).map_err(misbehaved)
    }

    /// Gives up a call that waits here. False if none does.
    pub(crate) fn cancel_kept(&self, call: CallNumber, budget: &mut Budget) -> bool {
        let is_it = |kept: &Kept| kept.head.kind == Kind::Call && kept.head.call == call;
        self.flow.inbound.cancel(is_it, budget).is_some()
    }

    /// What can be done now for requests that wait.
    pub(crate) fn next_step(&self, budget: &mut Budget) -> Option<Next> {
        self.flow.inbound.step(budget, self.takes_requests())
    }

    /// Forgets all requests that wait.
    pub(crate) fn forget_kept(&self, budget: &mut Budget) -> Vec<Kept> {
        self.flow.inbound.clear(budget)
    }

    /// Takes room for a request that goes on as a task, or gives it back.
    pub(crate) fn with_share<R>(&self, with: impl FnOnce(&mut Share) -> R) -> R {
        self.flow.inbound.with_share(with)
    }
}
