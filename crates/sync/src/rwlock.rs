//! A lock for data that many tasks read at once, or one task writes.

use super::batch_semaphore::{BatchSemaphore, TakenPermits};
use super::wait::Wait;
use crate::runtime::Awaited;
use std::cell::{Ref, RefCell, RefMut};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The permits of a lock: a writer takes all of them, a reader takes one.
const ALL_PERMITS: u32 = u32::MAX;

/// A lock for data of one node that many tasks may read at once, or one task may write.
///
/// Waiters are served in the order of arrival: a waiting writer holds back readers that come after
/// it, so that it does not wait for ever. A task that holds a read guard must therefore not wait
/// for a second one.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::sync::RwLock;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # tokio::task::LocalSet::new().block_on(&runtime, async {
/// let prices = RwLock::named("prices", vec![3, 5]);
/// let (one, two) = (prices.read().await, prices.read().await);
/// assert!(prices.try_write().is_none(), "two readers hold the lock");
/// drop((one, two));
/// prices.write().await.push(8);
/// assert_eq!(prices.read().await.len(), 3);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })
/// # }
/// ```
pub struct RwLock<T> {
    semaphore: BatchSemaphore,
    value: RefCell<T>,
}

impl<T> RwLock<T> {
    /// Creates a lock without a name.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock { semaphore: BatchSemaphore::new(ALL_PERMITS), value: RefCell::new(value) }
    }

    /// Creates a lock with a name, which the bill shows.
    pub fn named(name: &str, value: T) -> RwLock<T> {
        RwLock { semaphore: BatchSemaphore::named(name, ALL_PERMITS), value: RefCell::new(value) }
    }

    /// Waits until there is no writer, neither one that holds the lock nor one that came before and
    /// waits.
    #[track_caller]
    #[inline]
    pub fn read(&self) -> Read<'_, T> {
        Read { lock: self, wait: Wait::at(Location::caller()) }
    }

    /// Takes the lock for reading if no wait is needed.
    #[track_caller]
    #[inline]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        self.semaphore.try_take(1).then(|| self.hold_to_read(Location::caller()))
    }

    /// Waits until there is no reader and no writer.
    #[track_caller]
    #[inline]
    pub fn write(&self) -> Write<'_, T> {
        Write { lock: self, wait: Wait::at(Location::caller()) }
    }

    /// Takes the lock for writing if there is no reader and no writer.
    #[track_caller]
    #[inline]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        self.semaphore.try_take(ALL_PERMITS).then(|| self.hold_to_write(Location::caller()))
    }

    /// Returns the value without locking, since `&mut self` excludes every other holder.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns the value and drops the lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    #[inline]
    fn hold_to_read(&self, at: &'static Location<'static>) -> ReadGuard<'_, T> {
        ReadGuard { value: self.value.borrow(), _taken: self.semaphore.taken(1, at) }
    }

    #[inline]
    fn hold_to_write(&self, at: &'static Location<'static>) -> WriteGuard<'_, T> {
        WriteGuard { value: self.value.borrow_mut(), _taken: self.semaphore.taken(ALL_PERMITS, at) }
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock")
            .field("name", &self.semaphore.name)
            .field("value", &self.value)
            .finish()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

/// A future that waits to read an [`RwLock`].
#[must_use = "nothing is locked until it is awaited"]
pub struct Read<'l, T> {
    lock: &'l RwLock<T>,
    wait: Wait,
}

impl<'l, T> Future for Read<'l, T> {
    type Output = ReadGuard<'l, T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReadGuard<'l, T>> {
        let Read { lock, wait } = &mut *self;
        ready!(lock.semaphore.poll_take(wait, 1, Awaited::Reading, context));
        Poll::Ready(lock.hold_to_read(wait.at))
    }
}

impl<T> Drop for Read<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.semaphore.give_up(&mut self.wait);
    }
}

/// A future that waits to write an [`RwLock`].
#[must_use = "nothing is locked until it is awaited"]
pub struct Write<'l, T> {
    lock: &'l RwLock<T>,
    wait: Wait,
}

impl<'l, T> Future for Write<'l, T> {
    type Output = WriteGuard<'l, T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WriteGuard<'l, T>> {
        let Write { lock, wait } = &mut *self;
        ready!(lock.semaphore.poll_take(wait, ALL_PERMITS, Awaited::Writing, context));
        Poll::Ready(lock.hold_to_write(wait.at))
    }
}

impl<T> Drop for Write<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.semaphore.give_up(&mut self.wait);
    }
}

/// A guard that excludes writers until it is dropped.
pub struct ReadGuard<'l, T> {
    // Fields are dropped in their order: the borrow ends before the lock is released.
    value: Ref<'l, T>,
    _taken: TakenPermits<'l>,
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for ReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// A guard that excludes readers and other writers until it is dropped.
pub struct WriteGuard<'l, T> {
    // Fields are dropped in their order: the borrow ends before the lock is released.
    value: RefMut<'l, T>,
    _taken: TakenPermits<'l>,
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for WriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
