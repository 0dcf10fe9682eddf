//! A room with so many seats, for one or for many: what mutexes, locks and semaphores are made of.
//!
//! Who wants seats takes them together, or stands in a line until they are free: nobody passes those
//! who stand there, also with a smaller wish. Invariant: while somebody stands in the line, its first
//! wants more seats than are free.

use super::line::Line;
use super::wait::{Aim, Holders, Name, Wait};
use crate::stuck::Awaited;
use std::cell::Cell;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use upbeat_memory::pool::Key;

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

    #[inline]
    fn sit(&self, seats: u32) -> bool {
        let left = self.free.get().checked_sub(seats.into());
        let Some(left) = left.filter(|_| self.line.is_empty()) else { return false };
        self.free.set(left);
        true
    }

    /// Seats, if they are free and nobody waits for some.
    #[inline]
    pub(super) fn try_take(&self, seats: u32, at: &'static Location<'static>) -> Option<Taken<'_>> {
        self.sit(seats).then(|| Taken { room: self, seats, holder: self.holders.add(at) })
    }

    /// Waits for seats.
    #[inline]
    pub(super) fn take(
        &self,
        seats: u32,
        what: Awaited,
        at: &'static Location<'static>,
    ) -> Take<'_> {
        Take { room: self, seats, what, wait: Wait::at(at) }
    }
}

/// Waits for seats.
pub(super) struct Take<'r> {
    room: &'r Room,
    seats: u32,
    what: Awaited,
    wait: Wait,
}

impl<'r> Future for Take<'r> {
    type Output = Taken<'r>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Taken<'r>> {
        let Take { room, seats, .. } = *self;
        match self.wait.key {
            None if room.sit(seats) => {}
            None => {
                self.wait.key = Some(room.line.enter(context.waker(), seats));
                return self.waits(context);
            }
            Some(key) if room.line.waits(key, context.waker()) => return self.waits(context),
            Some(key) => {
                room.line.leave(key);
                self.wait.key = None;
                self.wait.ends();
            }
        }
        let holder = room.holders.add(self.wait.at);
        Poll::Ready(Taken { room, seats, holder })
    }
}

impl<'r> Take<'r> {
    #[cold]
    fn waits(&mut self, context: &mut Context<'_>) -> Poll<Taken<'r>> {
        let Room { name, holders, .. } = self.room;
        self.wait.goes_on(context, Aim { what: self.what, name, holders: Some(holders) });
        Poll::Pending
    }
}

impl Drop for Take<'_> {
    fn drop(&mut self) {
        let Some(key) = self.wait.key.take() else { return };
        let left = self.room.line.leave(key);
        // What had come to it goes on; or it has stood before others who want less.
        self.room.give(if left.was_called { left.note } else { 0 });
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
