//! A session that only calls, with lanes and an incarnation of its own. Its holder drives it.

mod frames;

mod waiting;

mod leaving;

mod mending;

mod opening;

use super::Target;
use super::lasting::Watch;
use crate::call::{Given, MISSING, To, Until, request_head, unbound};
use crate::client::{self, LEAVING_MAX, Methods, methods};
use crate::error::{CallError, ConnectError, Lost, Why};
use crate::sample::{Half, Message, Sample, Stamps, Unsampled};
use crate::sampling::{SampleSink, Sampling};
use crate::session::{Admission, Answer, Extensions, SendError, Session, Terms, Unsent, Waiter};
use crate::wait::{IdlePolicy, Ticker, Waiting};
use crate::wake::MAIN;
use crate::warning::memory_is_refused;
use crate::wire::{Content, Input, Wire, WireError};
pub(super) use mending::{Outcome, Reconnect};
use opening::wait_open;
use std::cell::Cell;
use std::sync::Arc;
use std::task::Waker;
use upbeat_core::bill::way::{CALL, MessageEvents, ONEWAY, Point, Way};
use upbeat_core::bind::{BIND, BindRequest};
use upbeat_core::context::Context;
use upbeat_core::flow::ReplyBudget;
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::method::Signature;
use upbeat_environment::time::now_ns;
use upbeat_memory::sync::fence_full;
use upbeat_memory::ticks::ticks;
use upbeat_transport::local_node::LocalNode;

/// The parts that only a waiting message has. A caller that gives the message up must
/// [withdraw](Caller::withdraw) them.
#[derive(Default)]
pub(crate) struct Wants {
    pub(super) admission: Admission,
    /// The sample that goes with the message.
    sample: Option<Box<Sample>>,
}

impl Wants {
    /// Keeps the sample of a message that waits.
    fn keep_sample(&mut self, mut sample: Box<Sample>) {
        sample.note(MessageEvents::FULL);
        self.sample = Some(sample);
    }
}

/// Notes between two looks at the session.
#[derive(Default)]
struct Noted {
    /// Whether the session's thread has slept, and has not read the ring that woke it.
    rung: Cell<bool>,
    /// Whether rings may have been read together with a segment of the peer.
    heard: Cell<bool>,
    /// Whether a future has polled for its reply without success, and waits for it.
    waits: Cell<bool>,
    /// Whether a future has found its reply, and leaves the session.
    rests: Cell<bool>,
    /// Whether the session's thread wakes to free unused memory.
    tidies: Cell<bool>,
    /// Whether one-way messages were sent since a call was answered. Nobody misses them if they do not arrive.
    sends: Cell<bool>,
}

/// The session, the methods' numbers, and how the session's holder waits.
pub(crate) struct Caller {
    target: Target,
    home: LocalNode,
    pub(super) session: Session,
    service: &'static str,
    methods: Methods,
    sampling: Sampling,
    pace: IdlePolicy,
    ticker: Ticker,
    /// When the session was last used, in ticks.
    used: u64,
    noted: Noted,
    /// The alarms and the stop signal of the session's own thread, if it has one.
    watch: Option<Arc<Watch>>,
    /// When the blocking thread gives up its wait.
    until: Cell<Option<Until>>,
    /// The attempts to connect again that the last wait has left.
    reconnect: Option<Box<Reconnect>>,
}

impl Caller {
    /// Opens a session and asks for the methods' numbers. Blocks this thread: until a time at most, or
    /// while the handle exists. The thread of an asynchronous session waits asleep.
    fn open(
        target: &Target,
        service: &'static str,
        signatures: &[Signature],
        watch: Option<Arc<Watch>>,
        until: Option<Until>,
    ) -> Result<Caller, ConnectError> {
        let mut left = LEAVING_MAX;
        loop {
            match Caller::try_open(target, service, signatures, watch.clone(), until) {
                Err(error) if left > 0 && client::has_met_leaving(&error) => left -= 1,
                opened => return opened,
            }
        }
    }

