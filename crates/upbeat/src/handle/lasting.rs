//! The clock of handles, and the alarms that wake awaited calls at their deadlines.
//!
//! Times are those of the monotonic clock, in nanoseconds. A blocking thread sleeps no longer than until
//! its call's deadline. For futures, the thread of the session sleeps until the first alarm.
//! Invariant: a timer of the system is set for the first alarm or before it, so that entering a
//! later alarm needs no wake-up.

use crate::contain::wake;
use crate::timer::{TimerId, Timers};
use rustix::event::{EventfdFlags, PollFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_environment::time::now_ns;
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_environment::waiting::{Polled, Timer, poll, poll_any};
use upbeat_memory::fork::Process;

/// Returns the events of a socket to wait for.
pub(super) fn events(writable: bool) -> PollFlags {
    if writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
}

/// The events that the thread of a session waits for besides its socket.
pub(super) struct Watch {
    /// The descriptor is readable when the session is no longer wanted.
    stop: OwnedFd,
    timer: Timer,
    alarms: Mutex<Alarms>,
    /// The process that has opened the session.
    made: Process,
}

#[derive(Default)]
struct Alarms {
    timers: Timers,
    /// When the system's timer is due.
    set: Option<u64>,
}

impl Watch {
    pub(super) fn new() -> std::io::Result<Watch> {
        Ok(Watch {
            stop: rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?,
            timer: Timer::new()?,
            alarms: Mutex::default(),
            made: Process::this(),
        })
    }

    /// Returns whether this process has opened the session. A forked child has not.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.made.is_this()
    }

    /// Tells the thread that the session is not needed any more. Does nothing in a forked child, which shares the
    /// descriptor with its parent.
    pub(super) fn stop(&self) {
        if !self.is_here() {
            return;
        }
        // The counter is far from full.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Wakes the thread, which has something to send.
    pub(super) fn kick(&self) {
        // This time is in the past, so the timer is due at once.
        self.set(&mut self.alarms(), 1);
    }

    /// Waits until the socket has an event, and wakes the alarms that are due. Returns true if the session is no longer
    /// wanted.
    pub(super) fn wait(
        &self,
        socket: BorrowedFd<'_>,
        writable: bool,
        timeout_ns: Option<u64>,
    ) -> bool {
        let of = [(socket, writable), (self.stop.as_fd(), false), (self.timer.as_fd(), false)];
        let [_, stop, timer] = poll(of.map(|(of, out)| (of, events(out))), timeout_ns);
        if timer {
            self.ring();
        }
        stop
    }

    /// Waits as [`Watch::wait`] does, for one of several sockets.
    pub(super) fn wait_any<'a>(
        &'a self,
        mut descriptors: Vec<Polled<'a>>,
        timeout_ns: u64,
    ) -> bool {
        let own = descriptors.len();
        let of = [self.stop.as_fd(), self.timer.as_fd()];
        descriptors.extend(of.map(|of| (of, events(false))));
        let came = poll_any(&descriptors, Some(timeout_ns));
        let (stop, timer) = (came[own], came[own + 1]);
        if timer {
            self.ring();
        }
        stop
    }

    /// Waits for so long. Returns true if the session is no longer wanted.
    pub(super) fn pause(&self, timeout_ns: u64) -> bool {
        self.wait(self.stop.as_fd(), false, Some(timeout_ns))
    }

    fn alarms(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes `waker` at a time.
    pub(super) fn wake_at(self: &Arc<Self>, at: u64, waker: &Waker) -> Alarm {
        let waker = waker.clone();
        let mut alarms = self.alarms();
        let timer = alarms.timers.set(at, waker);
        if alarms.set.is_none_or(|set| at < set && !mutated(Mutant::AlarmLate)) {
            self.set(&mut alarms, at);
        }
        Alarm { watch: Arc::clone(self), at, timer }
    }

    fn set(&self, alarms: &mut Alarms, at: u64) {
        alarms.set = self.timer.set(Some(at)).ok().map(|()| at);
    }

    /// Wakes the alarms whose time has come.
    fn ring(&self) {
        self.timer.clear();
        let now = now_ns();
        // Wakers are the users' code, and may enter other alarms.
        let due = || self.alarms().timers.due(now);
        std::iter::from_fn(due).for_each(wake);
        let mut alarms = self.alarms();
        alarms.set = None;
        if let Some(next) = alarms.timers.next().filter(|_| !mutated(Mutant::NextAlarmUnset)) {
            self.set(&mut alarms, next);
        }
    }
}

/// A waker that is woken at a time. Dropping the alarm cancels it.
pub(crate) struct Alarm {
    watch: Arc<Watch>,
    at: u64,
    timer: TimerId,
}

impl Alarm {
    /// Returns whether the alarm is one of this session, and for this time.
    pub(super) fn is_for(&self, watch: &Arc<Watch>, at: u64) -> bool {
        Arc::ptr_eq(&self.watch, watch) && self.at == at
    }

    /// Replaces the waker. Returns false if the alarm has gone off.
    pub(super) fn change(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let before = self.watch.alarms().timers.change(self.timer, waker);
        before.is_ok()
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if !self.watch.is_here() {
            return;
        }
        let waker = self.watch.alarms().timers.clear(self.timer);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicU64);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The first alarm that is due wakes the thread, in any order of entry. A dropped alarm wakes
    /// nothing.
    #[test]
    fn alarms_go_off_in_their_order() {
        let watch = Arc::new(Watch::new().unwrap());
        let woken = [(); 4].map(|()| Arc::<Woken>::default());
        let wakers = woken.clone().map(Waker::from);
        let counts = || woken.each_ref().map(|woken| woken.0.load(Ordering::SeqCst));
        let (socket, ms) = (rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap(), 1_000_000);
        let (began, far) = (now_ns(), now_ns() + 3_600_000 * ms);
        let _far = watch.wake_at(far, &wakers[0]);
        let near = watch.wake_at(began + 20 * ms, &wakers[1]);
        let dropped = watch.wake_at(began + 5 * ms, &wakers[2]);
        drop(dropped);
        assert!(near.change(&wakers[3]));
        while counts() == [0; 4] {
            assert!(!watch.wait(socket.as_fd(), false, None));
        }
        assert!(now_ns() >= began + 20 * ms);
        assert_eq!(counts(), [0, 0, 0, 1]);
        assert!(!near.change(&wakers[3]) && watch.alarms().set == Some(far));
        watch.stop();
        assert!(watch.wait(socket.as_fd(), false, None));
    }
}
