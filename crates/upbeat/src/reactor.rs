//! The node's one descriptor: an epoll with everything that can wake the node.

use rustix::buffer::spare_capacity;
use rustix::event::{PollFlags, epoll};
use std::cell::{OnceCell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_environment::process::{Resource, obtain};
use upbeat_environment::time::now_ns;
use upbeat_environment::waiting::{Timer, poll, wait_events};
use upbeat_memory::pool::Key;

/// The owner of a descriptor in the epoll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Wakes from other threads.
    Roster,
    /// A node of another process connects.
    SharedArrivals,
    /// A node of this process connects.
    LocalArrivals,
    /// A node of another host connects.
    RemoteArrivals,
    /// The socket of a session, or of a session that is being opened.
    Place(Key),
    /// A peer's process.
    Process(u32),
    /// A descriptor for which the application waits.
    Application(u32),
    /// The alarm is due.
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

const ALWAYS: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP);
const ONCE: epoll::EventFlags = ALWAYS.union(epoll::EventFlags::ONESHOT);

/// The epoll.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    events: RefCell<Vec<epoll::Event>>,
    /// A timer for loops of the application, which wait for the epoll and know no time.
    alarm: OnceCell<Timer>,
}

impl Reactor {
    pub(crate) fn new() -> rustix::io::Result<Reactor> {
        obtain(Resource::Descriptors)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Reactor { epoll, events: RefCell::new(Vec::with_capacity(64)), alarm: OnceCell::new() })
    }

    /// Adds a descriptor, to wait until it is readable or has ended.
    pub(crate) fn add(&self, descriptor: impl AsFd, source: Source) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(source.pack()), ALWAYS)
    }

    /// Adds a descriptor, to wait once until it is readable or has ended; then again after [`Reactor::rearm`]. Where a
    /// forked child holds a copy of the descriptor, its entry outlives its close here, and reports one event at most.
    pub(crate) fn add_once(&self, descriptor: impl AsFd, source: Source) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(source.pack()), ONCE)
    }

    /// Waits for one more event of a descriptor, also until it is writable if that is said.
    pub(crate) fn rearm(&self, descriptor: impl AsFd, source: Source, writable: bool) {
        self.wait_for(descriptor, source, ONCE, writable);
    }

    /// Waits for every event of a descriptor, and sets whether to wait until it is writable as well.
    pub(crate) fn change(&self, descriptor: impl AsFd, source: Source, writable: bool) {
        self.wait_for(descriptor, source, ALWAYS, writable);
    }

    fn wait_for(
        &self,
        descriptor: impl AsFd,
        source: Source,
        mut flags: epoll::EventFlags,
        writable: bool,
    ) {
        flags.set(epoll::EventFlags::OUT, writable);
        // The call fails only for a descriptor that has left the epoll because it has ended.
        let data = epoll::EventData::new_u64(source.pack());
        let _ = epoll::modify(&self.epoll, descriptor, data, flags);
    }

    /// Stops waiting for a descriptor, until [`Reactor::change`] or [`Reactor::rearm`]. The owner keeps the time at which
    /// it looks again: only the end of both directions of a socket is still reported, once. The descriptor keeps its entry
    /// in the epoll, for which there may be no room later.
    pub(crate) fn pause(&self, descriptor: impl AsFd, source: Source) {
        self.wait_for(descriptor, source, epoll::EventFlags::ONESHOT, false);
    }

    /// Removes a descriptor.
    pub(crate) fn remove(&self, descriptor: impl AsFd) {
        // The call fails only for a descriptor that was never added, or has been closed.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Makes the epoll readable after this time; None cancels that.
    pub(crate) fn set_alarm(&self, nanoseconds: Option<u64>) -> rustix::io::Result<()> {
        let alarm = match (self.alarm.get(), nanoseconds) {
            (None, None) => return Ok(()),
            (None, Some(_)) => {
                let alarm = Timer::new()?;
                self.add(&alarm, Source::Alarm)?;
                self.alarm.get_or_init(|| alarm)
            }
            (Some(alarm), _) => alarm,
        };
        alarm.set(nanoseconds.map(|nanoseconds| now_ns().saturating_add(nanoseconds)))
    }

    /// Clears the alarm.
    pub(crate) fn hush(&self) {
        if let Some(alarm) = self.alarm.get() {
            alarm.clear();
        }
    }

    /// Waits for events, for `nanoseconds` at most or without a limit, and adds them to `into`.
    pub(crate) fn wait(&self, nanoseconds: Option<u64>, into: &mut Vec<Source>) {
        let mut events = self.events.borrow_mut();
        events.clear();
        let waited = wait_events(&self.epoll, spare_capacity(&mut events), nanoseconds);
        debug_assert!(waited.is_ok(), "the epoll is open, and the buffer is valid: {waited:?}");
        into.extend(events.iter().map(|event| Source::unpack(event.data.u64())));
    }
}

/// Returns whether both directions of a socket have ended, or it has failed.
pub(crate) fn has_hung_up(socket: &impl AsFd) -> bool {
    let [has_ended] = poll([(socket.as_fd(), PollFlags::empty())], Some(0));
    has_ended
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
