//! The calls of a node: how they are sent, and how their replies are read.

use super::again::Refusals;
use super::open::{Open, Reads, Route, State};
use super::reconnect::{Reconnect, poll_reconnect};
use super::waits::{Waits, not_waiting, still_asks};
use super::{Bound, MISSING, SendFuture, Take, request_head};
use crate::dispatch::Dispatcher;
use crate::error::{CallError, Callee};
use crate::sample::{Half, Message, Stamps, Unsampled, Wants};
use crate::session::{Answer, Front, Lent, Plain, SendError, SenderTurn, Session, Unsent};
use crate::time::Sleep;
use crate::wire::{Attaching, Content, Input, MessageContext, WireError};
use std::borrow::Borrow;
use std::task::{Context, Poll, Waker};
use upbeat_core::bill::Counter;
use upbeat_core::bill::way::{CALL, MessageEvents, Point};
use upbeat_core::frame::{CallNumber, Head};

/// The route of a node's calls: the session that the client is bound to.
#[derive(Clone)]
#[doc(hidden)]
pub struct NodeRoute<B>(pub(crate) B);

/// The parts that only few calls of a node have.
#[derive(Default)]
pub(crate) struct NodeRare {
    pub(super) waits: Waits,
    /// The refusals so far, if the callee may send the call back.
    pub(super) refusals: Option<Refusals>,
    /// The loan through which the callee may ask for more time.
    pub(super) lent: Option<Lent>,
    /// Set once the client's session was lost.
    pub(super) reconnect: Option<Reconnect>,
}

impl NodeRare {
    /// Returns the session over which the message goes, if it is another than that of its client.
    pub(super) fn moved(&self) -> Option<&Bound> {
        self.reconnect.as_ref()?.moved()
    }
}

impl<B: Borrow<Bound>> NodeRoute<B> {
    #[inline(always)]
    pub(super) fn bound(&self) -> &Bound {
        self.0.borrow()
    }

    /// Returns the session over which a message goes, which may be another than that of its client.
    #[inline(always)]
    pub(super) fn session_of<'a>(&'a self, rare: Option<&'a NodeRare>) -> &'a Bound {
        rare.and_then(NodeRare::moved).unwrap_or_else(|| self.bound())
    }

    /// Polls for a session over which a message goes whose client has lost its own. Returns the number of its method
    /// there.
    #[cold]
    pub(super) fn poll_reconnect(
        &self,
        rare: &mut NodeRare,
        method: &str,
        context: &mut Context<'_>,
    ) -> Poll<Result<u16, CallError>> {
        poll_reconnect(self.bound(), &mut rare.reconnect, method, context)
    }
}

impl<B: Borrow<Bound>> Route for NodeRoute<B> {
    type Sent = CallNumber;
    type Sample = Wants;
    type Rare = NodeRare;
    type Alarm = Sleep;

    #[inline(always)]
    fn send_plain<A: Content>(
        call: &mut Open<Self, A>,
        context: &mut Context<'_>,
    ) -> Result<bool, CallError> {
        if call.rare.is_some() {
            return Ok(false);
        }
        let State::Unsent(arguments) = &call.state else { return Ok(true) };
        // The number is read before the countdown is written, so that the compiler keeps the number in a register.
        let number = call.number;
        if call.route.bound().node.sampling().is_due() {
            return Ok(false);
        }
        if number == MISSING {
            return Err(call.unbound());
        }
        let (bound, request) = (call.route.bound(), (number, arguments));
        match call.write_request(bound, request, context, Plain, &mut Unsampled) {
            Ok(sent) => {
                call.state.has_sent(sent, false);
                call.route.awaits_answer();
            }
            Err(error) => match call.must_wait(error, context)? {
                true => call.route.awaits_answer(),
                false => call.route.awaits_room(),
            },
        }
        Ok(true)
    }

