//! The frames of a session that wait for room, and the node's budget for those that are replies.
//!
//! What waits behind what, and how much may, is decided in [`core::session`](upbeat_core::session).

use super::write::Words;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use upbeat_core::fault::Rule;
use upbeat_core::flow::Budget;
use upbeat_core::frame::CallNumber;
use upbeat_core::limits::{BUDGET_BYTES, REPLIES_AHEAD_BYTES};
use upbeat_core::session::{Owed, Waiting};

/// The budget of bytes for the replies that wait in all sessions of a node. The thread that drives the
/// sessions is the only one that changes it; another one may drive them later.
#[derive(Clone)]
pub(crate) struct ReplyBudget {
    limit: u64,
    held: Arc<AtomicU64>,
}

impl ReplyBudget {
    /// A budget of so many bytes, and of what a session may have pending in any case.
    pub(crate) fn new(bytes: u64) -> ReplyBudget {
        ReplyBudget { limit: bytes.max(REPLIES_AHEAD_BYTES), held: Arc::default() }
    }

    fn budget(&self) -> Budget {
        Budget::holding(self.limit, self.held.load(Ordering::Relaxed))
    }

    fn with<R>(&self, with: impl FnOnce(&mut Budget) -> R) -> R {
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

/// A frame that waits: the words of its head, without a length, and its payload.
pub(super) struct Frame {
    pub(super) head: Words,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// The call of which it is the reply.
    pub(super) fn call(&self) -> CallNumber {
        CallNumber::from_u64(self.head[1])
    }
}

/// The frames and replies that wait in a session.
pub(super) struct Pending {
    owed: Owed<Frame>,
    budget: ReplyBudget,
}

impl Pending {
    pub(super) fn new(share: u64, budget: ReplyBudget) -> Pending {
        Pending { owed: Owed::new(share, REPLIES_AHEAD_BYTES), budget }
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// Returns a bit for each class of buffers for which replies wait.
    pub(super) fn classes(&self) -> u8 {
        self.owed.classes()
    }

    /// Whether one more frame may wait, where so many of the peer's calls have become tasks.
    pub(super) fn may_wait(&self, serving: usize) -> Result<(), Rule> {
        self.owed.may_wait(serving)
    }

    /// Whether a reply of so many bytes may wait.
    pub(super) fn admits(&self, bytes: usize) -> bool {
        self.owed.admits(bytes, &self.budget.budget())
    }

    /// Whether requests of the session are accepted.
    pub(super) fn takes_requests(&self) -> bool {
        self.owed.takes_requests(&self.budget.budget())
    }

    /// Queues a control frame, or the failure of a call.
    pub(super) fn push_frame(&mut self, head: Words, payload: Vec<u8>) {
        self.owed.push_frame(Frame { head, payload });
    }

    /// Queues a reply.
    pub(super) fn push_reply(&mut self, head: Words, payload: Vec<u8>) {
        let bytes = payload.len();
        let frame = Frame { head, payload };
        self.budget.with(|budget| self.owed.push_reply(frame, bytes, budget));
    }

    /// Takes the first of the frames that wait in order.
    pub(super) fn pop_frame(&mut self) -> Option<Waiting<Frame>> {
        self.owed.pop_frame()
    }

    /// Takes the first of the replies of a class.
    pub(super) fn pop_reply(&mut self, class: usize) -> Option<Waiting<Frame>> {
        self.owed.pop_reply(class)
    }

    /// Puts back what was taken and found no room.
    pub(super) fn put_back_frame(&mut self, waiting: Waiting<Frame>) {
        self.owed.put_back_frame(waiting);
    }

    /// Puts back a reply of a class that was taken and found no room.
    pub(super) fn put_back_reply(&mut self, waiting: Waiting<Frame>, class: usize) {
        self.owed.put_back_reply(waiting, class);
    }

    /// Gives back what was charged for a frame that waits no more. Returns whether that was anything.
    pub(super) fn release(&mut self, waiting: &Waiting<Frame>) -> bool {
        self.budget.with(|budget| self.owed.release(waiting, budget))
    }

    /// Forgets everything that waits.
    pub(super) fn clear(&mut self) {
        self.budget.with(|budget| self.owed.clear(budget));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.clear();
    }
}
