//! Time: sleeping, and timeouts.

use crate::dispatch::Dispatcher;
use crate::sample::Reason;
use crate::timer::TimerId;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use upbeat_memory::local::Local;
use upbeat_memory::ticks::nanoseconds;

/// A future that ends after a time.
pub(crate) struct Sleep {
    node: Local<Rc<Dispatcher>>,
    at: u64,
    timer: Option<TimerId>,
}

impl Sleep {
    pub(crate) fn new(node: &Rc<Dispatcher>, after: Duration) -> Sleep {
        Sleep::until(node, node.now_ns().saturating_add(nanoseconds(after)))
    }

    /// Returns a future that ends at a time of the node's clock.
    pub(crate) fn until(node: &Rc<Dispatcher>, at: u64) -> Sleep {
        Sleep { node: Rc::clone(node).into(), at, timer: None }
    }

    /// Polls it for a future that reports its own reason for waiting.
    pub(crate) fn poll_quietly(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.node.now_ns() >= self.at {
            return Poll::Ready(());
        }
        let at = self.at;
        self.wake_at(at, context.waker());
        self.node.life.drives.is_awaited(context.waker());
        Poll::Pending
    }

    /// Wakes `waker` at this time or at the end of the sleep, whichever is later.
    pub(crate) fn wake_at(&mut self, at: u64, waker: &Waker) {
        self.at = self.at.max(at);
        let waker = waker.clone();
        let mut timers = self.node.events.timers.borrow_mut();
        let changed = match self.timer {
            Some(timer) => timers.change(timer, waker),
            None => Err(waker),
        };
        let before = changed.map_err(|waker| self.timer = Some(timers.set(self.at, waker)));
        drop(timers);
        if before.is_err() {
            self.node.has_work_from_outside();
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let polled = self.as_mut().poll_quietly(context);
        if polled.is_pending() {
            self.node.waits_for(Reason::Timer);
        }
        polled
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            let waker = self.node.events.timers.borrow_mut().clear(timer);
            drop(waker);
        }
    }
}

/// Sleeps for a time, from inside a node. The time counts from the first poll.
///
/// # Panics
/// Outside of a node's tasks and handlers, where there is no clock.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let node = upbeat::Node::builder("doc/sleep").local_only().build()?;
/// node.block_on(upbeat::sleep(Duration::from_millis(1)));
/// # Ok(()) }
/// ```
pub async fn sleep(duration: Duration) {
    Sleep::new(&Dispatcher::current("upbeat::sleep"), duration).await;
}

/// Returns the time that is left to the running handler until the deadline of its call, or of the call for which that
/// call was made. Returns None if there is no deadline, or if no handler is running.
///
/// The calls that a handler makes have at most this time, and end at the deadline by themselves.
///
/// ```
/// #[upbeat::service]
/// pub trait Search {
///     async fn find(&self, what: String) -> Vec<u64>;
/// }
///
/// struct Index;
///
/// impl Search for Index {
///     async fn find(&self, _what: String) -> Vec<u64> {
///         match upbeat::time_left() {
///             Some(left) if left.as_millis() < 10 => vec![],
///             _ => vec![1, 2, 3],
///         }
///     }
/// }
/// ```
#[must_use]
pub fn time_left() -> Option<Duration> {
    let left = Dispatcher::if_driving(|node| node.time_left_us());
    left.flatten().map(Duration::from_micros)
}

/// Asks the caller of the running handler for this much time from now on. Returns the time that the handler then has:
/// the requested time, or less if the caller grants less, but more than before.
///
/// The caller sets the limit with [`extendable`](crate::call::Call::extendable). If a call was made for another call,
/// its caller asks the caller of that one if necessary, and so on up to the first. A handler whose caller has set no
/// deadline gets the requested time at once.
///
/// # Panics
/// Outside of a node's tasks and handlers.
///
/// ```
/// #[upbeat::service]
/// pub trait Search {
///     async fn find(&self, what: String) -> Vec<u64>;
/// }
///
/// struct Index;
///
/// impl Search for Index {
///     async fn find(&self, what: String) -> Vec<u64> {
///         if what.len() > 100 && upbeat::extend(Duration::from_secs(2)).await.is_err() {
///             return vec![];
///         }
///         vec![1, 2, 3]
///     }
/// }
/// # use std::time::Duration;
/// ```
pub async fn extend(time: Duration) -> Result<Duration, NotExtended> {
    let node = Dispatcher::current("upbeat::extend");
    let Some((_, lease)) = node.bound() else { return Ok(time) };
    let lease = lease.ok_or(NotExtended::Fixed)?;
    if let Some(reply) = lease.ask(nanoseconds(time)) {
        let granted = std::future::poll_fn(|context| {
            let polled = reply.poll(context);
            if polled.is_pending() {
                node.awaits_answer();
            }
            polled
        });
        if !granted.await {
            return Err(NotExtended::Refused);
        }
    }
    Ok(Duration::from_nanos(lease.end().saturating_sub(node.now_ns())))
}

