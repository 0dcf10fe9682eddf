//! Calls: the futures that a client's methods return.
//!
//! Nothing happens before the first poll, which writes the request into the lane. Dropped before
//! the answer, a call is cancelled at the callee. Where the lane is full, the call waits for room.

use crate::dispatch::Dispatcher;
use crate::error::CallError;
use crate::session::{Answer, Prefixed, Put, Session};
use crate::time::Sleep;
use crate::wire::Wire;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use upbeat_core::bill::Counter;
use upbeat_core::frame::{CallNumber, Flags, Head};
use upbeat_core::limits::{CALLS_PER_SESSION_MAX, MESSAGE_BYTES_MAX};

/// A method that the callee does not have.
pub(crate) const MISSING: u16 = u16::MAX;

/// A client's way to its callee: a session, and what the methods' numbers are there.
#[derive(Clone)]
pub struct Bound {
    pub(crate) node: Rc<Dispatcher>,
    pub(crate) session: Rc<Session>,
    pub(crate) numbers: Rc<[u16]>,
}

impl Bound {
    /// Calls the method that stands at `index` in the service.
    #[inline(always)]
    pub fn call<A: Wire, R: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Call<'_, A, R> {
        Call {
            bound: self,
            number: self.numbers.get(index).copied().unwrap_or(MISSING),
            method,
            state: State::Unsent(arguments),
            deadline: None,
            result: PhantomData,
        }
    }

    /// Calls a method whose result is the user's `Result`.
    #[inline(always)]
    pub fn try_call<A: Wire, T: Wire, E: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> TryCall<'_, A, T, E> {
        TryCall { call: self.call(index, method, arguments) }
    }

    /// Sends a one-way message.
    #[inline(always)]
    pub fn send<A: Wire>(&self, index: usize, method: &'static str, arguments: A) -> Send<'_, A> {
        let number = self.numbers.get(index).copied().unwrap_or(MISSING);
        Send { bound: self, number, method, arguments }
    }
}

/// A call of a method that returns `R`.
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<'c, A, R> {
    bound: &'c Bound,
    number: u16,
    method: &'static str,
    state: State<A>,
    deadline: Option<Box<Deadline>>,
    result: PhantomData<fn() -> R>,
}

enum State<A> {
    Unsent(A),
    Sent(CallNumber),
    Over,
}

struct Deadline {
    after: Duration,
    sleep: Sleep,
}

// Nothing in a call is pinned: its arguments are moved into the lane, its result out of it.
impl<A, R> Unpin for Call<'_, A, R> {}

impl<A: Wire, R: Wire> Call<'_, A, R> {
    /// Gives the call up after `after`, here and at the callee, to whom the deadline travels.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # async fn of(counter: &CounterClient) -> Result<u64, upbeat::CallError> {
    /// use std::time::Duration;
    ///
    /// counter.add(1).deadline(Duration::from_millis(100)).await
    /// # }
    /// ```
    pub fn deadline(mut self, after: Duration) -> Self {
        let sleep = Sleep::new(&self.bound.node, after);
        self.deadline = Some(Box::new(Deadline { after, sleep }));
        self
    }

    /// Writes the request. False if there is no room yet.
    #[inline(always)]
    fn send(&mut self, context: &mut Context<'_>) -> Result<bool, CallError> {
        let State::Unsent(arguments) = &self.state else { return Ok(true) };
        let Bound { node, session, .. } = self.bound;
        if self.number == MISSING {
            return Err(CallError::NoSuchMethod { method: self.method });
        }
        let Ok(call) = session.open_call(node.waiter(context)) else {
            return Err(CallError::TooManyCalls { most: CALLS_PER_SESSION_MAX });
        };
        let words = Head::call(self.number, call, 0).words();
        let sent = match &self.deadline {
            None => session.request(words, arguments),
            Some(deadline) => send_with_deadline(session, self.number, call, deadline, arguments),
        };
        match sent {
            Ok(()) => {
                node.count(Counter::CallsSent);
                node.sent(session);
                self.state = State::Sent(call);
                Ok(true)
            }
            Err(put) => {
                session.close_unsent(call);
                not_sent(node, session, put, context).map(|()| false)
            }
        }
    }
}

#[cold]
fn send_with_deadline<A: Wire>(
    session: &Session,
    method: u16,
    call: CallNumber,
    deadline: &Deadline,
    arguments: &A,
) -> Result<(), Put> {
    let word = u64::try_from(deadline.after.as_micros()).unwrap_or(u64::MAX);
    let words = Head::call(method, call, 0).with_flags(Flags::DEADLINE).words();
    session.request(words, &Prefixed { word, value: arguments })
}

