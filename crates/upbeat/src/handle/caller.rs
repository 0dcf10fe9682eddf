//! A client-only session: lanes and an incarnation of its own, driven by whoever holds it.

use super::Target;
use crate::call::MISSING;
use crate::client::{numbers, request};
use crate::error::{CallError, ConnectError, Lost, Why};
use crate::sample::Unsampled;
use crate::session::{Answer, Extensions, Fault, Put, Session, Terms, Waiter};
use crate::wait::{Idle, Pace, Waiting};
use crate::wake::MAIN;
use crate::wire::{Input, Wire, WireError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};
use upbeat_core::bind::{BIND, BindRequest, PULL, PUSH};
use upbeat_core::frame::{CallNumber, FailCode, Head, Kind};
use upbeat_core::limits::CALLS_PER_SESSION_MAX;
use upbeat_core::method::Signature;
use upbeat_memory::sync::fence_full;
use upbeat_transport::carrier::Carrier;
use upbeat_transport::error::OpenError;
use upbeat_transport::home::Home;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::{local, shared};

/// Between two looks at the socket while waiting awake.
const WATCH: Duration = Duration::from_millis(1);

/// What a message is sent to: the number of its method, and its name for errors.
#[derive(Clone, Copy)]
pub(super) struct To {
    pub(super) index: usize,
    pub(super) method: &'static str,
}

/// The session, its numbers, and how its holder waits.
pub(super) struct Caller {
    home: Home,
    pub(super) session: Session,
    numbers: Box<[u16]>,
    pace: Pace,
    watched: Instant,
    /// Whether rings may have been heard along with a segment of the peer's.
    pub(super) heard: bool,
    /// Readable when nobody wants the session any more, though its thread waits.
    stop: Option<Arc<OwnedFd>>,
}

impl Caller {
    /// Opens a session and asks for the methods' numbers, waiting in this thread: no longer than until
    /// `stop` is readable, and then asleep.
    pub(super) fn open(
        target: &Target,
        service: &'static str,
        signatures: &[Signature],
        stop: Option<Arc<OwnedFd>>,
    ) -> Result<Caller, ConnectError> {
        let home = match target.place {
            Some(_) => Home::of_handle(target.program.clone()),
            None => Home::local(target.program.clone(), None),
        };
        let home = home.map_err(|error| ConnectError::Service { text: error.to_string() })?;
        let carrier = wait_open(target, &home, stop.as_deref())?;
        let waiting = stop.as_ref().map_or(target.waiting, |_| Waiting::Sleeping);
        let mut caller = Caller {
            home,
            session: Session::new(carrier, Terms::default()),
            numbers: Box::new([BIND]),
            pace: Pace::new(waiting),
            watched: Instant::now(),
            heard: false,
            stop,
        };
        let request: BindRequest = request(service, signatures)?;
        let to = To { index: 0, method: "bind" };
        let answer = caller.call::<Vec<u8>, Vec<u8>>(to, request.encode());
        let numbers: Rc<[u16]> = numbers(&request, answer, &caller.session.peer_text())?;
        caller.numbers = numbers.iter().copied().collect();
        Ok(caller)
    }

    /// Calls, and waits for the answer.
    #[inline]
    pub(super) fn call<A: Wire, R: Wire>(&mut self, to: To, arguments: A) -> Result<R, CallError> {
        let mut asked = None;
        let call = loop {
            match self.send_call(to, &arguments, &mut asked, Waker::noop(), Waiter::Task(MAIN)) {
                Ok(Some(call)) => break call,
                Ok(None) => self.wait_to_send(asked),
                Err(error) => {
                    self.withdraw(asked);
                    return Err(error);
                }
            }
        };
        loop {
            match self.session.look() {
                Ok(Some(words)) if Head::is_plain_reply(&words) && words[1] == call.as_u64() => {
                    let head = Head::reply(call, Head::len_in(&words));
                    self.pace.busy();
                    return self.take_answer(&head);
                }
                Ok(Some(words)) => match Head::parse(words) {
                    // Its result lies in a buffer.
                    Ok(head) if head.kind == Kind::Reply && head.call == call => {
                        self.pace.busy();
                        return self.take_answer(&head);
                    }
                    _ => self.drain(),
                },
                Ok(None) => self.idle(),
                Err(fault) => self.end(*fault),
            }
            if let Some(result) = self.poll(call) {
                return result;
            }
        }
    }

