//! The session that the asynchronous calls of a handle share, and the thread that sleeps on its doorbell.
//!
//! A future writes its request and polls for its reply itself, under a mutex that no node uses.
//! Otherwise the thread sleeps on the socket, takes frames that arrive and wakes their waiters.
//! Invariants: nothing here blocks the thread of a future; the session's own thread connects; no waker runs under
//! the mutex.

mod thread;

use super::caller::{Caller, Wants};
use super::lasting::{Alarm, Watch};
use super::{BoundHandle, ConnectTerms, Shared, forked, not_connected};
use crate::error::{BuildError, CallError, Callee, ConnectError};
use crate::session::{Answer, Waiter};
use crate::wake::{ForeignWaker, HoldWakers};
use crate::wire::{Input, WireError};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use thread::{hear, open, tell};
use upbeat_core::address::NodeAddress;
use upbeat_core::frame::{CallNumber, Head};
use upbeat_environment::thread::spawn;
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_memory::sync::fence_full;
use upbeat_transport::carrier::Segment;

/// The sessions of a handle's asynchronous calls: the session that new calls use, and those that calls or streams
/// still hold. One lock serves them all, so that a call takes one lock only.
#[derive(Default)]
pub(super) struct Sides {
    next: u64,
    current: Option<Arc<Side>>,
    states: BTreeMap<u64, State>,
}

/// A session of asynchronous calls.
pub(crate) struct Side {
    sides: Arc<Mutex<Sides>>,
    number: u64,
    /// The stop signal for the time when the session is no longer held, and the alarms of its calls.
    watch: Arc<Watch>,
    /// The node that is called.
    to: NodeAddress,
    service: &'static str,
}

/// The state of a session.
enum State {
    /// The thread connects, and these futures wait for that.
    Opening(Queue),
    Open(Box<Caller>),
    /// The connection failed. All futures that waited get this error.
    Failed(ConnectError),
}

/// The futures that wait for the session, by their places.
#[derive(Default)]
struct Queue {
    next: u64,
    wakers: BTreeMap<u64, ForeignWaker>,
}

impl State {
    /// Returns whether the session has ended, or never stood.
    fn has_ended(&self) -> bool {
        match self {
            State::Opening(_) => false,
            State::Open(caller) => caller.ended().is_some(),
            State::Failed(_) => true,
        }
    }
}

impl Sides {
    /// Returns the session that new calls use, which may still be opening, and a session that has ended and was
    /// replaced: the caller drops that one after it has released the lock.
    fn current(
        &mut self,
        shared: &Shared,
        terms: ConnectTerms,
    ) -> Result<(Arc<Side>, Option<Arc<Side>>), CallError> {
        if let Some(side) = &self.current
            && let Some(state) = self.states.get(&side.number)
            && !state.has_ended()
        {
            return Ok((Arc::clone(side), None));
        }
        self.next += 1;
        let started = Side::start(shared, self.next, terms);
        let started = Arc::new(
            started
                .map_err(|error| CallError::not_connected(BuildError::from(error).to_string()))?,
        );
        self.states.insert(self.next, State::Opening(Queue::default()));
        Ok((Arc::clone(&started), self.current.replace(started)))
    }

    /// Takes away the session that new calls use. The handle drops it after it has released the lock.
    pub(super) fn take_current(&mut self) -> Option<Arc<Side>> {
        self.current.take()
    }
}

/// Whether the session that new calls use is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// No session is open, and none is being opened.
    None,
    Opening,
    Open,
}

/// Finds the session of a message.
pub(crate) trait Finds {
    /// Locks the sessions of a handle. Finds the session in which a message waits, or else the one for new messages.
    fn find(&self, asked: Option<&Asked>) -> Result<Found<'_>, CallError>;

    /// Returns the name of the service that is called.
    fn service(&self) -> &'static str;

    /// Returns the callee of a call of this method.
    fn callee(&self, method: &'static str) -> Callee;
}

/// The session of a message, under the lock. The fields whose drop runs the user's code come after the lock.
pub(crate) struct Found<'h> {
    sides: Locked<'h>,
    side: Arc<Side>,
    /// A session that has ended and was replaced.
    _ended: Option<Arc<Side>>,
}

impl BoundHandle {
    /// Returns the session of a message, or one that is opened on these terms.
    fn found(&self, asked: Option<&Asked>, terms: ConnectTerms) -> Result<Found<'_>, CallError> {
        let shared = &self.shared;
        shared.check_process()?;
        let mut sides = lock(&shared.sides);
        let (side, _ended) = match asked.filter(|asked| asked.waits()) {
            Some(asked) => (Arc::clone(&asked.side), None),
            None => sides.current(shared, terms)?,
        };
        Ok(Found { sides, side, _ended })
    }

    /// Returns whether the session of the asynchronous calls is open.
    pub(super) fn standing(&self) -> Standing {
        let sides = lock(&self.shared.sides);
        let current = sides.current.as_ref().and_then(|side| sides.states.get(&side.number));
        match current {
            Some(state) if state.has_ended() => Standing::None,
            Some(State::Opening(_)) => Standing::Opening,
            Some(State::Open(caller)) if caller.is_suspended() => Standing::Opening,
            Some(_) => Standing::Open,
            None => Standing::None,
        }
    }

    /// Opens the session of the asynchronous calls.
    pub(super) async fn opened(&self, terms: ConnectTerms) -> Result<(), ConnectError> {
        let mut asked = None;
        poll_fn(|context| {
            let found = self.found(asked.as_ref(), terms).map_err(ConnectError::Call)?;
            found.poll_open(&mut asked, context.waker())
        })
        .await
    }
}

