//! The streams that are open at a node that serves: results that it writes, arguments that it reads.
//!
//! `core::channel::stream` decides what a number means and what ends a stream; this file holds its tables, one for each
//! session that has had streams, and gives their ends what is decided. The operations of a stream run as methods
//! do. Invariant: nothing of the application's is dropped while a table is borrowed.

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

/// A session of a node, as the context of a message gives it to attachments.
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

/// A stream that is written here.
pub(crate) trait Outlet {
    /// Its peer asks for items. An error if it has done so already and waits.
    fn begin(&self) -> Result<(), AskedAlready>;

    /// Collects items, until there are some. Gives whether the stream ends with them.
    fn poll_batch(&self, context: &mut Context<'_>) -> Poll<bool>;

    /// The handler that was to collect them is dropped. Gives whether the stream ends.
    fn left(&self) -> bool;

    /// Bytes that the collected items will likely take.
    fn bytes_likely(&self) -> usize;

    /// Writes the collected items.
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError>;

    /// They were sent.
    fn clear(&self);
}

/// A stream that is read here.
pub(crate) trait Inlet {
    /// Takes items over. Gives whether those are the last.
    fn take(&self, input: &mut Input<'_>) -> Result<bool, WireError>;

    /// Waits until more may come. Gives whether anybody wants them.
    fn poll_room(&self, context: &mut Context<'_>) -> Poll<bool>;

    /// No more will come, although there is no end.
    fn break_off(&self, why: CallError);
}

/// The streams of one session.
type OfSession = Table<Rc<dyn Outlet>, Rc<dyn Inlet>>;

/// What runs the operations of streams.
pub(crate) struct Methods {
    pub(crate) pull: Box<dyn Method>,
    pub(crate) push: Box<dyn Method>,
}

/// The open streams, by the sessions of which they are.
#[derive(Default)]
pub(super) struct Streams {
    open: RefCell<HashMap<Key, OfSession>>,
    /// From the first stream on.
    methods: OnceCell<Methods>,
}

impl Streams {
    /// What runs this operation. None before the first stream.
    pub(super) fn method(&self, operation: Operation) -> Option<&dyn Method> {
        let methods = self.methods.get()?;
        match operation {
            Operation::Pull => Some(&*methods.pull),
            Operation::Push => Some(&*methods.push),
        }
    }

    /// Looks at the table of a session that has had streams.
    fn with<R>(&self, session: &Session, with: impl FnOnce(&mut OfSession) -> R) -> Option<R> {
        let key = session.noted.key.get()?;
        self.open.borrow_mut().get_mut(&key).map(with)
    }

    /// Looks at the table of a session, which is made with its first stream.
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
    /// Serves streams from now on.
    pub(crate) fn serve_streams(&self, methods: impl FnOnce() -> Methods) {
        self.served.streams.methods.get_or_init(methods);
    }

    /// Opens a stream that is written here, of which the answer of this call tells.
    pub(crate) fn open_outlet(
        &self,
        session: &Session,
        call: CallNumber,
        outlet: Rc<dyn Outlet>,
    ) -> Result<u32, WireError> {
        let opened = self.served.streams.with_made(session, |open| {
            // Dropped by its owner, and not here, where it is refused.
            open.open_result(call, Rc::clone(&outlet))
        })?;
        opened.map_err(|refusal| WireError::Stream { why: refusal.text() })
    }

    /// Opens a stream that is read here, which stands in the arguments of this call.
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

    /// The stream of this number that is written here.
    pub(crate) fn outlet(&self, session: &Session, number: u32) -> Option<Rc<dyn Outlet>> {
        self.served.streams.with(session, |open| open.result(number).cloned())?
    }

    /// The same of one that is read here.
    pub(crate) fn inlet(&self, session: &Session, number: u32) -> Option<Rc<dyn Inlet>> {
        self.served.streams.with(session, |open| open.argument(number).cloned())?
    }

    /// A stream that is written here has ended.
    pub(crate) fn close_outlet(&self, session: &Session, number: u32) {
        let closed = self.served.streams.with(session, |open| open.close_result(number));
        // What is dropped with it is the application's, and may look for streams itself.
        drop(closed);
    }

    /// A stream that is read here has ended.
    pub(crate) fn close_inlet(&self, session: &Session, number: u32) {
        let closed = self.served.streams.with(session, |open| open.close_argument(number));
        drop(closed);
    }

    /// The peer takes back a stream. Gives how many were written here that end.
    pub(super) fn stream_control(&self, session: &Session, control: Control, number: u32) -> u64 {
        let ended = self.served.streams.with(session, |open| open.handle_control(control, number));
        end(ended.unwrap_or_default(), gave_it_up)
    }

    /// The peer takes back a call that was answered, and with it all the streams in its result. Gives how
    /// many there were.
    pub(super) fn leave_streams_of(&self, session: &Session, call: CallNumber) -> u64 {
        let ended = self.served.streams.with(session, |open| open.handle_cancel(call));
        end(ended.unwrap_or_default(), gave_it_up)
    }

    /// The session that had this key has ended. Gives how many streams were written here.
    pub(super) fn end_streams(&self, key: Key, session: &Session) -> u64 {
        let left = self.served.streams.open.borrow_mut().remove(&key);
        let ended = left.map(OfSession::handle_lost).unwrap_or_default();
        end(ended, || CallError::Unknown(Box::new(session.lost())))
    }

    /// Streams that are open here.
    pub(crate) fn streams_open(&self) -> usize {
        self.served.streams.open.borrow().values().map(OfSession::len).sum()
    }
}

fn gave_it_up() -> CallError {
    CallError::Stream { text: "its writer gave it up".into() }
}

fn end(ended: Ended<Rc<dyn Outlet>, Rc<dyn Inlet>>, why: impl Fn() -> CallError) -> u64 {
    let written = ended.results.len() as u64;
    ended.results.into_iter().for_each(|outlet| contain(|| drop(outlet)));
    ended.arguments.into_iter().for_each(|inlet| contain(|| inlet.break_off(why())));
    written
}
