//! Preconditions of a method: tests that are generated from its declaration.

use crate::mutex::Mutex;
use crate::runtime::Awaited;
use std::rc::Rc;
use std::sync::Arc;

/// A precondition that `#[method(needs(…))]` names. A lock is there while nobody holds it, and
/// a condition (a `bool`) is there while it is true.
///
/// ```
/// # mod upbeat { pub use upbeat_sync as sync; }
/// use upbeat::sync::{Mutex, Need};
///
/// let accounts = Mutex::named("accounts", 0);
/// assert!(accounts.is_there());
/// let held = accounts.try_lock();
/// assert!(!accounts.is_there() && !(2 < 1).is_there());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a lock nor a condition",
    label = "write a `Mutex`, which must be free, or a `bool`, which must hold"
)]
pub trait Need {
    /// Returns whether the precondition holds now.
    fn is_there(&self) -> bool;

    /// Returns the kind and the name of the precondition, for the error that names it.
    #[doc(hidden)]
    fn lack(&self) -> Lack;
}

/// A precondition that does not hold.
#[doc(hidden)]
pub struct Lack {
    /// The kind of the precondition.
    pub what: Awaited,
    /// The name of the lock, if it has one.
    pub name: Option<Arc<str>>,
}

impl Need for bool {
    fn is_there(&self) -> bool {
        *self
    }

    fn lack(&self) -> Lack {
        Lack { what: Awaited::Condition, name: None }
    }
}

impl<T> Need for Mutex<T> {
    fn is_there(&self) -> bool {
        self.try_lock().is_some()
    }

    fn lack(&self) -> Lack {
        Lack { what: Awaited::Mutex, name: self.name().cloned() }
    }
}

impl<N: Need + ?Sized> Need for Rc<N> {
    fn is_there(&self) -> bool {
        (**self).is_there()
    }

    fn lack(&self) -> Lack {
        (**self).lack()
    }
}

impl<N: Need + ?Sized> Need for &N {
    fn is_there(&self) -> bool {
        (**self).is_there()
    }

    fn lack(&self) -> Lack {
        (**self).lack()
    }
}
