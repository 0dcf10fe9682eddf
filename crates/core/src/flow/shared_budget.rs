//! The budgets of a node, which its sessions share.

use super::Budget;
use crate::limits::{BUDGET_BYTES, REPLIES_AHEAD_BYTES};
use crate::mutant::{Mutant, mutated};
use alloc::sync::Arc;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// The budget for accepted requests, with two flags for the sessions that share it: whether bytes were released
/// or a session is admitted again, and whether the budget is filled.
///
/// ```
/// use upbeat_core::flow::{SharedBudget, Share};
///
/// let (shared_budget, mut share) = (SharedBudget::new(1000), Share::new(1000));
/// shared_budget.with(|budget| budget.charge(&mut share, 1000));
/// assert!(shared_budget.take_filled() && !shared_budget.take_freed());
/// shared_budget.with(|budget| budget.release(&mut share, 1000));
/// assert!(shared_budget.take_freed() && !shared_budget.take_freed());
/// ```
#[derive(Debug)]
pub struct SharedBudget {
    budget: Cell<Budget>,
    freed: Cell<bool>,
    filled: Cell<bool>,
}

impl SharedBudget {
    /// Creates a budget of `bytes` free bytes.
    pub const fn new(bytes: u64) -> SharedBudget {
        let budget = Cell::new(Budget::new(bytes));
        SharedBudget { budget, freed: Cell::new(false), filled: Cell::new(false) }
    }

    /// Returns the present budget.
    pub const fn budget(&self) -> Budget {
        self.budget.get()
    }

    /// Changes the budget, and sets the flags for waiting requests.
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

    /// Notes that a session may be admitted that was not before, although no bytes were released.
    pub fn admit_more(&self) {
        self.freed.set(true);
    }

    /// Returns whether requests may be admitted that were not before the last call. The requests that wait in all
    /// sessions must then be tried again.
    #[inline(always)]
    pub fn take_freed(&self) -> bool {
        self.freed.get() && self.freed.replace(false) && !mutated(Mutant::RoomUnoffered)
    }

    /// Returns whether the budget was filled since the last call. No session may then accept requests at once.
    #[inline(always)]
    pub fn take_filled(&self) -> bool {
        self.filled.get() && self.filled.replace(false)
    }
}

/// The budget for the bytes of replies that wait in all sessions of a node. Only the thread that drives the
/// sessions changes it; another thread may drive them later.
#[derive(Clone, Debug)]
pub struct ReplyBudget {
    limit: u64,
    held: Arc<AtomicU64>,
}

impl ReplyBudget {
    /// Creates a budget of `bytes` bytes, in which each session may have [`REPLIES_AHEAD_BYTES`] waiting in any
    /// case.
    pub fn new(bytes: u64) -> ReplyBudget {
        ReplyBudget::with_ahead(bytes, REPLIES_AHEAD_BYTES)
    }

    /// Creates a budget in which each session may have `ahead` bytes waiting in any case.
    pub(crate) fn with_ahead(bytes: u64, ahead: u64) -> ReplyBudget {
        ReplyBudget { limit: bytes.max(ahead), held: Arc::default() }
    }

    /// Returns the present budget.
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
