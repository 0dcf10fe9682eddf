//! The requests of this side: which may be sent, how, in which order, and what the others wait for.

use super::copies::Copies;
use super::reservations::{Grant, Reservations};
use super::sender_queue::SenderQueue;
use crate::fault::Rule;
use crate::flow::{SendMode, Sender};
use crate::limits::{
    COPIED_BYTES_MAX, GRANT_KEPT_NS, IN_RING_BYTES_MAX, OPTIMISM, PLACES_RESERVED,
};
use crate::mutant::{Mutant, mutated};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// The bounds of one direction of a session, which both sides know in advance.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of requests that may be on their way without a question for room.
    pub optimism: usize,
    /// The number of further requests: short ones, and those that ask for room.
    pub reserved: usize,
    /// The bytes of refused requests in the ring that the receiver copies.
    pub copied: usize,
    /// The nanoseconds for which a grant is kept for a sender that does not respond.
    pub grant_kept: u64,
}

impl Bounds {
    /// Returns the bounds of [`limits`](crate::limits), for a sender that is optimistic or asks for room first.
    pub const fn new(optimistic: bool) -> Bounds {
        let optimism = if optimistic { OPTIMISM } else { 0 };
        let (copied, grant_kept) = (COPIED_BYTES_MAX, GRANT_KEPT_NS);
        Bounds { optimism, reserved: PLACES_RESERVED, copied, grant_kept }
    }

    /// Returns the number of places that the receiver keeps.
    pub const fn places(&self) -> usize {
        self.optimism + self.reserved
    }
}

/// The place of a request that is longer than a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPlacement {
    /// The request is written to consecutive slots of the ring, if there are enough free ones.
    Ring,
    /// The request is written to a buffer.
    Buffer,
    /// The sender must ask for room first.
    Ask,
}

/// The resource that a waiting request lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingResource {
    /// A slot of the lane.
    Slot = 1,
    /// A buffer.
    Buffer = 2,
    /// A place at the receiver.
    Place = 4,
}

/// The outbound requests of one side of a session.
///
/// ```
/// use upbeat_core::session::{Bounds, Outbound, RequestPlacement};
///
/// let outbound = Outbound::<()>::new(Bounds::new(true));
/// assert!(outbound.has_credit());
/// outbound.went();
/// assert_eq!(outbound.placement(1 << 20, || 0), Ok(RequestPlacement::Buffer));
/// assert_eq!(outbound.handle_progress(1), Ok(4160));
/// ```
#[derive(Debug)]
pub struct Outbound<W> {
    /// The number of requests that may be sent without asking.
    credit: Cell<u32>,
    /// The credit at the last update by the state machine.
    given: Cell<u32>,
    /// Whether no request of this side is refused, so that longer requests are written to the ring as well.
    calm: Cell<bool>,
    /// Whether frames must be sent before any request.
    barred: Cell<bool>,
    bounds: Bounds,
    /// The resources that waiting requests lack, one bit each.
    lacking: Cell<u8>,
    /// The fewest slots in a row that a waiting request needs and did not find, or 0.
    missing_slots: Cell<u32>,
    line: SenderQueue<W>,
    machine: RefCell<Machine<W>>,
    /// The senders that wait for room outside the queue, in no order, since the numbers of their requests order
    /// them.
    room: RefCell<Vec<W>>,
}

#[derive(Debug)]
struct Machine<W> {
    sender: Sender,
    copies: Copies,
    reservations: Reservations<W>,
}

impl<W: Clone> Outbound<W> {
    /// Creates a direction in which nothing was sent.
    pub fn new(bounds: Bounds) -> Outbound<W> {
        let sender = Sender::with_window(bounds.optimism, bounds.reserved);
        let given = sender.window_left() as u32;
        let copies = Copies::new(bounds.copied);
        Outbound {
            credit: Cell::new(given),
            given: Cell::new(given),
            calm: Cell::new(true),
            barred: Cell::new(false),
            bounds,
            lacking: Cell::new(0),
            missing_slots: Cell::new(0),
            line: SenderQueue::new(),
            machine: RefCell::new(Machine {
                sender,
                copies,
                reservations: Reservations::new(bounds.grant_kept),
            }),
            room: RefCell::new(Vec::new()),
        }
    }