impl Finds for &BoundHandle {
    fn find(&self, asked: Option<&Asked>) -> Result<Found<'_>, CallError> {
        self.found(asked, self.shared.target.terms(None))
    }

    fn service(&self) -> &'static str {
        self.shared.service
    }

    fn callee(&self, method: &'static str) -> Callee {
        BoundHandle::callee(self, method)
    }
}

impl Finds for Arc<Side> {
    fn find(&self, _: Option<&Asked>) -> Result<Found<'_>, CallError> {
        match self.is_here() {
            true => {
                let (sides, side) = (lock(&self.sides), Arc::clone(self));
                Ok(Found { sides, side, _ended: None })
            }
            false => Err(CallError::at_loss(false, forked(&self.to))),
        }
    }

    fn service(&self) -> &'static str {
        self.service
    }

    fn callee(&self, method: &'static str) -> Callee {
        Callee { node: self.to.to_string(), service: self.service, method }
    }
}

impl Found<'_> {
    /// Polls whether the session stands. If it is still opening, the waker is woken when that has ended.
    fn poll_open(
        mut self,
        asked: &mut Option<Asked>,
        waker: &Waker,
    ) -> Poll<Result<(), ConnectError>> {
        match self.sides.states.get_mut(&self.side.number) {
            Some(State::Open(_)) => {
                asked.iter_mut().for_each(Asked::has_gone);
                Poll::Ready(Ok(()))
            }
            Some(State::Opening(queue)) => {
                queue.wait(&self.side, asked, waker);
                Poll::Pending
            }
            Some(State::Failed(error)) => Poll::Ready(Err(error.clone())),
            None => unreachable!("a session that is held has a state"),
        }
    }

    /// Sends a message. Returns `None` if the message has to wait in the session: the waker is woken when it can go.
    pub(super) fn send<T>(
        mut self,
        asked: &mut Option<Asked>,
        waker: &Waker,
        send: impl FnOnce(&Arc<Side>, &mut Caller, &mut Wants) -> Result<Option<T>, CallError>,
    ) -> Result<Option<T>, CallError> {
        let side = &self.side;
        let caller = match self.sides.states.get_mut(&side.number) {
            Some(State::Open(caller)) => caller,
            Some(State::Opening(queue)) => {
                queue.wait(side, asked, waker);
                return Ok(None);
            }
            Some(State::Failed(error)) => return Err(not_connected(error.clone())),
            None => unreachable!("a session that is held has a state"),
        };
        let mut wants =
            asked.as_mut().map(|asked| std::mem::take(&mut asked.wants)).unwrap_or_default();
        let sent = send(side, caller, &mut wants);
        match &sent {
            Ok(Some(_)) => asked.iter_mut().for_each(Asked::has_gone),
            Ok(None) => {
                let waits = asked.get_or_insert_with(|| Asked::of(side));
                (waits.wants, waits.place) = (wants, None);
            }
            Err(_) => {
                // This message will not be sent any more, whenever its future is dropped.
                caller.withdraw(&mut wants);
                asked.iter_mut().for_each(Asked::has_gone);
            }
        }
        side.leave(caller);
        sent
    }
}

impl Side {
    /// Starts the thread of a session, which connects.
    fn start(shared: &Shared, number: u64, terms: ConnectTerms) -> std::io::Result<Side> {
        let watch = Arc::new(Watch::new()?);
        let (target, service) = (shared.target.clone(), shared.service);
        let (signatures, to) = (shared.signatures, target.to.clone());
        let sides = Arc::clone(&shared.sides);
        let side =
            Side { sides: Arc::clone(&sides), number, watch: Arc::clone(&watch), to, service };
        let run = move || {
            let opened = open(&target, service, signatures, &watch, terms);
            if let Some(bell) = tell(&sides, number, opened) {
                hear(&sides, number, bell, &watch);
            }
        };
        spawn("upbeat-handle", run)?;
        Ok(side)
    }

    /// Returns whether this process has opened the session. A forked child has not. It
    /// takes no lock: another thread of the parent may have held the lock at the fork.
    #[inline]
    fn is_here(&self) -> bool {
        self.watch.is_here()
    }

    /// Runs `act` with the session, if it stands, and this is not a forked child of its process.
    fn with<T>(&self, act: impl FnOnce(&mut Caller) -> T) -> Option<T> {
        if !self.is_here() {
            return None;
        }
        match lock(&self.sides).states.get_mut(&self.number) {
            Some(State::Open(caller)) => {
                let done = act(caller);
                self.leave(caller);
                Some(done)
            }
            _ => None,
        }
    }

