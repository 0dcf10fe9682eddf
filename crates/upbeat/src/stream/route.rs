//! The route to a stream's other end, and the message that is sent when this end is dropped.

use crate::call::{Bound, By, CallFuture, NodeRoute, Route};
use crate::handle::{HandleRoute, Side};
use crate::wire::{Content, MessageContext, Wire};
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::channel;
use upbeat_core::channel::stream::{CallerEnd, Operation};
use upbeat_core::frame::Head;
use upbeat_memory::local::Local;

/// The route of a node's streams.
pub(super) type NodeStreamRoute = NodeRoute<Rc<Bound>>;

/// The route of a handle's streams.
pub(super) type HandleStreamRoute = HandleRoute<Arc<Side>>;

/// The route to the node that serves.
pub(super) enum AnyRoute {
    Node(NodeStreamRoute),
    Handle(HandleStreamRoute),
}

impl AnyRoute {
    /// Returns the route to the callee of this message, or None if the message carries no streams.
    pub(super) fn new(context: &MessageContext<'_>) -> Option<AnyRoute> {
        if let Some(bound) = context.session.downcast_ref::<Bound>() {
            let bound = Rc::new(Bound {
                service: "stream",
                reconnector: Local::default(),
                ..bound.clone()
            });
            return Some(AnyRoute::Node(NodeRoute(bound)));
        }
        let side = context.session.downcast_ref::<Arc<Side>>();
        side.map(|side| AnyRoute::Handle(HandleRoute(Arc::clone(side))))
    }
}

/// The route to a stream's other end, which outlives the call in which the stream stands.
pub(super) trait StreamRoute: Route + Clone {
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

impl StreamRoute for NodeStreamRoute {
    fn leave(&self, head: Head) {
        self.0.take_back(head);
    }
}

impl StreamRoute for HandleStreamRoute {
    fn leave(&self, head: Head) {
        self.0.take_back(head);
    }
}

/// This end of a stream, in its state. Dropping it before the stream has ended tells the other end.
pub(super) struct StreamEnd<W: StreamRoute, S: CallerEnd> {
    way: W,
    number: u32,
    pub(super) state: S,
}

impl<W: StreamRoute, S: CallerEnd + Default> StreamEnd<W, S> {
    /// Returns the end of the stream with this number.
    pub(super) fn new(way: W, number: u32) -> StreamEnd<W, S> {
        StreamEnd { way, number, state: S::default() }
    }

    pub(super) fn way(&self) -> &W {
        &self.way
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl<W: StreamRoute, S: CallerEnd> Drop for StreamEnd<W, S> {
    fn drop(&mut self) {
        if let Some(control) = self.state.leave() {
            let control = channel::Control::Stream(control);
            self.way.leave(Head::control(control.code(), self.number));
        }
    }
}