    fn try_open(
        target: &Target,
        service: &'static str,
        signatures: &[Signature],
        watch: Option<Arc<Watch>>,
        until: Option<Until>,
    ) -> Result<Caller, ConnectError> {
        let (home, carrier) = wait_open(target, watch.as_deref(), until)?;
        drop(carrier.take_old_socket());
        carrier.unshared().into_iter().for_each(memory_is_refused);
        // A blocking thread polls the lane itself.
        let wake: Arc<dyn Fn() + Send + Sync> = match &watch {
            Some(watch) => {
                let watch = Arc::clone(watch);
                Arc::new(move || watch.kick())
            }
            None => Arc::new(|| ()),
        };
        let seed = home.incarnation();
        let waiting = watch.as_ref().map_or(target.waiting, |_| Waiting::Sleeping);
        let mut caller = Caller {
            target: target.clone(),
            home,
            session: Session::new(
                carrier,
                Terms { longest: target.longest, ..Terms::default() },
                ReplyBudget::default(),
                None,
                wake,
            ),
            service,
            methods: Methods { numbers: vec![BIND], clashes: Vec::new() },
            sampling: Sampling::new(0, seed, SampleSink::Shared(Arc::clone(&target.pages))),
            pace: IdlePolicy::new(waiting),
            ticker: Ticker::new(),
            used: ticks(),
            noted: Noted::default(),
            watch,
            until: Cell::new(until),
            reconnect: None,
        };
        let request: BindRequest = client::request(service, signatures)?;
        let to = To::new(0, "bind");
        let answer = caller.ask(to, request.encode(), Given::default(), <Vec<u8> as Wire>::take);
        caller.until.set(None);
        caller.methods = methods(&request, answer, &target.to, &caller.session.peer_text())?;
        caller.sampling.set(target.sampling);
        Ok(caller)
    }

