//! The session that the asynchronous calls of a handle share, and the thread that hears its bell.
//!
//! A future writes its request and looks for its answer itself, under a mutex that no node knows.
//! In between it is the thread that sleeps on the socket, takes what has come and wakes who waits.
//! Invariant: nothing here waits in the thread of a future; it is the session's own that connects.

mod thread;

use super::caller::{Caller, Wants};
use super::lasting::{Alarm, Watch};
use super::{BoundHandle, ConnectTerms, Shared, forked, not_connected};
use crate::error::{BuildError, CallError, ConnectError};
use crate::session::{Answer, Waiter};
use crate::wire::{Input, WireError};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use thread::{hear, open, tell};
use upbeat_core::address::NodeAddress;
use upbeat_core::frame::{CallNumber, Head};
use upbeat_memory::sync::fence_full;

/// The sessions of a handle's asynchronous calls: the one that new calls use, and those that calls or streams
/// still hold. One lock serves them all, so that a call that begins takes no other.
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
    /// Told when nobody holds the session any more.
    watch: Arc<Watch>,
    /// The node that is called.
    to: NodeAddress,
}

/// How far a session is.
enum State {
    /// The thread connects, and these wait for that.
    Opening(Queue),
    Open(Box<Caller>),
    /// There is no way to the node: said to all who waited.
    Failed(ConnectError),
}

/// Who waits for the session, by the numbers that they were given.
#[derive(Default)]
struct Queue {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl State {
    /// Whether the session has ended, or never stood.
    fn has_ended(&self) -> bool {
        match self {
            State::Opening(_) => false,
            State::Open(caller) => caller.ended().is_some(),
            State::Failed(_) => true,
        }
    }
}

impl Sides {
    /// Returns the session that new calls use, which may still be opening, and one that has ended and was
    /// replaced: it is to be dropped behind the lock.
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
        let started = Arc::new(started.map_err(|error| CallError::NotConnected {
            text: BuildError::from(error).to_string().into(),
        })?);
        self.states.insert(self.next, State::Opening(Queue::default()));
        Ok((Arc::clone(&started), self.current.replace(started)))
    }

    /// Forgets the session that new calls use. The handle drops it behind the lock.
    pub(super) fn take_current(&mut self) -> Option<Arc<Side>> {
        self.current.take()
    }
}

/// Finds the session of a message.
pub(crate) trait Finds {
    /// Locks the sessions of a handle. Finds the one in which a message waits, or else the one over which it goes.
    fn find(&self, asked: Option<&Asked>) -> Result<Found<'_>, CallError>;
}

/// The session of a message, under the lock. What runs the user's code when it is dropped stands behind the lock.
pub(crate) struct Found<'h> {
    sides: MutexGuard<'h, Sides>,
    side: Arc<Side>,
    /// A session that has ended, and was replaced.
    _ended: Option<Arc<Side>>,
    /// A waker that was replaced.
    before: Option<Waker>,
}

impl BoundHandle {
    /// Returns the session of a message, or one that is to be opened on these terms.
    fn found(&self, asked: Option<&Asked>, terms: ConnectTerms) -> Result<Found<'_>, CallError> {
        let shared = &self.shared;
        shared.check_process()?;
        let mut sides = lock(&shared.sides);
        let (side, _ended) = match asked.filter(|asked| asked.waits()) {
            Some(asked) => (Arc::clone(&asked.side), None),
            None => sides.current(shared, terms)?,
        };
        Ok(Found { sides, side, _ended, before: None })
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
        self.found(asked, ConnectTerms::default())
    }
}

impl Finds for Arc<Side> {
    fn find(&self, _: Option<&Asked>) -> Result<Found<'_>, CallError> {
        match self.is_here() {
            true => {
                let (sides, side) = (lock(&self.sides), Arc::clone(self));
                Ok(Found { sides, side, _ended: None, before: None })
            }
            false => Err(CallError::at_loss(false, forked(&self.to))),
        }
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
                self.before = queue.wait(&self.side, asked, waker);
                Poll::Pending
            }
            Some(State::Failed(error)) => Poll::Ready(Err(error.clone())),
            None => unreachable!("a session that is held has a state"),
        }
    }

    /// Sends a message. None if the message has to wait in the session; then the waker is woken when it may go.
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
                self.before = queue.wait(side, asked, waker);
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
                // It goes no more, whenever its future is dropped.
                caller.withdraw(&mut wants);
                asked.iter_mut().for_each(Asked::has_gone);
            }
        }
        side.leave(caller);
        sent
    }
}

