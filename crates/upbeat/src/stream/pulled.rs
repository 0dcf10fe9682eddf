//! A stream of a result, on the reader's side, which asks for items.
//!
//! A [`ResultReader`] decides when to ask. A stream read through a node stays on its thread; a stream read through a
//! handle may move to other threads if its items may, unless streams of the call's arguments continue beside it.

use super::batch::{Batch, End};
use super::route::{AnyRoute, HandleStreamRoute, NodeStreamRoute, StreamEnd, StreamRoute};
use crate::call::{By, CallFuture};
use crate::error::{CallError, Callee};
use crate::wire::{Arguments, CalledMethod, Content, Output, Wire, WireError};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use upbeat_core::channel::stream::{BATCHES_AHEAD, Operation, ResultReader};

/// The number of the stream whose items are asked for.
#[derive(Clone, Copy)]
pub(super) struct PullRequest(u32);

impl Content for PullRequest {
    const OPERATION: bool = true;
    const EXACT: Option<usize> = Some(size_of::<u32>());

    fn bytes_likely(&self) -> usize {
        size_of::<u32>()
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        Wire::put(&self.0, out)
    }
}

/// The requests for items, one call after another.
struct PullCalls<W: StreamRoute, T> {
    // This field is first so that the call is dropped before the stream.
    call: CallFuture<W, PullRequest, By<Batch<T>>>,
    left: StreamEnd<W, ResultReader>,
}

impl<W: StreamRoute, T: Wire> PullCalls<W, T> {
    fn new(way: W, number: u32) -> PullCalls<W, T> {
        let call = way.operate(Operation::Pull, PullRequest(number));
        PullCalls { call, left: StreamEnd::new(way, number) }
    }
}

impl<W: StreamRoute, T> PullCalls<W, T> {
    /// Sends the next call if it is time to ask, and returns the reply to the call that is under way.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Batch<T>, CallError>> {
        let PullCalls { call, left } = self;
        // A call is sent when it is first polled.
        if !left.state.begin_pull() && !left.state.is_asked() {
            return Poll::Pending;
        }
        let pulled = ready!(Pin::new(&mut *call).poll(context));
        match &pulled {
            Ok(Batch { end, .. }) => {
                if left.state.handle_batch(end.is_some()) {
                    call.again(PullRequest(left.number()));
                }
            }
            Err(_) => left.state.handle_failed(),
        }
        Poll::Ready(pulled)
    }
}

// A batch that comes while another one is read is kept in `Reader::next`.
const _: () = assert!(BATCHES_AHEAD == 1);

/// The items in their order, over any route.
pub(super) struct Reader<W: StreamRoute, T> {
    items: std::vec::IntoIter<T>,
    /// The batch behind those items, if it has come.
    next: Option<Result<Batch<T>, CallError>>,
    /// The reason why no more items come, if the stream broke off.
    broken: Option<CallError>,
    /// None after the end has come.
    asks: Option<PullCalls<W, T>>,
    /// The method in whose result the stream came, once that was read.
    of: Option<CalledMethod>,
}

impl<W: StreamRoute, T: Wire> Reader<W, T> {
    fn new(way: W, number: u32) -> Reader<W, T> {
        let asks = Some(PullCalls::new(way, number));
        Reader { items: Vec::new().into_iter(), next: None, broken: None, asks, of: None }
    }
}

impl<W: StreamRoute, T> Reader<W, T> {
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, CallError>>> {
        loop {
            if let Some(item) = self.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            match ready!(self.poll_batch(context)) {
                Some(Ok(batch)) => self.items = batch.items.into_iter(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(self.broken.take().map(Err)),
            }
        }
    }

    /// Returns the next items, and asks for more as soon as they have come.
    fn poll_batch(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Batch<T>, CallError>>> {
        let Some(asks) = &mut self.asks else { return Poll::Ready(None) };
        let mut batch = match self.next.take() {
            Some(batch) => batch,
            None => ready!(asks.poll(context)),
        };
        asks.left.state.read_batch();
        match &batch {
            Ok(Batch { end: None, .. }) => {
                if let Poll::Ready(next) = asks.poll(context) {
                    self.next = Some(next);
                }
            }
            Ok(Batch { end: Some(end), .. }) => {
                if let End::Broken(text) = end {
                    self.broken = Some(named(CallError::stream(text), asks.left.way(), self.of));
                }
                self.asks = None;
            }
            Err(_) => {
                batch = batch.map_err(|error| named(error, asks.left.way(), self.of));
                self.asks = None;
            }
        }
        Poll::Ready(Some(batch))
    }
}

/// Names the method in whose result a stream came as the one that has failed: its reader knows nothing of the calls that
/// fetch items.
#[cold]
fn named<W: StreamRoute>(error: CallError, way: &W, of: Option<CalledMethod>) -> CallError {
    let Some(CalledMethod { service, method }) = of else { return error };
    error.of(Callee { service, ..way.callee(None, method) })
}

impl<W: StreamRoute, T> Reader<W, T> {
    /// Notes that the result in which the stream stands was read completely: that of a call of this method.
    fn received(&mut self, of: CalledMethod) {
        self.of = Some(of);
        self.asks.iter_mut().for_each(|asks| asks.left.state.received());
    }
}

/// A stream that was received in a result.
pub(super) struct Pulled<T> {
    pub(super) reading: AnyReader<T>,
    pub(super) tie: Option<ArgumentStreams>,
}

/// The reader, by its route.
pub(super) enum AnyReader<T> {
    Node(Reader<NodeStreamRoute, T>),
    Handle(Reader<HandleStreamRoute, T>),
}

/// The streams of the call's arguments, which continue while this stream is read.
pub(super) struct ArgumentStreams(Rc<Arguments>);

impl<T: Wire> Pulled<T> {
    /// Returns the stream with this number.
    pub(super) fn new(way: AnyRoute, number: u32) -> Pulled<T> {
        let reading = match way {
            AnyRoute::Node(way) => AnyReader::Node(Reader::new(way, number)),
            AnyRoute::Handle(way) => AnyReader::Handle(Reader::new(way, number)),
        };
        Pulled { reading, tie: None }
    }
}

impl<T> Pulled<T> {
    pub(super) fn is_of_node(&self) -> bool {
        matches!(self.reading, AnyReader::Node(_))
    }

    pub(super) fn received(&mut self, of: CalledMethod) {
        match &mut self.reading {
            AnyReader::Node(reader) => reader.received(of),
            AnyReader::Handle(reader) => reader.received(of),
        }
    }

    pub(super) fn adopt(&mut self, arguments: &Rc<Arguments>) {
        self.tie = Some(ArgumentStreams(Rc::clone(arguments)));
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, CallError>>> {
        if let Some(ArgumentStreams(arguments)) = &self.tie
            && self.reading.is_empty()
        {
            arguments.feed(context);
        }
        match &mut self.reading {
            AnyReader::Node(reader) => reader.poll_next(context),
            AnyReader::Handle(reader) => reader.poll_next(context),
        }
    }
}

impl<T> AnyReader<T> {
    /// Returns whether all items that have come were read.
    fn is_empty(&self) -> bool {
        match self {
            AnyReader::Node(reader) => reader.items.len() == 0,
            AnyReader::Handle(reader) => reader.items.len() == 0,
        }
    }
}

impl Drop for ArgumentStreams {
    fn drop(&mut self) {
        self.0.leave();
    }
}
