//! Calls: the futures that a client's methods return.
//!
//! Nothing happens before the first poll, which writes the request into the lane. Dropped before
//! the answer, a call is cancelled at the callee. Where the lane is full, the call waits for room.

mod waits;

mod again;
mod filling;
mod given_up;
mod oneway;
mod streaming;
mod trying;

pub use again::NackCall;
pub(crate) use filling::error_received;
pub use filling::{Asks, Filling, TryFilling};
pub use oneway::Send;
pub(crate) use streaming::hand_over;
pub(crate) use trying::flatten;
pub use trying::{SendsNow, TryCall, TryNackCall, Trying};
use waits::{Waits, not_sent, not_waiting, still_asks};

use crate::dispatch::{Dispatcher, Loan};
use crate::error::CallError;
use crate::sample::{Half, Stamps, Unsampled, Wants};
use crate::session::{Answer, Extensions, Put, Session};
use crate::time::Sleep;
use crate::wire::{Content, Input, Wire, WireError};
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use upbeat_core::bill::Counter;
use upbeat_core::bill::way::{CALL, Happened, Point};
use upbeat_core::channel::Operation;
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::limits::SHORT_BYTES;
use upbeat_core::orphan::inherited;
use upbeat_core::term::Term;
use upbeat_memory::ticks::nanoseconds;

/// A method that the callee does not have.
pub(crate) const MISSING: u16 = u16::MAX;

/// A client's way to its callee: a session, and what the methods' numbers are there.
#[derive(Clone)]
pub struct Bound {
    pub(crate) node: Rc<Dispatcher>,
    pub(crate) session: Rc<Session>,
    pub(crate) service: &'static str,
    pub(crate) numbers: Rc<[u16]>,
}

impl Bound {
    /// Calls the method that stands at `index` in the service.
    #[inline(always)]
    pub fn call<A: Content, R: Wire>(
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
            rare: ManuallyDrop::new(None),
            result: PhantomData,
        }
    }

    /// Calls a method whose result is the user's `Result`.
    #[inline(always)]
    pub fn try_call<A: Content, T: Wire, E: Wire>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> TryCall<'_, A, T, E> {
        Trying::new(self.call(index, method, arguments))
    }

    /// Asks for an operation of a channel other than calls, whose code the arguments belong to.
    pub(crate) fn operate<A: Content, R: Wire>(
        &self,
        operation: Operation,
        arguments: A,
    ) -> Call<'_, A, R> {
        const { assert!(A::OPERATION, "the arguments are those of an operation") };
        Call {
            bound: self,
            number: operation.code(),
            method: operation.name(),
            state: State::Unsent(arguments),
            rare: ManuallyDrop::new(None),
            result: PhantomData,
        }
    }

    /// When so much time is over, by the node's clock.
    fn until(&self, time: Duration) -> u64 {
        self.node.now_ns().saturating_add(nanoseconds(time))
    }

    /// Sends a one-way message.
    #[inline(always)]
    pub fn send<A: Content>(
        &self,
        index: usize,
        method: &'static str,
        arguments: A,
    ) -> Send<'_, A> {
        const { assert!(!A::STREAMS, "nobody goes on with the streams of a one-way message") };
        let number = self.numbers.get(index).copied().unwrap_or(MISSING);
        Send { bound: self, number, method, arguments, rare: ManuallyDrop::new(None) }
    }
}

/// The head of a request, which is a call or an operation of another channel as its arguments say.
#[inline(always)]
pub(crate) fn request_head<A: Content>(number: u16, call: CallNumber) -> Head {
    match A::OPERATION {
        false => Head::call(number, call, 0),
        true => Head::operation(number, call, 0),
    }
}

/// A call of a method that returns `R`.
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<'c, A, R> {
    bound: &'c Bound,
    number: u16,
    method: &'static str,
    state: State<A>,
    /// Dropped where the call is, so that a call without costs one look.
    rare: ManuallyDrop<Option<Box<Rare>>>,
    result: PhantomData<fn() -> R>,
}

