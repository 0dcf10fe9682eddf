//! The replies and control frames that found no room, and wait until the peer makes some.
//!
//! Control frames and short replies wait in the order in which they were queued, and every later message waits
//! behind them. A longer reply waits for a buffer of its class, and only replies of the same class wait behind it.
//! All waiting replies are charged to the session's share and to the node's budget for replies, which the owner of
//! the node passes in. Invariant: every charge belongs to a queued reply, and no more frames wait than the peer
//! and this side may have open.

use crate::fault::Rule;
use crate::flow::{Budget, Share};
use crate::limits::{
    BUFFER_BYTES, CALLS_PER_SESSION_MAX, REPLIES_AHEAD_BYTES, SESSION_BUDGET_BYTES, SHORT_BYTES,
};
use crate::mutant::{Mutant, mutated};
use alloc::collections::VecDeque;

/// The classes of buffers: one for each of the usual sizes, and one for all longer ones together.
pub const CLASSES: usize = BUFFER_BYTES.len() + 1;

/// Returns the class of buffers that a payload needs.
///
/// ```
/// use upbeat_core::session::{CLASSES, class_of};
///
/// assert_eq!((class_of(1), class_of(512), class_of(513)), (0, 0, 1));
/// assert_eq!(class_of(1 << 20), CLASSES - 1);
/// ```
pub fn class_of(len: usize) -> usize {
    BUFFER_BYTES.iter().position(|bytes| *bytes >= len).unwrap_or(BUFFER_BYTES.len())
}

/// A waiting frame and its charge.
#[derive(Debug)]
pub struct Waiting<F> {
    /// The frame.
    pub frame: F,
    charged: u64,
}

/// The waiting frames and replies of a session.
///
/// ```
/// use upbeat_core::flow::Budget;
/// use upbeat_core::session::SendQueue;
///
/// let (mut budget, mut owed) = (Budget::new(1 << 20), SendQueue::default());
/// owed.push_frame("a cancel");
/// owed.push_reply("a reply", 600, &mut budget);
/// assert!(owed.bars() && owed.goes_behind(700) && !owed.goes_behind(100));
/// let reply = owed.pop_reply(1).unwrap();
/// assert!(owed.release(&reply, &mut budget) && budget.held() == 0);
/// ```
#[derive(Debug)]
pub struct SendQueue<F> {
    /// The control frames and short replies, in order.
    frames: VecDeque<Waiting<F>>,
    /// The longer replies, by the class of the buffer for which they wait.
    replies: [VecDeque<Waiting<F>>; CLASSES],
    share: Share,
    /// The bytes of replies from which on no requests are accepted.
    ahead: u64,
}

impl<F> SendQueue<F> {
    /// Creates an empty queue. Replies may take `share` bytes; while `ahead` bytes of them wait, no requests are
    /// accepted.
    pub fn new(share: u64, ahead: u64) -> SendQueue<F> {
        let share = Share::new(share.max(ahead));
        let replies = core::array::from_fn(|_| VecDeque::new());
        SendQueue { frames: VecDeque::new(), replies, share, ahead }
    }

    /// Returns the number of waiting frames.
    pub fn len(&self) -> usize {
        self.frames.len() + self.replies.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Returns whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes that are charged for replies.
    pub const fn held(&self) -> u64 {
        self.share.held()
    }

    /// Returns whether frames wait that are sent before everything else.
    pub fn bars(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Returns one bit for each class of which replies wait.
    pub fn classes(&self) -> u8 {
        let waits = |(class, queue): (usize, &VecDeque<_>)| u8::from(!queue.is_empty()) << class;
        self.replies.iter().enumerate().map(waits).sum()
    }

    /// Returns whether a reply of `bytes` bytes must queue behind others of its class.
    pub fn goes_behind(&self, bytes: usize) -> bool {
        bytes > SHORT_BYTES && !self.replies[class_of(bytes)].is_empty()
    }

    /// Returns whether a reply of `bytes` bytes may wait. A short reply always may, since the number of open calls
    /// bounds them.
    pub fn admits(&self, bytes: usize, budget: &Budget) -> bool {
        let admits = bytes <= SHORT_BYTES
            || budget.admits(&self.share, Budget::price(bytes))
            || mutated(Mutant::RepliesUnbounded);
        admits && !mutated(Mutant::OverloadedAlways)
    }

    /// Returns whether requests of the session are accepted. Their replies would wait behind the waiting ones.
    pub fn takes_requests(&self, budget: &Budget) -> bool {
        let held = self.share.held();
        held == 0
            || held < self.ahead && budget.admits(&self.share, 0)
            || mutated(Mutant::OpenWhileOwing)
    }

    /// Returns whether one more frame may wait while `serving` of the peer's calls are tasks. A peer with too many
    /// breaks a rule.
    pub fn may_wait(&self, serving: usize) -> Result<(), Rule> {
        let waiting = self.len();
        if waiting + serving >= 2 * CALLS_PER_SESSION_MAX {
            let (index, max) = (waiting as u32, CALLS_PER_SESSION_MAX as u32);
            return Err(Rule::TooManyCalls { index, max });
        }
        Ok(())
    }

    /// Queues a control frame, or the failure of a call.
    pub fn push_frame(&mut self, frame: F) {
        self.frames.push_back(Waiting { frame, charged: 0 });
    }

    /// Queues a reply of `bytes` bytes: with the replies of its class, or with the frames if it is short.
    pub fn push_reply(&mut self, frame: F, bytes: usize, budget: &mut Budget) {
        let charged = Budget::price(bytes);
        budget.charge(&mut self.share, charged);
        let queue = match bytes <= SHORT_BYTES {
            true => &mut self.frames,
            false => &mut self.replies[class_of(bytes)],
        };
        queue.push_back(Waiting { frame, charged });
    }

    /// Removes the first of the ordered frames.
    pub fn pop_frame(&mut self) -> Option<Waiting<F>> {
        self.frames.pop_front()
    }

    /// Removes the first reply of a class.
    pub fn pop_reply(&mut self, class: usize) -> Option<Waiting<F>> {
        self.replies[class].pop_front()
    }

    /// Puts back a removed frame that found no room.
    pub fn put_back_frame(&mut self, waiting: Waiting<F>) {
        if !mutated(Mutant::FrameDropped) {
            self.frames.push_front(waiting);
        }
    }

    /// Puts back a removed reply of a class that found no room.
    pub fn put_back_reply(&mut self, waiting: Waiting<F>, class: usize) {
        if !mutated(Mutant::ReplyDropped) {
            self.replies[class].push_front(waiting);
        }
    }

    /// Releases the charge of a frame that waits no longer. Returns whether it had one.
    pub fn release(&mut self, waiting: &Waiting<F>, budget: &mut Budget) -> bool {
        if !mutated(Mutant::ReplyStaysCharged) {
            budget.release(&mut self.share, waiting.charged);
        }
        waiting.charged != 0
    }

    /// Removes all waiting frames.
    pub fn clear(&mut self, budget: &mut Budget) {
        self.frames.clear();
        self.replies.iter_mut().for_each(VecDeque::clear);
        let held = self.share.held();
        if !mutated(Mutant::EndKeepsReplies) {
            budget.release(&mut self.share, held);
        }
    }
}

impl<F> Default for SendQueue<F> {
    fn default() -> SendQueue<F> {
        SendQueue::new(SESSION_BUDGET_BYTES, REPLIES_AHEAD_BYTES)
    }
}