/// What is to be done with a message for which there was no room, or an error.
#[cold]
fn not_sent(
    node: &Rc<Dispatcher>,
    session: &Rc<Session>,
    put: Put,
    context: &mut Context<'_>,
) -> Result<(), CallError> {
    match put {
        Put::Full => {
            node.count(Counter::LaneFull);
            session.wait_for_room(context.waker());
            node.sent(session);
            Ok(())
        }
        Put::Value(error) => Err(CallError::Value { text: error.to_string().into() }),
        Put::TooLarge(bytes) => Err(CallError::TooLarge { bytes, most: MESSAGE_BYTES_MAX }),
        Put::Ended(why) => {
            node.lose(session, *why);
            Err(CallError::NotSent(Box::new(session.lost())))
        }
    }
}

impl<A: Wire, R: Wire> Future for Call<'_, A, R> {
    type Output = Result<R, CallError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let State::Sent(call) = this.state {
            let node = &this.bound.node;
            let answer = this.bound.session.poll_answer(call, || node.waiter(context));
            match answer {
                Answer::Open => {}
                Answer::Here(value) => {
                    this.state = State::Over;
                    return Poll::Ready(Ok(value));
                }
                Answer::Failed(error) => {
                    this.state = State::Over;
                    return Poll::Ready(Err(*error));
                }
            }
        } else {
            match this.send(context) {
                Ok(_) => {}
                Err(error) => {
                    this.state = State::Over;
                    return Poll::Ready(Err(error));
                }
            }
        }
        if this.deadline.is_some() {
            return this.poll_deadline(context);
        }
        Poll::Pending
    }
}

impl<A, R> Call<'_, A, R> {
    #[cold]
    fn poll_deadline<T>(&mut self, context: &mut Context<'_>) -> Poll<Result<T, CallError>> {
        let Some(deadline) = &mut self.deadline else { return Poll::Pending };
        ready!(Pin::new(&mut deadline.sleep).poll(context));
        self.give_up();
        Poll::Ready(Err(CallError::Deadline))
    }

    #[cold]
    fn give_up(&mut self) {
        if let State::Sent(call) = std::mem::replace(&mut self.state, State::Over) {
            let Bound { node, session, .. } = self.bound;
            if session.abandon(call) {
                node.count(Counter::CancelsSent);
                node.sent(session);
            }
        }
    }
}

impl<A, R> Drop for Call<'_, A, R> {
    #[inline(always)]
    fn drop(&mut self) {
        if matches!(self.state, State::Sent(_)) {
            self.give_up();
        }
    }
}

/// A call of a method that returns a `Result<T, E>` of the user's.
#[must_use = "a call does nothing until it is awaited"]
pub struct TryCall<'c, A, T, E> {
    call: Call<'c, A, Result<T, E>>,
}

impl<A: Wire, T: Wire, E: Wire> TryCall<'_, A, T, E> {
    /// Gives the call up after `after`, here and at the callee, to whom the deadline travels.
    pub fn deadline(self, after: Duration) -> Self {
        TryCall { call: self.call.deadline(after) }
    }
}

impl<A: Wire, T: Wire, E: Wire> Future for TryCall<'_, A, T, E> {
    type Output = Result<T, CallError<E>>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(flatten(ready!(Pin::new(&mut self.call).poll(context))))
    }
}

/// The user's error and ours in one level.
#[inline]
pub(crate) fn flatten<T, E>(result: Result<Result<T, E>, CallError>) -> Result<T, CallError<E>> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(CallError::Method(error)),
        Err(error) => Err(error.widen()),
    }
}

/// A one-way message on its way into the lane.
#[must_use = "nothing is sent until it is awaited"]
pub struct Send<'c, A> {
    bound: &'c Bound,
    number: u16,
    method: &'static str,
    arguments: A,
}

// Nothing in it is pinned: the arguments are moved into the lane.
impl<A> Unpin for Send<'_, A> {}

impl<A: Wire> Future for Send<'_, A> {
    type Output = Result<(), CallError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Bound { node, session, .. } = self.bound;
        if self.number == MISSING {
            return Poll::Ready(Err(CallError::NoSuchMethod { method: self.method }));
        }
        match session.oneway(self.number, &self.arguments) {
            Ok(()) => {
                node.sent_oneway(session);
                Poll::Ready(Ok(()))
            }
            Err(put) => match not_sent(node, session, put, context) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }
}
