//! The decisions of one side of a session: which request may go, how, and in whose turn; which request of
//! the peer is accepted; which replies and handlers wait, and for how long.
//!
//! The drivers of sessions, which are nodes, handles and the simulator, hold one [`Session`] for each and
//! do what it says. It does no I/O, holds no payload and reads no clock; time is an argument. A [`Side`]
//! says which types a driver keeps in it.
//!
//! On the common path two plain cells stand for all of it. *Credit* is how many requests may go without a
//! question ([`Outbound::may_go`]); it is 0 whenever anything is unusual. *Open* says that a request may
//! be accepted at once ([`Inbound::is_clear`]). Every other method first takes back what was counted
//! there. Invariant: what waits is bounded by what the peer, or a caller of this side, may have open.

mod line;
mod asked;
mod copies;
mod outbound;
mod inbound;
mod owed;
mod charge;
mod expiries;
mod growth;
mod slabs;

pub use self::asked::Grant;
pub use self::charge::Charge;
pub use self::expiries::Expiries;
pub use self::growth::Growth;
pub use self::inbound::{Inbound, Placed};
pub use self::line::Line;
pub use self::outbound::{Bounds, Lack, Outbound, Room};
pub use self::owed::{CLASSES, Owed, Waiting, class_of};
pub use self::slabs::{SLAB_KEPT_NS, Shape, Slabs, Use};

use crate::channel::call::{CallTable, Serving};
use crate::fault::Rule;
use crate::flow::{Purse, ReplyBudget, Share, Step};
use crate::frame::CallNumber;
use crate::limits::{PLACES_RESERVED, REPLIES_AHEAD_BYTES, SHORT_BYTES, UNREAD_BYTES_MAX};
use crate::mutant::{Mutant, mutated};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell, RefMut};

/// The types that a driver of sessions keeps in them.
pub trait Side {
    /// A sender that waits, to be woken.
    type Sender: Clone;
    /// A request of the peer that waits, or a hold on one.
    type Request;
    /// A frame that waits to be written.
    type Frame;
    /// The waiter of an open call.
    type Caller: Copy + Default;
    /// A handler that has become a task.
    type Task: Copy + Default;

    /// Returns how many bytes of a request that waits lay in the ring and were copied.
    fn copied(request: &Self::Request) -> usize;
}

/// The bounds of one side of a session.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The bounds of the requests of this side.
    pub outbound: Bounds,
    /// The bounds of the peer's.
    pub inbound: Bounds,
    /// Bytes that accepted requests of the session may hold, and as many that replies may hold that wait.
    pub share: u64,
    /// Requests that may be accepted before the peer is shown.
    pub unshown: u64,
    /// Bytes of replies that wait, from which on no requests are taken.
    pub ahead: u64,
    /// Bytes of copies of unread replies, from which on a reply is dropped.
    pub unread: usize,
}

impl Terms {
    /// The terms of [`limits`](crate::limits) with this share, for a sender that asks for room first or
    /// does not.
    pub const fn new(optimistic: bool, share: u64) -> Terms {
        Terms {
            outbound: Bounds::new(optimistic),
            inbound: Bounds::new(true),
            share,
            // A part of those that may be on their way when each asks for room.
            unshown: PLACES_RESERVED as u64 / 4,
            ahead: REPLIES_AHEAD_BYTES,
            unread: UNREAD_BYTES_MAX,
        }
    }
}

/// The outcome of an attempt to write a reply that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was written.
    Sent,
    /// It found no room, and waits on.
    NoRoom,
    /// It cannot be sent at all, and waits no more.
    Refused,
}

/// The target of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled<T, P> {
    /// A handler that has become a task: it is to be ended.
    Task(T),
    /// A request that waited, and does not any more: its caller gets a failure.
    Kept(P),
    /// None: the reply is on its way already.
    Gone,
}

/// The way in which a reply is kept that nobody reads now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// In the peer's buffer, in which it lies.
    InPlace,
    /// As a copy; its buffer goes back.
    Copied,
    /// Not at all: too much is kept already.
    Dropped,
}

