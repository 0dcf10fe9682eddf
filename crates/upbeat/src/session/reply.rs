//! Replies: taken in place from the lane, or kept for later.
//!
//! This is a bet that the waiter of a reply is a task of this node: the dispatcher polls it while the reply lies open,
//! and the waiter reads its result in place. If the waiter is anything else, or polls something else first, the call's
//! entry takes the payload over: a copy, or a hold on the buffer in which it lies. Unread replies hold a bounded number
//! of buffers, so that others get as many; further replies are copied, and their buffers are given back.

use super::lent::Body;
use super::loans::Loans;
use super::tolerant::Tolerant;
use super::{Fault, Session, Waiter, misbehaved};
use crate::error::{CallError, Called};
use crate::wake::{ForeignWaker, NO_TASK, TaskId};
use crate::wire::{Hold, Input, WireError};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use upbeat_core::channel::call::{Abandon, Answered};
use upbeat_core::frame::{CallNumber, FailCode, Failure, Flags, Head, Kind};
use upbeat_core::limits::UNREAD_BYTES_MAX;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::session::UnreadReply;

/// The waiters and replies of open calls for which no task of the node waits, by the slots of their calls. Such a
/// call has [`NO_TASK`] in the table of calls.
#[derive(Default)]
pub(super) struct OtherWaiters(Vec<Option<OtherWaiter>>);

/// A call for which no task of the node waits.
pub(crate) enum OtherWaiter {
    /// A waiter that is no task of the node.
    Waker(ForeignWaker),
    /// The reply has come and was taken over.
    Kept(Form, Body),
    /// The reply has come and was dropped, because too many unread bytes were kept already.
    Dropped(Box<CallError<Infallible>>),
}

impl OtherWaiters {
    /// Stores an entry for an open call. Returns the previous one.
    fn put(&mut self, call: CallNumber, other: OtherWaiter) -> Option<OtherWaiter> {
        let place = call.index() as usize;
        if place >= self.0.len() {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place].replace(other)
    }

    fn of(&self, call: CallNumber) -> Option<&OtherWaiter> {
        self.0.get(call.index() as usize)?.as_ref()
    }

    fn take(&mut self, call: CallNumber) -> Option<OtherWaiter> {
        self.0.get_mut(call.index() as usize)?.take()
    }

    /// Returns the waiter of a call, given its entry in the table.
    fn take_waiter(&mut self, call: CallNumber, task: TaskId) -> Option<Waiter> {
        match task {
            NO_TASK => self.take(call).and_then(OtherWaiter::into_waiter),
            task => Some(Waiter::Task(task)),
        }
    }

    /// Returns the waiters of calls that end without a reply.
    pub(super) fn end(&mut self, callers: Vec<(CallNumber, TaskId)>) -> Vec<Waiter> {
        callers.into_iter().filter_map(|(call, task)| self.take_waiter(call, task)).collect()
    }
}

impl OtherWaiter {
    fn into_waiter(self) -> Option<Waiter> {
        match self {
            OtherWaiter::Waker(waker) => Some(Waiter::Waker(waker)),
            OtherWaiter::Kept(..) | OtherWaiter::Dropped(_) => None,
        }
    }

    /// Returns the bytes of the session's own memory that the reply uses.
    fn own_bytes(&self) -> usize {
        match self {
            OtherWaiter::Kept(_, body) => body.own_bytes(),
            OtherWaiter::Waker(_) | OtherWaiter::Dropped(_) => 0,
        }
    }
}

/// The form in which a call has its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    Result,
    /// A result in the tolerant form.
    Tolerant,
    Failure,
}

impl Form {
    fn of(head: &Head) -> Form {
        match head.kind {
            Kind::Reply if head.flags.has(Flags::TOLERANT) => Form::Tolerant,
            Kind::Reply => Form::Result,
            _ => Form::Failure,
        }
    }
}

/// The reply that lies open in the lane while its waiter is polled: its call, or none, and its kind.
#[derive(Default)]
pub(super) struct Arrived {
    call: Cell<CallNumber>,
    /// Whether the reply is a result that lies in its frame; other replies are rare.
    is_plain: Cell<bool>,
    form: Cell<Form>,
    len: Cell<u32>,
    /// The payload, if it lies in a buffer.
    hold: Cell<Option<Hold>>,
}

