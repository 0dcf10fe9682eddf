//! The streams that are open at a node that serves: results that it writes, arguments that it reads.
//!
//! A stream is a number. Its peer asks for items of the one, and brings items of the other, by calls
//! of two methods that every node serves, and takes it back when it wants no more of it; or takes back the
//! call whose answer it never looked at. Invariant: a number means something in its own session alone,
//! and nothing after its stream or its session has ended.

use super::{Dispatcher, Method};
use crate::contain::contain;
use crate::error::CallError;
use crate::session::Session;
use crate::wire::{Input, Output, WireError};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Poll};
use upbeat_core::bind::{PULL, PUSH};
use upbeat_core::frame::CallNumber;
use upbeat_core::limits::STREAMS_PER_SESSION_MAX;
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

const TOO_MANY: WireError = WireError::Stream {
    why: "256 of this session are open, as many as may be: read some to their ends, or drop them",
};
const ENDED: WireError = WireError::Stream { why: "its session has ended" };
const TAKEN: WireError = WireError::Stream { why: "its number is another's" };

/// A stream that is written here.
pub(crate) trait Outlet {
    /// Its peer asks for items. False if it has done so already and waits.
    fn begin(&self) -> bool;

    /// Collects items, until there are some. Gives whether those are the last.
    fn poll_batch(&self, context: &mut Context<'_>) -> Poll<bool>;

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

#[derive(Clone)]
enum End {
    Writes(Rc<dyn Outlet>),
    Reads(Rc<dyn Inlet>),
}

struct Open {
    number: u32,
    /// The call that opened it.
    call: CallNumber,
    end: End,
}

impl Open {
    fn is(&self, number: u32, writes: bool) -> bool {
        self.number == number && matches!(self.end, End::Writes(_)) == writes
    }
}

/// The two methods that every node serves: what asks for items of streams, and what brings them.
pub(crate) struct Methods {
    pub(crate) pull: Box<dyn Method>,
    pub(crate) push: Box<dyn Method>,
}

/// The open streams, by the sessions of which they are.
#[derive(Default)]
pub(super) struct Streams {
    open: RefCell<HashMap<Key, Vec<Open>>>,
    /// The number of the last that was opened here.
    last: Cell<u32>,
    /// From the first stream on.
    methods: OnceCell<Methods>,
}

impl Streams {
    /// The method of this number.
    pub(super) fn method(&self, number: u16) -> Option<&dyn Method> {
        let methods = self.methods.get()?;
        match number {
            PULL => Some(&*methods.pull),
            PUSH => Some(&*methods.push),
            _ => None,
        }
    }

    fn with<R>(&self, session: &Session, with: impl FnOnce(&mut Vec<Open>) -> R) -> Option<R> {
        let key = session.key.get()?;
        let mut all = self.open.borrow_mut();
        let open = all.get_mut(&key)?;
        let result = with(open);
        if open.is_empty() {
            all.remove(&key);
        }
        Some(result)
    }
}

impl Dispatcher {
    /// Serves streams from now on.
    pub(crate) fn serve_streams(&self, methods: impl FnOnce() -> Methods) {
        self.streams.methods.get_or_init(methods);
    }

    /// Opens a stream that is written here, of which the answer of this call tells.
    pub(crate) fn open_outlet(
        &self,
        session: &Session,
        call: CallNumber,
        outlet: Rc<dyn Outlet>,
    ) -> Result<u32, WireError> {
        let number = self.streams.last.get().wrapping_add(1);
        self.streams.last.set(number);
        self.open_stream(session, Open { number, call, end: End::Writes(outlet) })?;
        Ok(number)
    }

    /// Opens a stream that is read here, which stands in the arguments of this call.
    pub(crate) fn open_inlet(
        &self,
        session: &Session,
        number: u32,
        call: CallNumber,
        inlet: Rc<dyn Inlet>,
    ) -> Result<(), WireError> {
        self.open_stream(session, Open { number, call, end: End::Reads(inlet) })
    }

    fn open_stream(&self, session: &Session, stream: Open) -> Result<(), WireError> {
        let key = session.key.get().ok_or(ENDED)?;
        let mut all = self.streams.open.borrow_mut();
        let open = all.entry(key).or_default();
        let writes = matches!(stream.end, End::Writes(_));
        if open.len() >= STREAMS_PER_SESSION_MAX {
            return Err(TOO_MANY);
        }
        if open.iter().any(|open| open.is(stream.number, writes)) {
            return Err(TAKEN);
        }
        open.push(stream);
        Ok(())
    }

    /// The stream of this number that is written here.
    pub(crate) fn outlet(&self, session: &Session, number: u32) -> Option<Rc<dyn Outlet>> {
        match self.stream_of(session, number, true)? {
            End::Writes(outlet) => Some(outlet),
            End::Reads(_) => None,
        }
    }

    /// The same of one that is read here.
    pub(crate) fn inlet(&self, session: &Session, number: u32) -> Option<Rc<dyn Inlet>> {
        match self.stream_of(session, number, false)? {
            End::Reads(inlet) => Some(inlet),
            End::Writes(_) => None,
        }
    }

    fn stream_of(&self, session: &Session, number: u32, writes: bool) -> Option<End> {
        self.streams.with(session, |open| {
            open.iter().find(|open| open.is(number, writes)).map(|open| open.end.clone())
        })?
    }

    /// A stream that is written here has ended.
    pub(crate) fn close_outlet(&self, session: &Session, number: u32) {
        self.close_stream(session, number, true);
    }

    /// A stream that is read here has ended.
    pub(crate) fn close_inlet(&self, session: &Session, number: u32) {
        self.close_stream(session, number, false);
    }

    fn close_stream(&self, session: &Session, number: u32, writes: bool) {
        let closed = self.streams.with(session, |open| {
            let at = open.iter().position(|open| open.is(number, writes))?;
            Some(open.swap_remove(at))
        });
        // What is dropped with it is the application's, and may look for streams itself.
        drop(closed);
    }

    /// The peer takes back a stream, or a call that was answered and with it all the streams that it
    /// opened. Gives how many of them were written here.
    pub(super) fn leave_streams(&self, session: &Session, call: CallNumber) -> u64 {
        let number = call.generation;
        let is_left = |open: &mut Open| match call.index {
            CallNumber::RESULT_STREAM => open.is(number, true),
            CallNumber::ARGUMENT_STREAM => open.is(number, false),
            _ => open.call == call && matches!(open.end, End::Writes(_)),
        };
        let left = self
            .streams
            .with(session, |open| -> Vec<Open> { open.extract_if(.., is_left).collect() });
        let why = || CallError::Stream { text: "its writer gave it up".into() };
        end(left.unwrap_or_default(), why)
    }

    /// The session that had this key has ended. Gives how many streams were written here.
    pub(super) fn end_streams(&self, key: Key, session: &Session) -> u64 {
        let left = self.streams.open.borrow_mut().remove(&key);
        end(left.unwrap_or_default(), || CallError::Unknown(Box::new(session.lost())))
    }

    /// Streams that are open here.
    pub(crate) fn streams_open(&self) -> usize {
        self.streams.open.borrow().values().map(Vec::len).sum()
    }
}

fn end(streams: Vec<Open>, why: impl Fn() -> CallError) -> u64 {
    let mut written = 0;
    for stream in streams {
        match stream.end {
            End::Writes(outlet) => {
                written += 1;
                contain(|| drop(outlet));
            }
            End::Reads(inlet) => contain(|| inlet.break_off(why())),
        }
    }
    written
}
