//! A range of 64-bit words that several threads or processes may access, with every access checked.
//!
//! A [`Region`] keeps its memory alive: a heap allocation that two nodes of one process share, or a
//! mapping of a segment. Words are read with relaxed atomics: std guarantees no more for pages that
//! are mapped read-only, and a hostile writer can change them at any time. A caller that needs an
//! order executes a fence after the load that found something.
//!
//! Invariant: no method returns a reference to the shared bytes.

#[cfg(not(loom))]
mod plain;

#[cfg(loom)]
mod model;

use crate::sync::{AtomicU64, Ordering};
use std::sync::Arc;

#[cfg(not(loom))]
pub(crate) use plain::WordTriple;

#[cfg(not(loom))]
pub use plain::{OwnWord, Region, Word};

#[cfg(loom)]
pub(crate) use model::WordTriple;

#[cfg(loom)]
pub use model::{OwnWord, Region, Word};

/// The number of bytes in a word.
pub const WORD: usize = 8;

/// The memory under a region, kept alive by every clone of the region.
#[cfg(not(loom))]
pub(crate) enum Backing {
    /// Words on this process's heap.
    Heap(#[allow(dead_code)] crate::fresh::Zeroed),
    /// A mapping of a shared segment, or of private pages.
    Mapped(#[allow(dead_code)] crate::mapping::Mapping),
    /// The memory of another region, and a value that is dropped after that memory.
    Kept(#[allow(dead_code)] Arc<Backing>, #[allow(dead_code)] Box<dyn Send + Sync>),
}

#[cfg(all(test, not(loom)))]
mod tests;
