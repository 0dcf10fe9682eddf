//! The budgets of a node as its sessions share them.

use super::Budget;
use crate::limits::{BUDGET_BYTES, REPLIES_AHEAD_BYTES};
use crate::mutant::{Mutant, mutated};
use alloc::sync::Arc;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// The budget for accepted requests, with what the sessions that share it have to know: whether bytes were
/// given back, and whether the budget was filled.
///
/// ```
/// use upbeat_core::flow::{Purse, Share};
///
/// let (purse, mut share) = (Purse::new(1000), Share::new(1000));
/// purse.with(|budget| budget.charge(&mut share, 1000));
/// assert!(purse.take_filled() && !purse.take_freed());
/// purse.with(|budget| budget.release(&mut share, 1000));
/// assert!(purse.take_freed() && !purse.take_freed());
/// ```
#[derive(Debug)]
pub struct Purse {
    budget: Cell<Budget>,
    freed: Cell<bool>,
    filled: Cell<bool>,
}

impl Purse {
    /// Returns a budget of so many bytes, all of them free.
    pub const fn new(bytes: u64) -> Purse {
        let budget = Cell::new(Budget::new(bytes));
        Purse { budget, freed: Cell::new(false), filled: Cell::new(false) }
    }

    /// Returns the budget as it is now.
    pub const fn budget(&self) -> Budget {
        self.budget.get()
    }

    /// Changes the budget, and notes what that means for requests that wait.
    pub fn with<R>(&self, with: impl FnOnce(&mut Budget) -> R) -> R {
        let before = self.budget.get();
        let mut budget = before;
        let result = with(&mut budget);
        self.budget.set(budget);
        if budget.held() < before.held() {
            self.freed.set(true);
        }
        if before.has_room() && !budget.has_room() && !mutated(Mutant::FullUnnoticed) {
            self.filled.set(true);
        }
        result
    }

    /// Whether bytes were given back since this was last asked: then the requests that wait in all
    /// sessions are looked at.
    #[inline(always)]
    pub fn take_freed(&self) -> bool {
        self.freed.get() && self.freed.replace(false) && !mutated(Mutant::RoomUnoffered)
    }

    /// Whether the budget was filled since this was last asked: then no session accepts requests at once.
    #[inline(always)]
    pub fn take_filled(&self) -> bool {
        self.filled.get() && self.filled.replace(false)
    }
}

/// The budget of bytes for the replies that wait in all sessions of a node. The thread that drives the
/// sessions is the only one that changes it; another one may drive them later.
#[derive(Clone, Debug)]
pub struct ReplyBudget {
    limit: u64,
    held: Arc<AtomicU64>,
}

impl ReplyBudget {
    /// Returns a budget of so many bytes, where each session may have [`REPLIES_AHEAD_BYTES`] waiting in any case.
    pub fn new(bytes: u64) -> ReplyBudget {
        ReplyBudget::with_ahead(bytes, REPLIES_AHEAD_BYTES)
    }

    /// Returns a budget of which each session may have `ahead` bytes waiting in any case.
    pub fn with_ahead(bytes: u64, ahead: u64) -> ReplyBudget {
        ReplyBudget { limit: bytes.max(ahead), held: Arc::default() }
    }

    /// Returns the budget as it is now.
    pub fn budget(&self) -> Budget {
        Budget::holding(self.limit, self.held.load(Ordering::Relaxed))
    }

    /// Changes the budget.
    pub fn with<R>(&self, with: impl FnOnce(&mut Budget) -> R) -> R {
        let mut budget = self.budget();
        let result = with(&mut budget);
        self.held.store(budget.held(), Ordering::Relaxed);
        result
    }
}

impl Default for ReplyBudget {
    fn default() -> ReplyBudget {
        ReplyBudget::new(BUDGET_BYTES)
    }
}
