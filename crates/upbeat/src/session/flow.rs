//! Flow control of a session: `core::flow` between the lanes and those who send and serve.
//!
//! On the common way nothing is decided. A sender has been told how many short requests may go without a
//! thought, and counts them down; a receiver knows that nothing waits and that there is room, and
//! counts up. All else goes through the machine, which is told those counts first.

use super::lent::Body;
use super::reserved::{Asked, Grant};
use super::write::{Lack, Put};
use super::{Fault, Session, Waiter, broken, misbehaved};
use crate::wire::Input;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::task::Waker;
use upbeat_core::fault::Rule;
use upbeat_core::flow::{Budget, Receiver, Sender, Share, Step};
use upbeat_core::frame::{CallNumber, Flags, Head, Kind};
use upbeat_core::limits::{
    CONTROL_SLOTS, COPIED_BYTES_MAX, MESSAGE_BYTES_MAX, PLACES_RESERVED, SESSION_BUDGET_BYTES,
    SHORT_BYTES, TAKEN_BYTES_MAX,
};

/// Requests that may be accepted before the peer is shown: a part of those that may be on their way
/// when each asks for room.
const ACCEPTED_UNSHOWN_MAX: u64 = PLACES_RESERVED as u64 / 4;

/// Marks by which it is known how much of what went in the ring was accepted.
const MARKS: usize = 16;

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
    machine: RefCell<Machine>,
    /// A good part of the requests that may be on their way.
    part: u64,
    /// Requests that may go without a thought.
    ahead: Cell<u32>,
    /// As many as there were when the machine was asked last.
    given: Cell<u32>,
    /// Requests of the peer's that were accepted.
    accepted: Cell<u64>,
    published: Cell<u64>,
    /// Whether a request may be accepted at once.
    clear: Cell<bool>,
    /// Whether requests stand in a queue, so that none goes without a thought.
    held: Cell<bool>,
    /// Whether no request of ours is refused: then longer ones lie in the ring as well.
    calm: Cell<bool>,
    /// Bytes of requests that wait here and lay in the ring.
    copied: Cell<usize>,
    /// What the peer would have to copy so.
    copies: RefCell<Copies>,
}

/// Bytes of our requests in the ring that are not known to be accepted. The peer copies those that
/// it refuses, and no more than [`COPIED_BYTES_MAX`].
#[derive(Default)]
struct Copies {
    sent: u64,
    accepted: u64,
    /// Now and then, a request and what had been sent with it: the first so many.
    marks: [(u64, u64); MARKS],
    marked: usize,
}

impl Copies {
    fn went(&mut self, number: u64, bytes: usize) {
        self.sent += bytes as u64;
        let marks = &self.marks[..self.marked];
        let last = marks.last().map_or(self.accepted, |(_, sent)| *sent);
        if self.marked < MARKS && self.sent - last >= (COPIED_BYTES_MAX / MARKS) as u64 {
            self.marks[self.marked] = (number, self.sent);
            self.marked += 1;
        }
    }

    fn heard(&mut self, sender: &Sender) {
        let marks = &self.marks[..self.marked];
        let past = marks.iter().take_while(|(number, _)| *number < sender.safe()).count();
        if let Some((_, sent)) = marks[..past].last() {
            self.accepted = *sent;
            self.marks.copy_within(past..self.marked, 0);
            self.marked -= past;
        }
        if sender.open() == 0 {
            self.accepted = self.sent;
            self.marked = 0;
        }
    }

    fn takes(&self, bytes: usize) -> bool {
        self.sent - self.accepted + bytes as u64 <= COPIED_BYTES_MAX as u64
    }
}

struct Machine {
    sender: Sender,
    receiver: Receiver<Kept>,
    share: Share,
    /// The senders that asked for room, by the numbers of their requests: granted requests go in this
    /// order. A later one could take the last buffer, in which it would wait at the receiver for the
    /// earlier one.
    asked: BTreeMap<u64, Asked>,
}