enum State<A> {
    Unsent(A),
    Sent(CallNumber),
    /// The same of a call that is sampled.
    Sampled(CallNumber, Wants),
    /// The same of a call whose arguments have streams in them, which go on.
    Feeding(CallNumber, A),
    Over,
}

/// What few calls have.
#[derive(Default)]
struct Rare {
    deadline: Option<Deadline>,
    waits: Waits,
    /// How often it was refused, if it may be.
    refusals: Option<u64>,
    /// Where its callee may ask for more time.
    lent: Option<Rc<Loan>>,
    /// Whether streams may stand in the result.
    gives_streams: bool,
}

impl Rare {
    /// What stands before the request: of its time, what is left.
    fn extensions(&self) -> Extensions {
        // One that has waited has less time left than it was given.
        let waited = self.waits.standing.is_some() || self.waits.asked.is_some();
        let deadline = self.deadline.as_ref().map(|deadline| match waited {
            true => deadline.sleep.left_us(),
            false => nanoseconds(deadline.after) / 1000,
        });
        let (granted, refusals) = (self.waits.number(), self.refusals);
        Extensions { deadline, granted, refusals, extendable: None }
    }
}

struct Deadline {
    after: Duration,
    sleep: Sleep,
    /// Until when it may be extended, by the node's clock.
    most: Option<u64>,
}

// Nothing in a call is pinned: its arguments are moved into the lane, its result out of it.
impl<A, R> Unpin for Call<'_, A, R> {}