    /// Returns the segment with exports of this generation, which the peer has sent over this session, and the peer's
    /// process. None if it gave way to later ones.
    pub(crate) fn segment(
        &self,
        generation: u32,
    ) -> Result<Option<(Segment, Option<u32>)>, String> {
        let found = self.with(|caller| caller.export(generation));
        found.unwrap_or_else(|| Err("the session has ended".to_owned()))
    }

    /// Leaves the session to its thread, which sleeps until a future or the peer wakes it. The thread sends the bytes
    /// that the socket did not take, once the socket takes more.
    fn leave(&self, caller: &Caller) {
        if !caller.leave() || caller.session.carrier.has_output() {
            self.watch.kick();
        }
    }

    /// Returns the state of a call, and its result if the reply is here.
    pub(super) fn poll<R>(
        &self,
        call: CallNumber,
        waker: &Waker,
        take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
    ) -> Answer<R> {
        if !self.is_here() {
            return Answer::Failed(Box::new(CallError::at_loss(true, forked(&self.to))));
        }
        let answer = self.with(|caller| {
            caller.drain();
            let answer = caller.poll(call, || Waiter::Waker(waker.into()), take);
            if !matches!(answer, Answer::Open) {
                caller.has_waited();
                caller.call_ended();
            }
            // Reading the reply may have freed a buffer for which the peer waits.
            caller.relieve(fence_full());
            answer
        });
        answer.unwrap_or(Answer::Open)
    }

    /// Tells the callee that a stream, or all the streams that the callee opened in a reply, are no longer wanted.
    pub(crate) fn take_back(&self, head: Head) {
        self.with(|caller| take_back(caller, head));
    }

    /// Gives up a call. Its result may have streams.
    pub(super) fn abandon(&self, call: CallNumber, gives_streams: bool) {
        self.with(|caller| {
            if gives_streams {
                take_back(caller, Head::cancel(call));
            }
            caller.abandon(call);
            caller.call_ended();
        });
    }

    /// Returns the deadline of a call, if it may have been extended.
    pub(super) fn end_of(&self, call: CallNumber) -> Option<u64> {
        self.with(|caller| caller.session.end_of(call))?
    }

    /// Wakes `waker` at a time, by its alarm if it has one for that time, or by a new one.
    pub(super) fn wake_at(&self, alarm: &mut Option<Alarm>, at: u64, waker: &Waker) {
        let is_set = |alarm: &Alarm| alarm.is_for(&self.watch, at) && alarm.change(waker);
        if !alarm.as_ref().is_some_and(is_set) {
            *alarm = Some(self.watch.wake_at(at, waker));
        }
    }
}

impl Queue {
    /// Has a message wait for the session, in its place or in a new one.
    fn wait(&mut self, side: &Arc<Side>, asked: &mut Option<Asked>, waker: &Waker) {
        let waits = asked.get_or_insert_with(|| Asked::of(side));
        let place = *waits.place.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.wakers.insert(place, waker.into());
    }
}

/// The thing that a message waits for in a session: the session itself, room that was requested, or a number.
/// Dropping it withdraws the message.
pub(crate) struct Asked {
    side: Arc<Side>,
    place: Option<u64>,
    wants: Wants,
}

impl Asked {
    fn of(side: &Arc<Side>) -> Asked {
        Asked { side: Arc::clone(side), place: None, wants: Wants::default() }
    }

    /// Notes that the message does not wait any more.
    fn has_gone(&mut self) {
        (self.place, self.wants) = (None, Wants::default());
    }

    /// Returns whether the message has a place in this session, which another session would not know.
    pub(super) fn waits(&self) -> bool {
        self.place.is_some() || self.wants.admission.is_any()
    }

    /// Returns the session.
    pub(super) fn side(&self) -> &Arc<Side> {
        &self.side
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.waits() || !self.side.is_here() {
            return;
        }
        match lock(&self.side.sides).states.get_mut(&self.side.number) {
            Some(State::Opening(queue)) => {
                self.place.and_then(|place| queue.wakers.remove(&place));
            }
            Some(State::Open(caller)) => {
                caller.withdraw(&mut self.wants);
                self.side.leave(caller);
            }
            Some(State::Failed(_)) | None => {}
        }
    }
}

/// The sessions of a handle, under the lock. Wakers that are woken or dropped meanwhile wait until it is released.
pub(super) struct Locked<'s> {
    sides: MutexGuard<'s, Sides>,
    _hold: HoldWakers,
}

impl Deref for Locked<'_> {
    type Target = Sides;

    #[inline]
    fn deref(&self) -> &Sides {
        &self.sides
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Sides {
        &mut self.sides
    }
}

#[inline]
pub(super) fn lock(sides: &Mutex<Sides>) -> Locked<'_> {
    let sides = sides.lock().unwrap_or_else(PoisonError::into_inner);
    Locked { sides, _hold: HoldWakers::begin() }
}

fn take_back(caller: &Caller, head: Head) {
    if caller.ended().is_none() {
        caller.session.send_surely(head, Vec::new());
        caller.flush();
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        self.watch.stop();
        let state = lock(&self.sides).states.remove(&self.number);
        // The drop may run the user's code.
        drop(state);
    }
}
