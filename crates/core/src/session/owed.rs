//! Replies and control frames that found no room, until the peer makes some.
//!
//! Control frames and short replies wait in the order in which they were written, and everything that is
//! written later waits behind them. A longer reply waits for a buffer of its class; only replies of the same
//! class wait behind it. All replies that wait are charged to the session's share and to the node's budget
//! for replies, which the owner of the node passes in. Invariant: what is charged lies in a queue, and no
//! more waits than the peer and this side may have open.

use crate::fault::Rule;
use crate::flow::{Budget, Share};
use crate::limits::{
    BUFFER_BYTES, CALLS_PER_SESSION_MAX, REPLIES_AHEAD_BYTES, SESSION_BUDGET_BYTES, SHORT_BYTES,
};
use crate::mutant::{Mutant, mutated};
use alloc::collections::VecDeque;

/// The classes of buffers: one for each of the usual sizes, and one for all longer ones together.
pub const CLASSES: usize = BUFFER_BYTES.len() + 1;

/// Returns which class of buffers a payload needs.
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

/// A frame that waits, and what is charged for it.
#[derive(Debug)]
pub struct Waiting<F> {
    /// The frame.
    pub frame: F,
    charged: u64,
}

/// The frames and replies that wait in a session.
///
/// ```
/// use upbeat_core::flow::Budget;
/// use upbeat_core::session::Owed;
///
/// let (mut budget, mut owed) = (Budget::new(1 << 20), Owed::default());
/// owed.push_frame("a cancel");
/// owed.push_reply("a reply", 600, &mut budget);
/// assert!(owed.bars() && owed.goes_behind(700) && !owed.goes_behind(100));
/// let reply = owed.pop_reply(1).unwrap();
/// assert!(owed.release(&reply, &mut budget) && budget.held() == 0);
/// ```
#[derive(Debug)]
pub struct Owed<F> {
    /// Control frames and short replies, in order.
    frames: VecDeque<Waiting<F>>,
    /// Longer replies, by the classes of the buffers for which they wait.
    replies: [VecDeque<Waiting<F>>; CLASSES],
    share: Share,
    /// Bytes of replies up to which requests are taken.
    ahead: u64,
}

impl<F> Owed<F> {
    /// Nothing waits. Replies may take so many bytes; while `ahead` of them wait, no requests are taken.
    pub fn new(share: u64, ahead: u64) -> Owed<F> {
        let share = Share::new(share.max(ahead));
        let replies = core::array::from_fn(|_| VecDeque::new());
        Owed { frames: VecDeque::new(), replies, share, ahead }
    }

    /// Returns the number of frames that wait.
    pub fn len(&self) -> usize {
        self.frames.len() + self.replies.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that are charged for replies.
    pub const fn held(&self) -> u64 {
        self.share.held()
    }

    /// Whether frames wait that go before everything else.
    pub fn bars(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Returns a bit for each class of which replies wait.
    pub fn classes(&self) -> u8 {
        let waits = |(class, queue): (usize, &VecDeque<_>)| u8::from(!queue.is_empty()) << class;
        self.replies.iter().enumerate().map(waits).sum()
    }

    /// Whether a reply of so many bytes goes behind others of its class.
    pub fn goes_behind(&self, bytes: usize) -> bool {
        bytes > SHORT_BYTES && !self.replies[class_of(bytes)].is_empty()
    }

    /// Whether a reply of so many bytes may wait. Short replies may: the number of open calls bounds them.
    pub fn admits(&self, bytes: usize, budget: &Budget) -> bool {
        bytes <= SHORT_BYTES
            || budget.admits(&self.share, Budget::price(bytes))
            || mutated(Mutant::RepliesUnbounded)
    }

    /// Whether requests of the session are accepted: their replies would wait behind those that wait.
    pub fn takes_requests(&self, budget: &Budget) -> bool {
        let held = self.share.held();
        held == 0
            || held < self.ahead && budget.admits(&self.share, 0)
            || mutated(Mutant::OpenWhileOwing)
    }

    /// Whether one more frame may wait, where so many of the peer's calls have become tasks. A peer for
    /// which too many do breaks a rule.
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

    /// Queues a reply of so many bytes: with the replies of its class, or if it is short with the frames.
    pub fn push_reply(&mut self, frame: F, bytes: usize, budget: &mut Budget) {
        let charged = Budget::price(bytes);
        budget.charge(&mut self.share, charged);
        let queue = match bytes <= SHORT_BYTES {
            true => &mut self.frames,
            false => &mut self.replies[class_of(bytes)],
        };
        queue.push_back(Waiting { frame, charged });
    }

    /// Takes the first of the frames that wait in order.
    pub fn pop_frame(&mut self) -> Option<Waiting<F>> {
        self.frames.pop_front()
    }

    /// Takes the first of the replies of a class.
    pub fn pop_reply(&mut self, class: usize) -> Option<Waiting<F>> {
        self.replies[class].pop_front()
    }

    /// Puts back what was taken and found no room.
    pub fn put_back_frame(&mut self, waiting: Waiting<F>) {
        if !mutated(Mutant::FrameDropped) {
            self.frames.push_front(waiting);
        }
    }

    /// Puts back a reply of a class that was taken and found no room.
    pub fn put_back_reply(&mut self, waiting: Waiting<F>, class: usize) {
        if !mutated(Mutant::ReplyDropped) {
            self.replies[class].push_front(waiting);
        }
    }

    /// Gives back what was charged for a frame that waits no more. Returns whether that was anything.
    pub fn release(&mut self, waiting: &Waiting<F>, budget: &mut Budget) -> bool {
        if !mutated(Mutant::ReplyStaysCharged) {
            budget.release(&mut self.share, waiting.charged);
        }
        waiting.charged != 0
    }

    /// Forgets everything that waits.
    pub fn clear(&mut self, budget: &mut Budget) {
        self.frames.clear();
        self.replies.iter_mut().for_each(VecDeque::clear);
        let held = self.share.held();
        if !mutated(Mutant::EndKeepsReplies) {
            budget.release(&mut self.share, held);
        }
    }

    /// The frames that wait, those in order first.
    pub fn iter(&self) -> impl Iterator<Item = &F> {
        let replies = self.replies.iter().flatten();
        self.frames.iter().chain(replies).map(|waiting| &waiting.frame)
    }
}

impl<F> Default for Owed<F> {
    fn default() -> Owed<F> {
        Owed::new(SESSION_BUDGET_BYTES, REPLIES_AHEAD_BYTES)
    }
}
