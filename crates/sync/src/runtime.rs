//! The runtime of a thread: it is told what a future waits for, and which waits last too long.
//!
//! Each thread has at most one [`Runtime`], which [`attach`] gives it. Without one the types of this crate
//! work as well, and nobody is told anything. A runtime says with [`watch_long_waits`] that it wants to
//! know who waits long for whom; until then, nothing is kept of who took what.
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

/// What is told of the waits of a thread. It is called while nothing of this crate is borrowed.
pub trait Runtime {
    /// Takes note that the future that is being polled waits for this, which the application has given
    /// this name.
    fn waits(&self, what: Awaited, name: Option<&Arc<str>>);

    /// Returns who is being run, to be given back in [`LongWait::holders`]. None where nobody watches
    /// long waits.
    fn who(&self) -> Option<Rc<dyn Any>>;

    /// Returns the watch over a wait that begins now. None where nobody watches long waits.
    fn watch(&self) -> Option<Box<dyn Watch>>;
}

/// Measures one wait, and reports it when it lasts too long.
pub trait Watch {
    /// Is called each time that the future is polled and still waits. A watch that wants to be called at
    /// a certain time has the task woken then.
    fn poll(&mut self, context: &mut Context<'_>, wait: &LongWait<'_>);
}

/// Gives this thread its runtime. A runtime that the thread had before is told nothing more.
pub fn attach(runtime: &'static dyn Runtime) {
    RUNTIME.set(Some(runtime));
}

/// Has the runtime of this thread asked for [`Runtime::who`] and [`Runtime::watch`] from now on.
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

/// A wait that goes on.
pub struct LongWait<'a> {
    /// What the future waits for.
    pub what: Awaited,
    /// The name that the application gave it.
    pub name: Option<&'a Arc<str>>,
    /// Where in the source the wait began.
    pub at: &'static Location<'static>,
    pub(crate) holders: &'a dyn Fn() -> Vec<Holding>,
}

impl LongWait<'_> {
    /// Returns who holds what is waited for, as far as it was taken since the runtime watches.
    pub fn holders(&self) -> Vec<Holding> {
        (self.holders)()
    }
}

/// One that has taken what another waits for.
#[derive(Clone)]
pub struct Holding {
    /// What [`Runtime::who`] returned when it was taken.
    pub who: Rc<dyn Any>,
    /// Where in the source it was taken.
    pub at: &'static Location<'static>,
}

/// What a future waits for.
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
    /// The same, to write.
    Writing,
    /// Permits of a [`Semaphore`](crate::Semaphore).
    Permits(u32),
    /// To enter a [`Monitor`](crate::Monitor).
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
