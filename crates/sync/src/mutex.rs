//! A mutex for data that tasks and handlers of one node share across their awaits.

use super::batch_semaphore::{BatchSemaphore, TakenPermits};
use super::wait::Wait;
use crate::runtime::Awaited;
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A mutex for data of one node. Waiters are served in the order of arrival.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::rc::Rc;
/// use upbeat::sync::Mutex;
/// # use tokio::task::yield_now;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # tokio::task::LocalSet::new().block_on(&runtime, async {
/// # use tokio::task::spawn_local as spawn;
/// let accounts = Rc::new(Mutex::named("accounts", vec![100, 0]));
/// let transfer = |sum: i32| {
///     let accounts = Rc::clone(&accounts);
///     async move {
///         let mut accounts = accounts.lock().await;
///         accounts[0] -= sum;
///         // No other task sees the accounts meanwhile.
///         yield_now().await;
///         accounts[1] += sum;
///     }
/// };
/// let (one, two) = (spawn(transfer(10)), spawn(transfer(20)));
/// one.await.and(two.await)?;
/// assert_eq!(*accounts.try_lock().ok_or("the mutex is free")?, [70, 30]);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })
/// # }
/// ```
pub struct Mutex<T> {
    semaphore: BatchSemaphore,
    value: RefCell<T>,
}

impl<T> Mutex<T> {
    /// Creates a mutex without a name.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { semaphore: BatchSemaphore::new(1), value: RefCell::new(value) }
    }

    /// Creates a mutex with a name, which the bill shows.
    pub fn named(name: &str, value: T) -> Mutex<T> {
        Mutex { semaphore: BatchSemaphore::named(name, 1), value: RefCell::new(value) }
    }

    /// Waits until the mutex is free. A future that is dropped before that gives up its place in
    /// the queue.
    #[track_caller]
    #[inline]
    pub fn lock(&self) -> Lock<'_, T> {
        self.lock_at(Location::caller())
    }

    #[inline]
    pub(super) fn lock_at(&self, at: &'static Location<'static>) -> Lock<'_, T> {
        Lock { mutex: self, wait: Wait::at(at) }
    }

    /// Takes the lock if it is free.
    #[track_caller]
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.semaphore.try_take(1).then(|| self.hold(Location::caller()))
    }

    /// Returns the value without locking, since `&mut self` excludes every other holder.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns the value and drops the mutex.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Returns the name of the mutex.
    pub(super) fn name(&self) -> Option<&std::sync::Arc<str>> {
        self.semaphore.name.as_ref()
    }

    #[inline]
    fn hold(&self, at: &'static Location<'static>) -> MutexGuard<'_, T> {
        let taken = self.semaphore.taken(1, at);
        MutexGuard { value: self.value.borrow_mut(), mutex: self, _taken: taken }
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex")
            .field("name", &self.semaphore.name)
            .field("value", &self.value)
            .finish()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

/// A future that waits for a [`Mutex`].
#[must_use = "nothing is locked until it is awaited"]
pub struct Lock<'m, T> {
    mutex: &'m Mutex<T>,
    wait: Wait,
}

impl<'m, T> Future for Lock<'m, T> {
    type Output = MutexGuard<'m, T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<MutexGuard<'m, T>> {
        let Lock { mutex, wait } = &mut *self;
        ready!(mutex.semaphore.poll_take(wait, 1, Awaited::Mutex, context));
        Poll::Ready(mutex.hold(wait.at))
    }
}

impl<T> Drop for Lock<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.semaphore.give_up(&mut self.wait);
    }
}

/// A guard that holds a [`Mutex`] until it is dropped.
pub struct MutexGuard<'m, T> {
    // Fields are dropped in their order: the borrow ends before the lock is released.
    value: RefMut<'m, T>,
    pub(super) mutex: &'m Mutex<T>,
    _taken: TakenPermits<'m>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
