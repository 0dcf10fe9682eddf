//! A condition of data under a mutex.

use super::line::Line;
use super::mutex::{Lock, Mutex, MutexGuard};
use super::wait::{Aim, Name, Wait};
use crate::runtime::Awaited;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Called alone: if it is dropped, the next is called instead.
const ONE: u32 = 1;
/// Called with all others.
const ALL: u32 = 2;

/// Waits, with a [`MutexGuard`], for something to become true of the data.
///
/// Who waits has left the lock, and has it again afterwards; what it waited for may have become
/// false again meanwhile, if others were before it. Those who were called first go on first. If one
/// that was called alone is dropped before it has gone on, the next is called.
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
    line: Line,
}

impl Condvar {
    /// A condition without a name.
    pub const fn new() -> Condvar {
        Condvar { name: None, line: Line::new() }
    }

    /// A condition that the bill calls by this name.
    pub fn named(name: &str) -> Condvar {
        Condvar { name: Some(name.into()), ..Condvar::new() }
    }

    /// Leaves the lock, waits until it is notified, and takes the lock again.
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

    /// Waits again and again while this is true.
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

    /// Has the one go on that has waited longest. Gives whether there was one.
    pub fn notify_one(&self) -> bool {
        let waker = self.line.call_first(ONE);
        waker.map(std::task::Waker::wake).is_some()
    }

    /// Has all go on who wait now, one after another.
    pub fn notify_all(&self) {
        for _ in 0..self.line.len() {
            let Some(waker) = self.line.call_first(ALL) else { break };
            waker.wake();
        }
    }

    /// Whether somebody waits who was not notified.
    pub fn awaited(&self) -> bool {
        !self.line.is_empty()
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

/// Waits until a [`Condvar`] is notified, and for its mutex. The lock is left when it is first
/// polled.
#[must_use = "nothing waits until it is awaited"]
pub struct Notified<'c, 'm, T> {
    condvar: &'c Condvar,
    mutex: &'m Mutex<T>,
    /// Until it is first polled.
    guard: Option<MutexGuard<'m, T>>,
    wait: Wait,
    /// Whether it was notified and no other.
    was_alone: bool,
    /// Once it was notified.
    lock: Option<Lock<'m, T>>,
}

impl<'m, T> Future for Notified<'_, 'm, T> {
    type Output = MutexGuard<'m, T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<MutexGuard<'m, T>> {
        let this = &mut *self;
        let Condvar { name, line } = this.condvar;
        if let Some(guard) = this.guard.take() {
            this.wait.key = Some(line.enter(context.waker(), 0));
            // It waits before it leaves: whoever has the lock next can notify it.
            drop(guard);
        } else if let Some(key) = this.wait.key
            && !line.waits(key, context.waker())
        {
            this.was_alone = line.leave(key).note == ONE;
            this.wait.key = None;
            this.wait.ends();
            this.lock = Some(this.mutex.lock_at(this.wait.at));
        }
        if let Some(lock) = &mut this.lock {
            let guard = ready!(Pin::new(lock).poll(context));
            (this.was_alone, this.lock) = (false, None);
            return Poll::Ready(guard);
        }
        this.wait.goes_on(context, Aim { what: Awaited::Condition, name, holders: None });
        Poll::Pending
    }
}

impl<T> Drop for Notified<'_, '_, T> {
    fn drop(&mut self) {
        let left = self.wait.key.take().map(|key| self.condvar.line.leave(key));
        let was_called = left.is_some_and(|left| left.was_called && left.note == ONE);
        if was_called || self.was_alone {
            self.condvar.notify_one();
        }
    }
}