impl<A: Content, R: Wire> Call<'_, A, R> {
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
        self.rare.get_or_insert_default().deadline = Some(Deadline { after, sleep, most: None });
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
    /// # async fn of(counter: &CounterClient) -> Result<u64, upbeat::CallError> {
    /// use std::time::Duration;
    ///
    /// let (usually, at_most) = (Duration::from_millis(100), Duration::from_secs(5));
    /// counter.add(1).deadline(usually).extendable(at_most).await
    /// # }
    /// ```
    pub fn extendable(self, total: Duration) -> Self {
        let most = self.bound.until(total);
        self.at_most(Some(most))
    }

    /// Until when its deadline may be extended, if it has one.
    fn at_most(mut self, most: Option<u64>) -> Self {
        if let Some(deadline) = self.rare.as_mut().and_then(|rare| rare.deadline.as_mut()) {
            deadline.most = most;
        }
        self
    }

    /// Writes the request. False if there is no room yet.
    #[inline(always)]
    fn send(&mut self, context: &mut Context<'_>) -> Result<bool, CallError> {
        if self.rare.is_some() || self.bound.node.sampling().is_due() {
            return self.send_rarely(context);
        }
        self.write(context, Extensions::NONE, &mut Unsampled)
    }

    /// Sends the call now, or says [`CallError::Full`] where it would have to wait. What comes back
    /// is to be awaited for the answer.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # async fn of(counter: &CounterClient) -> Result<u64, upbeat::CallError> {
    /// counter.add(1).try_send()?.await
    /// # }
    /// ```
    pub fn try_send(mut self) -> Result<Self, CallError> {
        // Whoever awaits it later is woken: the poll says by whom.
        let mut context = Context::from_waker(Waker::noop());
        self.notes_streams();
        let extensions = self.extensions();
        let sent = self.put(&mut context, extensions, &mut Unsampled)?;
        match sent {
            Ok(()) => {
                if extensions.extendable.is_some() {
                    self.lend();
                }
                Ok(self)
            }
            Err(put) => Err(not_waiting(&self.bound.node, &self.bound.session, put)),
        }
    }

    /// Has the request written. False if there is no room yet.
    #[inline(always)]
    fn write(
        &mut self,
        context: &mut Context<'_>,
        extensions: Extensions,
        stamps: &mut impl Stamps,
    ) -> Result<bool, CallError> {
        match self.put(context, extensions, stamps)? {
            Ok(()) => Ok(true),
            Err(put) => self.must_wait(put, context).map(|()| false),
        }
    }

    #[cold]
    #[inline(never)]
    fn must_wait(&mut self, put: Put, context: &mut Context<'_>) -> Result<(), CallError> {
        let waits = &mut self.rare.get_or_insert_default().waits;
        not_sent(self.bound, put, waits, context)
    }

    /// What stands before the request. In a handler that has a deadline itself, a call has no more
    /// time than is left of that. It ends here with the handler, and there by itself.
    fn extensions(&self) -> Extensions {
        let own = self.rare.as_ref().map_or(Extensions::NONE, |rare| rare.extensions());
        let left = inherited(own.deadline, self.bound.node.time_left_us());
        Extensions { deadline: left, extendable: self.may_last(), ..own }
    }

    /// How long the call may last in all, in microseconds, if all who bound it let it be extended.
    fn may_last(&self) -> Option<u64> {
        let node = &self.bound.node;
        let deadline = self.rare.as_ref().and_then(|rare| rare.deadline.as_ref());
        let above = node.bound();
        if deadline.is_none() && above.is_none() {
            return None;
        }
        above.is_none_or(|(_, lease)| lease.is_some()).then_some(())?;
        let most = deadline.map_or(Some(u64::MAX), |deadline| deadline.most)?;
        Some(most.saturating_sub(node.now_ns()) / 1000)
    }

    /// The call was sent: notes what its callee may ask for.
    #[cold]
    fn lend(&mut self) {
        let (State::Sent(call) | State::Feeding(call, _)) = self.state else { return };
        let Bound { node, session, .. } = self.bound;
        let rare = self.rare.get_or_insert_default();
        let (above, lease) = node.bound().unwrap_or((u64::MAX, None));
        let term = match &rare.deadline {
            Some(Deadline { sleep, most, .. }) => {
                Term::new(sleep.at().min(above), most.unwrap_or(u64::MAX))
            }
            None => Term::new(above, u64::MAX),
        };
        rare.lent = Some(node.lend(session, call, term, lease.as_ref()));
    }

    /// Takes a number and has the request written under it, if it was not.
    #[inline(always)]
    fn put(
        &mut self,
        context: &mut Context<'_>,
        extensions: Extensions,
        stamps: &mut impl Stamps,
    ) -> Result<Result<(), Put>, CallError> {
        let State::Unsent(arguments) = &self.state else { return Ok(Ok(())) };
        let (bound, Bound { node, session, .. }) = (self.bound, self.bound);
        if self.number == MISSING {
            return Err(CallError::NoSuchMethod { method: self.method });
        }
        let Some(call) = node.open_call(session, context) else {
            return Ok(Err(Put::Numbers));
        };
        stamps.at(Point::Opened);
        let words = request_head::<A>(self.number, call).with_manner(stamps.manner()).words();
        let written = match extensions.granted {
            None => bound.request(words, extensions, arguments, stamps),
            Some(_) => bound.request_granted(words, extensions, arguments, stamps),
        };
        if written.is_ok() {
            node.count(Counter::CallsSent);
            node.sent(session);
            if A::STREAMS {
                self.feeds(call);
            } else {
                self.state = State::Sent(call);
            }
        } else {
            session.close_unsent(call);
        }
        Ok(written)
    }

    /// The same for a call that has a deadline, or is sampled.
    #[cold]
    #[inline(never)]
    fn send_rarely(&mut self, context: &mut Context<'_>) -> Result<bool, CallError> {
        if self.rare.is_some() {
            self.bound.node.sampling().count();
        }
        if self.waits_for_grant(context)? {
            self.bound.node.sampling().put_off();
            return Ok(false);
        }
        // One with streams is never sampled, nor is an operation of a stream.
        if A::STREAMS || R::STREAMS || A::OPERATION {
            self.bound.node.sampling().put_off();
            return self.write_rarely(context, &mut Unsampled);
        }
        let waited = self.rare.as_mut().and_then(|rare| rare.waits.sample.take());
        let Some(mut sample) = self.bound.node.sampling().begin(waited, CALL) else {
            return self.write_rarely(context, &mut Unsampled);
        };
        let sent = self.write_rarely(context, &mut *sample);
        match (&sent, &self.state) {
            (Ok(true), State::Sent(call)) => {
                let (call, Bound { session, service, .. }) = (*call, self.bound);
                self.state = State::Sampled(call, sample.wants());
                session.open_sample(Half { call, names: (service, self.method), sample });
            }
            (Ok(false), _) => {
                sample.note(Happened::FULL);
                self.rare.get_or_insert_default().waits.sample = Some(sample);
            }
            _ => {}
        }
        sent
    }

    /// Whether the call waits for room that was asked for.
    fn waits_for_grant(&mut self, context: &mut Context<'_>) -> Result<bool, CallError> {
        match &mut *self.rare {
            Some(rare) if matches!(self.state, State::Unsent(_)) => {
                still_asks(self.bound, &mut rare.waits, context)
            }
            _ => Ok(false),
        }
    }

    #[inline(always)]
    fn write_rarely(
        &mut self,
        context: &mut Context<'_>,
        stamps: &mut impl Stamps,
    ) -> Result<bool, CallError> {
        let (rare, extensions) = (self.rare.as_ref(), self.extensions());
        let is_unsent = matches!(self.state, State::Unsent(_));
        let session = &self.bound.session;
        session.take_turn(rare.and_then(|rare| rare.waits.standing.as_ref()));
        let sent = self.write(context, extensions, stamps);
        session.take_turn(None);
        if let (Ok(true), Some(rare)) = (&sent, &mut *self.rare) {
            rare.waits = Waits::default();
        }
        if is_unsent && extensions.extendable.is_some() {
            self.lend();
        }
        sent
    }
}

