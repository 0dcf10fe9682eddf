//! The streams that are open at a serving node: results that it writes, and arguments that it reads.
//!
//! `core::channel::stream` decides the meaning of a number and the end of a stream; this file has its tables, one for
//! each session that has had streams, and passes the decisions to the streams' ends. The operations of a stream run as
//! methods do. Invariant: no value of the application is dropped while a table is borrowed.

use super::{Dispatcher, Method};
use crate::contain::contain;
use crate::error::CallError;
use crate::session::Session;
use crate::wire::{Input, Output, WireError};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Poll};
use upbeat_core::channel::stream::{AskedAlready, Control, Ended, Operation, Streams as Table};
use upbeat_core::frame::CallNumber;
use upbeat_memory::pool::Key;

/// A session of a node, as the context of a message passes it to attachments.
#[derive(Clone)]
pub(crate) struct NodeSession {
    pub(crate) node: Rc<Dispatcher>,
    pub(crate) session: Rc<Session>,
}

impl NodeSession {
    pub(crate) fn new(node: &Rc<Dispatcher>, session: &Rc<Session>) -> NodeSession {
        NodeSession { node: Rc::clone(node), session: Rc::clone(session) }
    }
}

const ENDED: WireError = WireError::Stream { why: "its session has ended" };

/// A stream that this node writes.
pub(crate) trait Outlet {
    /// Begins a request of the peer for items. Fails if an earlier request of the peer still waits.
    fn begin(&self) -> Result<(), AskedAlready>;

