//! Signals: events without a value, each of which wakes one waiter.

use super::wait::{Name, Target, Wait};
use super::waiters::{PriorityQueue, Waiters};
use crate::runtime::Awaited;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// An event without a value. A signal that is sent while no task waits is lost.
///
/// A signal goes to the waiter with the highest priority, and among waiters of the same priority to
/// the one that came first. If that waiter is dropped before it runs, the signal goes to the next
/// waiter, if there is one. Nothing else of the node runs between two awaits: a condition that a
/// task checks directly before [`Signal::wait`] still holds when the task is queued.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::cell::RefCell;
/// use std::rc::Rc;
/// use upbeat::sync::Signal;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # tokio::task::LocalSet::new().block_on(&runtime, async {
/// # use tokio::task::spawn_local as spawn;
/// let (tick, order) = (Rc::new(Signal::named("tick")), Rc::new(RefCell::new(vec![])));
/// assert!(!tick.signal(), "a signal without a waiter is lost");
/// let waits = |who, priority| {
///     let (tick, order) = (Rc::clone(&tick), Rc::clone(&order));
///     async move {
///         tick.wait(priority).await;
///         order.borrow_mut().push(who);
///     }
/// };
/// let tasks = [("low", 1), ("first", 9), ("second", 9)].map(|(who, at)| spawn(waits(who, at)));
/// # tokio::task::yield_now().await;
/// // All three wait now.
/// while tick.has_waiters() {
///     tick.signal();
/// }
/// for task in tasks {
///     task.await?;
/// }
/// assert_eq!(*order.borrow(), ["first", "second", "low"]);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })
/// # }
/// ```
pub struct Signal {
    name: Name,
    waiting: RefCell<(Waiters, PriorityQueue)>,
}

impl Signal {
    /// Creates a signal without a name.
    pub fn new() -> Signal {
        Signal { name: None, waiting: RefCell::new((Waiters::new(), PriorityQueue::default())) }
    }

    /// Creates a signal with a name, which the bill shows.
    pub fn named(name: &str) -> Signal {
        Signal { name: Some(name.into()), ..Signal::new() }
    }

    /// Waits for the signal, from the future's first poll on. Waiters of a higher priority are
    /// served first.
    #[track_caller]
    pub fn wait(&self, priority: u32) -> WaitSignal<'_> {
        WaitSignal { signal: self, priority, wait: Wait::at(Location::caller()) }
    }

    /// Sends the signal. Returns whether a waiter got it.
    pub fn signal(&self) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let (waiters, queues) = &mut *waiting;
        let waker = queues.pop(waiters).and_then(|first| waiters.notify(first));
        drop(waiting);
        waker.map(std::task::Waker::wake).is_some()
    }

    /// Returns whether a task waits that has not got a signal yet.
    pub fn has_waiters(&self) -> bool {
        !self.waiting.borrow().1.is_empty()
    }
}

impl Default for Signal {
    fn default() -> Signal {
        Signal::new()
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = f.debug_struct("Signal");
        told.field("name", &self.name).field("awaited", &self.has_waiters()).finish()
    }
}

/// A future that waits for a [`Signal`].
#[must_use = "nothing waits until it is awaited"]
pub struct WaitSignal<'s> {
    signal: &'s Signal,
    priority: u32,
    wait: Wait,
}

impl Future for WaitSignal<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let WaitSignal { signal, priority, wait } = &mut *self;
        let Signal { name, waiting } = signal;
        let old = match wait.key {
            None => {
                let waker = context.waker().clone();
                let (waiters, queues) = &mut *waiting.borrow_mut();
                let key = waiters.insert(waker, 0);
                queues.push(waiters, key, *priority);
                wait.key = Some(key);
                None
            }
            Some(key) if waiting.borrow_mut().0.is_notified(key) => {
                waiting.borrow_mut().0.remove(key);
                wait.key = None;
                wait.finish();
                return Poll::Ready(());
            }
            Some(key) => {
                let waker = context.waker().clone();
                waiting.borrow_mut().0.set_waker(key, waker)
            }
        };
        drop(old);
        wait.note_pending(context, Target { what: Awaited::Signal, name, holders: None });
        Poll::Pending
    }
}

impl Drop for WaitSignal<'_> {
    fn drop(&mut self) {
        let Some(key) = self.wait.key.take() else { return };
        let mut waiting = self.signal.waiting.borrow_mut();
        let (waiters, queues) = &mut *waiting;
        let was_notified = waiters.is_notified(key);
        if !was_notified {
            queues.remove(waiters, key, self.priority);
        }
        let waker = waiters.remove(key);
        drop(waiting);
        drop(waker);
        if was_notified {
            self.signal.signal();
        }
    }
}
