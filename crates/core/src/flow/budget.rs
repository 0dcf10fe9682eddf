//! The bytes that a node may hold of requests that it has accepted and not finished.

use crate::limits::{BUDGET_BYTES, MEDIUM_BYTES_MAX, REQUEST_BYTES, SESSION_BUDGET_BYTES};
use crate::mutant::{Mutant, mutated};

/// A node's budget of bytes, all sessions together.
///
/// A request is admitted while less than the budget is held, so a node holds at most the budget and
/// one request more. A session that holds nothing is admitted always, unless its request is long:
/// a peer whose requests are dealt with at once does not feel that others overload the node.
///
/// A handler that waits for an answer of another node must not be counted meanwhile: it is released, and
/// charged again, admitted or not, when the answer has come. Otherwise two nodes whose budgets are
/// full of handlers that call each other wait for ever. The tables of open calls bound it.
///
/// ```
/// use upbeat_core::flow::{Budget, Share};
///
/// let (mut node, mut one, mut other) = (Budget::new(1000), Share::new(1000), Share::new(1000));
/// node.charge(&mut one, 1000);
/// assert!(!node.admits(&one, 8) && node.admits(&other, 8) && !node.admits(&other, 1 << 20));
/// node.release(&mut one, 1000);
/// assert!(node.admits(&one, 1 << 20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    limit: u64,
    held: u64,
}

/// A session's part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    limit: u64,
    held: u64,
}

impl Budget {
    /// A budget of which nothing is taken.
    pub const fn new(limit: u64) -> Budget {
        Budget { limit, held: 0 }
    }

    /// A budget of which so much is taken.
    pub const fn holding(limit: u64, held: u64) -> Budget {
        Budget { limit, held }
    }

    /// Returns the bytes that are taken.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Whether less than the budget is taken.
    #[inline]
    pub const fn has_room(&self) -> bool {
        self.held < self.limit
    }

    /// Returns the bytes with which a request of so many payload bytes is charged.
    #[inline]
    pub const fn price(payload: usize) -> u64 {
        (payload + REQUEST_BYTES) as u64
    }

    /// Whether a request may be accepted that is charged with so many bytes.
    #[inline]
    pub fn admits(&self, share: &Share, bytes: u64) -> bool {
        let spare = bytes <= Budget::price(MEDIUM_BYTES_MAX)
            && share.held == 0
            && !mutated(Mutant::NoSpare);
        if mutated(Mutant::AdmitsAll) {
            return true;
        }
        share.held < share.limit && (self.held < self.limit || spare)
    }

    /// Takes so many bytes for a request that was admitted.
    pub const fn charge(&mut self, share: &mut Share, bytes: u64) {
        self.held += bytes;
        share.held += bytes;
    }

    /// Gives them back.
    ///
    /// # Panics
    /// When more is given back than was taken.
    pub fn release(&mut self, share: &mut Share, bytes: u64) {
        assert!(share.held >= bytes && self.held >= bytes, "more is given back than was taken");
        self.held -= bytes;
        share.held -= if mutated(Mutant::ShareForgotten) { 0 } else { bytes };
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(BUDGET_BYTES)
    }
}

impl Share {
    /// A share of which nothing is taken.
    ///
    /// # Panics
    /// When it is of nothing: no request would ever be accepted.
    pub const fn new(limit: u64) -> Share {
        assert!(limit > 0, "a session without a budget accepts nothing");
        Share { limit, held: 0 }
    }

    /// Returns the bytes that are taken.
    pub const fn held(&self) -> u64 {
        self.held
    }
}

impl Default for Share {
    fn default() -> Share {
        Share::new(SESSION_BUDGET_BYTES)
    }
}
