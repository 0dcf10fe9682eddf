//! Calls and messages of handles that are awaited.
//!
//! A future is polled in whatever thread its runtime likes. Invariant: a poll waits for nobody, neither
//! for the session nor for room in it.

use super::BoundHandle;
use super::caller::To;
use super::lasting::{Alarm, Until};
use super::side::{Asked, Begun, Side};
use crate::call::{Asks, Filling, Trying, hand_over};
use crate::error::CallError;
use crate::wire::{Attaching, Content, Fills, Input, MessageContext, Wire, WireError};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use upbeat_core::frame::{CallNumber, Head};

/// A call through a handle.
#[must_use = "a call does nothing until it is awaited"]
pub struct HandleCall<'h, A, R> {
    handle: &'h BoundHandle,
    to: To,
    state: State<A>,
    asked: Option<Asked>,
    until: Option<Until>,
    /// Wakes who awaits it when its time is over.
    alarm: Option<Alarm>,
    gives_streams: bool,
    result: PhantomData<fn() -> R>,
}

enum State<A> {
    Unsent(A),
    Sent(Arc<Side>, CallNumber),
    /// The same where its arguments have streams in them, which go on.
    Feeding(Arc<Side>, CallNumber, A),
    Over,
}

// Nothing in it is pinned: arguments are moved into the lane, the result out of it.
impl<A, R> Unpin for HandleCall<'_, A, R> {}

impl<A: Content, R: Wire> Future for HandleCall<'_, A, R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_until(context, R::take, hand_over)
    }
}

impl<A: Content, R: Wire> Asks for HandleCall<'_, A, R> {
    fn bounded(self, after: Duration) -> Self {
        self.deadline(after)
    }

    fn lent(self, total: Duration) -> Self {
        self.extendable(total)
    }

    fn poll_with<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnMut(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Poll<Result<T, CallError>> {
        self.poll_until(context, take, |_, _| {})
    }
}

impl<A: Content, R: Wire> HandleCall<'_, A, R> {
    /// Gives the call up after `after`, here and at the callee, to whom the deadline travels. What it
    /// waits for does not matter: the session, room, or the answer.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # async fn of(counter: &CounterHandle) -> Result<u64, upbeat::CallError> {
    /// use std::time::Duration;
    ///
    /// counter.add(1).deadline(Duration::from_millis(100)).await
    /// # }
    /// ```
    pub fn deadline(mut self, after: Duration) -> Self {
        self.until = Some(Until::after(after));
        self
    }

    /// Lets the callee ask to have the deadline extended, by [`extend`](crate::extend), until `total`
    /// is over from now on. Without a deadline before it, it says nothing.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # async fn of(counter: &CounterHandle) -> Result<u64, upbeat::CallError> {
    /// use std::time::Duration;
    ///
    /// let (usually, at_most) = (Duration::from_millis(100), Duration::from_secs(5));
    /// counter.add(1).deadline(usually).extendable(at_most).await
    /// # }
    /// ```
    pub fn extendable(mut self, total: Duration) -> Self {
        self.until = self.until.map(|until| until.extendable(total));
        self
    }

    /// The same for who has said it of many.
    pub(super) fn until(mut self, until: Option<Until>) -> Self {
        self.until = until;
        self
    }

    /// Polls it, and looks whether its time is over where it has to wait.
    fn poll_until<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnMut(&mut Input<'_>) -> Result<T, WireError>,
        hand: impl FnOnce(Option<&A>, &T),
    ) -> Poll<Result<T, CallError>> {
        let polled = match A::STREAMS || R::STREAMS {
            true => self.poll_streams(context, take, hand),
            false => self.poll_taking(context, take),
        };
        match polled {
            Poll::Pending => self.poll_deadline(context),
            ready => ready,
        }
    }

    /// The call waits: is its time over?
    fn poll_deadline<T>(&mut self, context: &mut Context<'_>) -> Poll<Result<T, CallError>> {
        let Some(until) = &mut self.until else { return Poll::Pending };
        let side = match &self.state {
            State::Sent(side, call) | State::Feeding(side, call, _) => {
                if until.is_extendable() {
                    until.end = side.end_of(*call).unwrap_or(until.end);
                }
                Some(Arc::clone(side))
            }
            State::Unsent(_) => self.asked.as_ref().map(|asked| Arc::clone(asked.side())),
            State::Over => None,
        };
        if until.is_over() {
            self.give_up();
            return Poll::Ready(Err(CallError::Deadline));
        }
        if let Some(side) = side {
            side.wake_at(&mut self.alarm, until.end, context.waker());
        }
        Poll::Pending
    }

    fn poll_taking<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnMut(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Poll<Result<T, CallError>> {
        let waker = context.waker();
        let result = match &self.state {
            State::Unsent(_) if self.until.is_some_and(Until::is_over) => None,
            State::Unsent(arguments) => {
                let (of, asked) = ((self.to, arguments), &mut self.asked);
                match self.handle.shared.call(of, asked, self.until, waker, take)? {
                    Some(Begun::Done(result)) => Some(result),
                    Some(Begun::Open(side, call)) => {
                        self.state = State::Sent(side, call);
                        None
                    }
                    None => None,
                }
            }
            State::Sent(side, call) => side.poll(*call, waker, take),
            State::Feeding(..) | State::Over => None,
        };
        let Some(result) = result else { return Poll::Pending };
        self.state = State::Over;
        Poll::Ready(result)
    }
}

