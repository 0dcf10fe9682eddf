//! The rare steps of a call that is sent: it waits for room, or moves to another session.
//!
//! A call moves before its request was written, if its client's session is lost. Invariant: a call that waits in a
//! session ends with that session.

use super::node::NodeRare;
use super::open::State;
use super::reconnect::{Reconnect, may_reconnect};
use super::waits::{not_sent, not_waiting};
use super::{Bound, NodeRoute, Open};
use crate::error::CallError;
use crate::session::SendError;
use crate::wire::Content;
use std::borrow::Borrow;
use std::task::{Context, Poll, ready};
use upbeat_core::frame::CallNumber;

impl<B: Borrow<Bound>, A: Content> Open<NodeRoute<B>, A> {
    /// Has a call wait whose request was not written. Returns whether it was written since, over another session.
    #[cold]
    #[inline(never)]
    pub(super) fn must_wait(
        &mut self,
        put: SendError,
        context: &mut Context<'_>,
    ) -> Result<bool, CallError> {
        let Open { route, rare, .. } = self;
        let NodeRare { waits, reconnect, .. } = &mut rare.get_or_insert_default().more;
        let moved = reconnect.as_ref().and_then(Reconnect::moved);
        let bound = moved.unwrap_or(route.bound());
        if !matches!(put, SendError::Ended(_)) {
            return not_sent(bound, put, waits, context).map(|()| false);
        }
        let error = not_waiting(&bound.node, &bound.session, put);
        if !self.may_reconnect() {
            return Err(error);
        }
        match self.poll_reconnect(context) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) => self.send_rarely(context),
        }
    }

    /// Returns whether the call may be sent over another session than the lost one. A call that waits in a session,
    /// or that was built in a buffer of a session, ends with that session.
    fn may_reconnect(&self) -> bool {
        let State::Unsent(arguments) = &self.state else { return false };
        let waits = self.rare.as_ref().is_some_and(|rare| rare.more.waits.is_any());
        !waits && arguments.built().is_none() && may_reconnect(self.route.bound())
    }

    /// Polls for a session over which the call goes.
    #[cold]
    pub(super) fn poll_reconnect(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CallError>> {
        if !self.may_reconnect() {
            return Poll::Pending;
        }
        let Open { route, rare, number, method, .. } = self;
        let rare = &mut rare.get_or_insert_default().more;
        *number = ready!(route.poll_reconnect(rare, method, context))?;
        Poll::Ready(Ok(()))
    }

    /// Notes that the call was sent over another session than its client's, if it was.
    #[cold]
    pub(super) fn has_moved(&mut self) {
        if self.rare.as_ref().is_some_and(|rare| rare.more.moved().is_some()) {
            self.state.has_moved();
        }
    }

    /// Returns the session over which the call goes.
    pub(super) fn bound(&self) -> &Bound {
        self.route.session_of(self.rare.as_deref().map(|rare| &rare.more))
    }

    /// Takes a number for a call that cannot be opened at once.
    #[cold]
    #[inline(never)]
    pub(super) fn open_call(&self, context: &Context<'_>) -> Option<CallNumber> {
        let Bound { node, session, .. } = self.bound();
        let call = session.open_call(node.waiter(context));
        node.has_work_from_outside();
        call
    }

    #[cold]
    #[inline(never)]
    pub(super) fn heat(&self) {
        let Bound { node, session, .. } = self.bound();
        node.heat(session);
    }

    /// Returns the error of a call whose method has no number.
    #[cold]
    pub(super) fn unbound(&self) -> CallError {
        self.bound().unbound(self.method)
    }
}
