//! The bytes that a node may hold for requests that it has accepted and not finished.

use crate::limits::{
    BUDGET_BYTES, MEDIUM_BYTES_MAX, REQUEST_BYTES, SESSION_BUDGET_BYTES, WAITERS_AHEAD_BYTES,
};
use crate::mutant::{Mutant, mutated};

/// A node's budget of bytes for all its sessions together.
///
/// A request is admitted while less than the budget is held, so a node holds at most the budget and one request
/// more, and what the following rules admit of each session. A session that holds nothing is always admitted, unless its request is long: a peer whose requests are
/// handled at once is not affected by peers that overload the node.
///
/// A handler that waits for a reply of another node must not be counted meanwhile: its charge is released, and
/// taken again, admitted or not, when the reply has come. Otherwise two nodes whose budgets are full of handlers
/// that call each other would wait for ever. The tables of open calls bound the number of such handlers.
///
/// A handler that waits for another one, such as the holder of a lock, stays charged. But a session that holds nothing
/// else counts as one that holds nothing, up to [`WAITERS_AHEAD_BYTES`]: the other handler may wait for a request of
/// this session.
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

/// A session's share of a node's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    limit: u64,
    held: u64,
    /// The held bytes of handlers that wait for another handler of the node.
    waiting: u64,
}

impl Budget {
    /// Creates a budget of which nothing is held.
    pub const fn new(limit: u64) -> Budget {
        Budget { limit, held: 0 }
    }

    /// Creates a budget of which `held` bytes are held.
    pub const fn holding(limit: u64, held: u64) -> Budget {
        Budget { limit, held }
    }

    /// Returns the held bytes.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Returns whether less than the budget is held.
    #[inline]
    pub const fn has_room(&self) -> bool {
        self.held < self.limit
    }

    /// Returns the charge of a request with `payload` bytes of payload.
    #[inline]
    pub const fn price(payload: usize) -> u64 {
        (payload + REQUEST_BYTES) as u64
    }

    /// Returns the charge of a request whose arguments take so much memory, if that is more than its payload, in a session
    /// with a share of so many bytes. One session never fills the node by the memory that it makes of a short message.
    #[inline]
    pub fn price_in_memory(payload: usize, memory: usize, share: u64) -> u64 {
        let most = usize::try_from(share).unwrap_or(usize::MAX);
        Budget::price(payload.max(memory.min(most)))
    }

    /// Returns whether a request with a charge of `bytes` may be accepted.
    #[inline]
    pub fn admits(&self, share: &Share, bytes: u64) -> bool {
        let spare = bytes <= Budget::price(MEDIUM_BYTES_MAX)
            && share.held == share.waiting
            && share.waiting < WAITERS_AHEAD_BYTES
            && !mutated(Mutant::NoSpare);
        if mutated(Mutant::AdmitsAll) {
            return true;
        }
        share.held < share.limit && (self.held < self.limit || spare)
    }

    /// Charges an admitted request.
    pub const fn charge(&mut self, share: &mut Share, bytes: u64) {
        self.held += bytes;
        share.held += bytes;
    }

    /// Releases a charge.
    ///
    /// # Panics
    /// Panics when more is released than was charged.
    pub fn release(&mut self, share: &mut Share, bytes: u64) {
        assert!(share.held >= bytes && self.held >= bytes, "more is released than was charged");
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
    /// Creates a share of which nothing is held.
    ///
    /// # Panics
    /// Panics when the limit is 0, since no request would ever be accepted.
    pub const fn new(limit: u64) -> Share {
        assert!(limit > 0, "a session without a budget accepts nothing");
        Share { limit, held: 0, waiting: 0 }
    }

    /// Returns the held bytes.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Records that a charged handler waits for another handler of its node.
    pub const fn begin_waiting(&mut self, bytes: u64) {
        self.waiting += bytes;
    }

    /// Records that such a handler waits for it no longer.
    pub const fn end_waiting(&mut self, bytes: u64) {
        self.waiting -= bytes;
    }
}

impl Default for Share {
    fn default() -> Share {
        Share::new(SESSION_BUDGET_BYTES)
    }
}
