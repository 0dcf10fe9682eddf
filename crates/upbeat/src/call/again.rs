//! Calls that may be sent back: the caller keeps their arguments, and sends them again.
//!
//! A callee refuses such a call, before any of it has run, where a lock or a condition that its handler needs is
//! missing. The caller backs off, with jitter that separates it from other refused callers, and sends
//! the call anew, under another number. Invariant: at most one attempt is under way, and the next
//! follows the refusal of the one before; a refused attempt has not run.

use super::Bound;
use crate::error::CallError;
use crate::time::Sleep;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use upbeat_core::backoff::is_refusable;
use upbeat_core::mutant::{Mutant, mutated};

/// How often a call was sent back.
#[derive(Default)]
pub(super) struct Refusals {
    count: u64,
    /// The pause before the next attempt.
    pause: Option<Sleep>,
}

impl Refusals {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether a call that has failed is sent again: if it was refused, and not too often. A callee that
    /// refuses for ever makes the call fail with its error.
    #[cold]
    pub(super) fn retry(&mut self, bound: &Bound, error: &CallError) -> bool {
        if !error.is_refused() || !is_refusable(self.count) || mutated(Mutant::RefusedForGood) {
            return false;
        }
        let (count, pause_ns) = bound.node.back_off(self.count);
        let pause = Some(Sleep::new(&bound.node, Duration::from_nanos(pause_ns)));
        *self = Refusals { count, pause };
        true
    }

    /// Polls the pause before the next attempt.
    pub(super) fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(Pin::new(pause).poll(context));
            self.pause = None;
        }
        Poll::Ready(())
    }
}
