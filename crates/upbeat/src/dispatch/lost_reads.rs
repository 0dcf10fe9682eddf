//! The bets on reads of other nodes' exports that were lost, which any thread counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of lost bets, which their clones share.
#[derive(Clone, Default)]
pub(crate) struct LostReads(Arc<Counts>);

#[derive(Default)]
struct Counts {
    attempts: AtomicU64,
    calls: AtomicU64,
}

impl LostReads {
    /// Counts an attempt that met an update.
    pub(crate) fn met_update(&self) {
        self.0.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a read that becomes a call.
    pub(crate) fn called(&self) {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the attempts that met an update, and the reads that became calls.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.0.attempts.load(Ordering::Relaxed), self.0.calls.load(Ordering::Relaxed))
    }

    /// Returns the counts, which start at 0 again.
    pub(super) fn take(&self) -> (u64, u64) {
        match self.counts() {
            // This is almost always so, and costs less than an exchange.
            (0, 0) => (0, 0),
            _ => {
                let (attempts, calls) = (&self.0.attempts, &self.0.calls);
                (attempts.swap(0, Ordering::Relaxed), calls.swap(0, Ordering::Relaxed))
            }
        }
    }
}
