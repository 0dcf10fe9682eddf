//! The way to a stream's other end, and what is said there when this end is left.

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

/// How the node is called that serves.
pub(super) enum AnyWay {
    Node(NodeWay),
    Handle(HandleWay),
}

impl AnyWay {
    /// The way to the callee of this message. None where the message carries no streams.
    pub(super) fn new(context: &MessageContext<'_>) -> Option<AnyWay> {
        if let Some(bound) = context.session.downcast_ref::<Bound>() {
            let bound = Rc::new(Bound { service: "stream", ..bound.clone() });
            return Some(AnyWay::Node(NodeRoute(bound)));
        }
        let side = context.session.downcast_ref::<Arc<Side>>();
        side.map(|side| AnyWay::Handle(HandleRoute(Arc::clone(side))))
    }
}

/// The way to a stream's other end, which outlives the call in which the stream stands.
pub(super) trait Way: Route + Clone {
    /// Tells the other end that the stream is wanted no more.
    fn leave(&self, head: Head);

    /// Asks the other end for an operation.
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

/// This end of a stream, in its state. Dropped before the stream has ended, it tells the other end.
pub(super) struct Left<W: Way, S: CallerEnd> {
    way: W,
    number: u32,
    pub(super) state: S,
}

impl<W: Way, S: CallerEnd + Default> Left<W, S> {
    /// The end of the stream of this number.
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