    /// Returns whether a short request may be sent without asking. For a longer one the caller also calls
    /// [`Outbound::placement`].
    #[inline(always)]
    pub fn has_credit(&self) -> bool {
        self.credit.get() != 0
    }

    /// Counts a request that was sent on credit.
    #[inline(always)]
    pub fn went(&self) {
        self.credit.set(self.credit.get() - 1);
    }

    /// Returns the state machine, after it has counted the requests that were sent on credit.
    fn machine(&self) -> core::cell::RefMut<'_, Machine<W>> {
        let mut machine = self.machine.borrow_mut();
        let went = self.given.replace(0) - self.credit.replace(0);
        if !mutated(Mutant::WentUntold) {
            machine.sender.went(u64::from(went));
        }
        machine
    }

    /// Sets the credit to the number of requests that may be sent without asking.
    fn set_credit(&self, machine: &Machine<W>) {
        let is_held =
            self.line.has_waiters() && !mutated(Mutant::CreditPassesLine) || self.barred.get();
        let left = if is_held { 0 } else { machine.sender.window_left() as u32 };
        self.credit.set(left);
        self.given.set(left);
        self.calm.set(machine.sender.is_calm());
    }

    /// Updates the credit after a change.
    fn update_credit(&self) {
        let machine = self.machine();
        self.set_credit(&machine);
    }

    /// Handles the peer's report that it has accepted all requests before number `accepted`. Returns how many more
    /// requests may be sent.
    pub fn handle_progress(&self, accepted: u64) -> Result<u64, Rule> {
        let machine = &mut *self.machine();
        machine.sender.handle_progress(accepted)?;
        machine.copies.heard(&machine.sender);
        self.set_credit(machine);
        Ok(machine.sender.window_left())
    }

    /// Returns whether the request that tries now may be sent, or may ask for room. If not, records what it lacks.
    pub fn admits(&self, accepted: impl FnOnce() -> u64) -> Result<bool, Rule> {
        if !self.admits_granted() || !self.line.is_in_turn() {
            return Ok(false);
        }
        let may_go = self.handle_progress(accepted())? != 0 || mutated(Mutant::WayNeverWaits);
        if !may_go {
            self.record_missing(MissingResource::Place);
        }
        Ok(may_go)
    }

    /// Returns whether a request for which room was granted may be sent; the number of the request gives its
    /// order.
    pub fn admits_granted(&self) -> bool {
        if self.barred.get() && !mutated(Mutant::BarIgnored) {
            self.record_missing(MissingResource::Slot);
            return false;
        }
        true
    }

    /// Counts a request that was sent after [`Outbound::admits`].
    pub fn record_sent_slowly(&self) {
        let mut machine = self.machine();
        machine.sender.went(1);
        self.set_credit(&machine);
    }

    /// Returns where a request with this many bytes of payload, more than a slot holds, is written. The method
    /// loads the number of accepted requests only if it matters.
    pub fn placement(
        &self,
        bytes: usize,
        accepted: impl Fn() -> u64,
    ) -> Result<RequestPlacement, Rule> {
        if !self.may_skip_asking() {
            self.handle_progress(accepted())?;
            if self.machine.borrow().sender.way(bytes) != SendMode::Go {
                return Ok(RequestPlacement::Ask);
            }
        }
        if !self.calm.get() || bytes > IN_RING_BYTES_MAX {
            return Ok(RequestPlacement::Buffer);
        }
        // The peer copies the requests in the ring that it refuses.
        if !self.machine.borrow().copies.takes(bytes) {
            self.handle_progress(accepted())?;
        }
        Ok(if self.machine.borrow().copies.takes(bytes) {
            RequestPlacement::Ring
        } else {
            RequestPlacement::Buffer
        })
    }

    /// Returns whether a request of `bytes` bytes, longer than a slot, may be written to the ring, by this side's
    /// state alone.
    #[inline(always)]
    pub fn goes_in_ring(&self, bytes: usize) -> bool {
        self.may_skip_asking() && self.machine.borrow().copies.takes(bytes)
    }

    /// Returns whether a request that is longer than a slot may be sent without asking, by this side's state
    /// alone.
    #[inline(always)]
    fn may_skip_asking(&self) -> bool {
        self.credit.get() > self.bounds.reserved as u32 && self.calm.get()
    }

    /// Records a request of `bytes` bytes in the ring, before it is counted as sent.
    pub fn record_in_ring(&self, bytes: usize) {
        let unasked = u64::from(self.given.get() - self.credit.get());
        let machine = &mut *self.machine.borrow_mut();
        machine.copies.went(machine.sender.out() + unasked, bytes);
    }

    /// Returns whether more requests may be sent than when one had to wait: a good part more, or any.
    fn has_new_places(&self, part: bool, accepted: u64) -> bool {
        let came = accepted.abs_diff(self.machine.borrow().sender.safe());
        came >= if part { (self.bounds.places() as u64 / 4).max(1) } else { 1 }
    }

    /// Records that room was asked for this many bytes. Returns the request's number, which gives its order.
    pub fn ask(&self, bytes: usize, waiter: W) -> u64 {
        let mut machine = self.machine();
        let number = machine.sender.reserved();
        machine.reservations.ask(number, bytes, waiter);
        self.set_credit(&machine);
        number
    }

    /// Returns whether there is room for the request of this number and it is its turn. If not, the waiter is
    /// woken later.
    pub fn poll_grant(&self, number: u64, waiter: &W) -> Grant {
        self.machine.borrow_mut().reservations.poll(number, waiter)
    }

    /// Returns for how many bytes the request of this number has asked for room. A longer one has to ask again.
    pub fn reserved(&self, number: u64) -> usize {
        self.machine.borrow().reservations.bytes(number)
    }

    /// Handles the peer's grant of room to the request of this number. Returns the sender to wake.
    pub fn granted(&self, number: u64, now: u64) -> Result<Option<W>, Rule> {
        let mut machine = self.machine();
        let wanted = machine.sender.granted(number);
        self.set_credit(&machine);
        Ok(if wanted? { machine.reservations.granted(number, now) } else { None })
    }

    /// Handles the peer's refusal of the request of this number, which the peer fetches when it has room.
    pub fn refused(&self, number: u64) -> Result<(), Rule> {
        let mut machine = self.machine();
        let refused = machine.sender.refused(number);
        self.set_credit(&machine);
        refused
    }

    /// Records that the granted request of this number was sent. Returns the sender whose turn it is.
    pub fn transferred(&self, number: u64, now: u64) -> Option<W> {
        let machine = &mut *self.machine.borrow_mut();
        machine.sender.transferred(number);
        machine.reservations.end(number, now).1
    }

    /// Withdraws the request of this number unless it was sent. Returns whether the peer must be told, and the
    /// sender whose turn it is.
    pub fn withdraw(&self, number: u64, now: u64) -> (bool, Option<W>) {
        let machine = &mut *self.machine.borrow_mut();
        let (was_asked, next) = machine.reservations.end(number, now);
        (was_asked && machine.sender.withdraw(number), next)
    }

    /// Returns the requests whose senders have not used their grants in time. The driver withdraws them, since
    /// other requests wait behind them, here and at the receiver.
    pub fn unused_grants(&self, now: u64) -> Vec<u64> {
        self.machine.borrow().reservations.unused(now)
    }

    /// Returns for how many nanoseconds a grant is still kept for a sender that has not responded, if there is
    /// one.
    pub fn grants_kept(&self, now: u64) -> Option<u64> {
        self.machine.borrow().reservations.kept(now)
    }

    /// Returns the queue of senders that wait for room.
    pub const fn line(&self) -> &SenderQueue<W> {
        &self.line
    }

    /// Queues a sender for room, at its ticket or at a new one. Returns the ticket.
    pub fn stand(&self, ticket: Option<u64>, waiter: &W) -> u64 {
        let ticket = self.line.stand(ticket, waiter);
        self.update_credit();
        ticket
    }

    /// Removes a sender from the queue, and calls `wake` for the next ones.
    pub fn leave(&self, ticket: u64, wake: impl FnMut(W)) {
        self.line.leave(ticket, wake);
        self.update_credit();
    }

    /// Begins a round: senders that were woken and do not respond lose their turns. Returns whether any did; the
    /// next senders must then be woken.
    pub fn skip_unresponsive(&self) -> bool {
        let passed = self.line.skip_unresponsive();
        if passed {
            self.update_credit();
        }
        passed
    }

    /// Adds a sender that waits for room outside the queue, since the number of its request gives its order.
    pub fn wait_for_room(&self, waiter: &W, is_same: impl Fn(&W) -> bool) {
        let mut room = self.room.borrow_mut();
        if !room.iter().any(is_same) {
            room.push(waiter.clone());
        }
    }

    /// Sets whether frames are sent before any request, or the session has ended.
    pub fn set_barred(&self, barred: bool) {
        if self.barred.replace(barred) != barred {
            self.update_credit();
        }
    }

    /// Returns whether frames are sent before any request.
    #[inline(always)]
    pub fn is_barred(&self) -> bool {
        self.barred.get()
    }

    /// Records what a waiting request lacks.
    pub fn record_missing(&self, what: MissingResource) {
        self.lacking.set(self.lacking.get() | what as u8);
    }

    /// Records that a waiting request found fewer free slots in a row than the `span` that it needs.
    pub fn record_missing_slots(&self, span: u32) {
        let known = self.missing_slots.get();
        self.missing_slots.set(if known == 0 { span } else { known.min(span) });
        self.record_missing(MissingResource::Slot);
    }

    /// Returns how many slots of a ring of `slots` must be free in a row before senders that lack slots try again: as
    /// many as the shortest of their requests needs, because a sender that tries with fewer finds no room again, and
    /// a good part of the ring, so that senders are not woken for each message. A claim of `longest` slots is granted
    /// sooner or later at any position, and a claim of more may never be.
    pub fn wanted_slots(&self, slots: u32, longest: u32) -> u32 {
        (slots / 4).max(self.missing_slots.get()).min(longest).max(1)
    }

    /// Returns whether any lacking resource may be available now. With `part`, a good part of it must be, so that
    /// senders are not woken for each message. `has_slots` looks for the [wanted slots](Outbound::wanted_slots).
    pub fn has_room(
        &self,
        part: bool,
        accepted: impl FnOnce() -> u64,
        has_slots: impl FnOnce() -> bool,
        has_buffers: impl FnOnce() -> bool,
    ) -> bool {
        let lacks = |what: MissingResource| self.lacking.get() & what as u8 != 0;
        !self.barred.get()
            && (lacks(MissingResource::Slot) && has_slots()
                || lacks(MissingResource::Buffer)
                    && has_buffers()
                    && !mutated(Mutant::BufferUnnoticed)
                || lacks(MissingResource::Place)
                    && self.has_new_places(part, accepted())
                    && !mutated(Mutant::PlaceUnnoticed)
                || self.room.borrow().is_empty() && !self.line.has_waiters())
    }

    /// Handles new room: calls `wake` for the senders that wait for it, including the first of the queue.
    pub fn room_came(&self, now: u64, mut wake: impl FnMut(&W)) {
        self.lacking.set(0);
        self.missing_slots.set(0);
        self.room.take().iter().for_each(&mut wake);
        self.line.wake_first(usize::MAX, wake);
        self.machine.borrow_mut().reservations.note_woken(now);
    }

    /// Calls `wake` for every waiter, because the session has ended.
    pub fn wake_all(&self, mut wake: impl FnMut(&W)) {
        self.room.take().iter().for_each(&mut wake);
        self.line.wake_all(&mut wake);
        let asked = self.machine.borrow_mut().reservations.drain();
        asked.for_each(|waiter| wake(&waiter));
    }

    /// Returns the number of requests that are not known to be accepted, and of those in a special state.
    pub fn open(&self) -> (u64, usize) {
        let machine = self.machine();
        self.set_credit(&machine);
        (machine.sender.open(), machine.sender.special())
    }

    /// Returns the number of the next request, and of the first that is not known to be accepted.
    pub fn numbers(&self) -> (u64, u64) {
        let machine = self.machine();
        self.set_credit(&machine);
        (machine.sender.out(), machine.sender.safe())
    }

    /// Returns the number of senders that have asked for room and have not sent.
    pub fn asking(&self) -> usize {
        self.machine.borrow().reservations.len()
    }
}