    fn send<A: Content, T: Take, F: Reads<T>>(
        call: &mut Open<Self, A>,
        context: &mut Context<'_>,
        read: F,
    ) -> Poll<Result<T::Read, CallError>> {
        if call.is_sent_rarely() {
            return call.poll_sent::<T, F>(context, read);
        }
        match call.send_rarely(context) {
            Ok(_) => Poll::Pending,
            Err(error) => {
                call.fail();
                Poll::Ready(Err(error))
            }
        }
    }

    #[inline(always)]
    fn send_oneway<A: Content>(
        message: &mut SendFuture<Self, A>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CallError>> {
        message.poll_send(context)
    }

    #[inline(always)]
    fn poll_answer<T>(
        &self,
        rare: Option<&NodeRare>,
        call: &CallNumber,
        sample: Option<Wants>,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Answer<T> {
        let bound = self.session_of(rare);
        let Bound { node, session, .. } = bound;
        match sample {
            None => session.poll_answer(*call, || node.waiter(context), take),
            Some(wants) => bound.poll_sampled((*call, wants), context, take),
        }
    }

    fn attached<'a>(
        &'a self,
        rare: Option<&'a NodeRare>,
        call: &'a CallNumber,
    ) -> MessageContext<'a> {
        MessageContext::caller(self.session_of(rare), *call)
    }

    fn take_back(&self, rare: Option<&NodeRare>, call: &CallNumber) {
        self.session_of(rare).take_back(Head::cancel(*call));
    }

    fn abandon(&self, rare: Option<&NodeRare>, call: &CallNumber, gives_streams: bool) {
        let Bound { node, session, .. } = self.session_of(rare);
        if session.has_open_samples() {
            node.count_sample(node.sampling().gives_up(session, *call));
        }
        if session.abandon(*call) {
            node.count(Counter::CancelsSent);
            node.sent(session);
        } else if gives_streams {
            self.take_back(rare, call);
        }
    }

    #[inline(always)]
    fn awaits_answer(&self) {
        self.bound().node.awaits_answer();
    }

    fn awaits_room(&self) {
        self.bound().node.awaits_room();
    }

    fn service(&self, rare: Option<&NodeRare>) -> &'static str {
        self.session_of(rare).service
    }

    fn callee(&self, rare: Option<&NodeRare>, method: &'static str) -> Callee {
        let bound = self.session_of(rare);
        Callee { node: bound.session.peer_text(), service: bound.service, method }
    }

    fn now_ns(&self) -> u64 {
        self.bound().node.now_ns()
    }

    fn end_of(&self, rare: Option<&NodeRare>, call: &CallNumber) -> Option<u64> {
        self.session_of(rare).session.end_of(*call)
    }

    fn wake_at(
        &self,
        at: u64,
        alarm: &mut Option<Sleep>,
        _: (Option<&CallNumber>, &NodeRare),
        waker: &Waker,
    ) {
        let sleep = alarm.get_or_insert_with(|| Sleep::until(&self.bound().node, at));
        sleep.wake_at(at, waker);
    }

    fn sends_again(
        &self,
        rare: &mut NodeRare,
        error: &CallError,
        context: &mut Context<'_>,
    ) -> bool {
        let Some(refusals) = &mut rare.refusals else { return false };
        if !refusals.retry(self.bound(), error) {
            return false;
        }
        rare.lent = None;
        if refusals.poll_pause(context).is_ready() {
            context.waker().wake_by_ref();
        }
        true
    }
}