/// The state of replies and their waiters.
#[derive(Default)]
pub(super) struct Answers {
    /// The waiters of open calls that are no tasks, and unread replies.
    pub(super) others: RefCell<OtherWaiters>,
    /// The reply that lies open in the lane while its waiter is polled.
    pub(super) arrived: Arrived,
    /// The calls whose callees may ask for more time.
    pub(super) loans: Loans,
    /// The calls of the peer that are answered in the tolerant form, and the methods that it calls so.
    pub(super) tolerant: Tolerant,
}

/// The outcome of a call, when its future asks for it.
pub(crate) enum Answer<R> {
    /// The call has no outcome yet.
    Open,
    /// The call has this result.
    Here(R),
    /// The call has failed.
    Failed(Box<CallError<Infallible>>),
}

impl<R> Answer<R> {
    /// Returns the result of the call, if it has ended.
    #[inline(always)]
    pub(crate) fn result(self) -> Option<Result<R, CallError>> {
        match self {
            Answer::Open => None,
            Answer::Here(value) => Some(Ok(value)),
            Answer::Failed(error) => Some(Err(*error)),
        }
    }
}

impl Session {
    /// Opens a call of a task of the owning node if that takes no rare step. In all other cases
    /// [`Session::open_call`] decides.
    #[inline(always)]
    pub(crate) fn open_call_at_once(&self, task: TaskId) -> Option<CallNumber> {
        self.core.open_call_at_once(task)
    }

    /// Opens a call. Returns None if the session has the most open calls, or other callers wait for numbers before
    /// it.
    pub(crate) fn open_call(&self, waiter: Waiter) -> Option<CallNumber> {
        match waiter {
            Waiter::Task(task) => self.core.open_call(task),
            Waiter::Waker(waker) => {
                let call = self.core.open_call(NO_TASK)?;
                self.answers.others.borrow_mut().put(call, OtherWaiter::Waker(waker));
                Some(call)
            }
        }
    }

    /// Closes a call. Returns the entry that it had instead of a task.
    pub(super) fn close_call(&self, call: CallNumber) -> Option<OtherWaiter> {
        match self.core.calls().close(call)? {
            NO_TASK => self.answers.others.borrow_mut().take(call),
            _ => None,
        }
    }

    /// Returns whether the reply of an open call is kept, or None if the call is not open.
    fn is_answered(&self, call: CallNumber) -> Option<bool> {
        let task = self.core.calls().waiter(call)?;
        let others = self.answers.others.borrow();
        Some(task == NO_TASK && !matches!(others.of(call), Some(OtherWaiter::Waker(_))))
    }

    /// Returns a waiter, unless it is a waker of the task that waits for the call already.
    fn unless_known(&self, call: CallNumber, waiter: Waiter) -> Option<Waiter> {
        match (waiter, self.answers.others.borrow().of(call)) {
            (Waiter::Waker(waker), Some(OtherWaiter::Waker(kept))) => {
                kept.replaces(waker).err().map(Waiter::Waker)
            }
            (waiter, _) => Some(waiter),
        }
    }

    /// Sets the waiter of an open call, or stores an entry for it. Returns the previous waiter.
    fn change(&self, call: CallNumber, to: Result<Waiter, OtherWaiter>) -> Option<Waiter> {
        let waits = self.core.calls().waiter(call)?;
        let mut others = self.answers.others.borrow_mut();
        let was = others.take_waiter(call, waits);
        let (task, other) = match to {
            Ok(Waiter::Task(task)) => (task, None),
            Ok(Waiter::Waker(waker)) => (NO_TASK, Some(OtherWaiter::Waker(waker))),
            Err(other) => (NO_TASK, Some(other)),
        };
        self.core.calls().exchange(call, task);
        if let Some(other) = other {
            others.put(call, other);
        }
        was
    }

    /// Returns whether a task awaits the reply of one of the open calls.
    pub(crate) fn is_awaited_by(&self, task: TaskId) -> bool {
        self.core.calls().waiters().any(|waiter| waiter == task)
    }

    /// Returns the number of open calls.
    pub(crate) fn calls_open(&self) -> usize {
        self.core.calls().len()
    }

    /// Takes the open reply, and returns the waiter to be polled for it. After that poll [`Session::keep_answer`]
    /// takes over a reply that was not taken.
    #[inline(always)]
    pub(crate) fn answer_arrived(&self, head: &Head) -> Result<Option<Waiter>, Fault> {
        if let Some(task) = self.reply_arrived(head.call, head.len) {
            let arrived = &self.answers.arrived;
            let is_plain = head.kind == Kind::Reply && head.flags == Flags::NONE;
            if !is_plain {
                arrived.is_plain.set(false);
                arrived.form.set(Form::of(head));
                arrived.hold.set(self.hold(head)?);
            }
            return Ok(Some(Waiter::Task(task)));
        }
        let body = self.take_body(head)?;
        self.keep(head.call, Form::of(head), body)
    }

