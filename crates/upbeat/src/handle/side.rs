//! The session that the asynchronous calls of a handle share, and the thread that hears its bell.
//!
//! A future writes its request and looks for its answer itself, under a mutex that no node knows.
//! In between it is the thread that sleeps on the socket, takes what has come and wakes who waits.
//! Invariant: nothing here waits in the thread of a future; it is the session's own that connects.

use super::caller::{Caller, To, Wants};
use super::lasting::{Alarm, Until, Watch};
use super::{Target, forked, not_connected};
use crate::error::{BuildError, CallError};
use crate::reactor::timespec;
use crate::session::Waiter;
use crate::wire::{Content, Input, WireError};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::method::Signature;
use upbeat_core::name::NodeName;
use upbeat_memory::sync::fence_full;

/// The shared session. The thread holds one reference, the handles the other.
pub(crate) struct Side {
    state: Arc<Mutex<State>>,
    /// Told when the last handle is gone.
    watch: Arc<Watch>,
    /// The node that is called.
    name: NodeName,
}

/// How far the session is.
enum State {
    /// The thread connects, and these wait for that.
    Opening(Queue),
    Open(Box<Caller>),
    /// There is no way to the node: said to all who waited.
    Failed(CallError),
}

/// Who waits for the session, by the numbers that they were given.
#[derive(Default)]
struct Queue {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Side {
    /// Starts the thread, which connects.
    pub(super) fn start(
        target: Target,
        service: &'static str,
        signatures: Vec<Signature>,
    ) -> std::io::Result<Side> {
        let watch = Arc::new(Watch::new()?);
        let state = Arc::new(Mutex::new(State::Opening(Queue::default())));
        let name = target.name.clone();
        let side = Side { state: Arc::clone(&state), watch: Arc::clone(&watch), name };
        let run = move || {
            let opened = open(&target, service, &signatures, &watch);
            if let Some(bell) = tell(&state, opened) {
                hear(&state, &bell, &watch);
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
        match &mut *lock(&self.state) {
            State::Open(caller) => {
                let done = act(caller);
                self.leave_output(caller);
                Some(done)
            }
            State::Opening(_) | State::Failed(_) => None,
        }
    }

    /// What the socket did not take is sent by the thread, once it takes more.
    fn leave_output(&self, caller: &Caller) {
        if caller.session.carrier.has_output() {
            self.watch.kick();
        }
    }

    /// Whether the session has ended, or never stood.
    pub(super) fn has_ended(&self) -> bool {
        match &*lock(&self.state) {
            State::Opening(_) => false,
            State::Open(caller) => caller.ended().is_some(),
            State::Failed(_) => true,
        }
    }

    /// Writes a call. None if there is no room; then the waker is woken when there may be.
    pub(super) fn send_call<A: Content>(
        self: &Arc<Self>,
        to: To,
        arguments: &A,
        asked: &mut Option<Asked>,
        until: Option<Until>,
        waker: &Waker,
    ) -> Result<Option<CallNumber>, CallError> {
        self.send(asked, waker, |caller, wants| {
            caller.send_call(to, arguments, wants, until, Some(waker))
        })
    }

    /// Writes a one-way message. False if there is no room; then the waker is woken when there may
    /// be.
    pub(super) fn try_send<A: Content>(
        self: &Arc<Self>,
        to: To,
        arguments: &A,
        asked: &mut Option<Asked>,
        waker: &Waker,
    ) -> Result<bool, CallError> {
        let sent = self.send(asked, waker, |caller, wants| {
            Ok(caller.try_send(to, arguments, wants, waker)?.then_some(()))
        });
        sent.map(|sent| sent.is_some())
    }

    fn send<T>(
        self: &Arc<Self>,
        asked: &mut Option<Asked>,
        waker: &Waker,
        send: impl FnOnce(&mut Caller, &mut Wants) -> Result<Option<T>, CallError>,
    ) -> Result<Option<T>, CallError> {
        if !self.is_here() {
            return Err(CallError::NotSent(Box::new(forked(&self.name))));
        }
        // What it does when it is dropped is the user's matter, so it goes after the mutex.
        let _before;
        let mut state = lock(&self.state);
        let caller = match &mut *state {
            State::Open(caller) => caller,
            State::Opening(queue) => {
                let waits = asked.get_or_insert_with(|| Asked::of(self, Wants::default()));
                let place = *waits.place.get_or_insert_with(|| queue.place());
                _before = queue.wakers.insert(place, waker.clone());
                return Ok(None);
            }
            State::Failed(error) => return Err(error.clone()),
        };
        let mut wants = asked.as_ref().map_or(Wants::default(), |asked| asked.wants);
        let sent = send(caller, &mut wants);
        match asked {
            Some(asked) => (asked.wants, asked.place) = (wants, None),
            None if wants.is_any() => *asked = Some(Asked::of(self, wants)),
            None => {}
        }
        self.leave_output(caller);
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => {
                // It goes no more, whenever its future is dropped.
                if let Some(asked) = asked {
                    caller.withdraw(&mut asked.wants);
                }
                return Err(error);
            }
        };
        // What asks for room is woken by the grant, what stands in line by the end of a call.
        let waits_by_itself =
            || wants.room.is_some_and(|number| caller.session.still_asks(number, waker));
        if sent.is_none() && wants.number.is_none() && !waits_by_itself() {
            wait_for_room(caller, waker);
        }
        Ok(sent)
    }

    /// What became of a call.
    pub(super) fn poll<R>(
        &self,
        call: CallNumber,
        waker: &Waker,
        take: impl FnOnce(&mut Input<'_>) -> Result<R, WireError>,
    ) -> Option<Result<R, CallError>> {
        if !self.is_here() {
            return Some(Err(CallError::Unknown(Box::new(forked(&self.name)))));
        }
        self.with(|caller| {
            caller.drain();
            // The thread may sleep already. A ring for it that was heard here is not rung again, unless
            // this is another sleep.
            while caller.heard.take() && !caller.may_sleep() {
                caller.drain();
            }
            let answer = caller.poll(call, || Waiter::Waker(waker.clone()), take);
            if answer.is_some() {
                caller.call_ended();
            }
            // Reading it may have given a buffer back for which the peer waits.
            caller.relieve(fence_full());
            answer
        })?
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
        self.with(|caller| caller.end_of(call))?
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
    fn place(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// The thing that a message waits for in a session: the session itself, room that was requested, or a number.
/// Dropped, it is no longer wanted.
pub(super) struct Asked {
    side: Arc<Side>,
    place: Option<u64>,
    wants: Wants,
}

impl Asked {
    fn of(side: &Arc<Side>, wants: Wants) -> Asked {
        Asked { side: Arc::clone(side), place: None, wants }
    }

    /// The session.
    pub(super) fn side(&self) -> &Arc<Side> {
        &self.side
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.place.is_none() && !self.wants.is_any() || !self.side.is_here() {
            return;
        }
        let _waker;
        match &mut *lock(&self.side.state) {
            State::Opening(queue) => {
                _waker = self.place.and_then(|place| queue.wakers.remove(&place));
            }
            State::Open(caller) => caller.withdraw(&mut self.wants),
            State::Failed(_) => {}
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_back(caller: &Caller, head: Head) {
    if caller.ended().is_none() {
        caller.session.send_surely(head, Vec::new());
        caller.flush();
    }
}

fn wait_for_room(caller: &mut Caller, waker: &Waker) {
    caller.session.wait_for_room(waker);
    caller.flush();
    // Room that was made before the peer could see that somebody waits is announced by nobody.
    caller.session.settle(false);
}

impl Drop for Side {
    fn drop(&mut self) {
        self.watch.stop();
    }
}

/// The thread's first part: connects.
fn open(
    target: &Target,
    service: &'static str,
    signatures: &[Signature],
    watch: &Arc<Watch>,
) -> Result<(Box<Caller>, OwnedFd), CallError> {
    let caller = Caller::open(target, service, signatures, Some(Arc::clone(watch)), None);
    let caller = caller.map_err(not_connected)?;
    let bell = caller.session.carrier.as_fd().try_clone_to_owned();
    let bell = bell.map_err(|error| CallError::NotConnected {
        text: BuildError::from(error).to_string().into(),
    })?;
    Ok((Box::new(caller), bell))
}

/// Tells those who wait what came of it. The session's bell, if it stands.
fn tell(
    state: &Mutex<State>,
    opened: Result<(Box<Caller>, OwnedFd), CallError>,
) -> Option<OwnedFd> {
    let (next, bell) = match opened {
        Ok((caller, bell)) => (State::Open(caller), Some(bell)),
        Err(error) => (State::Failed(error), None),
    };
    // Wakers are the users' code, and may ask for the session at once.
    if let State::Opening(queue) = std::mem::replace(&mut *lock(state), next) {
        queue.wakers.into_values().for_each(Waker::wake);
    }
    bell
}

/// The thread: hears the bell until the session has ended or nobody holds the handle.
fn hear(state: &Mutex<State>, bell: &OwnedFd, watch: &Watch) {
    loop {
        let (kept, writable) = {
            let mut state = lock(state);
            let State::Open(caller) = &mut *state else { return };
            caller.awake();
            // Who waits for what has come is woken first.
            caller.drain();
            caller.hear();
            if caller.ended().is_some() {
                return;
            }
            caller.session.tidy();
            if caller.session.is_unflushed() {
                caller.flush();
            }
            if !caller.may_sleep() {
                continue;
            }
            (caller.session.tidy_in_ns(), caller.session.carrier.has_output())
        };
        // Memory that lies idle, and a grant that nobody uses, are not slept over.
        if watch.wait(bell.as_fd(), writable, kept.map(timespec).as_ref()) {
            return;
        }
    }
}
