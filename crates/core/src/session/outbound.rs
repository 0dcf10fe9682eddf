//! The requests of this side: which may go, how, in whose turn, and what those that may not wait for.

use super::asked::{Asked, Grant};
use super::copies::Copies;
use super::line::Line;
use crate::fault::Rule;
use crate::flow::{Sender, Way};
use crate::limits::{
    COPIED_BYTES_MAX, GRANT_KEPT_NS, IN_RING_BYTES_MAX, OPTIMISM, PLACES_RESERVED,
};
use crate::mutant::{Mutant, mutated};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// The bounds of one direction of a session, which both sides know beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests that may be on their way without room having been asked for.
    pub optimism: usize,
    /// Requests beyond those: short ones, and those for which room is asked.
    pub reserved: usize,
    /// Bytes of refused requests in the ring that the receiver copies.
    pub copied: usize,
    /// Nanoseconds for which a grant is kept for a sender that does not respond.
    pub grant_kept: u64,
}

impl Bounds {
    /// The bounds of [`limits`](crate::limits), for a sender that asks for room first or does not.
    pub const fn new(optimistic: bool) -> Bounds {
        let optimism = if optimistic { OPTIMISM } else { 0 };
        let (copied, grant_kept) = (COPIED_BYTES_MAX, GRANT_KEPT_NS);
        Bounds { optimism, reserved: PLACES_RESERVED, copied, grant_kept }
    }

    /// Places that the receiver keeps.
    pub const fn places(&self) -> usize {
        self.optimism + self.reserved
    }
}

/// Where a request that is longer than a slot lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// In consecutive slots of the ring, if it fits and finds them.
    Ring,
    /// In a buffer.
    Buffer,
    /// Nowhere: room is to be asked for first.
    Ask,
}

/// The resource that a waiting request lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
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
/// use upbeat_core::session::{Bounds, Outbound, Room};
///
/// let outbound = Outbound::<()>::new(Bounds::new(true));
/// assert!(outbound.may_go());
/// outbound.went();
/// assert_eq!(outbound.room(1 << 20, || 0), Ok(Room::Buffer));
/// assert_eq!(outbound.heard(1), Ok(4160));
/// ```
#[derive(Debug)]
pub struct Outbound<W> {
    /// Requests that may go without a question.
    credit: Cell<u32>,
    /// As many as there were when the machine was asked last.
    given: Cell<u32>,
    /// Whether no request of ours is refused: then longer ones lie in the ring as well.
    calm: Cell<bool>,
    /// Whether frames are written before any request.
    barred: Cell<bool>,
    bounds: Bounds,
    /// The resources that waiting requests lack, a bit each.
    lacking: Cell<u8>,
    line: Line<W>,
    machine: RefCell<Machine<W>>,
    /// Those that wait for room, in no order: they have their places by their numbers.
    room: RefCell<Vec<W>>,
}

#[derive(Debug)]
struct Machine<W> {
    sender: Sender,
    copies: Copies,
    asked: Asked<W>,
}

