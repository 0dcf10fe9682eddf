//! One value from one to another.

use super::wait::{Aim, Name, Wait};
use crate::runtime::Awaited;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Two ends: what is sent into the one is awaited at the other.
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
/// answer.send(42).map_err(|_| "nobody waits")?;
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
    ends(None, Location::caller())
}

/// Two ends, where the bill calls what is awaited by this name.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// use upbeat::sync::oneshot_named;
///
/// let (answer, question) = oneshot_named("answer");
/// drop(question);
/// assert!(answer.is_in_vain());
/// assert_eq!(answer.send(42), Err(42));
/// ```
#[track_caller]
pub fn oneshot_named<T>(name: &str) -> (Sender<T>, Receiver<T>) {
    ends(Some(name.into()), Location::caller())
}

fn ends<T>(name: Name, at: &'static Location<'static>) -> (Sender<T>, Receiver<T>) {
    let way = Rc::new(Way {
        name,
        value: Cell::new(None),
        waker: Cell::new(None),
        has_sender: Cell::new(true),
        has_receiver: Cell::new(true),
    });
    (Sender(Rc::clone(&way)), Receiver { way, wait: Wait::at(at) })
}

struct Way<T> {
    name: Name,
    value: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
    has_sender: Cell<bool>,
    has_receiver: Cell<bool>,
}

/// The end of a [`oneshot`] that a value is sent into.
pub struct Sender<T>(Rc<Way<T>>);

impl<T> Sender<T> {
    /// Sends the value. Gives it back if nobody can receive it any more.
    pub fn send(self, value: T) -> Result<(), T> {
        if self.is_in_vain() {
            return Err(value);
        }
        self.0.value.set(Some(value));
        Ok(())
    }

    /// Whether nobody can receive a value any more.
    pub fn is_in_vain(&self) -> bool {
        !self.0.has_receiver.get()
    }
}

impl<T> Drop for Sender<T> {
    // With a value or without: whoever waits is told.
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

/// The end of a [`oneshot`] where its value is awaited.
#[must_use = "nobody receives until it is awaited"]
pub struct Receiver<T> {
    way: Rc<Way<T>>,
    wait: Wait,
}

impl<T> Receiver<T> {
    /// The value, if it was sent and not received. Nothing if it may still be sent.
    pub fn try_receive(&mut self) -> Result<Option<T>, NeverSent> {
        match self.way.value.take() {
            None if !self.way.has_sender.get() => Err(NeverSent),
            value => Ok(value),
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, NeverSent>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(received) = self.try_receive().transpose() {
            self.wait.ends();
            return Poll::Ready(received);
        }
        let Receiver { way, wait } = &mut *self;
        way.waker.set(Some(context.waker().clone()));
        wait.goes_on(context, Aim { what: Awaited::Value, name: &way.name, holders: None });
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.way.has_receiver.set(false);
        drop((self.way.value.take(), self.way.waker.take()));
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("name", &self.way.name).finish_non_exhaustive()
    }
}

/// The sender was dropped before it sent anything, or what it sent was received before.
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