/// The reason why a handler gets no more time.
///
/// ```
/// use upbeat::NotExtended;
///
/// assert_eq!(NotExtended::Refused.to_string(), "the caller grants no more time");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotExtended {
    /// The call was made with a fixed deadline, or for a call with one.
    Fixed,
    /// The caller grants no more time, or is gone.
    Refused,
}

impl fmt::Display for NotExtended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotExtended::Fixed => "the deadline is fixed: its caller did not say `extendable`",
            NotExtended::Refused => "the caller grants no more time",
        })
    }
}

impl std::error::Error for NotExtended {}

/// Awaits a future with a timeout. If the future is not done in time, it is returned unchanged, to be awaited again,
/// changed, or dropped. The returned future is not polled meanwhile. The time counts from the first poll.
///
/// # Panics
/// Outside of a node's tasks and handlers, where there is no clock.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use upbeat::{Late, within};
///
/// let node = upbeat::Node::builder("doc/within").local_only().build()?;
/// let ms = Duration::from_millis;
/// let work = || async {
///     upbeat::sleep(ms(20)).await;
///     42
/// };
/// node.block_on(async {
///     // The future is awaited again, after a message that it takes long.
///     let answer = match within(ms(1), work()).await {
///         Ok(answer) => answer,
///         Err(late) => {
///             eprintln!("{late}, and goes on");
///             late.pending.await
///         }
///     };
///     assert_eq!(answer, 42);
///     // The future is dropped.
///     let elapsed = within(ms(1), work()).await.map_err(Late::give_up).unwrap_err();
///     assert_eq!(elapsed.to_string(), "not done within 1ms");
/// });
/// # Ok(()) }
/// ```
pub async fn within<F: Future>(duration: Duration, future: F) -> Result<F::Output, Late<F>> {
    // The future is on the heap, because it moves to the caller while it is pending.
    let mut pending = Box::pin(future);
    let mut sleep = Sleep::new(&Dispatcher::current("upbeat::within"), duration);
    let done = std::future::poll_fn(|context| {
        if let Poll::Ready(value) = pending.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        // The future itself has reported its reason for waiting.
        Pin::new(&mut sleep).poll_quietly(context).map(|()| None)
    });
    done.await.ok_or(Late { after: duration, pending })
}

/// A future that was not done within its timeout.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let node = upbeat::Node::builder("doc/late").local_only().build()?;
/// let second = node.block_on(async {
///     let mut call = Box::pin(upbeat::sleep(Duration::from_millis(30)));
///     for turn in 1.. {
///         match upbeat::within(Duration::from_millis(10), call).await {
///             Ok(()) => return turn,
///             // The sleep is not started again: it continues.
///             Err(late) => call = *std::pin::Pin::into_inner(late.pending),
///         }
///     }
///     unreachable!("it ends")
/// });
/// assert!(second >= 2);
/// # Ok(()) }
/// ```
pub struct Late<F> {
    /// The timeout.
    pub after: Duration,
    /// The future, which is still pending.
    pub pending: Pin<Box<F>>,
}

impl<F> Late<F> {
    /// Drops the future, and returns an error that can be propagated.
    pub fn give_up(self) -> Elapsed {
        Elapsed { after: self.after }
    }
}

impl<F> fmt::Debug for Late<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").field("after", &self.after).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Late<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Elapsed { after: self.after }.fmt(f)
    }
}

impl<F> std::error::Error for Late<F> {}

/// The error of a future that was not done within its timeout.
///
/// ```
/// use std::time::Duration;
/// use upbeat::Elapsed;
///
/// let elapsed = Elapsed { after: Duration::from_secs(2) };
/// assert_eq!(elapsed.to_string(), "not done within 2s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed {
    /// The timeout.
    pub after: Duration,
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not done within {:?}", self.after)
    }
}

impl std::error::Error for Elapsed {}
