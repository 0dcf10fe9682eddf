//! Waits of a thread: for descriptors, for a time, for others.

use crate::process::obtain;
use crate::time::{nanoseconds, now_ns};
use crate::world::{Awaited, Resource, World, current};
use rustix::buffer::SpareCapacity;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Returns this many nanoseconds as a `Timespec`.
fn timespec(nanoseconds: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (nanoseconds % 1_000_000_000) as _,
    }
}

/// Returns the time of a world in so many nanoseconds.
fn end_of(timeout_ns: Option<u64>) -> Option<u64> {
    timeout_ns.map(|ns| now_ns().saturating_add(ns))
}

/// A descriptor, and the events for which a thread waits.
pub type Polled<'a> = (BorrowedFd<'a>, PollFlags);

/// Waits until one of a few descriptors has an event, for so many nanoseconds at most, or until a signal comes. Returns
/// which ones have one.
pub fn poll<const N: usize>(polled: [Polled<'_>; N], timeout_ns: Option<u64>) -> [bool; N] {
    let mut descriptors = polled.each_ref().map(pollfd);
    poll_all(&polled, &mut descriptors, timeout_ns);
    descriptors.each_ref().map(has_event)
}

/// Waits as [`poll`] does, for one of any number of descriptors.
pub fn poll_any(polled: &[Polled<'_>], timeout_ns: Option<u64>) -> Vec<bool> {
    let mut descriptors: Vec<_> = polled.iter().map(pollfd).collect();
    poll_all(polled, &mut descriptors, timeout_ns);
    descriptors.iter().map(has_event).collect()
}

fn pollfd<'a>((descriptor, events): &Polled<'a>) -> PollFd<'a> {
    PollFd::from_borrowed_fd(*descriptor, *events)
}

fn has_event(polled: &PollFd<'_>) -> bool {
    !polled.revents().is_empty()
}

fn poll_all(polled: &[Polled<'_>], descriptors: &mut [PollFd<'_>], timeout_ns: Option<u64>) {
    let timeout = in_world(polled, timeout_ns);
    // After any result, an interruption too, the caller looks again.
    let _ = rustix::event::poll(descriptors, timeout.map(timespec).as_ref());
}

/// Has the world of the thread wait, if it is in one. Returns for how long the system is to wait.
fn in_world(polled: &[Polled<'_>], timeout_ns: Option<u64>) -> Option<u64> {
    match current() {
        Some(world) if timeout_ns != Some(0) => {
            world.wait(Awaited::Descriptors(polled), end_of(timeout_ns));
            Some(0)
        }
        _ => timeout_ns,
    }
}

/// Waits until an epoll has events, for so many nanoseconds at most, and adds them to the buffer. An interruption by a
/// signal ends the wait as its time does.
///
/// # Errors
/// Those of `epoll_wait(2)`, but for the interruption.
pub fn wait_events(
    epoll: &OwnedFd,
    events: SpareCapacity<'_, epoll::Event>,
    timeout_ns: Option<u64>,
) -> rustix::io::Result<()> {
    let timeout = in_world(&[(epoll.as_fd(), PollFlags::IN)], timeout_ns);
    match epoll::wait(epoll, events, timeout.map(timespec).as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits for a time.
pub fn sleep(time: Duration) {
    match current() {
        Some(world) => {
            world.wait(Awaited::Nothing, end_of(Some(nanoseconds(time))));
        }
        None => std::thread::sleep(time),
    }
}

/// Lets another thread run that is ready to.
pub fn yield_now() {
    if !passes_turn() {
        rustix::thread::sched_yield();
    }
}

/// Tells a world that the thread looks again and again for what another thread writes. The system need not know.
#[inline]
pub fn looks_again() {
    passes_turn();
}

/// Lets a world run other threads here, as the system may at any time.
pub fn step() {
    let world = current();
    if let Some(world) = world.filter(|world| world.random().is_multiple_of(4)) {
        world.wait(Awaited::Nothing, Some(0));
    }
}

/// Lets another thread of the world run. Returns false if the thread is in no world.
#[inline]
fn passes_turn() -> bool {
    let world = current();
    world.is_some_and(|world| {
        world.wait(Awaited::Nothing, Some(0));
        true
    })
}

/// A descriptor that is readable from a time on.
pub struct Timer {
    descriptor: Arc<OwnedFd>,
    world: Option<Arc<dyn World>>,
}

impl Timer {
    /// Makes a timer that is not set.
    ///
    /// # Errors
    /// Those of `timerfd_create(2)`.
    pub fn new() -> rustix::io::Result<Timer> {
        obtain(Resource::Descriptors)?;
        let world = current();
        let descriptor = match world {
            Some(_) => rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            None => timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )?,
        };
        Ok(Timer { descriptor: Arc::new(descriptor), world })
    }

    /// Sets the timer to a time of [`now_ns`]; one that has passed makes the descriptor readable at once. None
    /// cancels it.
    ///
    /// # Errors
    /// Those of `timerfd_settime(2)`.
    pub fn set(&self, at_ns: Option<u64>) -> rustix::io::Result<()> {
        if let Some(world) = &self.world {
            world.set_timer(&self.descriptor, at_ns);
            return Ok(());
        }
        // Zero would cancel the timer.
        let it_value = timespec(at_ns.map_or(0, |at| at.saturating_sub(now_ns()).max(1)));
        let time = Itimerspec { it_interval: timespec(0), it_value };
        timerfd_settime(&self.descriptor, TimerfdTimerFlags::empty(), &time).map(drop)
    }

    /// Makes the descriptor unreadable, if the time has come.
    pub fn clear(&self) {
        // The read fails if the timer was set anew meanwhile.
        let _ = rustix::io::read(&*self.descriptor, &mut [0; 8]);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
