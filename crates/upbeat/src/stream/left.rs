//! The way to a stream's other end, and what is said there when this end is left.

use crate::call::Bound;
use crate::dispatch::Dispatcher;
use crate::error::CallError;
use crate::handle::{Side, SideCall};
use crate::passage::{self, Carrier};
use crate::session::Session;
use crate::wire::Wire;
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::bind::{PULL, PUSH};
use upbeat_core::frame::Head;

/// How the node is called that serves.
#[derive(Clone)]
pub(super) enum Way {
    Node(Bound),
    Handle(Arc<Side>),
}

/// The methods that every node serves.
#[derive(Clone, Copy)]
pub(super) enum Builtin {
    Pull,
    Push,
}

const SERVICE: &str = "stream";

impl Way {
    /// None where it carries no streams.
    pub(super) fn new(carrier: &Carrier) -> Option<Way> {
        match carrier {
            Carrier::Node(node, session) => Some(Way::of_node(node, session)),
            Carrier::Handle(side) => Arc::clone(side).downcast::<Side>().ok().map(Way::Handle),
        }
    }

    fn of_node(node: &Rc<Dispatcher>, session: &Rc<Session>) -> Way {
        let numbers = Rc::new([PULL, PUSH]);
        let (node, session) = (Rc::clone(node), Rc::clone(session));
        Way::Node(Bound { node, session, service: SERVICE, numbers })
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
    of_result: bool,
    over: bool,
}

impl<W: Tell> Left<W> {
    /// The stream of this number: of a result, or of an argument.
    pub(super) fn new(way: W, number: u32, of_result: bool) -> Left<W> {
        Left { way, number, of_result, over: false }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The stream has ended, and the other end knows.
    pub(super) fn over(&mut self) {
        self.over = true;
    }
}

impl Left {
    /// Calls the other end.
    pub(super) async fn call<A: Wire, R: Wire>(
        &self,
        method: Builtin,
        arguments: A,
    ) -> Result<R, CallError> {
        let (index, number, name) = match method {
            Builtin::Pull => (0, PULL, "pull"),
            Builtin::Push => (1, PUSH, "push"),
        };
        match &self.way {
            Way::Node(bound) => bound.call::<A, R>(index, name, arguments).await,
            Way::Handle(side) => SideCall::<A, R>::new(side, number, name, arguments).await,
        }
    }
}

impl<W: Tell> Drop for Left<W> {
    fn drop(&mut self) {
        // While a message is read, whoever reads it says this of the call.
        if !self.over && !passage::is_open() {
            self.way.take_back(Head::cancel_stream(self.number, self.of_result));
        }
    }
}
