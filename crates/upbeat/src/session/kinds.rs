//! The types with which nodes and handles use the state machine of a session.

use super::flow::KeptRequest;
use super::front::Words;
use crate::wake::{ForeignWaker, TaskId};
use upbeat_core::frame::CallNumber;
use upbeat_core::session::Side;

/// The types of a side that is a node or a handle.
pub(super) struct Kinds;

impl Side for Kinds {
    type Sender = ForeignWaker;
    type Request = KeptRequest;
    type Frame = Frame;
    type Caller = TaskId;
    type Task = TaskId;

    fn copied(kept: &KeptRequest) -> usize {
        kept.copied()
    }
}

/// A frame that waits in a queue: the words of its head without a length, and its payload.
pub(super) struct Frame {
    pub(super) head: Words,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// Returns the call of which the frame is the reply.
    pub(super) fn call(&self) -> CallNumber {
        CallNumber::from_u64(self.head[1])
    }
}