    /// Takes the answer that lies open.
    #[inline]
    fn take_answer<R: Wire>(&mut self, head: &Head) -> Result<R, CallError> {
        let session = &self.session;
        if let Err(fault) = session.answer_arrived(head) {
            self.end(*fault);
            return Err(CallError::Unknown(Box::new(self.session.lost())));
        }
        let answer = session.poll_answer(head.call, || Waiter::Task(MAIN), R::take);
        session.advance();
        session.publish_progress();
        match answer {
            Answer::Here(value) => Ok(value),
            Answer::Failed(error) => Err(*error),
            Answer::Open => Err(CallError::Unknown(Box::new(self.session.lost()))),
        }
    }

    /// Sends a one-way message, waiting for room.
    pub(super) fn send<A: Wire>(&mut self, to: To, arguments: &A) -> Result<(), CallError> {
        let mut asked = None;
        loop {
            match self.try_send(to, arguments, &mut asked, Waker::noop()) {
                Ok(true) => return Ok(()),
                Ok(false) => self.wait_to_send(asked),
                Err(error) => {
                    self.withdraw(asked);
                    return Err(error);
                }
            }
        }
    }

    /// Writes a call. None if there is no room now; where that had to be asked for, it is noted
    /// under which number, and the waker is woken when there is.
    #[inline]
    pub(super) fn send_call<A: Wire>(
        &mut self,
        to: To,
        arguments: &A,
        asked: &mut Option<u64>,
        waker: &Waker,
        waiter: Waiter,
    ) -> Result<Option<CallNumber>, CallError> {
        let number = self.number(to)?;
        let Ok(call) = self.session.open_call(waiter) else {
            return Err(CallError::TooManyCalls { most: CALLS_PER_SESSION_MAX });
        };
        match self.put(Head::call(number, call, 0), arguments, *asked, waker) {
            Ok(()) => {
                *asked = None;
                self.flush();
                Ok(Some(call))
            }
            Err(put) => {
                self.session.close_unsent(call);
                self.refused(put, asked, waker).map(|()| None)
            }
        }
    }

    /// Writes a one-way message. False if there is no room now, as with a call.
    pub(super) fn try_send<A: Wire>(
        &mut self,
        to: To,
        arguments: &A,
        asked: &mut Option<u64>,
        waker: &Waker,
    ) -> Result<bool, CallError> {
        let number = self.number(to)?;
        match self.put(Head::oneway(number, 0), arguments, *asked, waker) {
            Ok(()) => {
                *asked = None;
                // No turn ends here: what is not said now, nobody says later.
                self.flush();
                Ok(true)
            }
            Err(put) => self.refused(put, asked, waker).map(|()| false),
        }
    }

    #[inline]
    fn put<A: Wire>(
        &self,
        head: Head,
        arguments: &A,
        asked: Option<u64>,
        waker: &Waker,
    ) -> Result<(), Put> {
        let (session, words) = (&self.session, head.words());
        let Some(number) = asked else {
            return session.request(words, Extensions::NONE, arguments, &mut Unsampled);
        };
        if session.ended().is_none() && !session.is_granted(number, waker) {
            return Err(Put::Full);
        }
        let extensions = Extensions { granted: asked, ..Extensions::NONE };
        session.request_granted(words, extensions, arguments, &mut Unsampled)
    }

    /// Nobody waits any more for room that was asked for.
    pub(super) fn withdraw(&mut self, asked: Option<u64>) {
        if asked.is_some_and(|number| self.session.withdraw(number)) {
            self.flush();
        }
    }

    fn number(&self, to: To) -> Result<u16, CallError> {
        match self.numbers.get(to.index) {
            Some(number) if *number != MISSING => Ok(*number),
            // Every node serves those.
            None if to.index == usize::from(PULL) => Ok(PULL),
            None if to.index == usize::from(PUSH) => Ok(PUSH),
            _ => Err(CallError::NoSuchMethod { method: to.method }),
        }
    }

