//! The decisions of one side of a session: which request may be sent, how, and in which order; which request of
//! the peer is accepted; which replies and handlers wait, and for how long.
//!
//! A driver of sessions (a node or a handle) has one [`Session`] for each of them and executes its decisions. The
//! session does no I/O, holds no payload and reads no clock; time is an argument. A [`Side`] defines the types that a
//! driver keeps in the session.
//!
//! On the common path two plain cells replace all decisions. *Credit* is the number of requests that may be sent
//! without asking ([`Outbound::has_credit`]); it is 0 whenever anything is unusual. *Open* says that a request may be
//! accepted at once ([`Inbound::is_clear`]). Every other method first takes over what was counted in these cells.
//! Invariant: everything that waits is bounded by what the peer, or a caller of this side, may have open.

mod sender_queue;
mod reservations;
mod copies;
mod outbound;
mod inbound;
mod send_queue;
mod charge;
mod expiries;
mod growth;
mod slabs;

pub use self::charge::{Awaits, Charge};
pub use self::expiries::Expiries;
pub use self::growth::Growth;
pub use self::inbound::{Inbound, Placed};
pub use self::outbound::{Bounds, MissingResource, Outbound, RequestPlacement};
pub use self::reservations::Grant;
pub use self::send_queue::{CLASSES, SendQueue, Waiting, class_of};
pub use self::sender_queue::SenderQueue;
pub use self::slabs::{SLAB_KEPT_NS, Shape, Slabs, Use};

use crate::channel::call::{CallTable, Serving};
use crate::fault::Rule;
use crate::flow::{ReceiverAction, ReplyBudget, Share, SharedBudget};
use crate::frame::CallNumber;
use crate::limits::{PLACES_RESERVED, REPLIES_AHEAD_BYTES, SHORT_BYTES, UNREAD_BYTES_MAX};
use crate::mutant::{Mutant, mutated};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell, RefMut};

/// The types that a driver of sessions keeps in them.
pub trait Side {
    /// The waiter of a sender, which can be woken.
    type Sender: Clone;
    /// A request of the peer that waits, or a reference to one.
    type Request;
    /// A frame that waits to be sent.
    type Frame;
    /// The waiter of an open call.
    type Caller: Copy + Default;
    /// A handler that has become a task.
    type Task: Copy + Default;

    /// Returns the number of bytes of a waiting request that lay in the ring and were copied.
    fn copied(request: &Self::Request) -> usize;
}

/// The bounds of one side of a session.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The bounds of this side's requests.
    pub outbound: Bounds,
    /// The bounds of the peer's requests.
    pub inbound: Bounds,
    /// The bytes that accepted requests of the session may hold, and also those that waiting replies may hold.
    pub share: u64,
    /// The number of requests that may be accepted before the count is published to the peer.
    pub unshown: u64,
    /// The bytes of waiting replies from which on no requests are accepted.
    pub ahead: u64,
    /// The bytes of copied unread replies from which on a reply is dropped.
    pub unread: usize,
}

impl Terms {
    /// Returns the terms of [`limits`](crate::limits) with this share, for a sender that is optimistic or asks for
    /// room first.
    pub const fn new(optimistic: bool, share: u64) -> Terms {
        Terms {
            outbound: Bounds::new(optimistic),
            inbound: Bounds::new(true),
            share,
            // This is a part of the requests that may be on their way when each asks for room.
            unshown: PLACES_RESERVED as u64 / 4,
            ahead: REPLIES_AHEAD_BYTES,
            unread: UNREAD_BYTES_MAX,
        }
    }
}

/// The outcome of an attempt to send a waiting reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The reply was sent.
    Sent,
    /// The reply found no room and still waits.
    NoRoom,
    /// The reply cannot be sent at all, and waits no longer.
    Refused,
}

/// The target of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled<T, P> {
    /// A handler that has become a task, which the driver ends.
    Task(T),
    /// A request that was waiting and is removed; its caller gets a failure.
    Kept(P),
    /// None, because the reply is on its way already.
    Gone,
}

/// The way in which an unread reply is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadReply {
    /// The reply stays in the peer's buffer.
    InPlace,
    /// The reply is copied, and its buffer is returned.
    Copied,
    /// The reply is dropped, because too much is kept already.
    Dropped,
}

/// One side of a session.
///
/// ```
/// use upbeat_core::flow::{SharedBudget, ReplyBudget};
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
/// let (shared_budget, replies) = (SharedBudget::new(1 << 20), ReplyBudget::default());
/// let session = Session::<Example>::new(&Terms::new(true, 1 << 20), replies);
/// let call = session.open_call(7).unwrap();
/// assert!(session.outbound().has_credit() && session.may_accept(false, None, &shared_budget));
/// assert_eq!(session.queue_frame("a cancel"), Ok(true));
/// assert!(!session.outbound().has_credit(), "the frame is sent first");
/// assert_eq!(session.end(), [(call, 7)]);
/// ```
pub struct Session<S: Side> {
    outbound: Outbound<S::Sender>,
    inbound: Inbound<S::Request>,
    calls: CallTable<S::Caller>,
    /// The calls that wait for a number, in order.
    numbers: SenderQueue<S::Sender>,
    serving: RefCell<Serving<S::Task>>,
    owed: RefCell<SendQueue<S::Frame>>,
    /// One bit for each class of buffers for which replies wait.
    classes: Cell<u8>,
    replies: ReplyBudget,
    /// The bytes of the copies of unread replies.
    unread: Cell<usize>,
    unread_max: usize,
    ended: Cell<bool>,
}