impl Bound {
    /// Returns the state of a sampled call, and its result if the reply is here.
    #[inline(never)]
    fn poll_sampled<T>(
        &self,
        of: (CallNumber, Wants),
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Answer<T> {
        let Bound { node, session, .. } = self;
        let waiter = || node.waiter(context);
        let (answer, counted) = node.sampling().poll_answer(session, of, waiter, take);
        node.count_sample(counted);
        answer
    }

    /// Writes a request with its attachments.
    fn request_attached<A: Content>(
        &self,
        words: [u64; 3],
        front: impl Front,
        arguments: &A,
        stamps: &mut impl Stamps,
    ) -> Result<(), SendError> {
        let context = MessageContext::caller(self, CallNumber::from_u64(words[1]));
        let arguments = Attaching { content: arguments, context };
        self.session.request(words, front, &arguments, stamps)
    }

    /// Tells the callee that a stream, or all the streams that the callee opened in a reply, are no longer wanted.
    #[cold]
    pub(crate) fn take_back(&self, head: Head) {
        if self.session.ended().is_none() && self.session.is_here() {
            self.session.send_surely(head, Vec::new());
            self.node.sent(&self.session);
        }
    }
}

impl<B: Borrow<Bound>, A: Content> Open<NodeRoute<B>, A> {
    /// Sends the call now, or fails if it would have to wait.
    pub(super) fn try_send(&mut self) -> Result<(), CallError> {
        // The task that awaits the call later passes its own waker in its first poll.
        let mut context = Context::from_waker(Waker::noop());
        let (extensions, carried) = (self.extensions(), self.carried()?);
        let front = (extensions, carried.as_deref());
        if let Err(put) = self.put(&mut context, front, &mut Unsampled)? {
            let is_lost = matches!(put, SendError::Ended(_));
            let Bound { node, session, .. } = self.bound();
            let error = not_waiting(node, session, put);
            if !is_lost {
                return Err(error);
            }
            return match self.poll_reconnect(&mut context) {
                Poll::Pending => Err(error),
                Poll::Ready(reached) => reached.and_then(|()| self.try_send()),
            };
        }
        if extensions.extendable.is_some() {
            self.lend();
        }
        self.has_moved();
        Ok(())
    }

    /// Takes a number for the request, and writes it, if it was not sent before.
    #[inline(always)]
    fn put(
        &mut self,
        context: &mut Context<'_>,
        front: impl Front,
        stamps: &mut impl Stamps,
    ) -> Result<Result<(), SendError>, CallError> {
        let State::Unsent(arguments) = &self.state else { return Ok(Ok(())) };
        if self.number == MISSING {
            return Err(self.unbound());
        }
        let (bound, request) = (self.bound(), (self.number, arguments));
        let written = self.write_request(bound, request, context, front, stamps);
        Ok(written.map(|call| self.state.has_sent(call, front.extensions().refusals.is_some())))
    }

    /// Takes a number for the call and writes the request under that number. The rare steps are methods of the call,
    /// which find the node and the session again, so that the common path keeps no addresses for them.
    #[inline(always)]
    fn write_request(
        &self,
        bound: &Bound,
        (number, arguments): (u16, &A),
        context: &Context<'_>,
        front: impl Front,
        stamps: &mut impl Stamps,
    ) -> Result<CallNumber, SendError> {
        let (node, session): (&Dispatcher, &Session) = (&bound.node, &bound.session);
        let task = node.task_of(context);
        let call = match task.and_then(|task| session.open_call_at_once(task)) {
            Some(call) => call,
            None => match self.open_call(context) {
                Some(call) => call,
                None => return Err(SendError::Numbers),
            },
        };
        stamps.at(Point::Opened);
        let words = request_head::<A>(number, call).with_manner(stamps.manner()).words();
        let unsent = Unsent::new(session, call);
        match A::STREAMS {
            false => session.request(words, front, arguments, stamps)?,
            true => bound.request_attached(words, front, arguments, stamps)?,
        }
        let call = unsent.sent();
        node.count(Counter::CallsSent);
        if node.has_sent(session) {
            self.heat();
        }
        Ok(call)
    }

    /// Sends a call that has a deadline or streams, that is sampled, or whose client has lost its session.
    #[cold]
    #[inline(never)]
    pub(super) fn send_rarely(&mut self, context: &mut Context<'_>) -> Result<bool, CallError> {
        let sent = self.send_or_sample(context)?;
        self.has_moved();
        Ok(sent)
    }