    /// Takes an open reply without extensions, as [`Session::answer_arrived`] does, and returns the task to be polled
    /// for it.
    #[inline(always)]
    pub(crate) fn reply_arrived(&self, call: CallNumber, len: u32) -> Option<TaskId> {
        let task = self.task_that_waits(call)?;
        let arrived = &self.answers.arrived;
        arrived.call.set(call);
        arrived.is_plain.set(true);
        arrived.len.set(len);
        Some(task)
    }

    #[inline(always)]
    fn task_that_waits(&self, call: CallNumber) -> Option<TaskId> {
        self.core.calls().waiting(call).filter(|task| *task != NO_TASK)
    }

    /// Copies a reply that was not taken in place. Returns whether there was one.
    #[inline(always)]
    pub(crate) fn keep_answer(&self) -> Result<bool, Fault> {
        if self.answers.arrived.call.get() == CallNumber::NONE || mutated(Mutant::UnreadForgotten) {
            Ok(false)
        } else {
            self.keep_arrived()
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_arrived(&self) -> Result<bool, Fault> {
        let arrived = &self.answers.arrived;
        let call = arrived.call.take();
        let form = if arrived.is_plain.get() { Form::Result } else { arrived.form.get() };
        let body = match arrived.hold.take() {
            Some(hold) => Body::Held(hold),
            None => self.copy_body(0, arrived.len.get() as usize),
        };
        self.keep(call, form, body).map(|_| true)
    }

    /// Stores a reply in its call's entry, and returns the waiter.
    #[cold]
    #[inline(never)]
    fn keep(&self, call: CallNumber, form: Form, body: Body) -> Result<Option<Waiter>, Fault> {
        if self.core.calls().answer(call).map_err(misbehaved)? == Answered::Abandoned {
            return Ok(None);
        }
        self.set_stashed(call);
        Ok(self.change(call, Err(self.unread(form, body))))
    }

    /// Keeps a reply until it is read: in the buffer in which it lies, or as a copy.
    fn unread(&self, form: Form, body: Body) -> OtherWaiter {
        let (bytes, keeps) = match &body {
            Body::Short(_, len) => (usize::from(*len), false),
            Body::Copied(bytes) => (bytes.len(), false),
            Body::Held(hold) => (hold.len(), hold.keep()),
            Body::Lost(_) => return OtherWaiter::Kept(form, body),
        };
        match (self.core.keep_unread(bytes, || keeps), body) {
            (UnreadReply::Dropped, _) => dropped(bytes),
            (UnreadReply::Copied, Body::Held(hold)) => self.copied(form, hold),
            (_, body) => OtherWaiter::Kept(form, body),
        }
    }

    /// Copies a reply out of the buffer in which it lies, and counts the copy.
    fn copied(&self, form: Form, hold: Hold) -> OtherWaiter {
        let bytes = hold.len();
        match hold.with(|loan| loan.read_items(0, bytes)) {
            Ok(Some(copy)) => OtherWaiter::Kept(form, Body::Copied(copy.into_boxed_slice())),
            Ok(None) => {
                self.core.was_read(bytes);
                OtherWaiter::Kept(form, Body::Lost(bytes))
            }
            Err(_) => {
                self.core.was_read(bytes);
                OtherWaiter::Kept(form, Body::Held(hold))
            }
        }
    }

    /// Asks for a call's reply for its future, which reads the result with `take`.
    #[inline(always)]
    pub(crate) fn poll_answer<R>(
        &self,
        call: CallNumber,
        waiter: impl FnOnce() -> Waiter,
        take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
    ) -> Answer<R> {
        if self.answers.arrived.call.get() != call {
            return self.poll_kept(call, waiter, take);
        }
        let arrived = &self.answers.arrived;
        arrived.call.set(CallNumber::NONE);
        // A task waits for this reply, as was seen when the reply came.
        self.core.calls().close_waiting(call);
        if !arrived.is_plain.get() {
            return self.read_arrived(take);
        }
        let payload = self.carrier.payload();
        read(true, &mut Input::frame(payload, 0, arrived.len.get() as usize), take)
    }

    /// Reads the open reply that is not a plain result.
    #[inline(never)]
    fn read_arrived<R>(
        &self,
        take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
    ) -> Answer<R> {
        let (arrived, payload) = (&self.answers.arrived, self.carrier.payload());
        let (form, len) = (arrived.form.get(), arrived.len.get() as usize);
        match arrived.hold.take() {
            Some(hold) => read_in(form, Input::lent(&hold), take),
            None => read_in(form, Input::frame(payload, 0, len), take),
        }
    }

    #[inline(never)]
    fn poll_kept<R>(
        &self,
        call: CallNumber,
        waiter: impl FnOnce() -> Waiter,
        take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
    ) -> Answer<R> {
        let Some(is_answered) = self.is_answered(call) else {
            return Answer::Failed(Box::new(self.unknown()));
        };
        if !is_answered {
            if let Some(waiter) = self.unless_known(call, waiter()) {
                self.change(call, Ok(waiter));
            }
            return Answer::Open;
        }
        let Some(other) = self.close_call(call) else { return Answer::Open };
        self.was_read(&other);
        match other {
            OtherWaiter::Kept(form, body) => read_in(form, body.input(), take),
            OtherWaiter::Dropped(error) => Answer::Failed(error),
            OtherWaiter::Waker(_) => Answer::Open,
        }
    }

    /// Frees the kept reply of a closed call.
    fn was_read(&self, closed: &OtherWaiter) {
        self.core.was_read(closed.own_bytes());
    }

    /// Returns the error of a call that was sent and has no reply.
    fn unknown(&self) -> CallError<Infallible> {
        CallError::at_loss(true, self.lost())
    }

    /// Cancels a call whose frame was sent. The callee is told, unless it has replied.
    pub(crate) fn abandon(&self, call: CallNumber) -> bool {
        if !self.is_here() {
            return false;
        }
        if self.answers.arrived.call.get() == call {
            self.answers.arrived.call.set(CallNumber::NONE);
            drop(self.answers.arrived.hold.take());
            self.core.calls().close(call);
            return false;
        }
        let (tells, task) = match self.core.calls().abandon(call) {
            Abandon::Cancel(task) => (true, task),
            Abandon::Answered(task) => (false, task),
            Abandon::Gone => return false,
        };
        let other =
            (task == NO_TASK).then(|| self.answers.others.borrow_mut().take(call)).flatten();
        if let Some(other) = &other {
            self.was_read(other);
        }
        if tells && self.ended().is_none() {
            self.send_surely(Head::cancel(call), Vec::new());
            return true;
        }
        false
    }
}

#[cold]
fn dropped(bytes: usize) -> OtherWaiter {
    OtherWaiter::Dropped(Box::new(CallError::ReplyDropped {
        bytes,
        most: UNREAD_BYTES_MAX,
        called: Called::default(),
    }))
}

/// Reads an answer that is not known to be a plain result.
fn read_in<R>(
    form: Form,
    mut input: Input<'_>,
    take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
) -> Answer<R> {
    if form == Form::Tolerant {
        input = input.tolerating();
    }
    read(form != Form::Failure, &mut input, take)
}

#[inline(always)]
fn read<R>(
    is_reply: bool,
    input: &mut Input<'_>,
    take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
) -> Answer<R> {
    if !is_reply {
        return Answer::Failed(read_failure(input));
    }
    match take(input) {
        Ok(value) => match input.finish() {
            Ok(()) => Answer::Here(value),
            Err(error) => Answer::Failed(not_taken(error)),
        },
        Err(error) => Answer::Failed(not_taken(error)),
    }
}

#[cold]
fn not_taken(error: WireError) -> Box<CallError<Infallible>> {
    let called = Called::default();
    Box::new(match error {
        WireError::NoRoom { items, room } => CallError::NoRoom { items, room, called },
        WireError::TooLarge { bytes, most } => CallError::ResultTooLarge { bytes, most, called },
        WireError::NoMemory { bytes } => CallError::ResultNoMemory { bytes, called },
        error => CallError::value(&error),
    })
}

#[cold]
fn unreadable(error: &dyn std::fmt::Display) -> Box<CallError<Infallible>> {
    Box::new(CallError::value(error))
}

#[cold]
fn read_failure(input: &mut Input<'_>) -> Box<CallError<Infallible>> {
    let mut payload = vec![0; input.remaining()];
    if let Err(error) = input.bytes(&mut payload) {
        return unreadable(&error);
    }
    match Failure::parse(&payload) {
        Ok(failure) => {
            let (text, called) = (failure.text().into(), Called::default());
            Box::new(match failure.code() {
                FailCode::Deadline => CallError::deadline(true),
                FailCode::Denied => CallError::Refused { text, called },
                code => CallError::Failed { code, text, called },
            })
        }
        Err(rule) => unreadable(&rule),
    }
}
