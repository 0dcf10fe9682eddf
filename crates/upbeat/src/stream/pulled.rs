//! A stream of a result, on the reader's side, which asks for items.
//!
//! A [`Lookahead`] decides when to ask. A stream read through a node stays on its thread; a stream read through a
//! handle may move to other threads if its items may, unless streams of the call's arguments continue beside it.

use super::batch::{Batch, End};
use super::left::{AnyWay, HandleWay, Left, NodeWay, Way};
use crate::call::{By, CallFuture};
use crate::error::CallError;
use crate::wire::{Arguments, Content, Output, Wire, WireError};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use upbeat_core::channel::stream::{BATCHES_AHEAD, Lookahead, Operation};

/// The number of the stream whose items are asked for.
#[derive(Clone, Copy)]
pub(super) struct Wanted(u32);

impl Content for Wanted {
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
struct Asks<W: Way, T> {
    // This field is first so that the call is dropped before the stream.
    call: CallFuture<W, Wanted, By<Batch<T>>>,
    left: Left<W, Lookahead>,
}

impl<W: Way, T: Wire> Asks<W, T> {
    fn new(way: W, number: u32) -> Asks<W, T> {
        let call = way.operate(Operation::Pull, Wanted(number));
        Asks { call, left: Left::new(way, number) }
    }
}

impl<W: Way, T> Asks<W, T> {
    /// Sends the next call if it is time to ask, and returns the reply to the call that is under way.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Batch<T>, CallError>> {
        let Asks { call, left } = self;
        // A call is sent when it is first polled.
        if !left.state.begin_pull() && !left.state.is_asked() {
            return Poll::Pending;
        }
        let pulled = ready!(Pin::new(&mut *call).poll(context));
        match &pulled {
            Ok(Batch { end, .. }) => {
                if left.state.handle_batch(end.is_some()) {
                    call.again(Wanted(left.number()));
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
pub(super) struct Reader<W: Way, T> {
    items: std::vec::IntoIter<T>,
    /// The batch behind those items, if it has come.
    next: Option<Result<Batch<T>, CallError>>,
    /// The reason why no more items come, if the stream broke off.
    broken: Option<CallError>,
    /// None after the end has come.
    asks: Option<Asks<W, T>>,
}

impl<W: Way, T: Wire> Reader<W, T> {
    fn new(way: W, number: u32) -> Reader<W, T> {
        let asks = Some(Asks::new(way, number));
        Reader { items: Vec::new().into_iter(), next: None, broken: None, asks }
    }
}

impl<W: Way, T> Reader<W, T> {
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
        let batch = match self.next.take() {
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
                    self.broken = Some(CallError::Stream { text: text.as_str().into() });
                }
                self.asks = None;
            }
            Err(_) => self.asks = None,
        }
        Poll::Ready(Some(batch))
    }
}

impl<W: Way, T> Reader<W, T> {
    /// Notes that the result in which the stream stands was read completely.
    fn received(&mut self) {
        self.asks.iter_mut().for_each(|asks| asks.left.state.received());
    }
}

/// A stream that was received in a result.
pub(super) struct Pulled<T> {
    pub(super) reading: Reading<T>,
    pub(super) tie: Option<Tie>,
}

/// The reader, by its route.
pub(super) enum Reading<T> {
    Node(Reader<NodeWay, T>),
    Handle(Reader<HandleWay, T>),
}

/// The streams of the call's arguments, which continue while this stream is read.
pub(super) struct Tie(Rc<Arguments>);

impl<T: Wire> Pulled<T> {
    /// Returns the stream with this number.
    pub(super) fn new(way: AnyWay, number: u32) -> Pulled<T> {
        let reading = match way {
            AnyWay::Node(way) => Reading::Node(Reader::new(way, number)),
            AnyWay::Handle(way) => Reading::Handle(Reader::new(way, number)),
        };
        Pulled { reading, tie: None }
    }
}

impl<T> Pulled<T> {
    pub(super) fn is_of_node(&self) -> bool {
        matches!(self.reading, Reading::Node(_))
    }

    pub(super) fn received(&mut self) {
        match &mut self.reading {
            Reading::Node(reader) => reader.received(),
            Reading::Handle(reader) => reader.received(),
        }
    }

    pub(super) fn adopt(&mut self, arguments: &Rc<Arguments>) {
        self.tie = Some(Tie(Rc::clone(arguments)));
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, CallError>>> {
        if let Some(Tie(arguments)) = &self.tie
            && self.reading.is_empty()
        {
            arguments.feed(context);
        }
        match &mut self.reading {
            Reading::Node(reader) => reader.poll_next(context),
            Reading::Handle(reader) => reader.poll_next(context),
        }
    }
}

impl<T> Reading<T> {
    /// Returns whether all items that have come were read.
    fn is_empty(&self) -> bool {
        match self {
            Reading::Node(reader) => reader.items.len() == 0,
            Reading::Handle(reader) => reader.items.len() == 0,
        }
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        self.0.leave();
    }
}