    /// Collects items, until there are some. Returns whether the stream ends with them.
    fn poll_batch(&self, context: &mut Context<'_>) -> Poll<bool>;

    /// Handles the drop of the handler that was to collect items. Returns whether the stream ends.
    fn left(&self) -> bool;

    /// Returns an estimate of the collected items' bytes.
    fn bytes_likely(&self) -> usize;

    /// Writes the collected items.
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError>;

    /// Drops the collected items, which were sent.
    fn clear(&self);
}

/// A stream that this node reads.
pub(crate) trait Inlet {
    /// Takes items over. Returns whether those are the last.
    fn take(&self, input: &mut Input<'_>) -> Result<bool, WireError>;

    /// Waits until more items may come. Returns whether the reader wants them.
    fn poll_room(&self, context: &mut Context<'_>) -> Poll<bool>;

    /// Ends the stream with an error: no more items will come.
    fn break_off(&self, why: CallError);
}

/// The streams of one session.
type OfSession = Table<Rc<dyn Outlet>, Rc<dyn Inlet>>;

/// The methods that run the operations of streams.
pub(crate) struct Methods {
    pub(crate) pull: Box<dyn Method>,
    pub(crate) push: Box<dyn Method>,
}

/// The open streams, by their sessions.
#[derive(Default)]
pub(super) struct Streams {
    open: RefCell<HashMap<Key, OfSession>>,
    /// The methods, which are set with the first stream.
    methods: OnceCell<Methods>,
}

impl Streams {
    /// Returns the method that runs this operation. There is none before the first stream.
    pub(super) fn method(&self, operation: Operation) -> Option<&dyn Method> {
        let methods = self.methods.get()?;
        match operation {
            Operation::Pull => Some(&*methods.pull),
            Operation::Push => Some(&*methods.push),
        }
    }

    /// Passes the table of a session to `with`, if the session has had streams.
    fn with<R>(&self, session: &Session, with: impl FnOnce(&mut OfSession) -> R) -> Option<R> {
        let key = session.noted.key.get()?;
        self.open.borrow_mut().get_mut(&key).map(with)
    }

    /// Passes the table of a session to `with`. The table is made with the first stream.
    fn with_made<R>(
        &self,
        session: &Session,
        with: impl FnOnce(&mut OfSession) -> R,
    ) -> Result<R, WireError> {
        let key = session.noted.key.get().ok_or(ENDED)?;
        Ok(with(self.open.borrow_mut().entry(key).or_default()))
    }
}

impl Dispatcher {
    /// Provides the methods of streams, from the first stream on.
    pub(crate) fn serve_streams(&self, methods: impl FnOnce() -> Methods) {
        self.served.streams.methods.get_or_init(methods);
    }

    /// Opens a stream that this node writes, and that the reply to this call announces.
    pub(crate) fn open_outlet(
        &self,
        session: &Session,
        call: CallNumber,
        outlet: Rc<dyn Outlet>,
    ) -> Result<u32, WireError> {
        let opened = self.served.streams.with_made(session, |open| {
            // Where the stream is refused, its owner drops it, and not this function.
            open.open_result(call, Rc::clone(&outlet))
        })?;
        opened.map_err(|refusal| WireError::Stream { why: refusal.text() })
    }

    /// Opens a stream that this node reads, and that the arguments of this call announce.
    pub(crate) fn open_inlet(
        &self,
        session: &Session,
        number: u32,
        call: CallNumber,
        inlet: Rc<dyn Inlet>,
    ) -> Result<(), WireError> {
        let opened = self
            .served
            .streams
            .with_made(session, |open| open.open_argument(call, number, Rc::clone(&inlet)))?;
        opened.map_err(|refusal| WireError::Stream { why: refusal.text() })
    }

    /// Returns the stream of this number that this node writes.
    pub(crate) fn outlet(&self, session: &Session, number: u32) -> Option<Rc<dyn Outlet>> {
        self.served.streams.with(session, |open| open.result(number).cloned())?
    }

    /// Returns the stream of this number that this node reads.
    pub(crate) fn inlet(&self, session: &Session, number: u32) -> Option<Rc<dyn Inlet>> {
        self.served.streams.with(session, |open| open.argument(number).cloned())?
    }

    /// Closes a stream that this node writes.
    pub(crate) fn close_outlet(&self, session: &Session, number: u32) {
        let closed = self.served.streams.with(session, |open| open.close_result(number));
        // The stream may drop values of the application, and their drop may use streams.
        drop(closed);
    }

    /// Closes a stream that this node reads.
    pub(crate) fn close_inlet(&self, session: &Session, number: u32) {
        let closed = self.served.streams.with(session, |open| open.close_argument(number));
        drop(closed);
    }

    /// Handles a peer's cancellation of a stream. Returns how many streams that this node writes have ended.
    pub(super) fn stream_control(&self, session: &Session, control: Control, number: u32) -> u64 {
        let ended = self.served.streams.with(session, |open| open.handle_control(control, number));
        end(ended.unwrap_or_default(), gave_it_up)
    }

    /// Handles a peer's cancellation of a call that has its reply, and of all the streams in its result. Returns how
    /// many there were.
    pub(super) fn leave_streams_of(&self, session: &Session, call: CallNumber) -> u64 {
        let ended = self.served.streams.with(session, |open| open.handle_cancel(call));
        end(ended.unwrap_or_default(), gave_it_up)
    }

    /// Ends the streams of the session that had this key. Returns how many of them this node wrote.
    pub(super) fn end_streams(&self, key: Key, session: &Session) -> u64 {
        let left = self.served.streams.open.borrow_mut().remove(&key);
        let ended = left.map(OfSession::handle_lost).unwrap_or_default();
        end(ended, || CallError::Unknown(Box::new(session.lost())))
    }

    /// Returns the number of open streams.
    pub(crate) fn streams_open(&self) -> usize {
        self.served.streams.open.borrow().values().map(OfSession::len).sum()
    }
}

fn gave_it_up() -> CallError {
    CallError::stream("its writer gave it up")
}

fn end(ended: Ended<Rc<dyn Outlet>, Rc<dyn Inlet>>, why: impl Fn() -> CallError) -> u64 {
    let written = ended.results.len() as u64;
    ended.results.into_iter().for_each(|outlet| contain(|| drop(outlet)));
    ended.arguments.into_iter().for_each(|inlet| contain(|| inlet.break_off(why())));
    written
}