/// What is to be done for requests that wait.
pub(crate) type Next = Step<Kept>;

impl Flow {
    pub(super) fn new(terms: Terms) -> Flow {
        let machine = Machine {
            sender: Sender::new(terms.optimistic),
            receiver: Receiver::new(),
            share: Share::new(terms.share),
            asked: BTreeMap::new(),
        };
        let given = machine.sender.window_left() as u32;
        Flow {
            machine: RefCell::new(machine),
            part: u64::from(given / 4).max(1),
            ahead: Cell::new(given),
            given: Cell::new(given),
            accepted: Cell::new(0),
            published: Cell::new(0),
            clear: Cell::new(true),
            held: Cell::new(false),
            calm: Cell::new(true),
            copied: Cell::new(0),
            copies: RefCell::default(),
        }
    }

    /// Whether a request may go without a thought.
    #[inline(always)]
    pub(super) fn may_go(&self) -> bool {
        self.ahead.get() != 0
    }

    /// It went.
    #[inline(always)]
    pub(super) fn went(&self) {
        self.ahead.set(self.ahead.get() - 1);
    }

    /// The machine, told what went and came without it.
    fn machine(&self) -> std::cell::RefMut<'_, Machine> {
        let mut machine = self.machine.borrow_mut();
        machine.sender.went(u64::from(self.given.replace(0) - self.ahead.replace(0)));
        let behind = self.accepted.get() - machine.receiver.accepted();
        machine.receiver.accept(behind);
        machine
    }

    /// A request waits no more.
    fn gone(&self, kept: Option<&Kept>) {
        let bytes = kept.map_or(0, |kept| kept.body.copied());
        self.copied.set(self.copied.get() - bytes);
    }

    /// Wakes whose turn it is of those who asked for room, if it was granted.
    fn wake_granted(machine: &mut Machine) {
        if let Some(mut first) = machine.asked.first_entry()
            && first.get().granted
        {
            first.get_mut().wake();
        }
    }

    /// Lets requests go without a thought, as many as may.
    fn go_on(&self, machine: &Machine) {
        let left = if self.held.get() { 0 } else { machine.sender.window_left() as u32 };
        self.ahead.set(left);
        self.given.set(left);
        self.calm.set(machine.sender.is_calm());
    }
}

