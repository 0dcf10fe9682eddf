//! What a method needs before it begins: tests, made from its declaration.

use crate::mutex::Mutex;
use crate::runtime::Awaited;
use std::rc::Rc;
use std::sync::Arc;

/// What can be asked whether it is there: what stands in `#[method(needs(…))]`. A lock is there while
/// nobody holds it, a condition (a `bool`) while it holds.
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
    /// Whether it is there now.
    fn is_there(&self) -> bool;

    /// What it is, and its name, if it has one.
    #[doc(hidden)]
    fn lack(&self) -> Lack;
}

/// A need that is not there.
#[doc(hidden)]
pub struct Lack {
    /// What it was.
    pub what: Awaited,
    /// The name of it, if it has one.
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