impl<A: Content, R: Wire> HandleCall<'_, A, R> {
    /// Has the result written into `buffer`, straight from where the callee wrote it, and gives how
    /// many items it has: see [`Call::into`](crate::call::Call::into).
    ///
    /// ```
    /// #[upbeat::service]
    /// pub trait Sensor {
    ///     async fn samples(&self, count: u64) -> Vec<f32>;
    /// }
    ///
    /// async fn first(sensor: &SensorHandle) -> Result<f32, upbeat::CallError> {
    ///     let mut samples = [0.0; 16];
    ///     sensor.samples(16).into(&mut samples).await?;
    ///     Ok(samples[0])
    /// }
    /// ```
    pub fn into<B: ?Sized>(self, buffer: &mut B) -> Filling<'_, Self, R, B>
    where
        R: Fills<B>,
    {
        Filling::new(self, buffer)
    }
}

impl<A: Content, R: Wire> HandleCall<'_, A, R> {
    /// Polls it where streams may stand in it; those of its arguments are handed on to what is taken.
    fn poll_streams<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Input<'_>) -> Result<T, WireError>,
        hand: impl FnOnce(Option<&A>, &T),
    ) -> Poll<Result<T, CallError>> {
        if let State::Unsent(arguments) = &self.state {
            if self.until.is_some_and(Until::is_over) {
                return Poll::Pending;
            }
            let side = self.handle.shared.side(&mut self.asked)?;
            let (to, asked, until) = (self.to, &mut self.asked, self.until);
            let attached = MessageContext::caller(&side, CallNumber::NONE);
            let content = Attaching { content: arguments, context: attached };
            let sent = side.send_call(to, &content, asked, until, context.waker());
            let Some(call) = sent? else { return Poll::Pending };
            if let State::Unsent(arguments) = std::mem::replace(&mut self.state, State::Over) {
                arguments.streams(&mut |stream| stream.sent());
                self.state = State::Feeding(side, call, arguments);
            }
        }
        let State::Feeding(side, call, arguments) = &self.state else { return Poll::Pending };
        let attached = MessageContext::caller(side, *call);
        let take = |input: &mut Input<'_>| input.within(&attached, take);
        let Some(result) = side.poll(*call, context.waker(), take) else {
            arguments.streams(&mut |stream| stream.feed(context));
            return Poll::Pending;
        };
        match &result {
            Ok(value) => hand(Some(arguments), value),
            Err(_) if R::STREAMS => side.take_back(Head::cancel(*call)),
            Err(_) => {}
        }
        self.state = State::Over;
        Poll::Ready(result)
    }
}

impl<A, R> HandleCall<'_, A, R> {
    /// Nobody wants it any more.
    fn give_up(&mut self) {
        (self.alarm, self.asked) = (None, None);
        let state = std::mem::replace(&mut self.state, State::Over);
        if let State::Sent(side, call) | State::Feeding(side, call, _) = &state {
            side.abandon(*call, self.gives_streams);
        }
    }
}

impl<A, R> Drop for HandleCall<'_, A, R> {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// A call through a handle of a method that returns a `Result<T, E>` of the user's.
pub type HandleTryCall<'h, A, T, E> = Trying<HandleCall<'h, A, Result<T, E>>, T, E>;

/// A one-way message through a handle.
#[must_use = "nothing is sent until it is awaited"]
pub struct HandleSend<'h, A> {
    handle: &'h BoundHandle,
    to: To,
    arguments: A,
    asked: Option<Asked>,
}

impl BoundHandle {
    /// Calls the method that stands at `index` in the service.
    pub fn call<A: Content, R: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> HandleCall<'_, A, R> {
        let state = State::Unsent(arguments);
        HandleCall {
            handle: self,
            to: To { index, method },
            state,
            asked: None,
            until: None,
            alarm: None,
            gives_streams: R::STREAMS,
            result: PhantomData,
        }
    }

    /// Calls a method whose result is the user's `Result`.
    pub fn try_call<A: Content, T: Wire, E: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> HandleTryCall<'_, A, T, E> {
        HandleTryCall::new(self.call(index, method, arguments))
    }

    /// Sends a one-way message.
    pub fn send<A: Content>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> HandleSend<'_, A> {
        const { assert!(!A::STREAMS, "nobody goes on with the streams of a one-way message") };
        HandleSend { handle: self, to: To { index, method }, arguments, asked: None }
    }
}

// Nothing in it is pinned: the arguments are moved into the lane.
impl<A> Unpin for HandleSend<'_, A> {}

impl<A: Content> Future for HandleSend<'_, A> {
    type Output = Result<(), CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let of = (this.to, &this.arguments);
        match this.handle.shared.try_send(of, &mut this.asked, context.waker())? {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }
}