    #[inline]
    pub(super) fn flush(&self) {
        fence_full();
        self.session.flush();
    }

    #[cold]
    fn refused(
        &mut self,
        put: Put,
        asked: &mut Option<u64>,
        waker: &Waker,
    ) -> Result<(), CallError> {
        let put = match put {
            Put::Ask(bytes) => match self.session.ask(bytes, waker) {
                Ok(number) => {
                    *asked = Some(number);
                    self.flush();
                    return Ok(());
                }
                Err(put) => put,
            },
            put => put,
        };
        match put {
            Put::Full => Ok(()),
            put => Err(put.into_error(|why| {
                self.end(*why);
                self.session.lost()
            })),
        }
    }

    /// What became of a call, where its answer did not lie open.
    fn poll<R: Wire>(&mut self, call: CallNumber) -> Option<Result<R, CallError>> {
        self.poll_answer(call, || Waiter::Task(MAIN), R::take)
    }

    /// The same for a future that waits.
    pub(super) fn poll_for<R>(
        &mut self,
        call: CallNumber,
        waker: &Waker,
        take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
    ) -> Option<Result<R, CallError>> {
        self.poll_answer(call, || Waiter::Waker(waker.clone()), take)
    }

    fn poll_answer<R>(
        &mut self,
        call: CallNumber,
        waiter: impl FnOnce() -> Waiter,
        take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
    ) -> Option<Result<R, CallError>> {
        match self.session.poll_answer(call, waiter, take) {
            Answer::Open => None,
            Answer::Here(value) => Some(Ok(value)),
            Answer::Failed(error) => Some(Err(*error)),
        }
    }

    /// Takes over every frame that has come.
    pub(super) fn drain(&mut self) {
        loop {
            match self.session.look_whole() {
                Ok(None) => break,
                Ok(Some(head)) => {
                    if let Err(fault) = self.frame(&head) {
                        return self.end(*fault);
                    }
                }
                Err(fault) => return self.end(*fault),
            }
        }
        self.session.publish_progress();
        if self.session.is_pressed() {
            self.session.settle(false);
        }
        if self.session.is_unflushed() || self.session.peer_wants_room() {
            self.flush();
        }
    }

    fn frame(&mut self, head: &Head) -> Result<(), Fault> {
        let session = &self.session;
        match head.kind {
            Kind::Reply | Kind::Failed => {
                if let Some(Waiter::Waker(waker)) = session.keep_late(head)? {
                    waker.wake();
                }
            }
            Kind::Switch => {
                self.heard = true;
                return session.follow(head.call.generation);
            }
            Kind::Call => {
                session.fail(head.call, FailCode::NoSuchMethod, "a handle serves nothing")
            }
            Kind::Oneway
            | Kind::Packed
            | Kind::Reserve
            | Kind::Withdraw
            | Kind::Cancel
            | Kind::Stamps => {}
            Kind::Nack => session.refused(head)?,
            Kind::Grant => session.granted(head)?,
            Kind::Slab => {
                self.heard = true;
                session.slab_came(head)?;
            }
            Kind::Retire => session.slab_went(head)?,
            Kind::Goodbye => session.goodbye.set(true),
            // No call of a handle may be extended, so nobody has a reason to ask.
            Kind::Extend | Kind::Extended => {}
        }
        session.advance();
        Ok(())
    }

    /// Nothing has come: waits as the policy says.
    fn idle(&mut self) {
        for _ in 0..self.pace.looks(false) {
            if self.session.has_frame() {
                return;
            }
            std::hint::spin_loop();
        }
        match self.pace.idle(false) {
            Idle::Tick => {
                if self.watched.elapsed() >= WATCH {
                    self.watched = Instant::now();
                    self.hear();
                }
            }
            Idle::Yield => rustix::thread::sched_yield(),
            Idle::Sleep => {
                self.sleep();
                self.pace.slept();
            }
        }
    }