impl<S: Side> Session<S> {
    /// Creates a session in which nothing was sent. Waiting replies are charged to the budget `replies`.
    pub fn new(terms: &Terms, replies: ReplyBudget) -> Session<S> {
        let share = Share::new(terms.share);
        Session {
            outbound: Outbound::new(terms.outbound),
            inbound: Inbound::new(terms.inbound, share, terms.unshown, S::copied),
            calls: CallTable::new(),
            numbers: SenderQueue::new(),
            serving: RefCell::new(Serving::new()),
            owed: RefCell::new(SendQueue::new(terms.share, terms.ahead)),
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

    /// Returns the queue of calls that wait for a number.
    #[inline(always)]
    pub const fn numbers(&self) -> &SenderQueue<S::Sender> {
        &self.numbers
    }

    /// Returns whether the session has ended.
    pub const fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// Opens a call if no other call waits for a number and one of the first entries is free. In all other cases
    /// [`Self::open_call`] decides.
    #[inline(always)]
    pub fn open_call_at_once(&self, caller: S::Caller) -> Option<CallNumber> {
        if self.numbers.has_waiters() { None } else { self.calls.open_first(caller) }
    }

    /// Opens a call. Returns none if the table is full, or if other calls wait for a number before it.
    pub fn open_call(&self, caller: S::Caller) -> Option<CallNumber> {
        if self.numbers.has_waiters() && !self.may_open() {
            return None;
        }
        self.calls.open(caller).ok()
    }

    /// Returns whether no other waiting call comes first. After the end of a session no call waits.
    #[cold]
    fn may_open(&self) -> bool {
        self.numbers.is_in_turn() || self.ended.get()
    }

    /// Returns whether requests of the peer are accepted as far as waiting replies allow it.
    pub fn takes_requests(&self) -> bool {
        self.owed.borrow().takes_requests(&self.replies.budget())
    }

    /// Updates and returns whether a request may be accepted at once.
    pub fn look_clear(&self, shared_budget: &SharedBudget) -> bool {
        self.inbound.look_clear(&shared_budget.budget(), self.takes_requests())
    }

    /// Returns whether an arrived request is accepted at once. `granted` marks a request for which room was
    /// granted, which has a place. `placed` is the size of a request in a buffer, since a long request finds no
    /// room in a node that others overload.
    pub fn may_accept(
        &self,
        granted: bool,
        placed: Option<usize>,
        shared_budget: &SharedBudget,
    ) -> bool {
        (self.inbound.is_clear() || self.look_clear(shared_budget))
            && !granted
            && placed.is_none_or(|bytes| self.inbound.admits(bytes, &shared_budget.budget()))
    }

    /// Returns the next possible action for the waiting requests.
    pub fn step(&self, shared_budget: &SharedBudget) -> Option<ReceiverAction<S::Request>> {
        shared_budget.with(|budget| self.inbound.step(budget, self.takes_requests()))
    }

    /// Handles the peer's withdrawal of a reservation. Returns the request if it had come.
    pub fn withdrawn(
        &self,
        number: u64,
        shared_budget: &SharedBudget,
    ) -> Result<Option<S::Request>, Rule> {
        shared_budget.with(|budget| self.inbound.withdrawn(number, budget))
    }

    /// Handles the peer's cancel of a call. `is_it` finds its request among the waiting ones.
    pub fn cancel(
        &self,
        call: CallNumber,
        is_it: impl FnMut(&S::Request) -> bool,
        shared_budget: &SharedBudget,
    ) -> Cancelled<S::Task, S::Request> {
        if mutated(Mutant::CancelIgnored) {
            return Cancelled::Gone;
        }
        // Without a task, the reply is on its way already, or the call waits for its turn.
        if let Some(task) = self.serving.borrow_mut().task_mut(call) {
            return Cancelled::Task(*task);
        }
        match shared_budget.with(|budget| self.inbound.cancel(is_it, budget)) {
            Some(request) => Cancelled::Kept(request),
            None => Cancelled::Gone,
        }
    }

    /// Returns whether a reply of `bytes` bytes must queue behind others of its class, which wait for buffers.
    #[inline]
    pub fn goes_behind(&self, bytes: usize) -> bool {
        let classes = self.classes.get();
        classes != 0 && bytes > SHORT_BYTES && classes & 1 << class_of(bytes) != 0
    }

    /// Returns one bit for each class of buffers for which replies wait.
    #[inline]
    pub const fn classes(&self) -> u8 {
        self.classes.get()
    }

    /// Returns the number of waiting frames, and the bytes charged for the replies among them.
    pub fn owed(&self) -> (usize, u64) {
        let owed = self.owed.borrow();
        (owed.len(), owed.held())
    }

    /// Returns whether a reply of `bytes` bytes may wait.
    pub fn admits_reply(&self, bytes: usize) -> bool {
        self.owed.borrow().admits(bytes, &self.replies.budget())
    }

    /// Queues a control frame, or the failure of a call, which is sent before all requests. Returns whether the
    /// frame waits, which it does not after the end of the session. A peer for which too many frames wait breaks a
    /// rule.
    pub fn queue_frame(&self, frame: S::Frame) -> Result<bool, Rule> {
        if !self.may_queue()? {
            return Ok(false);
        }
        self.owed.borrow_mut().push_frame(frame);
        self.outbound.set_barred(true);
        Ok(true)
    }

    /// Queues a reply of `bytes` bytes that [may wait](Session::admits_reply). While many replies wait, requests
    /// of the session are not accepted. Returns what [`Session::queue_frame`] returns.
    pub fn queue_reply(&self, frame: S::Frame, bytes: usize) -> Result<bool, Rule> {
        if !self.may_queue()? {
            return Ok(false);
        }
        let mut owed = self.owed.borrow_mut();
        self.replies.with(|budget| owed.push_reply(frame, bytes, budget));
        self.classes.set(owed.classes());
        if bytes <= SHORT_BYTES {
            self.outbound.set_barred(true);
        }
        if !owed.takes_requests(&self.replies.budget()) {
            self.inbound.stop_short();
        }
        Ok(true)
    }

    /// Returns whether one more frame may wait.
    fn may_queue(&self) -> Result<bool, Rule> {
        if self.ended.get() {
            return Ok(false);
        }
        let serving = self.serving.borrow().len();
        self.owed.borrow().may_wait(serving)?;
        Ok(true)
    }

    /// Sends the replies for which there are buffers now, in order for each class. Returns whether there were any.
    pub fn write_replies(&self, mut write: impl FnMut(&S::Frame) -> SendOutcome) -> bool {
        if self.classes.get() == 0 {
            return false;
        }
        let mut any = false;
        for class in 0..CLASSES {
            while let Some(reply) = self.pop_reply(class) {
                if write(&reply.frame) == SendOutcome::NoRoom {
                    self.owed.borrow_mut().put_back_reply(reply, class);
                    break;
                }
                any |= self.release(&reply);
            }
        }
        self.classes.set(self.owed.borrow().classes());
        any
    }

    /// Sends the ordered waiting frames as far as there is room; no request is sent before them. Returns whether
    /// there were replies among them.
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
        self.outbound.set_barred(bars);
    }

    // The queue is not borrowed while a frame is sent, since `write` may queue another one.
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

    /// Returns whether waiting requests may be accepted now that replies were sent.
    pub fn may_step(&self) -> bool {
        self.inbound.waiting() != 0 && self.takes_requests()
    }

    /// Decides how an unread reply of `bytes` bytes is kept. `keeps` returns whether the reply lies in a buffer of
    /// the peer that may be kept, since the other buffers must serve replies of other calls. A copy is counted
    /// until it [was read](Session::was_read).
    pub fn keep_unread(&self, bytes: usize, keeps: impl FnOnce() -> bool) -> UnreadReply {
        if keeps() {
            return UnreadReply::InPlace;
        }
        let unread = self.unread.get();
        let is_full = unread >= self.unread_max && !mutated(Mutant::UnreadUnbounded);
        if is_full || mutated(Mutant::DroppedAlways) {
            return UnreadReply::Dropped;
        }
        self.unread.set(unread + bytes);
        UnreadReply::Copied
    }

    /// Records that the copy of an unread reply was dropped.
    pub fn was_read(&self, bytes: usize) {
        if !mutated(Mutant::ReadStaysCounted) {
            self.unread.set(self.unread.get() - bytes);
        }
    }

    /// Returns the bytes of the copies of unread replies.
    pub const fn unread(&self) -> usize {
        self.unread.get()
    }

    /// Ends the session: nothing is sent or queued any more. Returns the callers of the open calls, which get no
    /// reply.
    pub fn end(&self) -> Vec<(CallNumber, S::Caller)> {
        self.ended.set(true);
        self.forget_owed();
        self.outbound.set_barred(true);
        if mutated(Mutant::LostKeepsCalls) {
            return Vec::new();
        }
        self.calls.drain().collect()
    }

    /// Returns the tasks of the peer's calls after the end of the session. The driver ends them, or lets them run
    /// on.
    pub fn take_served(&self) -> Vec<(CallNumber, S::Task)> {
        if mutated(Mutant::LostKeepsTasks) {
            return Vec::new();
        }
        self.serving.borrow_mut().drain().collect()
    }

    /// Removes all waiting requests of the peer and returns them.
    pub fn forget_requests(&self, shared_budget: &SharedBudget) -> Vec<S::Request> {
        shared_budget.with(|budget| self.inbound.clear(budget))
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
