//! The state of a call, which is the same for the calls of a node and for those of a handle.
//!
//! A [`Route`] knows how a request reaches its callee and how the reply comes back. The streams of the arguments
//! continue while the call is polled, and end with it, unless the result has streams too: then they continue while any
//! of those is read. Invariant: when a call that was sent is given up, its callee is told, unless it
//! has replied and nothing of the reply is left; the same holds for streams in a result that nobody took.

use super::{SendFuture, Take, Until};
use crate::error::{CallError, Callee};
use crate::metadata::Attached;
use crate::session::Answer;
use crate::wire::{CalledMethod, Content, Input, MessageContext, WireError};
use std::mem::ManuallyDrop;
use std::task::{Context, Poll, Waker};

/// How calls reach their callee: over a session of this node, or over a session of a handle.
pub(crate) trait Route: Sized {
    /// A call that was sent.
    type Sent;
    /// The values with which the reply of a sampled call is read.
    type Sample: Copy;
    /// The parts that only few calls of this route have.
    type Rare: Default;
    /// Wakes the task of a call when its time is over.
    type Alarm;

    /// Sends the request of a plain call, of which only the number is kept, and notes what the call waits for.
    /// Returns false if the call is not plain, or if the route has no plain calls.
    #[inline(always)]
    fn send_plain<A: Content>(
        _: &mut Open<Self, A>,
        _: &mut Context<'_>,
    ) -> Result<bool, CallError> {
        Ok(false)
    }

    /// Sends the request of a call, if it was not sent yet. Returns `Ready` if the call is over: it has failed, or its
    /// reply came meanwhile.
    fn send<A: Content, T: Take, F: Reads<T>>(
        call: &mut Open<Self, A>,
        context: &mut Context<'_>,
        read: F,
    ) -> Poll<Result<T::Read, CallError>>;