impl<A: Content, R: Wire> Future for Call<'_, A, R> {
    type Output = Result<R, CallError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if A::STREAMS || R::STREAMS {
            return self.poll_streams(context, R::take, hand_over);
        }
        if matches!(R::EXACT, Some(bytes) if bytes > SHORT_BYTES) {
            // What is long is not returned through all that lies between.
            let mut place = None;
            let polled = self.poll_taking(context, |input| R::take_over(&mut place, input));
            ready!(polled)?;
            return Poll::Ready(Ok(place.expect("a result that was read")));
        }
        self.poll_taking(context, R::take)
    }
}

impl<A: Content, R: Wire> Call<'_, A, R> {
    /// Polls the call, whose result `take` reads where it lies.
    #[inline(always)]
    fn poll_taking<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Poll<Result<T, CallError>> {
        if let State::Sent(call) = self.state {
            let node = &self.bound.node;
            match self.bound.session.poll_answer(call, || node.waiter(context), take) {
                Answer::Open => {}
                Answer::Here(value) => {
                    self.state = State::Over;
                    return Poll::Ready(Ok(value));
                }
                Answer::Failed(error) => {
                    self.state = State::Over;
                    return Poll::Ready(Err(*error));
                }
            }
        } else if let State::Sampled(call, wants) = self.state {
            if let Some(result) = self.poll_sampled(call, wants, context, take) {
                return Poll::Ready(result);
            }
        } else {
            match self.send(context) {
                Ok(_) => {}
                Err(error) => {
                    self.give_up();
                    return Poll::Ready(Err(error));
                }
            }
        }
        if self.rare.is_some() {
            return self.poll_deadline(context);
        }
        self.bound.node.awaits_answer();
        Poll::Pending
    }
}

impl<A, R: Wire> Call<'_, A, R> {
    /// What has become of a call that is sampled.
    #[inline(never)]
    fn poll_sampled<T>(
        &mut self,
        call: CallNumber,
        wants: Wants,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Option<Result<T, CallError>> {
        let Bound { node, session, .. } = self.bound;
        let (answer, counted) =
            node.sampling().poll_answer(session, (call, wants), || node.waiter(context), take);
        node.count_sample(counted);
        let result = match answer {
            Answer::Open => return None,
            Answer::Here(value) => Ok(value),
            Answer::Failed(error) => Err(*error),
        };
        self.state = State::Over;
        Some(result)
    }
}
