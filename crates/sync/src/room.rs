//! A room with so many seats, for one or for many: what mutexes, locks and semaphores are made of.
//!
//! Who wants seats takes them together, or stands in a line until they are free: nobody passes those
//! who stand there, also with a smaller wish. Invariant: while somebody stands in the line, its first
//! wants more seats than are free.

use super::line::{Key, Line};
use super::wait::{Aim, Holders, Name, Wait};
use crate::runtime::Awaited;
use std::cell::Cell;
use std::panic::Location;
use std::task::{Context, Poll};

/// A room.
pub(super) struct Room {
    pub(super) name: Name,
    free: Cell<u64>,
    line: Line,
    holders: Holders,
}

impl Room {
    pub(super) const fn new(seats: u32) -> Room {
        let free = Cell::new(seats as u64);
        Room { name: None, free, line: Line::new(), holders: Holders::new() }
    }

    pub(super) fn named(name: &str, seats: u32) -> Room {
        Room { name: Some(name.into()), ..Room::new(seats) }
    }

    /// The seats that are free.
    pub(super) fn free(&self) -> u64 {
        self.free.get()
    }

    /// Has more seats, or some back.
    #[inline]
    pub(super) fn give(&self, seats: u32) {
        self.free.set(self.free.get().saturating_add(seats.into()));
        if !self.line.is_empty() {
            self.call();
        }
    }

    /// Calls those for whom there are seats.
    #[cold]
    fn call(&self) {
        while let Some(wanted) = self.line.first()
            && let Some(left) = self.free.get().checked_sub(wanted.into())
        {
            self.free.set(left);
            if let Some(waker) = self.line.call_first(wanted) {
                waker.wake();
            }
        }
    }

    /// Takes seats, if they are free and nobody waits for some. Who does has them told by
    /// [`Room::taken`].
    #[inline]
    pub(super) fn sit(&self, seats: u32) -> bool {
        let left = self.free.get().checked_sub(seats.into());
        let Some(left) = left.filter(|_| self.line.is_empty()) else { return false };
        self.free.set(left);
        true
    }

    /// Polls a wait for seats. Whoever has them has them told by [`Room::taken`].
    #[inline]
    pub(super) fn poll_sit(
        &self,
        wait: &mut Wait,
        seats: u32,
        what: Awaited,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let sits = wait.key.is_none() && self.sit(seats);
        if sits || self.has_come(wait, seats, what, context) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// These seats were taken here.
    #[inline]
    pub(super) fn taken(&self, seats: u32, at: &'static Location<'static>) -> Taken<'_> {
        Taken { room: self, seats, holder: self.holders.add(at) }
    }

    /// Whether the seats have come that are waited for, or will be from now on.
    #[cold]
    fn has_come(
        &self,
        wait: &mut Wait,
        seats: u32,
        what: Awaited,
        context: &mut Context<'_>,
    ) -> bool {
        match wait.key {
            None => wait.key = Some(self.line.enter(context.waker(), seats)),
            Some(key) if self.line.waits(key, context.waker()) => {}
            Some(key) => {
                self.line.leave(key);
                wait.key = None;
                wait.ends();
                return true;
            }
        }
        wait.goes_on(context, Aim { what, name: &self.name, holders: Some(&self.holders) });
        false
    }

    /// A wait for seats is dropped.
    #[inline]
    pub(super) fn give_up(&self, wait: &mut Wait) {
        if let Some(key) = wait.key.take() {
            self.leave(key);
        }
    }

    #[cold]
    fn leave(&self, key: Key) {
        let left = self.line.leave(key);
        self.free.set(self.free.get() + if left.was_called { u64::from(left.note) } else { 0 });
        // What had come to it goes on; or it has stood before others who want less.
        self.call();
    }
}

/// Seats that are taken while this lives.
pub(super) struct Taken<'r> {
    pub(super) room: &'r Room,
    seats: u32,
    holder: Option<Key>,
}

impl Taken<'_> {
    pub(super) fn seats(&self) -> u32 {
        self.seats
    }

    /// The seats are gone with their guard.
    pub(super) fn forget(mut self) {
        self.seats = 0;
    }
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        self.room.holders.remove(self.holder);
        self.room.give(self.seats);
    }
}
