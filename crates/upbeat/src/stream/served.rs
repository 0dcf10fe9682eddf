//! The handlers of the operations of streams: asking for items of a result, and bringing items of an argument.

use super::batch::Batch;
use super::source::Source;
use crate::dispatch::{Dispatcher, Entry, Inlet, NodeSession, Outlet, StreamMethods};
use crate::error::CallError;
use crate::execution::Execution;
use crate::service::{Bare, Methods, Rules};
use crate::session::Session;
use crate::statistics::Collected;
use crate::wire::{Describe, Input, Output, Wire, WireError};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use upbeat_core::channel::stream::{AskedAlready, ResultWriter};

const NONE: WireError = WireError::Stream { why: "none of that number is open in this session" };
const ASKED: WireError = WireError::Stream { why: "its items were asked for already" };

/// Registers the operations of streams at a node.
pub(super) fn serve(node: &Rc<Dispatcher>) {
    node.serve_streams(|| {
        let mut entries: Vec<Entry> = Vec::new();
        let mut enter = |entry| entries.push(entry);
        let execution = Execution::Orpc;
        // Statistics count the calls of the application's methods, and not the calls that carry their streams.
        let statistics = &Collected::new(None);
        let (service, enter) = ("stream", &mut enter);
        let mut methods = Methods { service, enter, node, execution, statistics, wraps: Bare };
        let rule = Rules::NONE.of("");
        methods.call::<Pull, Sent, _>("pull", rule, Pull::run);
        methods.call::<Push, bool, _>("push", rule, Push::run);
        let mut entries = entries.into_iter().map(|entry| entry.method);
        match (entries.next(), entries.next()) {
            (Some(pull), Some(push)) => StreamMethods { pull, push },
            _ => unreachable!("both were entered"),
        }
    });
}

/// A stream that is written here.
pub(super) struct Outgoing<T> {
    source: RefCell<Source<T>>,
    batch: RefCell<Batch<T>>,
    demand: Cell<ResultWriter>,
}

impl<T> Outgoing<T> {
    pub(super) fn new(source: Source<T>) -> Outgoing<T> {
        let (batch, demand) = (RefCell::default(), Cell::default());
        Outgoing { source: RefCell::new(source), batch, demand }
    }

    fn demand<R>(&self, with: impl FnOnce(&mut ResultWriter) -> R) -> R {
        let mut demand = self.demand.get();
        let result = with(&mut demand);
        self.demand.set(demand);
        result
    }
}

impl<T> Drop for Outgoing<T> {
    fn drop(&mut self) {
        // The items are dropped before the source, whose own drop may panic.
        self.batch.get_mut().clear();
    }
}

impl<T: Wire> Outlet for Outgoing<T> {
    fn begin(&self) -> Result<(), AskedAlready> {
        self.demand(ResultWriter::handle_pull)
    }

    fn poll_batch(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut batch = self.batch.borrow_mut();
        let mut source = self.source.borrow_mut();
        ready!(batch.poll_fill(|| source.poll_next(context)));
        let is_last = batch.end.is_some();
        Poll::Ready(self.demand(|demand| demand.batch_collected(is_last)))
    }

    fn left(&self) -> bool {
        self.demand(ResultWriter::pull_dropped)
    }

    fn bytes_likely(&self) -> usize {
        self.batch.borrow().bytes_likely()
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        self.batch.borrow().put(out)
    }

    fn clear(&self) {
        self.demand(ResultWriter::answered);
        self.batch.borrow_mut().clear();
    }
}

/// The session and the number of an open stream.
struct StreamKey {
    of: NodeSession,
    number: u32,
}

impl StreamKey {
    fn close_outlet(&self) {
        self.of.node.close_outlet(&self.of.session, self.number);
    }

    fn close_inlet(&self) {
        self.of.node.close_inlet(&self.of.session, self.number);
    }
}

/// Returns the stream that a message names.
fn find<E: ?Sized>(
    input: &mut Input<'_>,
    find: impl FnOnce(&Dispatcher, &Session, u32) -> Option<Rc<E>>,
) -> Result<(StreamKey, Rc<E>), WireError> {
    let number = u32::take(input)?;
    let of = input.context().and_then(|context| context.session.downcast_ref::<NodeSession>());
    let of = of.ok_or(NONE)?;
    let found = find(&of.node, &of.session, number).ok_or(NONE)?;
    Ok((StreamKey { of: of.clone(), number }, found))
}

/// A request for items. Dropping it before there are any ends the stream: nobody will ask again.
struct Pull {
    at: StreamKey,
    outlet: Rc<dyn Outlet>,
}

impl Pull {
    async fn run(self) -> Sent {
        let ends = poll_fn(|context| {
            let polled = self.outlet.poll_batch(context);
            if polled.is_pending() {
                // While the writer waits, for any reason, it holds no bytes of the budget.
                self.at.of.node.awaits_answer();
            }
            polled
        })
        .await;
        if ends {
            self.at.close_outlet();
        }
        Sent(Rc::clone(&self.outlet))
    }
}

impl Drop for Pull {
    fn drop(&mut self) {
        if self.outlet.left() {
            self.at.close_outlet();
        }
    }
}

impl Wire for Pull {
    const STREAMS: bool = true;

    fn describe(out: &mut Describe) {
        out.of::<u32>();
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        self.at.number.put(out)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let (at, outlet) = find(input, Dispatcher::outlet)?;
        outlet.begin().map_err(|AskedAlready| ASKED)?;
        Ok(Pull { at, outlet })
    }
}

/// The items that were asked for.
struct Sent(Rc<dyn Outlet>);

impl Drop for Sent {
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl Wire for Sent {
    fn bytes_likely(&self) -> usize {
        self.0.bytes_likely()
    }

    fn describe(_: &mut Describe) {}

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        self.0.put(out)
    }

    fn take(_: &mut Input<'_>) -> Result<Self, WireError> {
        Err(NONE)
    }
}

/// Items that the writer brings. Dropping this before there is room for more means that the writer is gone.
struct Push {
    at: StreamKey,
    inlet: Rc<dyn Inlet>,
    done: bool,
}

impl Push {
    async fn run(mut self) -> bool {
        let wanted = poll_fn(|context| {
            let polled = self.inlet.poll_room(context);
            if polled.is_pending() {
                self.at.of.node.awaits_answer();
            }
            polled
        })
        .await;
        self.done = true;
        wanted
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        if !self.done {
            self.inlet.break_off(CallError::stream("its writer gave it up"));
            self.at.close_inlet();
        }
    }
}

impl Wire for Push {
    const STREAMS: bool = true;

    fn describe(out: &mut Describe) {
        out.of::<u32>();
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        self.at.number.put(out)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let (at, inlet) = find(input, Dispatcher::inlet)?;
        if inlet.take(input)? {
            at.close_inlet();
        }
        Ok(Push { at, inlet, done: false })
    }
}
