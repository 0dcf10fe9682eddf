//! Calls that are given up: because their time is over, or because they are dropped.
//!
//! Invariant: the callee of a call that was sent is told, unless it has answered and nothing is left of that.

use super::waits::Waits;
use super::{Bound, Call, State};
use crate::error::CallError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use upbeat_core::bill::Counter;
use upbeat_core::frame::Head;

impl<A, R> Call<'_, A, R> {
    #[cold]
    pub(super) fn poll_deadline<T>(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<T, CallError>> {
        match self.state {
            State::Unsent(_) => self.bound.node.awaits_room(),
            _ => self.bound.node.awaits_answer(),
        }
        let Some(rare) = &mut *self.rare else { return Poll::Pending };
        let Some(deadline) = &mut rare.deadline else { return Poll::Pending };
        if let Some(lent) = &rare.lent {
            deadline.sleep.put_off(lent.end());
        }
        ready!(Pin::new(&mut deadline.sleep).poll(context));
        self.give_up();
        Poll::Ready(Err(CallError::Deadline))
    }

    #[cold]
    pub(super) fn give_up(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Over);
        if let State::Sent(call) | State::Sampled(call, _) | State::Feeding(call, _) = state {
            let Bound { node, session, .. } = self.bound;
            if session.abandon(call) {
                node.count(Counter::CancelsSent);
                node.sent(session);
            } else if self.rare.as_ref().is_some_and(|rare| rare.gives_streams) {
                self.bound.take_back(Head::cancel(call));
            }
        }
        if let Some(rare) = &mut *self.rare {
            rare.waits = Waits::default();
            rare.lent = None;
        }
    }
}

impl<A, R> Call<'_, A, R> {
    #[cold]
    #[inline(never)]
    fn drop_rare(&mut self) {
        drop(self.rare.take());
    }
}

impl<A, R> Drop for Call<'_, A, R> {
    #[inline(always)]
    fn drop(&mut self) {
        if matches!(self.state, State::Sent(_) | State::Sampled(..) | State::Feeding(..)) {
            self.give_up();
        }
        if self.rare.is_some() {
            self.drop_rare();
        }
    }
}
