//! A semaphore: a limit on how many tasks do something at once.

use super::batch_semaphore::{BatchSemaphore, TakenPermits};
use super::wait::Wait;
use crate::runtime::Awaited;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A number of permits that tasks take and give back.
///
/// Waiters are served in the order of arrival, even where a later waiter wants fewer permits.
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
/// // One more desk for good, and then three fewer.
/// desks.add(1);
/// desks.acquire(3).await.forget();
/// assert_eq!(desks.free(), 1);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })
/// # }
/// ```
pub struct Semaphore {
    semaphore: BatchSemaphore,
}

impl Semaphore {
    /// Creates a semaphore without a name.
    pub const fn new(permits: u32) -> Semaphore {
        Semaphore { semaphore: BatchSemaphore::new(permits) }
    }

    /// Creates a semaphore with a name, which the bill shows.
    pub fn named(name: &str, permits: u32) -> Semaphore {
        Semaphore { semaphore: BatchSemaphore::named(name, permits) }
    }

    /// Waits for this number of permits, which are given together. If the semaphore has fewer
    /// permits in all, the future waits until some are added.
    #[track_caller]
    #[inline]
    pub fn acquire(&self, permits: u32) -> Acquire<'_> {
        Acquire { semaphore: self, permits, wait: Wait::at(Location::caller()) }
    }

    /// Takes this number of permits if they are free and no waiter is queued.
    #[track_caller]
    #[inline]
    pub fn try_acquire(&self, permits: u32) -> Option<Permit<'_>> {
        let at = Location::caller();
        self.semaphore.try_take(permits).then(|| Permit(self.semaphore.taken(permits, at)))
    }

    /// Adds permits for good.
    pub fn add(&self, permits: u32) {
        self.semaphore.give(permits);
    }

    /// Returns the number of free permits.
    pub fn free(&self) -> u64 {
        self.semaphore.free()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BatchSemaphore { name, .. } = &self.semaphore;
        f.debug_struct("Semaphore").field("name", name).field("free", &self.free()).finish()
    }
}

/// A future that waits for permits of a [`Semaphore`].
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
        ready!(semaphore.semaphore.poll_take(wait, *permits, what, context));
        Poll::Ready(Permit(semaphore.semaphore.taken(*permits, wait.at)))
    }
}

impl Drop for Acquire<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.semaphore.give_up(&mut self.wait);
    }
}

/// A guard that gives its permits back when it is dropped.
#[must_use = "dropping the guard gives the permits back"]
pub struct Permit<'s>(TakenPermits<'s>);

impl Permit<'_> {
    /// Returns the number of permits.
    pub fn count(&self) -> u32 {
        self.0.permits()
    }

    /// Drops the guard without giving the permits back.
    pub fn forget(self) {
        self.0.forget();
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permit").field(&self.count()).finish()
    }
}
