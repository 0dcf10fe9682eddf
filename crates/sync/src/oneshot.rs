//! A one-shot channel: one value from a sender to a receiver.

use super::wait::{Name, Target, Wait};
use crate::runtime::Awaited;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Creates a one-shot channel: the receiver awaits the value that the sender sends.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::sync::{NeverSent, oneshot};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # tokio::task::LocalSet::new().block_on(&runtime, async {
/// # use tokio::task::spawn_local as spawn;
/// let (answer, question) = oneshot();
/// let asked = spawn(question);
/// answer.send(42).map_err(|_| "the receiver was dropped")?;
/// assert_eq!(asked.await?, Ok(42));
/// let (answer, mut question) = oneshot::<u32>();
/// assert_eq!(question.try_receive(), Ok(None));
/// drop(answer);
/// assert_eq!(question.try_receive(), Err(NeverSent));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })
/// # }
/// ```
#[track_caller]
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    channel(None, Location::caller())
}

/// Creates a one-shot channel with a name, which the bill shows for the awaited value.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// use upbeat::sync::oneshot_named;
///
/// let (answer, question) = oneshot_named("answer");
/// drop(question);
/// assert!(answer.is_closed());
/// assert_eq!(answer.send(42), Err(42));
/// ```
#[track_caller]
pub fn oneshot_named<T>(name: &str) -> (Sender<T>, Receiver<T>) {
    channel(Some(name.into()), Location::caller())
}

fn channel<T>(name: Name, at: &'static Location<'static>) -> (Sender<T>, Receiver<T>) {
    let channel = Rc::new(Channel {
        name,
        value: Cell::new(None),
        waker: Cell::new(None),
        has_sender: Cell::new(true),
        has_receiver: Cell::new(true),
    });
    (Sender(Rc::clone(&channel)), Receiver { channel, wait: Wait::at(at) })
}

struct Channel<T> {
    name: Name,
    value: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
    has_sender: Cell<bool>,
    has_receiver: Cell<bool>,
}

/// The sending half of a [`oneshot`].
pub struct Sender<T>(Rc<Channel<T>>);

impl<T> Sender<T> {
    /// Sends the value. Returns it as the error if the receiver was dropped.
    pub fn send(self, value: T) -> Result<(), T> {
        if self.is_closed() {
            return Err(value);
        }
        self.0.value.set(Some(value));
        Ok(())
    }

    /// Returns whether the receiver was dropped.
    pub fn is_closed(&self) -> bool {
        !self.0.has_receiver.get()
    }
}

impl<T> Drop for Sender<T> {
    // The receiver is woken with a value or without.
    fn drop(&mut self) {
        self.0.has_sender.set(false);
        if let Some(waker) = self.0.waker.take() {
            waker.wake();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// The receiving half of a [`oneshot`], which is a future.
#[must_use = "nothing is received until it is awaited"]
pub struct Receiver<T> {
    channel: Rc<Channel<T>>,
    wait: Wait,
}

impl<T> Receiver<T> {
    /// Returns the value if it was sent and not yet received, and `None` if it may still be sent.
    pub fn try_receive(&mut self) -> Result<Option<T>, NeverSent> {
        match self.channel.value.take() {
            None if !self.channel.has_sender.get() => Err(NeverSent),
            value => Ok(value),
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, NeverSent>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(received) = self.try_receive().transpose() {
            self.wait.finish();
            return Poll::Ready(received);
        }
        let Receiver { channel, wait } = &mut *self;
        channel.waker.set(Some(context.waker().clone()));
        wait.note_pending(
            context,
            Target { what: Awaited::Value, name: &channel.name, holders: None },
        );
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.has_receiver.set(false);
        drop((self.channel.value.take(), self.channel.waker.take()));
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("name", &self.channel.name).finish_non_exhaustive()
    }
}

/// The sender was dropped before it sent a value, or the value was received already.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// use upbeat::sync::NeverSent;
///
/// assert_eq!(NeverSent.to_string(), "nothing more is sent: the sender is gone");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverSent;

impl fmt::Display for NeverSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing more is sent: the sender is gone")
    }
}

impl std::error::Error for NeverSent {}
