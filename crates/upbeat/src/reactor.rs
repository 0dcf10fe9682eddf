//! The node's one descriptor: an epoll in which everything stands that can wake it.

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::cell::{OnceCell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_memory::pool::Key;

/// What a descriptor in the epoll belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Wakes from other threads.
    Roster,
    /// Somebody connects from another process.
    SharedArrivals,
    /// Somebody connects from this process.
    LocalArrivals,
    /// Somebody connects from another host.
    RemoteArrivals,
    /// The socket of a session, or of one that is being opened.
    Place(Key),
    /// A peer's process.
    Process(u32),
    /// A descriptor that the application waits for.
    Application(u32),
    /// The time has come for which the alarm was set.
    Alarm,
}

impl Source {
    fn pack(self) -> u64 {
        let key = |key: Key| u64::from(key.index & 0x00ff_ffff) << 32 | u64::from(key.generation);
        match self {
            Source::Roster => 0,
            Source::SharedArrivals => 1 << 56,
            Source::LocalArrivals => 2 << 56,
            Source::Place(of) => 3 << 56 | key(of),
            Source::Process(pid) => 4 << 56 | u64::from(pid),
            Source::Application(id) => 5 << 56 | u64::from(id),
            Source::Alarm => 6 << 56,
            Source::RemoteArrivals => 7 << 56,
        }
    }

    fn unpack(word: u64) -> Source {
        let key = Key { index: (word >> 32) as u32 & 0x00ff_ffff, generation: word as u32 };
        match word >> 56 {
            0 => Source::Roster,
            1 => Source::SharedArrivals,
            2 => Source::LocalArrivals,
            3 => Source::Place(key),
            4 => Source::Process(word as u32),
            5 => Source::Application(word as u32),
            7 => Source::RemoteArrivals,
            _ => Source::Alarm,
        }
    }
}

/// The epoll.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    events: RefCell<Vec<epoll::Event>>,
    /// For loops of the application's own, which wait for the epoll and know no time.
    alarm: OnceCell<OwnedFd>,
}

impl Reactor {
    pub(crate) fn new() -> rustix::io::Result<Reactor> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Reactor { epoll, events: RefCell::new(Vec::with_capacity(64)), alarm: OnceCell::new() })
    }

    /// Waits for a descriptor to become readable, or to end.
    pub(crate) fn add(&self, descriptor: impl AsFd, source: Source) -> rustix::io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(source.pack()), flags)
    }

    /// Waits until it is writable as well, or no longer does.
    pub(crate) fn change(&self, descriptor: impl AsFd, source: Source, writable: bool) {
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        flags.set(epoll::EventFlags::OUT, writable);
        // A descriptor that has left the epoll has ended.
        let data = epoll::EventData::new_u64(source.pack());
        let _ = epoll::modify(&self.epoll, descriptor, data, flags);
    }

    /// Waits for it no longer.
    pub(crate) fn remove(&self, descriptor: impl AsFd) {
        // A descriptor that is not there was never added, or has been closed.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Has the epoll become readable in so many nanoseconds; None takes that back.
    pub(crate) fn set_alarm(&self, nanoseconds: Option<u64>) -> rustix::io::Result<()> {
        let alarm = match (self.alarm.get(), nanoseconds) {
            (None, None) => return Ok(()),
            (None, Some(_)) => {
                let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
                let alarm = timerfd_create(TimerfdClockId::Monotonic, flags)?;
                self.add(&alarm, Source::Alarm)?;
                self.alarm.get_or_init(|| alarm)
            }
            (Some(alarm), _) => alarm,
        };
        // A time of nothing would take it back.
        let it_value = timespec(nanoseconds.map_or(0, |nanoseconds| nanoseconds.max(1)));
        let time = Itimerspec { it_interval: timespec(0), it_value };
        timerfd_settime(alarm, TimerfdTimerFlags::empty(), &time).map(drop)
    }

    /// The alarm was heard.
    pub(crate) fn hush(&self) {
        if let Some(alarm) = self.alarm.get() {
            // It may have been set anew meanwhile.
            let _ = rustix::io::read(alarm, &mut [0u8; 8]);
        }
    }

    /// Waits until something has come, for `nanoseconds` at most, and adds what has come to
    /// `into`. None waits for ever.
    pub(crate) fn wait(&self, nanoseconds: Option<u64>, into: &mut Vec<Source>) {
        let timeout = nanoseconds.map(timespec);
        let mut events = self.events.borrow_mut();
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // The epoll is ours and open, the buffer is sound.
            Err(error) => debug_assert!(false, "epoll: {error}"),
        }
        into.extend(events.iter().map(|event| Source::unpack(event.data.u64())));
    }
}

/// So many nanoseconds.
pub(crate) fn timespec(nanoseconds: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (nanoseconds % 1_000_000_000) as _,
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
