//! How often the bets of a reader were lost.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bets that an import has lost, over all threads that use it. A bet that is won is not counted: counting would take
/// longer than the read.
#[derive(Default)]
pub(super) struct Bets {
    lost: AtomicU64,
    called: AtomicU64,
}

/// How often an import's reads met an update of the owner: see [`Import::lost_bets`](super::Import::lost_bets).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostBets {
    /// Attempts to read a value, or a snapshot, in which the owner changed it.
    pub attempts: u64,
    /// Reads that became a call.
    pub calls: u64,
}

impl Bets {
    /// Counts an attempt that met an update.
    #[cold]
    pub(super) fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a read that becomes a call.
    pub(super) fn call(&self) {
        self.called.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> LostBets {
        LostBets {
            attempts: self.lost.load(Ordering::Relaxed),
            calls: self.called.load(Ordering::Relaxed),
        }
    }
}