impl<W: Clone> Outbound<W> {
    /// A direction in which nothing was sent.
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
            line: Line::new(),
            machine: RefCell::new(Machine { sender, copies, asked: Asked::new(bounds.grant_kept) }),
            room: RefCell::new(Vec::new()),
        }
    }

    /// Whether a short request may go without a question. A longer one asks [`Outbound::room`] as well.
    #[inline(always)]
    pub fn may_go(&self) -> bool {
        self.credit.get() != 0
    }

    /// It went.
    #[inline(always)]
    pub fn went(&self) {
        self.credit.set(self.credit.get() - 1);
    }

    /// The machine, told what went without it.
    fn machine(&self) -> core::cell::RefMut<'_, Machine<W>> {
        let mut machine = self.machine.borrow_mut();
        let went = self.given.replace(0) - self.credit.replace(0);
        if !mutated(Mutant::WentUntold) {
            machine.sender.went(u64::from(went));
        }
        machine
    }

    /// Lets requests go without a question, as many as may.
    fn go_on(&self, machine: &Machine<W>) {
        let is_held = self.line.stands() && !mutated(Mutant::CreditPassesLine) || self.barred.get();
        let left = if is_held { 0 } else { machine.sender.window_left() as u32 };
        self.credit.set(left);
        self.given.set(left);
        self.calm.set(machine.sender.is_calm());
    }

    /// Something is unusual, or is no more: finds out anew how many may go without a question.
    fn reconsider(&self) {
        let machine = self.machine();
        self.go_on(&machine);
    }

    /// The peer says that it has accepted all requests before number `accepted`. Returns how many more may
    /// go.
    pub fn heard(&self, accepted: u64) -> Result<u64, Rule> {
        let machine = &mut *self.machine();
        machine.sender.heard(accepted)?;
        machine.copies.heard(&machine.sender);
        self.go_on(machine);
        Ok(machine.sender.window_left())
    }

    /// Whether the request that tries now may go, or ask for room. If not, what it lacks is noted.
    pub fn admits(&self, accepted: impl FnOnce() -> u64) -> Result<bool, Rule> {
        if !self.admits_granted() || !self.line.is_in_turn() {
            return Ok(false);
        }
        let may_go = self.heard(accepted())? != 0 || mutated(Mutant::WayNeverWaits);
        if !may_go {
            self.lacks(Lack::Place);
        }
        Ok(may_go)
    }

    /// The same with one for which room was granted: it has its place by its number.
    pub fn admits_granted(&self) -> bool {
        if self.barred.get() && !mutated(Mutant::BarIgnored) {
            self.lacks(Lack::Slot);
            return false;
        }
        true
    }

    /// A request goes of which that was found out.
    pub fn went_carefully(&self) {
        let mut machine = self.machine();
        machine.sender.went(1);
        self.go_on(&machine);
    }

    /// Where a request of so many payload bytes lies, more than a slot's. What the peer says that it has
    /// accepted is looked at if it matters.
    pub fn room(&self, bytes: usize, accepted: impl Fn() -> u64) -> Result<Room, Rule> {
        if !self.goes_unasked() {
            self.heard(accepted())?;
            if self.machine.borrow().sender.way(bytes) != Way::Go {
                return Ok(Room::Ask);
            }
        }
        if !self.calm.get() || bytes > IN_RING_BYTES_MAX {
            return Ok(Room::Buffer);
        }
        // What the peer refuses of the ring it copies.
        if !self.machine.borrow().copies.takes(bytes) {
            self.heard(accepted())?;
        }
        Ok(if self.machine.borrow().copies.takes(bytes) { Room::Ring } else { Room::Buffer })
    }

    /// Whether a request of so many bytes, longer than a slot, may go in the ring, as far as is known here.
    #[inline(always)]
    pub fn goes_in_ring(&self, bytes: usize) -> bool {
        self.goes_unasked() && self.machine.borrow().copies.takes(bytes)
    }

    /// Whether a request that is longer than a slot may go without asking for room, as far as is known here.
    #[inline(always)]
    fn goes_unasked(&self) -> bool {
        self.credit.get() > self.bounds.reserved as u32 && self.calm.get()
    }

    /// A request of so many bytes is about to count that has gone in the ring.
    pub fn went_in_ring(&self, bytes: usize) {
        let unasked = u64::from(self.given.get() - self.credit.get());
        let machine = &mut *self.machine.borrow_mut();
        machine.copies.went(machine.sender.out() + unasked, bytes);
    }

    /// Whether more requests may go than when one had to wait: a good part, or any.
    fn places_came(&self, part: bool, accepted: u64) -> bool {
        let came = accepted.abs_diff(self.machine.borrow().sender.safe());
        came >= if part { (self.bounds.places() as u64 / 4).max(1) } else { 1 }
    }

    /// Room was asked for; gives the request's number. It takes its place by this.
    pub fn ask(&self, waiter: W) -> u64 {
        let mut machine = self.machine();
        let number = machine.sender.reserved();
        machine.asked.ask(number, waiter);
        self.go_on(&machine);
        number
    }

    /// Whether there is room for the request of this number, and it is its turn; if not, the waiter is
    /// woken then.
    pub fn poll_grant(&self, number: u64, waiter: &W) -> Grant {
        self.machine.borrow_mut().asked.poll(number, waiter)
    }

    /// The peer has room for the request of this number: its sender is to be woken.
    pub fn granted(&self, number: u64, now: u64) -> Result<Option<W>, Rule> {
        let mut machine = self.machine();
        let wanted = machine.sender.granted(number);
        self.go_on(&machine);
        Ok(if wanted? { machine.asked.granted(number, now) } else { None })
    }

    /// The peer has no room for the request of this number. It fetches it when it has.
    pub fn refused(&self, number: u64) -> Result<(), Rule> {
        let mut machine = self.machine();
        let refused = machine.sender.refused(number);
        self.go_on(&machine);
        refused
    }

    /// The granted request of this number has gone. Gives the sender whose turn it is.
    pub fn transferred(&self, number: u64, now: u64) -> Option<W> {
        let machine = &mut *self.machine.borrow_mut();
        machine.sender.transferred(number);
        machine.asked.end(number, now).1
    }

    /// Room is no longer wanted for the request of this number, unless it has gone. Gives whether the
    /// peer is to be told, and the sender whose turn it is.
    pub fn withdraw(&self, number: u64, now: u64) -> (bool, Option<W>) {
        let machine = &mut *self.machine.borrow_mut();
        let (was_asked, next) = machine.asked.end(number, now);
        (was_asked && machine.sender.withdraw(number), next)
    }

    /// The requests whose senders have not made use of their grants in time: they are to be withdrawn,
    /// for others wait behind them, here and at the receiver.
    pub fn unused_grants(&self, now: u64) -> Vec<u64> {
        self.machine.borrow().asked.unused(now)
    }

    /// For how many nanoseconds a grant is still kept for a sender that has not responded, if there is one.
    pub fn grants_kept(&self, now: u64) -> Option<u64> {
        self.machine.borrow().asked.kept(now)
    }

    /// The line of senders that wait for room.
    pub const fn line(&self) -> &Line<W> {
        &self.line
    }

    /// Has a sender wait in the line for room, at its ticket or at a new one. Returns the ticket.
    pub fn stand(&self, ticket: Option<u64>, waiter: &W) -> u64 {
        let ticket = self.line.stand(ticket, waiter);
        self.reconsider();
        ticket
    }

    /// A sender waits in the line no more; the next are given to `wake`.
    pub fn leave(&self, ticket: u64, wake: impl FnMut(W)) {
        self.line.leave(ticket, wake);
        self.reconsider();
    }

    /// Begins a round: senders that were woken and do not respond lose their turns. Returns whether any
    /// did: then the next are to be woken.
    pub fn pass_over(&self) -> bool {
        let passed = self.line.pass_over();
        if passed {
            self.reconsider();
        }
        passed
    }

    /// Has a sender wait for room that stands in no line: it has its place by the number of its request.
    pub fn wait_for_room(&self, waiter: &W, is_same: impl Fn(&W) -> bool) {
        let mut room = self.room.borrow_mut();
        if !room.iter().any(is_same) {
            room.push(waiter.clone());
        }
    }

    /// Frames wait that go before any request, or the session has ended; or they do not any more.
    pub fn bar(&self, barred: bool) {
        if self.barred.replace(barred) != barred {
            self.reconsider();
        }
    }

    /// Whether frames go before any request.
    #[inline(always)]
    pub fn is_barred(&self) -> bool {
        self.barred.get()
    }

    /// Notes what a request lacks that has to wait.
    pub fn lacks(&self, what: Lack) {
        self.lacking.set(self.lacking.get() | what as u8);
    }

    /// Whether any of what is lacking may be there now: a good part of it, so that not each message waits
    /// and is woken, or any.
    pub fn has_room(
        &self,
        part: bool,
        accepted: impl FnOnce() -> u64,
        has_slots: impl FnOnce() -> bool,
        has_buffers: impl FnOnce() -> bool,
    ) -> bool {
        let lacks = |what: Lack| self.lacking.get() & what as u8 != 0;
        !self.barred.get()
            && (lacks(Lack::Slot) && has_slots()
                || lacks(Lack::Buffer) && has_buffers() && !mutated(Mutant::BufferUnnoticed)
                || lacks(Lack::Place)
                    && self.places_came(part, accepted())
                    && !mutated(Mutant::PlaceUnnoticed)
                || self.room.borrow().is_empty() && !self.line.stands())
    }

    /// There is room: those that wait for it are given to `wake`, the first of the line among them.
    pub fn room_came(&self, now: u64, mut wake: impl FnMut(&W)) {
        self.lacking.set(0);
        self.room.take().iter().for_each(&mut wake);
        self.line.wake_first(usize::MAX, wake);
        self.machine.borrow_mut().asked.note_woken(now);
    }

    /// Gives everybody who waits to `wake`, for the session has ended.
    pub fn wake_all(&self, mut wake: impl FnMut(&W)) {
        self.room.take().iter().for_each(&mut wake);
        self.line.wake_all(&mut wake);
        let asked = self.machine.borrow_mut().asked.drain();
        asked.for_each(|waiter| wake(&waiter));
    }

    /// Requests that are not known to be accepted, and those of which more is known than that.
    pub fn open(&self) -> (u64, usize) {
        let machine = self.machine();
        self.go_on(&machine);
        (machine.sender.open(), machine.sender.special())
    }

    /// The number of the next request, and of the first that is not known to be accepted.
    pub fn numbers(&self) -> (u64, u64) {
        let machine = self.machine();
        self.go_on(&machine);
        (machine.sender.out(), machine.sender.safe())
    }

    /// Whether the request of this number has asked for room and has not gone.
    pub fn has_asked(&self, number: u64) -> bool {
        self.machine.borrow().asked.has(number)
    }

    /// Senders that have asked for room and have not gone.
    pub fn asking(&self) -> usize {
        self.machine.borrow().asked.len()
    }
}