impl Session {
    /// A request may be accepted at once.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.flow.clear.get()
    }

    /// A request is accepted at once.
    #[inline(always)]
    pub(crate) fn accept(&self) {
        self.flow.accepted.set(self.flow.accepted.get() + 1);
    }

    /// Tells the peer now and then how many of its requests were accepted. A peer that waits for
    /// that is told by whoever relieves it.
    #[inline(always)]
    pub(super) fn show_accepted(&self) {
        if self.flow.accepted.get() - self.flow.published.get() >= ACCEPTED_UNSHOWN_MAX {
            self.publish_accepted();
        }
    }

    /// Tells the peer how many of its requests were accepted.
    #[cold]
    pub(crate) fn publish_accepted(&self) {
        let accepted = self.flow.accepted.get();
        if accepted != self.flow.published.replace(accepted) {
            self.carrier.lanes.publish_accepted(accepted);
        }
    }

    /// Finds out anew how many requests may go.
    pub(super) fn look_ahead(&self) -> Result<u64, Put> {
        let mut machine = self.flow.machine();
        let accepted = self.carrier.lanes.peer_accepted();
        machine.sender.heard(accepted).map_err(|rule| Put::Ended(misbehaved(rule)))?;
        self.flow.copies.borrow_mut().heard(&machine.sender);
        self.flow.go_on(&machine);
        Ok(machine.sender.window_left())
    }

    /// A request has gone of which that was found out.
    pub(super) fn went_carefully(&self) {
        let mut machine = self.flow.machine();
        machine.sender.went(1);
        self.flow.go_on(&machine);
    }

    /// Whether a request that does not fit a slot may go unasked, and if so whether in the ring.
    pub(super) fn may_go_longer(&self) -> Result<(bool, bool), Put> {
        let flow = &self.flow;
        if flow.ahead.get() <= PLACES_RESERVED as u32 || !flow.calm.get() {
            let may_go = self.look_ahead()? > PLACES_RESERVED as u64;
            return Ok((may_go, flow.calm.get()));
        }
        Ok((true, true))
    }

    /// Whether a request of so many bytes, longer than a slot, may go in the ring, as far as is known here.
    #[inline(always)]
    pub(super) fn goes_in_ring(&self, bytes: usize) -> bool {
        let flow = &self.flow;
        let may_go = flow.ahead.get() > PLACES_RESERVED as u32 && flow.calm.get();
        may_go && flow.copies.borrow().takes(bytes)
    }

    /// Whether so many bytes more may go in the ring, which the peer copies if it refuses them.
    pub(super) fn may_be_copied(&self, bytes: usize) -> Result<bool, Put> {
        if !self.flow.copies.borrow().takes(bytes) {
            self.look_ahead()?;
        }
        Ok(self.flow.copies.borrow().takes(bytes))
    }

    /// A request of so many bytes is about to count that has gone in the ring.
    #[inline]
    pub(super) fn went_in_ring(&self, bytes: usize) {
        let flow = &self.flow;
        let unasked = u64::from(flow.given.get() - flow.ahead.get());
        let number = flow.machine.borrow().sender.out() + unasked;
        flow.copies.borrow_mut().went(number, bytes);
    }

    /// Requests stand in a queue: all others are looked at.
    pub(super) fn hold_flow(&self) {
        if !self.flow.held.replace(true) {
            drop(self.flow.machine());
        }
    }

    /// Nobody stands in it any more.
    pub(super) fn release_flow(&self) {
        self.flow.held.set(false);
    }

    /// Whether more requests may go than when one had to wait: a good part, or any.
    pub(super) fn places_came(&self, part: bool) -> bool {
        let came =
            self.carrier.lanes.peer_accepted().abs_diff(self.flow.machine.borrow().sender.safe());
        came >= if part { self.flow.part } else { 1 }
    }

    /// Asks for room for a request of so many bytes, which takes its place by this: its number.
    pub(crate) fn ask(&self, bytes: usize, waker: &Waker) -> Result<u64, Put> {
        if self.barred.get() {
            return Err(self.not_now());
        }
        if !self.queue.is_in_turn() {
            return Err(Put::Full);
        }
        if self.look_ahead()? == 0 {
            return Err(self.lacks(Lack::Place));
        }
        let mut claim = self.slots(1, CONTROL_SLOTS as u32)?;
        let mut machine = self.flow.machine();
        claim.write_word(0, Budget::price(bytes));
        claim.commit(Head::reserve().words(), 8);
        let number = machine.sender.reserved();
        machine.asked.insert(number, Asked::new(waker.clone()));
        self.flow.go_on(&machine);
        Ok(number)
    }

    /// Whether there is room for the request of this number, and it is its turn; if not, the waker
    /// is woken then.
    pub(crate) fn grant_of(&self, number: u64, waker: &Waker) -> Grant {
        let machine = &mut *self.flow.machine.borrow_mut();
        let first = machine.asked.first_key_value().map(|(first, _)| *first);
        match machine.asked.get_mut(&number) {
            Some(asked) => asked.responds(first == Some(number), waker),
            // That it has ended is found out by whoever tries.
            None if self.ended().is_some() => Grant::Here,
            None => Grant::Lost,
        }
    }

    /// Whether the request of this number still waits for room.
    pub(crate) fn still_asks(&self, number: u64, waker: &Waker) -> bool {
        matches!(self.grant_of(number, waker), Grant::Awaited)
    }

    /// There is room in the lane, for which the first that has a grant may wait: it is woken.
    pub(super) fn room_came(&self) {
        if let Some(mut first) = self.flow.machine.borrow_mut().asked.first_entry()
            && first.get().granted
        {
            first.get_mut().note_woken();
        }
    }

    /// Gives back room that was granted to senders that do not respond. Others wait behind them, here
    /// and at the receiver. When such a sender is polled again, it asks anew.
    pub(crate) fn withdraw_unused_grants(&self) {
        let unused: Vec<u64> = {
            let asked = &self.flow.machine.borrow().asked;
            asked
                .iter()
                .filter(|(_, asked)| asked.kept_ns() == Some(0))
                .map(|(at, _)| *at)
                .collect()
        };
        for number in unused {
            self.withdraw(number);
        }
    }

    /// For how many nanoseconds a grant is still kept for a sender that has not responded, if there is one.
    pub(crate) fn grants_kept_ns(&self) -> Option<u64> {
        self.flow.machine.borrow().asked.values().filter_map(Asked::kept_ns).min()
    }

    /// The request of this number has gone.
    pub(super) fn transferred(&self, number: u64) {
        let mut machine = self.flow.machine.borrow_mut();
        machine.sender.transferred(number);
        machine.asked.remove(&number);
        Flow::wake_granted(&mut machine);
    }

    /// Room is no longer wanted for the request of this number, unless it has gone. Gives whether the
    /// peer is told.
    pub(crate) fn withdraw(&self, number: u64) -> bool {
        if !self.is_here() {
            return false;
        }
        let mut machine = self.flow.machine.borrow_mut();
        let was_asked = machine.asked.remove(&number).is_some();
        Flow::wake_granted(&mut machine);
        let tell = was_asked && machine.sender.withdraw(number) && self.ended().is_none();
        drop(machine);
        if tell {
            self.send_surely(Head::withdraw(number), Vec::new());
        }
        tell
    }

    /// The peer has no room for a request of ours. It fetches it when it has.
    pub(crate) fn refused(&self, head: &Head) -> Result<(), Fault> {
        let number = head.call.as_u64();
        let mut machine = self.flow.machine();
        let refused = machine.sender.refused(number).map_err(misbehaved);
        self.flow.go_on(&machine);
        refused
    }

    /// The peer has room for a request of ours.
    pub(crate) fn granted(&self, head: &Head) -> Result<(), Fault> {
        let number = head.call.as_u64();
        let mut machine = self.flow.machine();
        let wanted = machine.sender.granted(number).map_err(misbehaved)?;
        self.flow.go_on(&machine);
        // Behind others too, so that it is known whether it responds.
        if wanted && let Some(asked) = machine.asked.get_mut(&number) {
            asked.granted = true;
            asked.wake();
        }
        Ok(())
    }

    /// Wakes everybody who waits for room that was asked for.
    pub(super) fn wake_asking(&self, mut wake: impl FnMut(Waiter)) {
        for (_, asked) in std::mem::take(&mut self.flow.machine.borrow_mut().asked) {
            wake(Waiter::Waker(asked.into_waker()));
        }
    }

    /// Requests of the peer's that wait to be accepted.
    pub(crate) fn waiting(&self) -> usize {
        self.flow.machine.borrow().receiver.waiting()
    }

    /// Whether there is room for the request that lies open, where any may be accepted at once: a
    /// long one finds none in a node that others overload.
    pub(crate) fn admits(&self, head: &Head, budget: &Budget) -> bool {
        self.placed_bytes(head).is_none_or(|bytes| {
            budget.admits(&self.flow.machine.borrow().share, Budget::price(bytes))
        })
    }

    /// The next request is not accepted at once.
    pub(crate) fn stop_short(&self) {
        self.flow.clear.set(false);
    }

    /// Finds out anew whether a request may be accepted at once.
    pub(crate) fn look_clear(&self, budget: &Budget) -> bool {
        let machine = self.flow.machine.borrow();
        let admits = budget.admits(&machine.share, 0) && self.takes_requests();
        let clear = machine.receiver.waiting() == 0 && admits;
        self.flow.clear.set(clear);
        clear
    }

    /// The request that lies open waits: in its place if it is short, else in its sender's buffer.
    pub(crate) fn keep_request(&self, head: &Head, now_ns: u64) -> Result<(), Fault> {
        let reader = self.carrier.lanes.reader();
        let deadline = self.deadline_us(head).map(|had| (now_ns, had));
        let body = self.take_body(head)?;
        let len = body.input().remaining();
        self.flow.copied.set(self.flow.copied.get() + body.copied());
        if self.flow.copied.get() > COPIED_BYTES_MAX {
            return Err(broken(&"more of its requests are refused than a lane holds"));
        }
        let kept = Kept { head: *head, body, deadline };
        let mut machine = self.flow.machine();
        let placed = match head.flags.offset_of(Flags::GRANTED) {
            None => machine.receiver.keep(kept, Budget::price(len)).map(Some),
            Some(at) => {
                let number = reader.read_word(at as usize);
                machine.receiver.fill(number, kept, Budget::price(len)).map(|()| None)
            }
        };
        self.flow.go_on(&machine);
        self.flow.clear.set(false);
        drop(machine);
        match placed.map_err(misbehaved)? {
            Some(number) if len > SHORT_BYTES => self.send_surely(Head::nack(number), Vec::new()),
            _ => {}
        }
        Ok(())
    }

    /// The peer asks for room for a request.
    pub(crate) fn keep_reservation(&self) -> Result<(), Fault> {
        let bytes = self.carrier.lanes.reader().read_word(0);
        let most = Budget::price(MESSAGE_BYTES_MAX);
        if bytes > most {
            return Err(misbehaved(Rule::BeyondReserved { len: bytes, reserved: most }));
        }
        let mut machine = self.flow.machine();
        let placed = machine.receiver.await_grant(bytes).map_err(misbehaved);
        self.flow.go_on(&machine);
        self.flow.clear.set(false);
        placed.map(drop)
    }

    /// The peer takes a reservation back.
    pub(crate) fn withdrawn(&self, head: &Head, budget: &mut Budget) -> Result<(), Fault> {
        let machine = &mut *self.flow.machine.borrow_mut();
        let voided = machine.receiver.void(head.call.as_u64(), budget, &mut machine.share);
        voided.map(drop).map_err(misbehaved)
    }

    /// Gives up a call that waits here. False if none does.
    pub(crate) fn cancel_kept(&self, call: CallNumber, budget: &mut Budget) -> bool {
        let machine = &mut *self.flow.machine.borrow_mut();
        let is_it = |kept: &Kept| kept.head.kind == Kind::Call && kept.head.call == call;
        let Some(number) = machine.receiver.find(is_it) else { return false };
        let voided = machine.receiver.void(number, budget, &mut machine.share);
        voided.is_ok_and(|kept| {
            self.flow.gone(kept.as_ref());
            true
        })
    }

    /// What can be done now for requests that wait.
    pub(crate) fn next_step(&self, budget: &mut Budget) -> Option<Next> {
        if !self.takes_requests() {
            return None;
        }
        let machine = &mut *self.flow.machine();
        let step = machine.receiver.step(budget, &mut machine.share);
        self.flow.accepted.set(machine.receiver.accepted());
        self.flow.go_on(machine);
        if let Some(Step::Accept { request, .. }) = &step {
            self.flow.gone(Some(request));
        }
        step
    }

    /// Forgets all requests that wait.
    pub(crate) fn forget_kept(&self, budget: &mut Budget) -> Vec<Kept> {
        let machine = &mut *self.flow.machine.borrow_mut();
        self.flow.copied.set(0);
        machine.receiver.clear(budget, &mut machine.share)
    }

    /// Takes room for a request that goes on as a task, or gives it back.
    pub(crate) fn with_share<R>(&self, with: impl FnOnce(&mut Share) -> R) -> R {
        with(&mut self.flow.machine.borrow_mut().share)
    }
}