    /// Waits until the peer has read something, or has room where that was asked for, or is gone.
    fn wait_to_send(&mut self, asked: Option<u64>) {
        if asked.is_none_or(|number| self.session.is_granted(number, Waker::noop())) {
            self.session.wait_for_room(Waker::noop());
        }
        self.flush();
        while self.session.ended().is_none() {
            self.drain();
            self.session.settle(false);
            let waits = asked.is_some_and(|number| !self.session.is_granted(number, Waker::noop()));
            if !waits && !self.session.is_pressed() {
                break;
            }
            self.idle();
        }
    }

    /// Sleeps until the peer rings.
    fn sleep(&mut self) {
        self.home.page().withdraw();
        if self.session.is_pressed() {
            self.session.settle(false);
        }
        self.relieve();
        if !self.session.has_frame() && self.session.ended().is_none() {
            let bell = self.session.carrier.bell.as_fd();
            if wait(bell, self.stop.as_deref(), None) {
                self.end(Why::Closed);
            }
        }
        self.home.page().promise();
        self.hear();
    }

    /// Takes what has come over the socket.
    pub(super) fn hear(&mut self) {
        if self.session.ended().is_none()
            && let Err(why) = self.session.hear()
        {
            // What the peer wrote before it ended counts.
            self.drain();
            let said = self.session.goodbye.get() && *why == Why::Died;
            self.end(if said { Why::Closed } else { *why });
        }
    }

    pub(super) fn end(&mut self, why: Why) {
        self.session.carrier.bell.close();
        self.session.end(why, |waiter| {
            if let Waiter::Waker(waker) = waiter {
                waker.wake();
            }
        });
    }

    /// Rings a peer that waits for room, where it was made before that could be seen. The caller has
    /// fenced behind the last frame that it took.
    pub(super) fn relieve(&self) {
        if self.session.peer_wants_room() {
            self.session.flush();
        }
    }

    /// Takes the promise back, for a thread that is about to wait on the socket. False if there is
    /// something to do first.
    pub(super) fn may_sleep(&self) -> bool {
        self.home.page().withdraw();
        if self.session.is_pressed() {
            self.session.settle(false);
        }
        self.relieve();
        !self.session.has_frame()
    }

    /// Gives the promise.
    pub(super) fn awake(&self) {
        self.home.page().promise();
    }

    /// How the session ended, if it has.
    pub(super) fn ended(&self) -> Option<&Lost> {
        self.session.ended()
    }
}

/// Opens a session, waiting in this thread.
fn wait_open(
    target: &Target,
    home: &Home,
    stop: Option<&OwnedFd>,
) -> Result<Carrier, ConnectError> {
    let began = Instant::now();
    let now_ms = || began.elapsed().as_millis() as u64;
    let opening = match (&target.place, local::connect(home, &target.name, 0, 0)) {
        (Some(place), Err(OpenError::NoSuchNode { .. })) => {
            shared::connect(place, home, &target.name, 0, 0)
        }
        (_, here) => here,
    };
    let mut opening: Opening = opening.map_err(ConnectError::Open)?;
    loop {
        match opening.step(now_ms()).map_err(ConnectError::Open)? {
            Step::Done(carrier) => return Ok(carrier),
            Step::Waiting => {
                let left = opening.deadline_ms().saturating_sub(now_ms()).max(1);
                let timeout = Timespec {
                    tv_sec: (left / 1000) as i64,
                    tv_nsec: (left % 1000 * 1_000_000) as i64,
                };
                if wait(opening.as_fd(), stop, Some(&timeout)) {
                    let text = "the handle was dropped while it connected".into();
                    return Err(ConnectError::Call(CallError::NotConnected { text }));
                }
            }
        }
    }
}

/// Waits until the socket has something. True if nobody wants it any more.
fn wait(socket: BorrowedFd<'_>, stop: Option<&OwnedFd>, timeout: Option<&Timespec>) -> bool {
    let watched = usize::from(stop.is_some()) + 1;
    let stop = stop.map_or(socket, |stop| stop.as_fd());
    let mut descriptors = [socket, stop].map(|of| PollFd::from_borrowed_fd(of, PollFlags::IN));
    // Interrupted, or whatever it is: looking again is right.
    let _ = poll(&mut descriptors[..watched], timeout);
    watched > 1 && !descriptors[1].revents().is_empty()
}
