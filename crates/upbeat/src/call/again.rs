//! Calls that may be sent back: their arguments are kept, and sent again.
//!
//! A callee refuses such a call where what its handler needs is not there, and runs nothing of it.
//! The caller waits, longer each time and never as long as others who were refused with it, and sends
//! the call anew, under another number. Invariant: one of its calls at most is under way, and the next
//! is sent when that was refused; what was refused has not run.

use super::Bound;
use crate::error::{CallError, FailCode};
use crate::time::Sleep;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use upbeat_core::backoff::is_refusable;

/// How often a call was sent back.
#[derive(Default)]
pub(super) struct Refusals {
    count: u64,
    /// Until it is sent again.
    pause: Option<Sleep>,
}

impl Refusals {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether a call that has failed is sent again: if it was refused, and not too often. One who
    /// refuses for ever is answered back by the error.
    #[cold]
    pub(super) fn retry(&mut self, bound: &Bound, error: &CallError) -> bool {
        let is_refused = matches!(error, CallError::Failed { code: FailCode::Refused, .. });
        if !is_refused || !is_refusable(self.count) {
            return false;
        }
        let (count, pause_ns) = bound.node.back_off(self.count);
        let pause = Some(Sleep::new(&bound.node, Duration::from_nanos(pause_ns)));
        *self = Refusals { count, pause };
        true
    }

    /// Polls until the call is to be sent again.
    pub(super) fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(Pin::new(pause).poll(context));
            self.pause = None;
        }
        Poll::Ready(())
    }
}
