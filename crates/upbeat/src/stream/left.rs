//! The route to a stream's other end, and the message that is sent when this end is dropped.

use crate::call::{Bound, By, CallFuture, NodeRoute, Route};
use crate::handle::{HandleRoute, Side};
use crate::wire::{Content, MessageContext, Wire};
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::channel;
use upbeat_core::channel::stream::{CallerEnd, Operation};
use upbeat_core::frame::Head;

/// The route of a node's streams.
pub(super) type NodeWay = NodeRoute<Rc<Bound>>;

/// The route of a handle's streams.
pub(super) type HandleWay = HandleRoute<Arc<Side>>;

/// The route to the node that serves.
pub(super) enum AnyWay {
    Node(NodeWay),
    Handle(HandleWay),
}

impl AnyWay {
    /// Returns the route to the callee of this message, or None if the message carries no streams.
    pub(super) fn new(context: &MessageContext<'_>) -> Option<AnyWay> {
        if let Some(bound) = context.session.downcast_ref::<Bound>() {
            let bound = Rc::new(Bound { service: "stream", ..bound.clone() });
            return Some(AnyWay::Node(NodeRoute(bound)));
        }
        let side = context.session.downcast_ref::<Arc<Side>>();
        side.map(|side| AnyWay::Handle(HandleRoute(Arc::clone(side))))
    }
}

/// The route to a stream's other end, which outlives the call in which the stream stands.
pub(super) trait Way: Route + Clone {
    /// Tells the other end that the stream is no longer wanted.
    fn leave(&self, head: Head);

    /// Calls an operation of the other end.
    fn operate<A: Content, R: Wire>(
        &self,
        operation: Operation,
        arguments: A,
    ) -> CallFuture<Self, A, By<R>> {
        let operation = channel::Operation::Stream(operation);
        CallFuture::operation(self.clone(), operation, arguments, By(R::take))
    }
}

impl Way for NodeWay {
    fn leave(&self, head: Head) {
        self.0.take_back(head);
    }
}

impl Way for HandleWay {
    fn leave(&self, head: Head) {
        self.0.take_back(head);
    }
}

/// This end of a stream, in its state. Dropping it before the stream has ended tells the other end.
pub(super) struct Left<W: Way, S: CallerEnd> {
    way: W,
    number: u32,
    pub(super) state: S,
}

impl<W: Way, S: CallerEnd + Default> Left<W, S> {
    /// Returns the end of the stream with this number.
    pub(super) fn new(way: W, number: u32) -> Left<W, S> {
        Left { way, number, state: S::default() }
    }

    pub(super) fn way(&self) -> &W {
        &self.way
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl<W: Way, S: CallerEnd> Drop for Left<W, S> {
    fn drop(&mut self) {
        if let Some(control) = self.state.leave() {
            let control = channel::Control::Stream(control);
            self.way.leave(Head::control(control.code(), self.number));
        }
    }
}
