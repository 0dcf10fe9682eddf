//! The way to a stream's other end, and what is said there when this end is left.

use crate::call::Bound;
use crate::error::CallError;
use crate::handle::{Side, SideCall};
use crate::wire::{Content, MessageContext, Wire};
use std::sync::Arc;
use upbeat_core::channel;
use upbeat_core::channel::stream::{Control, Operation};
use upbeat_core::frame::Head;

/// How the node is called that serves.
#[derive(Clone)]
pub(super) enum Way {
    Node(Bound),
    Handle(Arc<Side>),
}

impl Way {
    /// The way to the callee of this message. None where the message carries no streams.
    pub(super) fn new(context: &MessageContext<'_>) -> Option<Way> {
        if let Some(bound) = context.session.downcast_ref::<Bound>() {
            return Some(Way::Node(Bound { service: "stream", ..bound.clone() }));
        }
        context.session.downcast_ref::<Arc<Side>>().map(|side| Way::Handle(Arc::clone(side)))
    }

    /// Asks the other end for an operation.
    pub(super) async fn operate<A: Content, R: Wire>(
        &self,
        operation: Operation,
        arguments: A,
    ) -> Result<R, CallError> {
        let operation = channel::Operation::Stream(operation);
        match self {
            Way::Node(bound) => bound.operate::<A, R>(operation, arguments).await,
            Way::Handle(side) => SideCall::<A, R>::new(side, operation, arguments).await,
        }
    }
}

/// Where it is said that a stream is wanted no more.
pub(super) trait Tell {
    fn take_back(&self, head: Head);
}

impl Tell for Way {
    fn take_back(&self, head: Head) {
        match self {
            Way::Node(bound) => bound.take_back(head),
            Way::Handle(side) => side.take_back(head),
        }
    }
}

impl Tell for Arc<Side> {
    fn take_back(&self, head: Head) {
        Side::take_back(self, head);
    }
}

/// This end of a stream. Dropped before the stream has ended, it tells the other end.
pub(super) struct Left<W: Tell = Way> {
    way: W,
    number: u32,
    /// What the other end is told.
    control: Control,
    /// Whether the other end is told.
    tells: bool,
}

impl<W: Tell> Left<W> {
    /// The reader's end of a stream in a result. While the result is read, its reader tells the callee what
    /// becomes of it as a whole, so this end tells nothing until it was [received](Left::received).
    pub(super) fn of_reader(way: W, number: u32) -> Left<W> {
        Left { way, number, control: Control::Stop, tells: false }
    }

    /// The writer's end of a stream in arguments that were sent.
    pub(super) fn of_writer(way: W, number: u32) -> Left<W> {
        Left { way, number, control: Control::Abandon, tells: true }
    }

    pub(super) fn way(&self) -> &W {
        &self.way
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The result in which it stands was read to its end.
    pub(super) fn received(&mut self) {
        self.tells = true;
    }

    /// The stream has ended, and the other end knows.
    pub(super) fn over(&mut self) {
        self.tells = false;
    }
}

impl<W: Tell> Drop for Left<W> {
    fn drop(&mut self) {
        if self.tells {
            let control = channel::Control::Stream(self.control);
            self.way.take_back(Head::control(control.code(), self.number));
        }
    }
}
