//! The only import of the atomics: those of std, or those of loom when a model is checked.
//!
//! All code of this crate that two threads or two processes touch uses this module, so that a test
//! under loom runs the same code as a program.

#[cfg(upbeat_mutants)]
mod access;

#[cfg(not(any(loom, upbeat_mutants)))]
mod at_once;

#[cfg(not(loom))]
pub use std::sync::atomic::Ordering;

#[cfg(not(any(loom, upbeat_mutants)))]
pub use at_once::{AtomicU64, fence};

#[cfg(not(any(loom, upbeat_mutants)))]
pub(crate) use at_once::{AtomicBool, AtomicU8, copy_late, frees, reads, store, store_byte};

#[cfg(upbeat_mutants)]
pub use access::{AtomicU64, fence};

#[cfg(upbeat_mutants)]
pub(crate) use access::{AtomicBool, AtomicU8, copy_late, frees, reads, store, store_byte};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};

// Only copies use parts of words, and a model copies whole words.
#[cfg(not(any(loom, miri)))]
pub(crate) use std::sync::atomic::AtomicU16;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicU32;

/// Orders every earlier write of this thread before every later read.
///
/// The contract between a sender and a sleeping receiver rests on this fence: the sender writes its
/// message, fences, and reads the polling flag; the receiver clears its polling flag, fences, and
/// polls once more.
#[inline]
pub fn fence_full() -> FenceProof {
    upbeat_environment::turns::access();
    fence(Ordering::SeqCst);
    FenceProof(())
}

/// The proof that a full fence was executed. A read that is wrong without a fence takes this proof
/// as an argument, so a caller that leaves the fence out does not compile. Each write needs a new
/// proof, since a proof says nothing about writes after its fence.
#[derive(Clone, Copy, Debug)]
pub struct FenceProof(());

#[cfg(all(test, loom))]
impl FenceProof {
    /// Returns a proof for a fence that a model leaves out.
    pub(crate) const fn left_out() -> FenceProof {
        FenceProof(())
    }
}
