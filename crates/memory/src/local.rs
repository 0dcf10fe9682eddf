//! Values that stay on the thread of their node, with an error that says what to use elsewhere.
//!
//! The compiler names the innermost type that cannot be sent, which tells a user nothing. A [`Local`] ends that search
//! at [`SentToOtherThreads`], which says what to write. Invariant: no type implements that trait, so no `Local` is
//! ever sent or shared.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// A trait of types whose values may be sent to, or shared with, another thread. No type has it.
#[diagnostic::on_unimplemented(
    message = "a node, its clients, calls and tasks stay on the thread that drives the node: in other threads and \
               runtimes use a handle instead (for a service `Counter`, use `CounterHandle` instead of `CounterClient`)",
    label = "this would leave the thread of its node: use a handle here",
    note = "in other threads and runtimes use the service's handle (use `CounterHandle` instead of `CounterClient`): \
            `let counter: CounterHandle = upbeat::handle::connect(\"counter\")?;`; a handle is `Send`, `Sync` and `Clone`"
)]
pub trait SentToOtherThreads: no_type::Is {}

mod no_type {
    /// Closes the trait that needs this one.
    pub trait Is {}
}

/// Stands for all parts of a node in the errors of the compiler.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartOfANode;

/// A value that stays on its thread.
///
/// ```compile_fail
/// use upbeat_memory::local::Local;
///
/// let local = Local::from(5);
/// std::thread::spawn(move || *local);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Local<T, P = PartOfANode> {
    value: T,
    part: PhantomData<P>,
}

// SAFETY: no type implements `SentToOtherThreads`, which is closed, so this implementation holds for no `Local`. It
// only ends the compiler's search for a reason.
unsafe impl<T, P: SentToOtherThreads> Send for Local<T, P> {}

// SAFETY: as above.
unsafe impl<T, P: SentToOtherThreads> Sync for Local<T, P> {}

impl<T> From<T> for Local<T> {
    #[inline(always)]
    fn from(value: T) -> Local<T> {
        Local { value, part: PhantomData }
    }
}

impl<T> Deref for Local<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Local<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
