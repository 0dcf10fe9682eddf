//! A condition variable for data under a mutex.

use super::mutex::{Lock, Mutex, MutexGuard};
use super::wait::{Name, Target, Wait};
use super::waiters::WaitQueue;
use crate::runtime::Awaited;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The tag of a waiter that was notified alone: if it is dropped, the next waiter is notified
/// instead.
const ONE: u32 = 1;
/// The tag of a waiter that was notified with all others.
const ALL: u32 = 2;

/// A condition variable, on which a task with a [`MutexGuard`] waits until something becomes
/// true of the data.
///
/// A waiter releases the lock and takes it again after it is notified. The condition may have
/// become false again meanwhile if other tasks took the lock first. Waiters take the lock in the
/// order in which they were notified. If a waiter that was notified alone is dropped before it
/// runs, the next waiter is notified.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::rc::Rc;
/// use upbeat::sync::{Condvar, Mutex};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # tokio::task::LocalSet::new().block_on(&runtime, async {
/// # use tokio::task::spawn_local as spawn;
/// let queue = Rc::new((Mutex::new(vec![]), Condvar::named("not empty")));
/// let taker = Rc::clone(&queue);
/// let taken = spawn(async move {
///     let (queue, not_empty) = &*taker;
///     let queue = queue.lock().await;
///     let mut queue = not_empty.wait_while(queue, |queue| queue.is_empty()).await;
///     queue.pop()
/// });
/// queue.0.lock().await.push(7);
/// queue.1.notify_one();
/// assert_eq!(taken.await?, Some(7));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })
/// # }
/// ```
pub struct Condvar {
    name: Name,
    queue: WaitQueue,
}

impl Condvar {
    /// Creates a condition variable without a name.
    pub const fn new() -> Condvar {
        Condvar { name: None, queue: WaitQueue::new() }
    }

    /// Creates a condition variable with a name, which the bill shows.
    pub fn named(name: &str) -> Condvar {
        Condvar { name: Some(name.into()), ..Condvar::new() }
    }

    /// Releases the lock, waits until the condition is notified, and takes the lock again.
    #[track_caller]
    pub fn wait<'c, 'm, T>(&'c self, guard: MutexGuard<'m, T>) -> Notified<'c, 'm, T> {
        self.wait_at(guard, Location::caller())
    }

    fn wait_at<'c, 'm, T>(
        &'c self,
        guard: MutexGuard<'m, T>,
        at: &'static Location<'static>,
    ) -> Notified<'c, 'm, T> {
        let (condvar, mutex) = (self, guard.mutex);
        let wait = Wait::at(at);
        Notified { condvar, mutex, guard: Some(guard), wait, was_alone: false, lock: None }
    }

    /// Waits again and again while `is_so` returns true.
    #[track_caller]
    pub fn wait_while<'m, T>(
        &self,
        mut guard: MutexGuard<'m, T>,
        mut is_so: impl FnMut(&mut T) -> bool,
    ) -> impl Future<Output = MutexGuard<'m, T>> {
        let at = Location::caller();
        async move {
            while is_so(&mut guard) {
                guard = self.wait_at(guard, at).await;
            }
            guard
        }
    }

    /// Notifies the task that has waited longest. Returns whether there was one.
    pub fn notify_one(&self) -> bool {
        let waker = self.queue.notify_first(ONE);
        waker.map(std::task::Waker::wake).is_some()
    }

    /// Notifies all tasks that wait now. They take the lock one after another.
    pub fn notify_all(&self) {
        for _ in 0..self.queue.len() {
            let Some(waker) = self.queue.notify_first(ALL) else { break };
            waker.wake();
        }
    }

    /// Returns whether a task waits that was not notified.
    pub fn has_waiters(&self) -> bool {
        !self.queue.is_empty()
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A future that waits until a [`Condvar`] is notified and then for its mutex. The lock is
/// released at the first poll.
#[must_use = "nothing waits until it is awaited"]
pub struct Notified<'c, 'm, T> {
    condvar: &'c Condvar,
    mutex: &'m Mutex<T>,
    /// The guard, until the first poll.
    guard: Option<MutexGuard<'m, T>>,
    wait: Wait,
    /// Whether this waiter was notified alone.
    was_alone: bool,
    /// The wait for the lock, once the waiter was notified.
    lock: Option<Lock<'m, T>>,
}

impl<'m, T> Future for Notified<'_, 'm, T> {
    type Output = MutexGuard<'m, T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<MutexGuard<'m, T>> {
        let this = &mut *self;
        let Condvar { name, queue } = this.condvar;
        if let Some(guard) = this.guard.take() {
            this.wait.key = Some(queue.push(context.waker(), 0));
            // The waiter is queued before it releases the lock, so the next holder of the lock
            // can notify it.
            drop(guard);
        } else if let Some(key) = this.wait.key
            && !queue.set_waker(key, context.waker())
        {
            this.was_alone = queue.remove(key).tag == ONE;
            this.wait.key = None;
            this.wait.finish();
            this.lock = Some(this.mutex.lock_at(this.wait.at));
        }
        if let Some(lock) = &mut this.lock {
            let guard = ready!(Pin::new(lock).poll(context));
            (this.was_alone, this.lock) = (false, None);
            return Poll::Ready(guard);
        }
        this.wait.note_pending(context, Target { what: Awaited::Condition, name, holders: None });
        Poll::Pending
    }
}

impl<T> Drop for Notified<'_, '_, T> {
    fn drop(&mut self) {
        let left = self.wait.key.take().map(|key| self.condvar.queue.remove(key));
        let was_notified = left.is_some_and(|left| left.was_notified && left.tag == ONE);
        if was_notified || self.was_alone {
            self.condvar.notify_one();
        }
    }
}
