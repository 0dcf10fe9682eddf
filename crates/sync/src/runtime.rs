//! The interface to the runtime of a thread, which hears what futures wait for and which waits
//! last too long.
//!
//! Each thread has at most one [`Runtime`], which [`attach`] sets. The types of this crate work
//! without a runtime too. A runtime that wants reports of long waits calls [`watch_long_waits`];
//! until then, no holders are recorded.
//!
//! ```
//! use std::any::Any;
//! use std::cell::RefCell;
//! use std::rc::Rc;
//! use std::sync::Arc;
//! use std::task::{Context, Waker};
//! use upbeat_sync::runtime::{Runtime, Watch, attach};
//! use upbeat_sync::{Awaited, Mutex};
//!
//! thread_local!(static WAITS: RefCell<Vec<(Awaited, Option<Arc<str>>)>> = RefCell::default());
//!
//! struct Noting;
//!
//! impl Runtime for Noting {
//!     fn waits(&self, what: Awaited, name: Option<&Arc<str>>) {
//!         WAITS.with_borrow_mut(|waits| waits.push((what, name.cloned())));
//!     }
//!     fn who(&self) -> Option<Rc<dyn Any>> {
//!         None
//!     }
//!     fn watch(&self) -> Option<Box<dyn Watch>> {
//!         None
//!     }
//! }
//!
//! attach(&Noting);
//! let accounts = Mutex::named("accounts", ());
//! let held = accounts.try_lock();
//! let waits = std::pin::pin!(accounts.lock());
//! assert!(waits.poll(&mut Context::from_waker(Waker::noop())).is_pending());
//! assert_eq!(WAITS.take(), [(Awaited::Mutex, Some("accounts".into()))]);
//! ```

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

thread_local! {
    static RUNTIME: Cell<Option<&'static dyn Runtime>> = const { Cell::new(None) };
    /// Whether the thread's runtime watches long waits.
    static WATCHES: Cell<bool> = const { Cell::new(false) };
}

/// The receiver of the reports about a thread's waits. Its methods are called while nothing of this
/// crate is borrowed.
pub trait Runtime {
    /// Records that the future that is being polled waits for `what`, which the application has
    /// named `name`.
    fn waits(&self, what: Awaited, name: Option<&Arc<str>>);

    /// Returns the identity of the task that is being polled, which [`LongWait::holders`]
    /// returns later. Returns none where long waits are not watched.
    fn who(&self) -> Option<Rc<dyn Any>>;

    /// Returns the watch over a wait that begins now. Returns none where long waits are not
    /// watched.
    fn watch(&self) -> Option<Box<dyn Watch>>;
}

/// A watch over one wait, which reports the wait when it lasts too long.
pub trait Watch {
    /// Handles one poll of a future that still waits. A watch that wants to be polled again at
    /// a certain time arranges that the task is woken then.
    fn poll(&mut self, context: &mut Context<'_>, wait: &LongWait<'_>);
}

/// Sets the runtime of this thread. A runtime that was set before gets no more reports.
pub fn attach(runtime: &'static dyn Runtime) {
    RUNTIME.set(Some(runtime));
}

/// Makes this crate call [`Runtime::who`] and [`Runtime::watch`] of this thread's runtime from now
/// on.
pub fn watch_long_waits() {
    WATCHES.set(true);
}

/// Returns the runtime of this thread.
pub(crate) fn attached() -> Option<&'static dyn Runtime> {
    RUNTIME.get()
}

/// Returns the runtime of this thread if it watches long waits.
#[inline]
pub(crate) fn watching() -> Option<&'static dyn Runtime> {
    if WATCHES.get() { attached() } else { None }
}

/// A wait that is not over yet.
pub struct LongWait<'a> {
    /// The kind of thing that the future waits for.
    pub what: Awaited,
    /// The name that the application gave to the thing.
    pub name: Option<&'a Arc<str>>,
    /// Where in the source the wait began.
    pub at: &'static Location<'static>,
    pub(crate) holders: &'a dyn Fn() -> Vec<Holding>,
}

impl LongWait<'_> {
    /// Returns the current holders, except those that took the thing before the runtime began to
    /// watch.
    pub fn holders(&self) -> Vec<Holding> {
        (self.holders)()
    }
}

/// A holder of the thing that another future waits for.
#[derive(Clone)]
pub struct Holding {
    /// The identity that [`Runtime::who`] returned when the thing was taken.
    pub who: Rc<dyn Any>,
    /// Where in the source the thing was taken.
    pub at: &'static Location<'static>,
}

/// The kind of thing that a future waits for.
///
/// ```
/// use upbeat_sync::Awaited;
///
/// assert_eq!(Awaited::Writing.to_string(), "writing the lock");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// A [`Mutex`](crate::Mutex).
    Mutex,
    /// A [`RwLock`](crate::RwLock), to read.
    Reading,
    /// A [`RwLock`](crate::RwLock), to write.
    Writing,
    /// Permits of a [`Semaphore`](crate::Semaphore).
    Permits(u32),
    /// Entry into a [`Monitor`](crate::Monitor).
    Monitor,
    /// A condition of a monitor, or a [`Condvar`](crate::Condvar).
    Condition,
    /// A [`Signal`](crate::Signal).
    Signal,
    /// The value of a [`oneshot`](crate::oneshot()).
    Value,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Awaited::Mutex => "the mutex",
            Awaited::Reading => "reading the lock",
            Awaited::Writing => "writing the lock",
            Awaited::Permits(1) => "a permit of the semaphore",
            Awaited::Permits(count) => return write!(f, "{count} permits of the semaphore"),
            Awaited::Monitor => "the monitor",
            Awaited::Condition => "the condition",
            Awaited::Signal => "the signal",
            Awaited::Value => "the value of the one-shot",
        })
    }
}