    /// Sends a one-way message.
    fn send_oneway<A: Content>(
        message: &mut SendFuture<Self, A>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CallError>>;

    /// Returns the reply to a call. If there is none yet, the task waits for it.
    fn poll_answer<T>(
        &self,
        rare: Option<&Self::Rare>,
        sent: &Self::Sent,
        sample: Option<Self::Sample>,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Answer<T>;

    /// Returns the context in which the streams of a call's messages are opened.
    fn attached<'a>(
        &'a self,
        rare: Option<&'a Self::Rare>,
        sent: &'a Self::Sent,
    ) -> MessageContext<'a>;

    /// Tells the callee that the streams which it opened in its reply are no longer wanted.
    fn take_back(&self, rare: Option<&Self::Rare>, sent: &Self::Sent);

    /// Gives up a call that was sent. Its result may have streams.
    fn abandon(&self, rare: Option<&Self::Rare>, sent: &Self::Sent, gives_streams: bool);

    /// Notes that the polled task waits for a reply.
    fn awaits_answer(&self) {}

    /// Notes that the polled task waits for room.
    fn awaits_room(&self) {}

    /// Returns the name of the service that is called.
    fn service(&self, rare: Option<&Self::Rare>) -> &'static str;

    /// Returns the callee of a call of this method.
    fn callee(&self, rare: Option<&Self::Rare>, method: &'static str) -> Callee;

    /// Returns the time.
    fn now_ns(&self) -> u64;

    /// Returns the deadline of a call whose callee may ask for more time.
    fn end_of(&self, rare: Option<&Self::Rare>, sent: &Self::Sent) -> Option<u64>;

    /// Has the task woken at that time.
    fn wake_at(
        &self,
        at: u64,
        alarm: &mut Option<Self::Alarm>,
        of: (Option<&Self::Sent>, &Self::Rare),
        waker: &Waker,
    );

    /// Returns whether a call that has failed is sent again, which happens in a later poll.
    fn sends_again(&self, _: &mut Self::Rare, _: &CallError, _: &mut Context<'_>) -> bool {
        false
    }
}

/// A function that reads the result of a call in place.
pub(crate) trait Reads<T: Take>:
    FnMut(&mut Input<'_>) -> Result<T::Read, WireError>
{
}

impl<T: Take, F: FnMut(&mut Input<'_>) -> Result<T::Read, WireError>> Reads<T> for F {}

/// The callee's method, or the operation of a channel.
#[derive(Clone, Copy)]
pub(crate) struct To {
    /// The method's index in the service for a handle, and its number at the callee for a node; or the code of
    /// the operation.
    pub(crate) number: u16,
    pub(crate) method: &'static str,
}

impl To {
    /// Returns the method with this index in the service.
    #[inline(always)]
    pub(crate) fn new(index: usize, method: &'static str) -> To {
        To { number: index as u16, method }
    }
}

/// A call and its state. Dropping it gives the call up.
pub(crate) struct Open<W: Route, A> {
    pub(crate) route: W,
    pub(crate) number: u16,
    pub(crate) method: &'static str,
    pub(crate) state: State<W, A>,
    /// This is dropped where the call is, so that a call without it costs one comparison.
    pub(crate) rare: ManuallyDrop<Option<Box<Rare<W>>>>,
}

/// The state of a call. The states of an open call come first, so that one comparison tells whether it is open.
pub(crate) enum State<W: Route, A> {
    Sent(W::Sent),
    /// The call is sampled.
    Sampled(W::Sent, W::Sample),
    /// The arguments are kept: their streams continue, or they may have to be sent again.
    Kept(W::Sent, Option<W::Sample>, A),
    /// The call was sent over another session than its client's, which was lost: `rare` has it.
    Moved(W::Sent, Option<W::Sample>),
    Unsent(A),
    Over,
}

/// The parts that only few calls have.
pub(crate) struct Rare<W: Route> {
    pub(crate) deadline: Option<Deadline<W>>,
    /// Whether the result may have streams.
    pub(crate) gives_streams: bool,
    /// The context that the caller gives.
    pub(crate) attached: Option<Attached>,
    pub(crate) more: W::Rare,
}

pub(crate) struct Deadline<W: Route> {
    pub(crate) until: Until,
    alarm: Option<W::Alarm>,
}

impl<W: Route> Default for Rare<W> {
    fn default() -> Rare<W> {
        Rare { deadline: None, gives_streams: false, attached: None, more: W::Rare::default() }
    }
}

impl<W: Route> Rare<W> {
    /// Returns the deadline of the call.
    pub(crate) fn until(&self) -> Option<Until> {
        self.deadline.as_ref().map(|deadline| deadline.until)
    }
}

impl<W: Route, A> State<W, A> {
    /// Returns the call as it was sent, while it is open.
    fn sent(&self) -> Option<(&W::Sent, Option<W::Sample>)> {
        match self {
            State::Sent(sent) => Some((sent, None)),
            State::Sampled(sent, sample) => Some((sent, Some(*sample))),
            State::Kept(sent, sample, _) | State::Moved(sent, sample) => Some((sent, *sample)),
            State::Unsent(_) | State::Over => None,
        }
    }
}

impl<W: Route, A: Content> State<W, A> {
    /// Notes that the request was sent over another session than that of its client.
    pub(super) fn has_moved(&mut self) {
        *self = match std::mem::replace(self, State::Over) {
            State::Sent(sent) => State::Moved(sent, None),
            State::Sampled(sent, sample) => State::Moved(sent, Some(sample)),
            state => state,
        };
    }

    /// Notes that the request was sent. The arguments are kept if they have streams, or if `keeps` says so.
    #[inline(always)]
    pub(crate) fn has_sent(&mut self, sent: W::Sent, keeps: bool) {
        match A::STREAMS || keeps {
            false => *self = State::Sent(sent),
            true => self.keeps(sent),
        }
    }

    #[cold]
    fn keeps(&mut self, sent: W::Sent) {
        if let State::Unsent(arguments) = std::mem::replace(self, State::Over) {
            arguments.streams(&mut |stream| stream.sent());
            *self = State::Kept(sent, None, arguments);
        }
    }
}

impl<W: Route, A> Open<W, A> {
    #[inline(always)]
    pub(crate) fn new(route: W, to: To, arguments: A) -> Open<W, A> {
        let (To { number, method }, state) = (to, State::Unsent(arguments));
        Open { route, number, method, state, rare: ManuallyDrop::new(None) }
    }

    /// Sets the deadline of the call.
    pub(crate) fn lasts(&mut self, until: Option<Until>) {
        if let Some(until) = until {
            let deadline = Some(Deadline { until, alarm: None });
            self.rare.get_or_insert_default().deadline = deadline;
        }
    }

    /// Returns the error of a call that has failed.
    #[cold]
    #[inline(never)]
    pub(super) fn failed(&self, error: CallError) -> CallError {
        let rare = self.rare.as_deref().map(|rare| &rare.more);
        error.at(|| self.route.callee(rare, self.method))
    }

    /// Polls whether the time of a waiting call is over. If so, the call is given up, with this error.
    #[cold]
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<CallError> {
        let Open { route, state, rare, .. } = self;
        let sent = state.sent().map(|(sent, _)| sent);
        let is_sent = sent.is_some();
        match sent {
            None => route.awaits_room(),
            Some(_) => route.awaits_answer(),
        }
        let Some(rare) = &mut **rare else { return Poll::Pending };
        let Some(Deadline { until, alarm }) = &mut rare.deadline else { return Poll::Pending };
        until.put_off(|| route.end_of(Some(&rare.more), sent?));
        if !until.is_over(route.now_ns()) {
            route.wake_at(until.end, alarm, (sent, &rare.more), context.waker());
            return Poll::Pending;
        }
        let error = self.failed(CallError::deadline(is_sent));
        self.give_up();
        Poll::Ready(error)
    }

    /// Gives the call up, and tells its callee.
    #[cold]
    fn give_up(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Over);
        if let Some((sent, _)) = state.sent() {
            let gives_streams = self.rare.as_ref().is_some_and(|rare| rare.gives_streams);
            let rare = self.rare.as_deref().map(|rare| &rare.more);
            self.route.abandon(rare, sent, gives_streams);
        }
        self.drop_rare();
    }

    /// Ends a call that has failed, and that waits for nothing any more.
    #[cold]
    pub(crate) fn fail(&mut self) {
        self.state = State::Over;
        self.drop_rare();
    }

    #[cold]
    #[inline(never)]
    fn drop_rare(&mut self) {
        drop(self.rare.take());
    }
}

impl<W: Route, A> Drop for Open<W, A> {
    #[inline(always)]
    fn drop(&mut self) {
        if !matches!(self.state, State::Unsent(_) | State::Over) {
            self.give_up();
        }
        if self.rare.is_some() {
            self.drop_rare();
        }
    }
}

impl<W: Route, A: Content> Open<W, A> {
    /// Polls the call, whose result is read in place.
    #[inline(always)]
    pub(crate) fn poll<T: Take, F: Reads<T>>(
        &mut self,
        context: &mut Context<'_>,
        read: F,
    ) -> Poll<Result<T::Read, CallError>> {
        if A::STREAMS || T::STREAMS {
            return self.poll_streams::<T, F>(context, read);
        }
        if let State::Sent(sent) = &self.state {
            match self.route.poll_answer(None, sent, None, context, read) {
                Answer::Open => {}
                Answer::Here(value) => {
                    self.state = State::Over;
                    return Poll::Ready(Ok(value));
                }
                Answer::Failed(error) => {
                    self.state = State::Over;
                    return Poll::Ready(Err(self.failed(*error)));
                }
            }
        } else if let State::Sampled(sent, sample) = &self.state {
            let answer = self.route.poll_answer(None, sent, Some(*sample), context, read);
            if let Some(result) = answer.result() {
                self.state = State::Over;
                return Poll::Ready(result.map_err(|error| self.failed(error)));
            }
        } else {
            match W::send_plain(self, context) {
                Ok(true) => return Poll::Pending,
                Ok(false) => {
                    return match self.poll_rarely::<T, F>(context, read) {
                        Answer::Open => Poll::Pending,
                        Answer::Here(read) => Poll::Ready(Ok(read)),
                        Answer::Failed(error) => Poll::Ready(Err(*error)),
                    };
                }
                Err(error) => {
                    let error = self.failed(error);
                    self.fail();
                    return Poll::Ready(Err(error));
                }
            }
        }
        if self.rare.is_some() {
            return self.poll_end(context).map(Err);
        }
        self.route.awaits_answer();
        Poll::Pending
    }

    /// Polls a call that is not plain. Its error is boxed, so that the result of a plain call can be returned in
    /// registers.
    #[cold]
    #[inline(never)]
    fn poll_rarely<T: Take, F: Reads<T>>(
        &mut self,
        context: &mut Context<'_>,
        read: F,
    ) -> Answer<T::Read> {
        match W::send::<A, T, F>(self, context, read) {
            Poll::Ready(Ok(read)) => Answer::Here(read),
            Poll::Ready(Err(error)) => Answer::Failed(Box::new(self.failed(error))),
            Poll::Pending => match self.poll_end(context) {
                Poll::Ready(error) => Answer::Failed(Box::new(error)),
                Poll::Pending => Answer::Open,
            },
        }
    }

    /// Notes whether the result may have streams, before the call is sent.
    #[inline(always)]
    pub(crate) fn notes_streams<T: Take>(&mut self) {
        if T::STREAMS {
            self.rare.get_or_insert_default().gives_streams = true;
        }
    }

    /// Polls a call whose result may have streams. The streams of its arguments are handed on to those.
    #[inline(never)]
    fn poll_streams<T: Take, F: Reads<T>>(
        &mut self,
        context: &mut Context<'_>,
        read: F,
    ) -> Poll<Result<T::Read, CallError>> {
        self.notes_streams::<T>();
        let polled = match self.state {
            State::Unsent(_) | State::Over => W::send::<A, T, F>(self, context, read),
            _ => self.poll_sent::<T, F>(context, read),
        };
        if let Poll::Ready(result) = polled {
            return Poll::Ready(result.map_err(|error| self.failed(error)));
        }
        if let State::Kept(_, _, arguments) = &self.state {
            arguments.streams(&mut |stream| stream.feed(context));
        }
        self.poll_end(context).map(Err)
    }

    /// Returns whether the call was sent, and still has its arguments or went over another session than its client's.
    pub(crate) fn is_sent_rarely(&self) -> bool {
        matches!(self.state, State::Kept(..) | State::Moved(..))
    }

    /// Polls a call that was sent, and that still has its arguments, has streams in its result, or went over another
    /// session than its client's.
    #[inline(never)]
    pub(crate) fn poll_sent<T: Take, F: Reads<T>>(
        &mut self,
        context: &mut Context<'_>,
        read: F,
    ) -> Poll<Result<T::Read, CallError>> {
        let Some((sent, sample)) = self.state.sent() else { return Poll::Pending };
        let rare = self.rare.as_deref().map(|rare| &rare.more);
        let attached = self.route.attached(rare, sent);
        let read = |input: &mut Input<'_>| input.within(&attached, read);
        let answer = self.route.poll_answer(rare, sent, sample, context, read);
        let Some(result) = answer.result() else { return Poll::Pending };
        let of = CalledMethod { service: self.route.service(rare), method: self.method };
        match (&result, std::mem::replace(&mut self.state, State::Over)) {
            (Ok(read), State::Kept(_, _, arguments)) => T::received(read, Some(&arguments), of),
            (Ok(read), _) => T::received::<A>(read, None, of),
            (Err(error), State::Kept(_, _, arguments)) if self.sends_again(error, context) => {
                self.state = State::Unsent(arguments);
                return Poll::Pending;
            }
            (Err(_), State::Kept(sent, ..) | State::Sent(sent) | State::Moved(sent, _))
                if T::STREAMS =>
            {
                let rare = self.rare.as_deref().map(|rare| &rare.more);
                self.route.take_back(rare, &sent);
            }
            _ => {}
        }
        Poll::Ready(result)
    }

    fn sends_again(&mut self, error: &CallError, context: &mut Context<'_>) -> bool {
        let Open { route, rare, .. } = self;
        rare.as_mut().is_some_and(|rare| route.sends_again(&mut rare.more, error, context))
    }
}