/// One side of a session.
///
/// ```
/// use upbeat_core::flow::{Purse, ReplyBudget};
/// use upbeat_core::session::{Session, Side, Terms};
///
/// struct Example;
///
/// impl Side for Example {
///     type Sender = u32;
///     type Request = &'static str;
///     type Frame = &'static str;
///     type Caller = u32;
///     type Task = u32;
///
///     fn copied(_: &&'static str) -> usize {
///         0
///     }
/// }
///
/// let (purse, replies) = (Purse::new(1 << 20), ReplyBudget::default());
/// let session = Session::<Example>::new(&Terms::new(true, 1 << 20), replies);
/// let call = session.open_call(7).unwrap();
/// assert!(session.outbound().may_go() && session.may_accept(false, None, &purse));
/// assert_eq!(session.queue_frame("a cancel"), Ok(true));
/// assert!(!session.outbound().may_go(), "the frame goes first");
/// assert_eq!(session.end(), [(call, 7)]);
/// ```
pub struct Session<S: Side> {
    outbound: Outbound<S::Sender>,
    inbound: Inbound<S::Request>,
    calls: CallTable<S::Caller>,
    /// Calls that wait for a number, in order.
    numbers: Line<S::Sender>,
    serving: RefCell<Serving<S::Task>>,
    owed: RefCell<Owed<S::Frame>>,
    /// A bit for each class of buffers for which replies wait.
    classes: Cell<u8>,
    replies: ReplyBudget,
    /// Bytes of the copies that are kept of unread replies.
    unread: Cell<usize>,
    unread_max: usize,
    ended: Cell<bool>,
}

impl<S: Side> Session<S> {
    /// A session in which nothing was sent. The replies that wait are charged to this budget.
    pub fn new(terms: &Terms, replies: ReplyBudget) -> Session<S> {
        let share = Share::new(terms.share);
        Session {
            outbound: Outbound::new(terms.outbound),
            inbound: Inbound::new(terms.inbound, share, terms.unshown, S::copied),
            calls: CallTable::new(),
            numbers: Line::new(),
            serving: RefCell::new(Serving::new()),
            owed: RefCell::new(Owed::new(terms.share, terms.ahead)),
            classes: Cell::new(0),
            replies,
            unread: Cell::new(0),
            unread_max: terms.unread,
            ended: Cell::new(false),
        }
    }

    /// Returns the requests of this side.
    #[inline(always)]
    pub const fn outbound(&self) -> &Outbound<S::Sender> {
        &self.outbound
    }

    /// Returns the requests of the peer.
    #[inline(always)]
    pub const fn inbound(&self) -> &Inbound<S::Request> {
        &self.inbound
    }

    /// Returns the open calls of this side.
    #[inline(always)]
    pub const fn calls(&self) -> &CallTable<S::Caller> {
        &self.calls
    }

