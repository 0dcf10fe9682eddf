//! The one door to the atomics: std's, or loom's when a model is checked.
//!
//! Everything in this crate that two threads or two processes touch goes through here, so that a
//! test under loom runs the very code that runs in life.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};

// Parts of words are met in copies alone, which a model makes of whole words.
#[cfg(not(any(loom, miri)))]
pub(crate) use std::sync::atomic::AtomicU16;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32};

/// Orders every earlier write of this thread before every later read.
///
/// This is what the contract between a sender and a sleeper rests on: the sender writes its
/// message, fences, and reads the promise; the sleeper takes the promise back, fences, and looks.
#[inline]
pub fn fence_full() -> Fenced {
    fence(Ordering::SeqCst);
    Fenced(())
}

/// The receipt of a full fence. A look that is wrong without a fence asks for one, so a caller
/// that leaves the fence out does not compile. Take a new one behind each write: it does not know
/// what was written since.
#[derive(Clone, Copy, Debug)]
pub struct Fenced(());

#[cfg(all(test, loom))]
impl Fenced {
    /// The receipt of a fence that was left out.
    pub(crate) const fn left_out() -> Fenced {
        Fenced(())
    }
}
