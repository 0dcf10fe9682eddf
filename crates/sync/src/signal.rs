//! Signals: who waits is told, and nobody else is.

use super::line::{Places, Ranks};
use super::wait::{Aim, Name, Wait};
use crate::runtime::Awaited;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A signal without a value. Sent while nobody waits, it is gone.
///
/// It goes to the one that waits with the highest priority; among those of one priority, to the one
/// that came first. If that is dropped before it goes on, the signal goes to the next, if there is
/// one. Between two awaits nothing else of the node runs, so what was found before
/// [`Signal::wait`] is still so when it stands in the line.
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
/// assert!(!tick.signal(), "nobody waits: it is gone");
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
/// while tick.awaited() {
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
    waiting: RefCell<(Places, Ranks)>,
}

impl Signal {
    /// A signal without a name.
    pub fn new() -> Signal {
        Signal { name: None, waiting: RefCell::new((Places::new(), Ranks::default())) }
    }

    /// A signal that the bill calls by this name.
    pub fn named(name: &str) -> Signal {
        Signal { name: Some(name.into()), ..Signal::new() }
    }

    /// Waits for the signal from when it is first polled on. The higher the priority, the sooner.
    #[track_caller]
    pub fn wait(&self, priority: u32) -> WaitSignal<'_> {
        WaitSignal { signal: self, priority, wait: Wait::at(Location::caller()) }
    }

    /// Sends the signal. Gives whether somebody has it.
    pub fn signal(&self) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let (places, ranks) = &mut *waiting;
        let waker = ranks.pop(places).and_then(|first| places.call(first));
        drop(waiting);
        waker.map(std::task::Waker::wake).is_some()
    }

    /// Whether somebody waits who has no signal yet.
    pub fn awaited(&self) -> bool {
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
        told.field("name", &self.name).field("awaited", &self.awaited()).finish()
    }
}

/// Waits for a [`Signal`].
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
                let (places, ranks) = &mut *waiting.borrow_mut();
                let key = places.insert(waker, 0);
                ranks.push(places, key, *priority);
                wait.key = Some(key);
                None
            }
            Some(key) if waiting.borrow_mut().0.is_called(key) => {
                waiting.borrow_mut().0.remove(key);
                wait.key = None;
                wait.ends();
                return Poll::Ready(());
            }
            Some(key) => {
                let waker = context.waker().clone();
                waiting.borrow_mut().0.set_waker(key, waker)
            }
        };
        drop(old);
        wait.goes_on(context, Aim { what: Awaited::Signal, name, holders: None });
        Poll::Pending
    }
}

impl Drop for WaitSignal<'_> {
    fn drop(&mut self) {
        let Some(key) = self.wait.key.take() else { return };
        let mut waiting = self.signal.waiting.borrow_mut();
        let (places, ranks) = &mut *waiting;
        let was_called = places.is_called(key);
        if !was_called {
            ranks.cut(places, key, self.priority);
        }
        let waker = places.remove(key);
        drop(waiting);
        drop(waker);
        if was_called {
            self.signal.signal();
        }
    }
}
