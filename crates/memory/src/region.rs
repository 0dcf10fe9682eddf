//! A run of 64-bit words that several threads or processes may touch, with every access checked.
//!
//! A [`Region`] keeps its memory alive: a heap allocation shared by two nodes of one process, or a
//! mapping of a segment. Words are read with relaxed atomics: std promises no more for pages that
//! are mapped read-only, and a hostile writer can change them at any time. Whoever needs order
//! fences after the load that found something.
//!
//! Invariant: no method hands out a reference to the shared bytes.

#[cfg(not(loom))]
mod plain;

#[cfg(loom)]
mod model;

use crate::sync::{AtomicU64, Ordering};
use std::sync::Arc;

#[cfg(not(loom))]
pub(crate) use plain::Three;

#[cfg(not(loom))]
pub use plain::{OwnWord, Region, Word};

#[cfg(loom)]
pub(crate) use model::Three;

#[cfg(loom)]
pub use model::{OwnWord, Region, Word};

/// Bytes in a word.
pub const WORD: usize = 8;

/// What a region rests on, kept alive by every clone of the region.
#[cfg(not(loom))]
pub(crate) enum Backing {
    /// Words on this process's heap.
    Heap(#[allow(dead_code)] Arc<[AtomicU64]>),
    /// Words on this process's heap that came from the system as zeros.
    Zeroed(#[allow(dead_code)] crate::fresh::Zeroed),
    /// A mapping of a shared segment, or of pages of this process's own.
    Mapped(#[allow(dead_code)] crate::mapping::Mapping),
    /// Another region's, and something that is dropped behind it.
    Kept(#[allow(dead_code)] Arc<Backing>, #[allow(dead_code)] Box<dyn Send + Sync>),
}

#[cfg(all(test, not(loom)))]
mod tests;
