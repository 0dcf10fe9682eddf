//! So many at once, and no more.

use super::room::{Room, Taken};
use super::wait::Wait;
use crate::runtime::Awaited;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Lets so many in at once.
///
/// Who waits is served in the order of arrival, also where one that came later wants less.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::sync::Semaphore;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # tokio::task::LocalSet::new().block_on(&runtime, async {
/// let desks = Semaphore::named("desks", 3);
/// let two = desks.acquire(2).await;
/// assert!(desks.try_acquire(2).is_none());
/// assert_eq!(desks.free(), 1);
/// drop(two);
/// // One desk more, for good; and three less.
/// desks.add(1);
/// desks.acquire(3).await.forget();
/// assert_eq!(desks.free(), 1);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })
/// # }
/// ```
pub struct Semaphore {
    room: Room,
}

impl Semaphore {
    /// A semaphore with so many permits and no name.
    pub const fn new(permits: u32) -> Semaphore {
        Semaphore { room: Room::new(permits) }
    }

    /// A semaphore that the bill calls by this name.
    pub fn named(name: &str, permits: u32) -> Semaphore {
        Semaphore { room: Room::named(name, permits) }
    }

    /// Waits for so many permits, which are given together. Where there are fewer in all it waits
    /// until some are added.
    #[track_caller]
    #[inline]
    pub fn acquire(&self, permits: u32) -> Acquire<'_> {
        Acquire { semaphore: self, permits, wait: Wait::at(Location::caller()) }
    }

    /// So many permits, if they are free and nobody waits for some.
    #[track_caller]
    #[inline]
    pub fn try_acquire(&self, permits: u32) -> Option<Permit<'_>> {
        let at = Location::caller();
        self.room.sit(permits).then(|| Permit(self.room.taken(permits, at)))
    }

    /// Has more permits from now on.
    pub fn add(&self, permits: u32) {
        self.room.give(permits);
    }

    /// How many permits are free.
    pub fn free(&self) -> u64 {
        self.room.free()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Room { name, .. } = &self.room;
        f.debug_struct("Semaphore").field("name", name).field("free", &self.free()).finish()
    }
}

/// Waits for permits of a [`Semaphore`].
#[must_use = "nothing is acquired until it is awaited"]
pub struct Acquire<'s> {
    semaphore: &'s Semaphore,
    permits: u32,
    wait: Wait,
}

impl<'s> Future for Acquire<'s> {
    type Output = Permit<'s>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'s>> {
        let Acquire { semaphore, permits, wait } = &mut *self;
        let what = Awaited::Permits(*permits);
        ready!(semaphore.room.poll_sit(wait, *permits, what, context));
        Poll::Ready(Permit(semaphore.room.taken(*permits, wait.at)))
    }
}

impl Drop for Acquire<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.room.give_up(&mut self.wait);
    }
}

/// Permits that are given back when this is dropped.
#[must_use = "dropped, the permits are given back"]
pub struct Permit<'s>(Taken<'s>);

impl Permit<'_> {
    /// How many they are.
    pub fn count(&self) -> u32 {
        self.0.seats()
    }

    /// Does not give them back.
    pub fn forget(self) {
        self.0.forget();
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permit").field(&self.count()).finish()
    }
}