    /// Calls a method and blocks until its reply, which `take` reads in place, or until a time at most.
    #[inline]
    pub(super) fn call<A: Content, T>(
        &mut self,
        to: To,
        arguments: A,
        given: Given<'_>,
        take: impl FnMut(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Result<T, CallError> {
        self.until.set(given.until);
        let result = self.ask(to, arguments, given, take);
        self.until.set(None);
        result
    }

    #[inline]
    fn ask<A: Content, T>(
        &mut self,
        to: To,
        arguments: A,
        given: Given<'_>,
        mut take: impl FnMut(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Result<T, CallError> {
        let mut wants = Wants::default();
        let call = loop {
            match self.send_call((to, &arguments), &mut wants, given, None, Waker::noop()) {
                Ok(Some(call)) => break call,
                Ok(None) => self.wait_to_send(&mut wants)?,
                Err(error) => {
                    self.withdraw(&mut wants);
                    return Err(error);
                }
            }
        };
        let mut result = None;
        loop {
            self.drain_for(&mut |_| {
                result = self.poll(call, || Waiter::Task(MAIN), &mut take).result()
            });
            let result = result
                .take()
                .or_else(|| self.poll(call, || Waiter::Task(MAIN), &mut take).result());
            if let Some(result) = result {
                self.pace.busy();
                // The peer reads requests in order: it has the one-way messages before an answered call.
                self.noted.sends.set(self.noted.sends.get() && result.is_err());
                return result;
            }
            if let Some(mut until) = given.until {
                until.put_off(|| self.session.end_of(call));
                self.until.set(Some(until));
            }
            if self.is_late() {
                self.abandon(call);
                return Err(CallError::deadline(true));
            }
            self.idle();
        }
    }

    /// Gives a call up. Either its callee is told, or its reply is dropped, which may lie in a buffer that
    /// the peer waits for.
    pub(super) fn abandon(&mut self, call: CallNumber) {
        self.session.end_loan(call);
        if self.session.has_open_samples() {
            self.sampling.gives_up(&self.session, call);
        }
        if self.session.abandon(call) || self.session.peer_wants_room() {
            self.flush();
        }
    }

    /// Sends a one-way message. Blocks while there is no room, until a time at most.
    pub(super) fn send<A: Content>(
        &mut self,
        to: To,
        arguments: &A,
        given: Given<'_>,
    ) -> Result<(), CallError> {
        self.until.set(given.until);
        let mut wants = Wants::default();
        let sent = loop {
            match self.try_send((to, arguments), &mut wants, given.context, Waker::noop()) {
                Ok(true) => break self.wait_until_sent(),
                Ok(false) => {
                    if let Err(error) = self.wait_to_send(&mut wants) {
                        break Err(error);
                    }
                }
                Err(error) => {
                    self.withdraw(&mut wants);
                    break Err(error);
                }
            }
        };
        self.until.set(None);
        sent
    }

    /// Sends a call, whose reply wakes `waiter`; without one, this thread polls for it. Returns `None` if there is no
    /// room or no number now. The reservation or the place in the queue is then noted, and `waker` is woken in turn.
    #[inline]
    pub(super) fn send_call<A: Content>(
        &mut self,
        (to, arguments): (To, &A),
        wants: &mut Wants,
        given: Given<'_>,
        waiter: Option<&Waker>,
        waker: &Waker,
    ) -> Result<Option<CallNumber>, CallError> {
        // A call with streams, or an operation of a stream, has a waiter and is never sampled.
        let sample = if waiter.is_none() { self.sample_of(wants, CALL) } else { None };
        let Some(mut sample) = sample else {
            let waiter = waiter.map_or(Waiter::Task(MAIN), |waker| Waiter::Waker(waker.into()));
            return self.write_call((to, arguments), wants, given, (waiter, waker), &mut Unsampled);
        };
        let waits = (Waiter::Task(MAIN), waker);
        let sent = self.write_call((to, arguments), wants, given, waits, &mut *sample);
        match sent {
            Ok(Some(call)) => {
                let names = (self.service, to.method);
                let half = Half { message: Message::Call(call), names, sample };
                if let Some(sample) = self.session.open_sample(half) {
                    self.sampling.free(sample);
                }
            }
            Ok(None) => wants.keep_sample(sample),
            Err(_) => self.sampling.free(sample),
        }
        sent
    }

    /// Counts a message. Returns the sample that goes with it, if it is sampled.
    #[inline]
    fn sample_of(&self, wants: &mut Wants, way: &Way) -> Option<Box<Sample>> {
        let is_sampled = self.sampling.is_due() || wants.sample.is_some();
        is_sampled.then(|| self.sampling.begin(wants.sample.take(), way, &self.session)).flatten()
    }

    #[inline]
    fn write_call<A: Content>(
        &mut self,
        (to, arguments): (To, &A),
        wants: &mut Wants,
        Given { until, context }: Given<'_>,
        (waiter, waker): (Waiter, &Waker),
        stamps: &mut impl Stamps,
    ) -> Result<Option<CallNumber>, CallError> {
        let number = if A::OPERATION { to.number } else { self.number(to)? };
        let mut extensions = until.map_or(Extensions::NONE, |until| until.extensions(now_ns()));
        let sent = self.try_in_turn(wants, waker, |session, granted| {
            let Some(call) = session.open_call(waiter) else { return Err(SendError::Numbers) };
            stamps.at(Point::Opened);
            extensions.granted = granted;
            let words = request_head::<A>(number, call).with_manner(stamps.manner()).words();
            let unsent = Unsent::new(session, call);
            session.request(words, (extensions, context), arguments, stamps)?;
            Ok(unsent.sent())
        });
        if let (Ok(Some(call)), Some(term)) = (&sent, until.and_then(Until::term)) {
            self.session.lend(*call, term, None);
        }
        sent
    }

    /// Tries to send a message when it is its turn. Returns `None` if it has to wait: `waker` is woken when it can go.
    #[inline]
    fn try_in_turn<T>(
        &mut self,
        wants: &mut Wants,
        waker: &Waker,
        send: impl FnOnce(&Session, Option<u64>) -> Result<T, SendError>,
    ) -> Result<Option<T>, CallError> {
        let waits = wants.admission.is_any();
        if waits && self.session.awaits_grant(&mut wants.admission, waker) {
            return Ok(None);
        }
        let sent = match waits {
            true => self.session.send_in_turn(&mut wants.admission, send),
            false => send(&self.session, None),
        };
        match sent {
            Ok(sent) => {
                if waits {
                    self.session.take_turn(None);
                    self.session.withdraw_admission(&mut wants.admission);
                }
                // There is no end of a turn here that would wake the peer later.
                self.flush();
                Ok(Some(sent))
            }
            Err(put) => self.refused(put, wants, waker).map(|()| None),
        }
    }

    /// Sends a one-way message. Returns false if there is no room now, as with a call.
    pub(super) fn try_send<A: Content>(
        &mut self,
        (to, arguments): (To, &A),
        wants: &mut Wants,
        context: Option<&Context>,
        waker: &Waker,
    ) -> Result<bool, CallError> {
        let Some(mut sample) = self.sample_of(wants, ONEWAY) else {
            return self.write_oneway((to, arguments), wants, (context, waker), &mut Unsampled);
        };
        let sent = self.write_oneway((to, arguments), wants, (context, waker), &mut *sample);
        match sent {
            Ok(false) => wants.keep_sample(sample),
            Ok(true) if sample.is_watched() => self.send_half(sample),
            Ok(true) | Err(_) => self.sampling.free(sample),
        }
        sent
    }

    /// Sends this side's stamps of a one-way message that was written to a socket.
    #[cold]
    fn send_half(&self, sample: Box<Sample>) {
        let half = Half { message: sample.as_oneway(), names: ("", ""), sample };
        self.session.send_halves(half, |sample| self.sampling.free(sample));
        self.flush();
    }

    fn write_oneway<A: Content>(
        &mut self,
        (to, arguments): (To, &A),
        wants: &mut Wants,
        (context, waker): (Option<&Context>, &Waker),
        stamps: &mut impl Stamps,
    ) -> Result<bool, CallError> {
        let number = self.number(to)?;
        stamps.at(Point::Opened);
        let manner = stamps.sample().map(|sample| sample.manner);
        let words = stamps.on_oneway(Head::oneway(number, 0).with_manner(manner).words());
        let sent = self.try_in_turn(wants, waker, |session, granted| {
            let extensions = Extensions { granted, ..Extensions::NONE };
            session.request(words, (extensions, context), arguments, stamps)?;
            let sample = stamps.sample().filter(|sample| sample.needs_frame());
            if let Some(sample) = sample.filter(|sample| !sample.is_watched()) {
                session.send_stamps(sample.as_oneway(), sample);
            }
            Ok(())
        });
        let sent = sent?.is_some();
        if sent {
            self.noted.sends.set(true);
        }
        Ok(sent)
    }

    /// Withdraws everything that a message waits for.
    pub(super) fn withdraw(&mut self, wants: &mut Wants) {
        if self.session.withdraw_admission(&mut wants.admission) {
            self.flush();
        }
    }

    fn number(&self, to: To) -> Result<u16, CallError> {
        match self.methods.numbers.get(usize::from(to.number)) {
            Some(number) if *number != MISSING => Ok(*number),
            _ => Err(unbound(&self.methods.clashes, to.method)),
        }
    }

    #[inline]
    pub(super) fn flush(&self) {
        self.session.flush(fence_full());
    }

    /// Has a message wait that could not be sent, or returns why it does not wait.
    #[cold]
    fn refused(
        &mut self,
        put: SendError,
        wants: &mut Wants,
        waker: &Waker,
    ) -> Result<(), CallError> {
        let waits = self.session.wait(put, &mut wants.admission, waker);
        // The message has its turn until here, because it may ask for room now.
        self.session.take_turn(None);
        if let Err(put) = waits {
            return Err(put.into_error(|why| {
                self.end(*why);
                self.session.lost()
            }));
        }
        self.flush();
        if self.session.carrier.writer().wants_room() {
            // The peer does not announce room that it made before it could see that this side waits.
            self.session.settle(false);
        }
        Ok(())
    }

    /// Wakes the messages that wait for a number which an ended call has freed.
    pub(super) fn call_ended(&self) {
        if self.session.is_pressed() {
            self.session.settle(false);
        }
    }

    /// Returns the reply to a call. If there is none yet, `waiter` waits for it.
    #[inline]
    pub(super) fn poll<R>(
        &self,
        call: CallNumber,
        waiter: impl FnOnce() -> Waiter,
        take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
    ) -> Answer<R> {
        let wants = || self.session.wants_of(call);
        let answer = match self.session.has_open_samples().then(wants).flatten() {
            None => self.session.poll_answer(call, waiter, take),
            Some(wants) => self.sampling.poll_answer(&self.session, (call, wants), waiter, take).0,
        };
        if !matches!(answer, Answer::Open) {
            self.session.end_loan(call);
        }
        answer
    }

    pub(super) fn end(&self, why: Why) {
        let why = self.session.why_gone(why);
        self.session.close(&why);
        self.session.end(why, |waiter| {
            if let Waiter::Waker(waker) = waiter {
                waker.wake();
            }
        });
    }

    /// Returns how the session ended, if it has.
    pub(super) fn ended(&self) -> Option<&Lost> {
        self.session.ended()
    }
}
