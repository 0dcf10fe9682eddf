//! The session that the asynchronous calls of a handle share, and the thread that hears its bell.
//!
//! A future writes its request and looks for its answer itself, under a mutex that no node knows.
//! In between it is the thread that sleeps on the socket, takes what has come and wakes who waits.

use super::caller::{Caller, To};
use crate::error::CallError;
use crate::session::Waiter;
use crate::wire::Wire;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};
use upbeat_core::frame::CallNumber;
use upbeat_memory::sync::fence_full;

/// Between two looks for memory that lies idle.
const TIDY: Duration = Duration::from_millis(50);

/// The shared session. The thread holds one reference, the handles the other.
pub(super) struct Side {
    caller: Arc<Mutex<Caller>>,
    /// Written when the last handle is gone.
    stop: Arc<OwnedFd>,
}

impl Side {
    /// Starts the thread.
    pub(super) fn start(caller: Caller) -> std::io::Result<Side> {
        let bell = caller.session.carrier.bell.as_fd().try_clone_to_owned()?;
        let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let caller = Arc::new(Mutex::new(caller));
        let side = Side { caller: Arc::clone(&caller), stop: Arc::clone(&stop) };
        let hear = move || hear(&caller, &bell, &stop);
        std::thread::Builder::new().name("upbeat-handle".into()).spawn(hear)?;
        Ok(side)
    }

    fn lock(&self) -> MutexGuard<'_, Caller> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the session has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().ended().is_some()
    }

    /// Writes a call. None if there is no room; then the waker is woken when there may be.
    pub(super) fn send_call<A: Wire>(
        self: &Arc<Self>,
        to: To,
        arguments: &A,
        asked: &mut Option<Asked>,
        waker: &Waker,
    ) -> Result<Option<CallNumber>, CallError> {
        self.send(asked, waker, |caller, asked| {
            caller.send_call(to, arguments, asked, waker, Waiter::Waker(waker.clone()))
        })
    }

    /// Writes a one-way message. False if there is no room; then the waker is woken when there may
    /// be.
    pub(super) fn try_send<A: Wire>(
        self: &Arc<Self>,
        to: To,
        arguments: &A,
        asked: &mut Option<Asked>,
        waker: &Waker,
    ) -> Result<bool, CallError> {
        let sent = self.send(asked, waker, |caller, asked| {
            Ok(caller.try_send(to, arguments, asked, waker)?.then_some(()))
        });
        sent.map(|sent| sent.is_some())
    }

    fn send<T>(
        self: &Arc<Self>,
        asked: &mut Option<Asked>,
        waker: &Waker,
        send: impl FnOnce(&mut Caller, &mut Option<u64>) -> Result<Option<T>, CallError>,
    ) -> Result<Option<T>, CallError> {
        let mut caller = self.lock();
        let before = asked.as_ref().and_then(|asked| asked.number);
        let mut number = before;
        let sent = send(&mut caller, &mut number);
        match asked {
            Some(asked) => asked.number = number,
            None if number.is_some() => *asked = Some(Asked { side: Arc::clone(self), number }),
            None => {}
        }
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => {
                // It goes no more, whenever its future is dropped.
                caller.withdraw(asked.as_mut().and_then(|asked| asked.number.take()));
                return Err(error);
            }
        };
        // What asks for room is woken by the grant.
        if sent.is_none() && number.is_none_or(|number| caller.session.is_granted(number, waker)) {
            wait_for_room(&mut caller, waker);
        }
        Ok(sent)
    }

    /// What became of a call.
    pub(super) fn poll<R: Wire>(
        &self,
        call: CallNumber,
        waker: &Waker,
    ) -> Option<Result<R, CallError>> {
        let mut caller = self.lock();
        caller.drain();
        // The thread may sleep already. A ring for it that was heard here is not rung again, unless
        // this is another sleep.
        while std::mem::take(&mut caller.heard) && !caller.may_sleep() {
            caller.drain();
        }
        let answer = caller.poll_for(call, waker);
        // Reading it may have given a buffer back for which the peer waits.
        fence_full();
        caller.relieve();
        answer
    }

    /// Gives a call up.
    pub(super) fn abandon(&self, call: CallNumber) {
        let caller = self.lock();
        // Either the callee is told, or an answer is dropped that may lie in a buffer for which the
        // peer waits.
        if caller.session.abandon(call) || caller.session.peer_wants_room() {
            caller.flush();
        }
    }
}

/// Room that was asked for in a session; dropped, it is no longer wanted.
pub(super) struct Asked {
    side: Arc<Side>,
    number: Option<u64>,
}

impl Asked {
    /// The session.
    pub(super) fn side(&self) -> &Arc<Side> {
        &self.side
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.number.is_some() {
            self.side.lock().withdraw(self.number);
        }
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
        // The counter is far from full.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
    }
}

/// The thread: hears the bell until the session has ended or nobody holds the handle.
fn hear(caller: &Mutex<Caller>, bell: &OwnedFd, stop: &OwnedFd) {
    let mut tidied = Instant::now();
    loop {
        let retires;
        {
            let mut caller = caller.lock().unwrap_or_else(PoisonError::into_inner);
            caller.awake();
            caller.hear();
            caller.drain();
            if caller.ended().is_some() {
                return;
            }
            if tidied.elapsed() >= TIDY {
                tidied = Instant::now();
                caller.session.retire_unused_slabs();
                caller.flush();
            }
            if !caller.may_sleep() {
                continue;
            }
            retires = caller.session.may_retire_slabs();
        }
        let mut descriptors = [PollFd::new(bell, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: TIDY.as_nanos() as i64 };
        // Memory that lies idle is not slept over.
        let _ = poll(&mut descriptors, retires.then_some(&timeout));
        if !descriptors[1].revents().is_empty() {
            return;
        }
    }
}
