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
/// assert!(accounts.is_met());
/// let held = accounts.try_lock();
/// assert!(!accounts.is_met() && !(2 < 1).is_met());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a lock nor a condition",
    label = "write a `Mutex`, which must be free, or a `bool`, which must hold"
)]
pub trait Need {
    /// Returns whether the precondition holds now.
    fn is_met(&self) -> bool;

    /// Returns the kind and the name of the precondition, for the error that names it.
    #[doc(hidden)]
    fn unmet(&self) -> UnmetNeed;
}

/// A precondition that does not hold.
#[doc(hidden)]
pub struct UnmetNeed {
    /// The kind of the precondition.
    pub what: Awaited,
    /// The name of the lock, if it has one.
    pub name: Option<Arc<str>>,
}

impl Need for bool {
    fn is_met(&self) -> bool {
        *self
    }

    fn unmet(&self) -> UnmetNeed {
        UnmetNeed { what: Awaited::Condition, name: None }
    }
}

impl<T> Need for Mutex<T> {
    fn is_met(&self) -> bool {
        self.try_lock().is_some()
    }

    fn unmet(&self) -> UnmetNeed {
        UnmetNeed { what: Awaited::Mutex, name: self.name().cloned() }
    }
}

impl<N: Need + ?Sized> Need for Rc<N> {
    fn is_met(&self) -> bool {
        (**self).is_met()
    }

    fn unmet(&self) -> UnmetNeed {
        (**self).unmet()
    }
}

impl<N: Need + ?Sized> Need for &N {
    fn is_met(&self) -> bool {
        (**self).is_met()
    }

    fn unmet(&self) -> UnmetNeed {
        (**self).unmet()
    }
}