    /// Returns the handlers of the peer's requests that have become tasks.
    #[inline(always)]
    pub fn serving(&self) -> RefMut<'_, Serving<S::Task>> {
        self.serving.borrow_mut()
    }

    /// Returns the line of calls that wait for a number.
    #[inline(always)]
    pub const fn numbers(&self) -> &Line<S::Sender> {
        &self.numbers
    }

    /// Whether the session has ended.
    pub const fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// Opens a call. Returns none if as many are open as may be, or others wait for numbers before it.
    #[inline(always)]
    pub fn open_call(&self, caller: S::Caller) -> Option<CallNumber> {
        if self.numbers.stands() && !self.may_open() {
            return None;
        }
        self.calls.open(caller).ok()
    }

    /// Whether no other call that waits for a number comes first. The end of a session keeps none waiting.
    #[cold]
    fn may_open(&self) -> bool {
        self.numbers.is_in_turn() || self.ended.get()
    }

    /// Whether requests of the peer are accepted, as far as the replies go that wait.
    pub fn takes_requests(&self) -> bool {
        self.owed.borrow().takes_requests(&self.replies.budget())
    }

    /// Finds out anew whether a request may be accepted at once.
    pub fn look_clear(&self, purse: &Purse) -> bool {
        self.inbound.look_clear(&purse.budget(), self.takes_requests())
    }

    /// Whether a request that has come is accepted at once. `granted` is one for which room was granted,
    /// which has a place; `placed` are the bytes of one that lies in a buffer, for a long one finds no room
    /// in a node that others overload.
    pub fn may_accept(&self, granted: bool, placed: Option<usize>, purse: &Purse) -> bool {
        (self.inbound.is_clear() || self.look_clear(purse))
            && !granted
            && placed.is_none_or(|bytes| self.inbound.admits(bytes, &purse.budget()))
    }

    /// Returns what can be done now for the requests that wait.
    pub fn step(&self, purse: &Purse) -> Option<Step<S::Request>> {
        purse.with(|budget| self.inbound.step(budget, self.takes_requests()))
    }

    /// The peer takes back a reservation. Returns the request, if it had come.
    pub fn withdrawn(&self, number: u64, purse: &Purse) -> Result<Option<S::Request>, Rule> {
        purse.with(|budget| self.inbound.withdrawn(number, budget))
    }

    /// The peer gives up a call of its own. `is_it` looks for its request among those that wait.
    pub fn cancel(
        &self,
        call: CallNumber,
        is_it: impl FnMut(&S::Request) -> bool,
        purse: &Purse,
    ) -> Cancelled<S::Task, S::Request> {
        if mutated(Mutant::CancelIgnored) {
            return Cancelled::Gone;
        }
        // Without a task the reply is on its way already, or the call waits for its turn.
        if let Some(task) = self.serving.borrow_mut().task_mut(call) {
            return Cancelled::Task(*task);
        }
        match purse.with(|budget| self.inbound.cancel(is_it, budget)) {
            Some(request) => Cancelled::Kept(request),
            None => Cancelled::Gone,
        }
    }

    /// Whether a reply of so many bytes goes behind others of its class, which wait for buffers.
    #[inline]
    pub fn goes_behind(&self, bytes: usize) -> bool {
        let classes = self.classes.get();
        classes != 0 && bytes > SHORT_BYTES && classes & 1 << class_of(bytes) != 0
    }

    /// Returns a bit for each class of buffers for which replies wait.
    #[inline]
    pub const fn classes(&self) -> u8 {
        self.classes.get()
    }

    /// Returns the number of frames that wait, and the bytes that are charged for replies among them.
    pub fn owed(&self) -> (usize, u64) {
        let owed = self.owed.borrow();
        (owed.len(), owed.held())
    }

    /// Calls `with` with each frame that waits, those in order first.
    pub fn each_owed(&self, with: impl FnMut(&S::Frame)) {
        self.owed.borrow().iter().for_each(with);
    }

    /// Whether a reply of so many bytes may wait.
    pub fn admits_reply(&self, bytes: usize) -> bool {
        self.owed.borrow().admits(bytes, &self.replies.budget())
    }

    /// Queues a control frame, or the failure of a call, which goes before all requests. Returns whether
    /// it waits: not after the end of the session. A peer for which too many frames wait breaks a rule.
    pub fn queue_frame(&self, frame: S::Frame) -> Result<bool, Rule> {
        if !self.may_queue()? {
            return Ok(false);
        }
        self.owed.borrow_mut().push_frame(frame);
        self.outbound.bar(true);
        Ok(true)
    }

    /// Queues a reply of so many bytes that [may wait](Session::admits_reply). While many do, requests of
    /// the session are not accepted. Returns what [`Session::queue_frame`] does.
    pub fn queue_reply(&self, frame: S::Frame, bytes: usize) -> Result<bool, Rule> {
        if !self.may_queue()? {
            return Ok(false);
        }
        let mut owed = self.owed.borrow_mut();
        self.replies.with(|budget| owed.push_reply(frame, bytes, budget));
        self.classes.set(owed.classes());
        if bytes <= SHORT_BYTES {
            self.outbound.bar(true);
        }
        if !owed.takes_requests(&self.replies.budget()) {
            self.inbound.stop_short();
        }
        Ok(true)
    }

    /// Whether one more frame may wait.
    fn may_queue(&self) -> Result<bool, Rule> {
        if self.ended.get() {
            return Ok(false);
        }
        let serving = self.serving.borrow().len();
        self.owed.borrow().may_wait(serving)?;
        Ok(true)
    }

    /// Writes the replies for which there are buffers by now: of each class in order. Returns whether
    /// there were any.
    pub fn write_replies(&self, mut write: impl FnMut(&S::Frame) -> Written) -> bool {
        if self.classes.get() == 0 {
            return false;
        }
        let mut any = false;
        for class in 0..CLASSES {
            while let Some(reply) = self.pop_reply(class) {
                if write(&reply.frame) == Written::NoRoom {
                    self.owed.borrow_mut().put_back_reply(reply, class);
                    break;
                }
                any |= self.release(&reply);
            }
        }
        self.classes.set(self.owed.borrow().classes());
        any
    }

    /// Writes the frames that wait in order, as far as there is room, before which no request goes.
    /// Returns whether there were replies among them.
    pub fn write_frames(&self, mut write: impl FnMut(&S::Frame) -> bool) -> bool {
        let mut any = false;
        while let Some(frame) = self.pop_frame() {
            if !write(&frame.frame) {
                self.owed.borrow_mut().put_back_frame(frame);
                self.bar_requests();
                return any;
            }
            any |= self.release(&frame);
        }
        self.bar_requests();
        any
    }

    fn bar_requests(&self) {
        let bars = self.ended.get() || self.owed.borrow().bars();
        self.outbound.bar(bars);
    }

    // The queue is not borrowed while a frame is written: what is written may queue another.
    fn pop_frame(&self) -> Option<Waiting<S::Frame>> {
        self.owed.borrow_mut().pop_frame()
    }

    fn pop_reply(&self, class: usize) -> Option<Waiting<S::Frame>> {
        self.owed.borrow_mut().pop_reply(class)
    }

    fn release(&self, waiting: &Waiting<S::Frame>) -> bool {
        let mut owed = self.owed.borrow_mut();
        self.replies.with(|budget| owed.release(waiting, budget))
    }

    /// Whether requests that wait may be accepted now that replies were written.
    pub fn may_step(&self) -> bool {
        self.inbound.waiting() != 0 && self.takes_requests()
    }

    /// Decides how a reply of so many bytes is kept that nobody reads now. `keeps` says whether it lies in
    /// a buffer of the peer that may be kept; the buffers that are left serve the replies of other calls.
    /// A copy is counted until it [was read](Session::was_read).
    pub fn keep_unread(&self, bytes: usize, keeps: impl FnOnce() -> bool) -> Unread {
        if keeps() {
            return Unread::InPlace;
        }
        let unread = self.unread.get();
        if unread >= self.unread_max && !mutated(Mutant::UnreadUnbounded) {
            return Unread::Dropped;
        }
        self.unread.set(unread + bytes);
        Unread::Copied
    }

    /// The copy of an unread reply is kept no more.
    pub fn was_read(&self, bytes: usize) {
        if !mutated(Mutant::ReadStaysCounted) {
            self.unread.set(self.unread.get() - bytes);
        }
    }

    /// Returns the bytes of the copies that are kept of unread replies.
    pub const fn unread(&self) -> usize {
        self.unread.get()
    }

    /// Ends the session: nothing is sent or queued any more. Returns the callers of the open calls, which
    /// get no reply.
    pub fn end(&self) -> Vec<(CallNumber, S::Caller)> {
        self.ended.set(true);
        self.forget_owed();
        self.outbound.bar(true);
        if mutated(Mutant::LostKeepsCalls) {
            return Vec::new();
        }
        self.calls.drain().collect()
    }

    /// Returns the handlers of calls of the peer, whose session has ended. They are ended, or go on
    /// without it.
    pub fn take_served(&self) -> Vec<(CallNumber, S::Task)> {
        if mutated(Mutant::LostKeepsTasks) {
            return Vec::new();
        }
        self.serving.borrow_mut().drain().collect()
    }

    /// Forgets all requests of the peer that wait, and returns them.
    pub fn forget_requests(&self, purse: &Purse) -> Vec<S::Request> {
        purse.with(|budget| self.inbound.clear(budget))
    }

    fn forget_owed(&self) {
        let mut owed = self.owed.borrow_mut();
        self.replies.with(|budget| owed.clear(budget));
        self.classes.set(0);
    }
}

impl<S: Side> Drop for Session<S> {
    fn drop(&mut self) {
        self.forget_owed();
    }
}

#[cfg(test)]
mod tests;