impl Side {
    /// Starts the thread, which connects.
    fn start(shared: &Shared, number: u64, terms: ConnectTerms) -> std::io::Result<Side> {
        let watch = Arc::new(Watch::new()?);
        let (target, service) = (shared.target.clone(), shared.service);
        let (signatures, to) = (shared.signatures.clone(), target.to.clone());
        let sides = Arc::clone(&shared.sides);
        let side = Side { sides: Arc::clone(&sides), number, watch: Arc::clone(&watch), to };
        let run = move || {
            let opened = open(&target, service, &signatures, &watch, terms);
            if let Some(bell) = tell(&sides, number, opened) {
                hear(&sides, number, bell, &watch);
            }
        };
        std::thread::Builder::new().name("upbeat-handle".into()).spawn(run)?;
        Ok(side)
    }

    /// Whether this is the process that has opened the session, and no child that it has forked. A child
    /// takes no lock: another thread of the parent may have held it at the fork.
    #[inline]
    fn is_here(&self) -> bool {
        self.watch.is_here()
    }

    /// Does something with the session, if it stands, and is not the parent's of a forked child.
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

    /// Leaves the session to its thread, which sleeps until it is told or rung: what the socket did not take
    /// is sent by the thread, once it takes more.
    fn leave(&self, caller: &Caller) {
        if !caller.leave() || caller.session.carrier.has_output() {
            self.watch.kick();
        }
    }

    /// What became of a call.
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
            let answer = caller.poll(call, || Waiter::Waker(waker.clone()), take);
            if !matches!(answer, Answer::Open) {
                caller.has_waited();
                caller.call_ended();
            }
            // Reading it may have given a buffer back for which the peer waits.
            caller.relieve(fence_full());
            answer
        });
        answer.unwrap_or(Answer::Open)
    }

    /// Tells the callee that a stream is wanted no more, or whatever of them it opened in answering a call.
    pub(crate) fn take_back(&self, head: Head) {
        self.with(|caller| take_back(caller, head));
    }

    /// Gives a call up, in whose result there may be streams.
    pub(super) fn abandon(&self, call: CallNumber, gives_streams: bool) {
        self.with(|caller| {
            if gives_streams {
                take_back(caller, Head::cancel(call));
            }
            caller.abandon(call);
            caller.call_ended();
        });
    }

    /// When a call ends, if that may have been put off.
    pub(super) fn end_of(&self, call: CallNumber) -> Option<u64> {
        self.with(|caller| caller.session.end_of(call))?
    }

    /// Has somebody woken at a time, by the alarm that he has or by another.
    pub(super) fn wake_at(&self, alarm: &mut Option<Alarm>, at: u64, waker: &Waker) {
        let is_set = |alarm: &Alarm| alarm.is_for(&self.watch, at) && alarm.change(waker);
        if !alarm.as_ref().is_some_and(is_set) {
            *alarm = Some(self.watch.wake_at(at, waker));
        }
    }
}

impl Queue {
    /// Has a message wait for the session, in the place that it has or in a new one. Returns the waker that was
    /// replaced.
    fn wait(
        &mut self,
        side: &Arc<Side>,
        asked: &mut Option<Asked>,
        waker: &Waker,
    ) -> Option<Waker> {
        let waits = asked.get_or_insert_with(|| Asked::of(side));
        let place = *waits.place.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.wakers.insert(place, waker.clone())
    }
}

/// The thing that a message waits for in a session: the session itself, room that was requested, or a number.
/// Dropped, it is no longer wanted.
pub(crate) struct Asked {
    side: Arc<Side>,
    place: Option<u64>,
    wants: Wants,
}

impl Asked {
    fn of(side: &Arc<Side>) -> Asked {
        Asked { side: Arc::clone(side), place: None, wants: Wants::default() }
    }

    /// The message waits no more.
    fn has_gone(&mut self) {
        (self.place, self.wants) = (None, Wants::default());
    }

    /// Whether it has a place in the session that it would lose in another.
    pub(super) fn waits(&self) -> bool {
        self.place.is_some() || self.wants.admission.is_any()
    }

    /// The session.
    pub(super) fn side(&self) -> &Arc<Side> {
        &self.side
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.waits() || !self.side.is_here() {
            return;
        }
        let _waker;
        match lock(&self.side.sides).states.get_mut(&self.side.number) {
            Some(State::Opening(queue)) => {
                _waker = self.place.and_then(|place| queue.wakers.remove(&place));
            }
            Some(State::Open(caller)) => {
                caller.withdraw(&mut self.wants);
                self.side.leave(caller);
            }
            Some(State::Failed(_)) | None => {}
        }
    }
}

pub(super) fn lock(sides: &Mutex<Sides>) -> MutexGuard<'_, Sides> {
    sides.lock().unwrap_or_else(PoisonError::into_inner)
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
        // What it drops may be the user's.
        drop(state);
    }
}
