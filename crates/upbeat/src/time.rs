//! Time: sleeping, and waiting for so long and no longer.

use crate::dispatch::Dispatcher;
use crate::sample::Reason;
use crate::timer::TimerId;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Ends after a time.
pub(crate) struct Sleep {
    node: Rc<Dispatcher>,
    at: u64,
    timer: Option<TimerId>,
}

impl Sleep {
    pub(crate) fn new(node: &Rc<Dispatcher>, after: Duration) -> Sleep {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Sleep { node: Rc::clone(node), at: node.now_ns().saturating_add(after), timer: None }
    }

    /// The microseconds that are left.
    pub(crate) fn left_us(&self) -> u64 {
        self.at.saturating_sub(self.node.now_ns()) / 1000
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.node.now_ns() >= self.at {
            return Poll::Ready(());
        }
        let mut timers = self.node.timers.borrow_mut();
        let set = self.timer.is_some_and(|timer| timers.change(timer, context.waker()));
        let timer =
            if set { self.timer } else { Some(timers.set(self.at, context.waker().clone())) };
        drop(timers);
        self.timer = timer;
        self.node.waits_for(Reason::Timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.node.timers.borrow_mut().clear(timer);
        }
    }
}

/// Sleeps, inside a node.
///
/// # Panics
/// Outside of a node's tasks and handlers: there is no clock then.
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
    Sleep::new(&Dispatcher::current(), duration).await;
}

/// Awaits a future for so long and no longer.
///
/// # Panics
/// Outside of a node's tasks and handlers: there is no clock then.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let node = upbeat::Node::builder("doc/within").local_only().build()?;
/// let forever = std::future::pending::<()>();
/// let elapsed = node.block_on(upbeat::within(Duration::from_millis(1), forever)).unwrap_err();
/// assert_eq!(elapsed.to_string(), "not done within 1ms");
/// # Ok(()) }
/// ```
pub async fn within<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut sleep = Sleep::new(&Dispatcher::current(), duration);
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        Pin::new(&mut sleep).poll(context).map(|()| Err(Elapsed { after: duration }))
    })
    .await
}

/// The time is over and the future is not done.
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
    /// How long it had.
    pub after: Duration,
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not done within {:?}", self.after)
    }
}

impl std::error::Error for Elapsed {}