    fn send_or_sample(&mut self, context: &mut Context<'_>) -> Result<bool, CallError> {
        if self.rare.is_some() || A::STREAMS {
            self.route.bound().node.sampling().count();
        }
        if self.waits(context)? {
            self.route.bound().node.sampling().put_off();
            return Ok(false);
        }
        // A call with streams is never sampled, nor is an operation of a stream.
        let gives_streams = self.rare.as_ref().is_some_and(|rare| rare.gives_streams);
        if A::STREAMS || A::OPERATION || gives_streams {
            self.route.bound().node.sampling().put_off();
            return self.write_rarely(context, &mut Unsampled);
        }
        let waited = self.rare.as_mut().and_then(|rare| rare.more.waits.sample.take());
        let Bound { node, session, .. } = self.bound();
        let Some(mut sample) = node.sampling().begin(waited, CALL, session) else {
            return self.write_rarely(context, &mut Unsampled);
        };
        let sent = self.write_rarely(context, &mut *sample);
        let call = match (&sent, &mut self.state) {
            (Ok(true), State::Sent(call)) => {
                let call = *call;
                self.state = State::Sampled(call, sample.wants());
                call
            }
            (Ok(true), State::Kept(call, wants, _)) => {
                *wants = Some(sample.wants());
                *call
            }
            (Ok(false), _) => {
                sample.note(MessageEvents::FULL);
                self.rare.get_or_insert_default().more.waits.sample = Some(sample);
                return sent;
            }
            _ => return sent,
        };
        let Bound { session, service, .. } = self.bound();
        let message = Message::Call(call);
        let half = Half { message, names: (service, self.method), sample };
        if let Some(sample) = session.open_sample(half) {
            self.bound().node.sampling().free(sample);
        }
        sent
    }

    /// Returns whether the call waits for a grant, or for its next attempt.
    fn waits(&mut self, context: &mut Context<'_>) -> Result<bool, CallError> {
        if !matches!(self.state, State::Unsent(_)) {
            return Ok(false);
        }
        let Some(rare) = &mut *self.rare else { return Ok(false) };
        if let Some(refusals) = &mut rare.more.refusals
            && refusals.poll_pause(context).is_pending()
        {
            return Ok(true);
        }
        if rare.more.reconnect.as_ref().is_some_and(Reconnect::waits) {
            match self.poll_reconnect(context) {
                Poll::Pending => return Ok(true),
                Poll::Ready(reached) => reached?,
            }
        }
        let Open { route, rare, .. } = self;
        let Some(rare) = &mut **rare else { return Ok(false) };
        let NodeRare { waits, reconnect, .. } = &mut rare.more;
        let moved = reconnect.as_ref().and_then(Reconnect::moved);
        still_asks(moved.unwrap_or(route.bound()), waits, context)
    }

    #[inline(never)]
    fn write_rarely(
        &mut self,
        context: &mut Context<'_>,
        stamps: &mut impl Stamps,
    ) -> Result<bool, CallError> {
        let (extensions, carried) = (self.extensions(), self.carried()?);
        let rare = self.rare.as_ref();
        let is_unsent = matches!(self.state, State::Unsent(_));
        let admission = rare.and_then(|rare| rare.more.waits.admission());
        let turn = SenderTurn::begin(&self.bound().session, admission);
        let put = self.put(context, (extensions, carried.as_deref()), stamps);
        let sent = match put {
            Err(error) => Err(error),
            Ok(Ok(())) => Ok(true),
            Ok(Err(put @ SendError::Ended(_))) => {
                drop(turn);
                return self.must_wait(put, context);
            }
            Ok(Err(put)) => self.must_wait(put, context),
        };
        drop(turn);
        if let (Ok(true), Some(rare)) = (&sent, &mut *self.rare) {
            rare.more.waits = Waits::default();
        }
        if is_unsent && extensions.extendable.is_some() {
            self.lend();
        }
        sent
    }
}
