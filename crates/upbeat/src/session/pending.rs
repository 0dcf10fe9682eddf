//! Replies and control frames that found no room, until the peer makes some.
//!
//! Control frames and short replies wait in the order in which they were written, and everything that is
//! written later waits behind them. A longer reply waits for a buffer of its size; only replies of the same
//! size wait behind it. All pending replies are charged to the session's share and to the node's budget for
//! replies. Invariant: what is charged lies in a queue.

use super::pool::CLASSES;
use super::write::Words;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use upbeat_core::flow::{Budget, Share};
use upbeat_core::frame::CallNumber;
use upbeat_core::limits::{BUDGET_BYTES, REPLIES_AHEAD_BYTES, SHORT_BYTES};

/// The budget of bytes for the pending replies of all sessions of a node.
#[derive(Clone)]
pub(crate) struct ReplyBudget(Arc<Mutex<Budget>>);

impl ReplyBudget {
    /// A budget of so many bytes, and of what a session may have pending in any case.
    pub(crate) fn new(bytes: u64) -> ReplyBudget {
        ReplyBudget(Arc::new(Mutex::new(Budget::new(bytes.max(REPLIES_AHEAD_BYTES)))))
    }

    fn lock(&self) -> MutexGuard<'_, Budget> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ReplyBudget {
    fn default() -> ReplyBudget {
        ReplyBudget::new(BUDGET_BYTES)
    }
}

/// A frame that waits: the words of its head, without a length, its payload, and what is charged for it.
pub(super) struct Frame {
    pub(super) head: Words,
    pub(super) payload: Vec<u8>,
    charged: u64,
}

impl Frame {
    /// The call of which it is the reply.
    pub(super) fn call(&self) -> CallNumber {
        CallNumber::from_u64(self.head[1])
    }
}

/// The frames and replies that wait in a session.
pub(super) struct Pending {
    /// Control frames and short replies, in order.
    frames: VecDeque<Frame>,
    /// Longer replies, by the sizes of the buffers for which they wait.
    replies: [VecDeque<Frame>; CLASSES],
    share: Share,
    budget: ReplyBudget,
}

impl Pending {
    pub(super) fn new(share: u64, budget: ReplyBudget) -> Pending {
        let share = Share::new(share.max(REPLIES_AHEAD_BYTES));
        Pending { frames: VecDeque::new(), replies: Default::default(), share, budget }
    }

    /// Returns the number of frames that wait.
    pub(super) fn len(&self) -> usize {
        self.frames.len() + self.replies.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Returns a bit for each size of which replies wait.
    pub(super) fn classes(&self) -> u8 {
        let waits =
            |(class, queue): (usize, &VecDeque<Frame>)| u8::from(!queue.is_empty()) << class;
        self.replies.iter().enumerate().map(waits).sum()
    }

    /// Whether a reply of so many bytes may wait. Short replies may: the number of open calls bounds them.
    pub(super) fn admits(&self, bytes: usize) -> bool {
        bytes <= SHORT_BYTES || self.budget.lock().admits(&self.share, Budget::price(bytes))
    }

    /// Whether requests of the session are accepted: their replies would wait behind those that wait.
    pub(super) fn takes_requests(&self) -> bool {
        let held = self.share.held();
        held == 0 || held < REPLIES_AHEAD_BYTES && self.budget.lock().admits(&self.share, 0)
    }

    /// Queues a control frame, or the failure of a call.
    pub(super) fn push_frame(&mut self, head: Words, payload: Vec<u8>) {
        self.frames.push_back(Frame { head, payload, charged: 0 });
    }

    /// Queues a reply: with the replies of its class, or if it is short with the frames.
    pub(super) fn push_reply(&mut self, head: Words, payload: Vec<u8>, class: usize) {
        let charged = Budget::price(payload.len());
        self.budget.lock().charge(&mut self.share, charged);
        let queue = match payload.len() <= SHORT_BYTES {
            true => &mut self.frames,
            false => &mut self.replies[class],
        };
        queue.push_back(Frame { head, payload, charged });
    }

    /// Takes the first of the frames that wait in order.
    pub(super) fn pop_frame(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    /// Takes the first of the replies of a class.
    pub(super) fn pop_reply(&mut self, class: usize) -> Option<Frame> {
        self.replies[class].pop_front()
    }

    /// Puts back what was taken and found no room.
    pub(super) fn put_back_frame(&mut self, frame: Frame) {
        self.frames.push_front(frame);
    }

    /// Puts back a reply of a class that was taken and found no room.
    pub(super) fn put_back_reply(&mut self, frame: Frame, class: usize) {
        self.replies[class].push_front(frame);
    }

    /// Gives back what was charged for a frame that waits no more. Returns whether that was anything.
    pub(super) fn release(&mut self, frame: &Frame) -> bool {
        self.budget.lock().release(&mut self.share, frame.charged);
        frame.charged != 0
    }

    /// Forgets everything that waits.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.replies.iter_mut().for_each(VecDeque::clear);
        let held = self.share.held();
        self.budget.lock().release(&mut self.share, held);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.clear();
    }
}
