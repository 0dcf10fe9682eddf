//! The terms that travel with a node's call beside its arguments: its deadline, its extensions, its context.

use super::Bound;
use super::again::Refusals;
use super::node::NodeRoute;
use super::open::{Open, Rare, State};
use crate::error::CallError;
use crate::metadata::Attached;
use crate::session::{Extensions, Lent};
use crate::wire::Content;
use std::borrow::Borrow;
use std::sync::Arc;
use upbeat_core::context::Context as Entries;
use upbeat_core::orphan::inherited;
use upbeat_core::term::Term;

impl<B: Borrow<Bound>, A: Content> Open<NodeRoute<B>, A> {
    /// Returns the extensions of the request. A call of a handler that has a deadline has no more time
    /// than that handler. At this side the call ends with the handler, and at the callee by its own deadline.
    pub(super) fn extensions(&self) -> Extensions {
        let (node, rare) = (&self.route.bound().node, self.rare.as_deref());
        let until = rare.and_then(Rare::until);
        let mut own = until.map_or(Extensions::NONE, |until| until.extensions(node.now_ns()));
        if let Some(Rare { more, .. }) = rare {
            own.granted = more.waits.number();
            own.refusals = more.refusals.as_ref().map(Refusals::count);
        }
        own.deadline = inherited(own.deadline, node.time_left_us());
        // The call may last longer if every deadline above it may be extended.
        match node.bound() {
            Some((_, None)) => own.extendable = None,
            Some(_) if until.is_none() => own.extendable = Some((u64::MAX - node.now_ns()) / 1000),
            _ => {}
        }
        own
    }

    /// Returns the context that travels with the call: that of the handler that makes it, and the values of the caller.
    /// An operation of a stream has none.
    pub(super) fn carried(&self) -> Result<Option<Arc<Entries>>, CallError> {
        if A::OPERATION {
            return Ok(None);
        }
        let attached = self.rare.as_ref().and_then(|rare| rare.attached.as_ref());
        Attached::outgoing(attached, self.route.bound().node.inherited_context())
    }

    /// Notes the terms for extensions of a call that was sent.
    #[cold]
    pub(super) fn lend(&mut self) {
        let (State::Sent(call) | State::Kept(call, ..)) = self.state else { return };
        let Bound { node, session, .. } = &self.bound().clone();
        let rare = self.rare.get_or_insert_default();
        let (above, lease) = node.bound().unwrap_or((u64::MAX, None));
        let until = rare.until();
        let end = until.map_or(above, |until| until.end.min(above));
        let term = Term::new(end, until.and_then(|until| until.most).unwrap_or(u64::MAX));
        let above = lease.map(|lease| lease.served());
        rare.more.lent = Some(Lent::new(session, call, term, above));
    }
}
