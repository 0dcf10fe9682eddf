//! The node's one descriptor: an epoll in which everything stands that can wake it.

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::cell::RefCell;
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
    /// The socket of a session, or of one that is being opened.
    Place(Key),
    /// A peer's process.
    Process(u32),
    /// A descriptor that the application waits for.
    Application(u32),
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
            _ => Source::Application(word as u32),
        }
    }
}

/// The epoll.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    events: RefCell<Vec<epoll::Event>>,
}

impl Reactor {
    pub(crate) fn new() -> rustix::io::Result<Reactor> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Reactor { epoll, events: RefCell::new(Vec::with_capacity(64)) })
    }

    /// Waits for a descriptor to become readable, or to end.
    pub(crate) fn add(&self, descriptor: impl AsFd, source: Source) -> rustix::io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(source.pack()), flags)
    }

    /// Waits for it no longer.
    pub(crate) fn remove(&self, descriptor: impl AsFd) {
        // A descriptor that is not there was never added, or has been closed.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Waits until something has come, for `nanoseconds` at most, and adds what has come to
    /// `into`. None waits for ever.
    pub(crate) fn wait(&self, nanoseconds: Option<u64>, into: &mut Vec<Source>) {
        let timeout = nanoseconds.map(|nanoseconds| Timespec {
            tv_sec: i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (nanoseconds % 1_000_000_000) as _,
        });
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

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
