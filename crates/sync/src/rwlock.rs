//! A lock for data that many read at once, or one writes.

use super::room::{Room, Taken};
use super::wait::Wait;
use crate::runtime::Awaited;
use std::cell::{Ref, RefCell, RefMut};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Who writes takes all seats, who reads one.
const SEATS: u32 = u32::MAX;

/// A lock for data of one node that many may read at once, or one may write.
///
/// Who waits is served in the order of arrival: a writer that waits holds back readers that come
/// after it, so that it does not wait for ever. So who reads must not wait to read once more.
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
/// assert!(prices.try_write().is_none(), "two read");
/// drop((one, two));
/// prices.write().await.push(8);
/// assert_eq!(prices.read().await.len(), 3);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })
/// # }
/// ```
pub struct RwLock<T> {
    room: Room,
    value: RefCell<T>,
}

impl<T> RwLock<T> {
    /// A lock without a name.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock { room: Room::new(SEATS), value: RefCell::new(value) }
    }

    /// A lock that the bill calls by this name.
    pub fn named(name: &str, value: T) -> RwLock<T> {
        RwLock { room: Room::named(name, SEATS), value: RefCell::new(value) }
    }

    /// Waits until nobody writes, and nobody waits to who came before.
    #[track_caller]
    #[inline]
    pub fn read(&self) -> Read<'_, T> {
        Read { lock: self, wait: Wait::at(Location::caller()) }
    }

    /// The lock to read, if that needs no waiting.
    #[track_caller]
    #[inline]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        self.room.sit(1).then(|| self.hold_to_read(Location::caller()))
    }

    /// Waits until nobody reads or writes.
    #[track_caller]
    #[inline]
    pub fn write(&self) -> Write<'_, T> {
        Write { lock: self, wait: Wait::at(Location::caller()) }
    }

    /// The lock to write, if nobody reads or writes.
    #[track_caller]
    #[inline]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        self.room.sit(SEATS).then(|| self.hold_to_write(Location::caller()))
    }

    /// The value, for somebody who has the lock to himself.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value, without the lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    #[inline]
    fn hold_to_read(&self, at: &'static Location<'static>) -> ReadGuard<'_, T> {
        ReadGuard { value: self.value.borrow(), _taken: self.room.taken(1, at) }
    }

    #[inline]
    fn hold_to_write(&self, at: &'static Location<'static>) -> WriteGuard<'_, T> {
        WriteGuard { value: self.value.borrow_mut(), _taken: self.room.taken(SEATS, at) }
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("name", &self.room.name).field("value", &self.value).finish()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

/// Waits to read an [`RwLock`].
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
        ready!(lock.room.poll_sit(wait, 1, Awaited::Reading, context));
        Poll::Ready(lock.hold_to_read(wait.at))
    }
}

impl<T> Drop for Read<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.room.give_up(&mut self.wait);
    }
}

/// Waits to write an [`RwLock`].
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
        ready!(lock.room.poll_sit(wait, SEATS, Awaited::Writing, context));
        Poll::Ready(lock.hold_to_write(wait.at))
    }
}

impl<T> Drop for Write<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.room.give_up(&mut self.wait);
    }
}

/// Nobody writes while this lives.
pub struct ReadGuard<'l, T> {
    // Given back before the lock is: fields are dropped in their order.
    value: Ref<'l, T>,
    _taken: Taken<'l>,
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

/// Nobody else reads or writes while this lives.
pub struct WriteGuard<'l, T> {
    // Given back before the lock is: fields are dropped in their order.
    value: RefMut<'l, T>,
    _taken: Taken<'l>,
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
