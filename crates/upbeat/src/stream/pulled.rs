//! A stream of a result, as its reader has it: this side asks for items.
//!
//! One call asks at a time, and the next is made when its items begin to be read: so the one who writes
//! collects while they are. What asks by a node stays on its thread; what asks by a handle goes
//! wherever the items may, unless streams of the call's arguments go on beside it.

use super::batch::{Batch, End};
use super::left::{Left, Way};
use crate::error::CallError;
use crate::handle::{Side, SideCall};
use crate::wire::{Arguments, Content, Output, Wire, WireError};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use upbeat_core::channel;
use upbeat_core::channel::stream::Operation;

/// The stream of which items are asked for.
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

/// What asks for items, one call after another.
pub(super) trait Ask<T> {
    /// What has come of the call that is under way; the next one if none is.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Batch<T>, CallError>>;

    /// The result in which the stream stands was read to its end.
    fn received(&mut self);
}

/// Items in their order, whoever asks for them.
pub(super) struct Reader<T, A> {
    items: std::vec::IntoIter<T>,
    /// What comes behind those, if that is here.
    next: Option<Result<Batch<T>, CallError>>,
    /// Why none come, where that is not the end.
    broken: Option<CallError>,
    /// Until the end has come.
    asks: Option<A>,
}

impl<T, A: Ask<T>> Reader<T, A> {
    fn new(asks: A) -> Reader<T, A> {
        Reader { items: Vec::new().into_iter(), next: None, broken: None, asks: Some(asks) }
    }

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

    /// The next items, for more of which is asked as soon as they are here.
    fn poll_batch(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Batch<T>, CallError>>> {
        let Some(asks) = &mut self.asks else { return Poll::Ready(None) };
        let batch = match self.next.take() {
            Some(batch) => batch,
            None => ready!(asks.poll(context)),
        };
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

/// What asks by a node's calls.
pub(super) struct OfNode<T> {
    slot: Rc<Slot<T>>,
    // Given up before the stream is.
    pulls: Pin<Box<dyn Future<Output = ()>>>,
    left: Left,
}

/// The answer of a call that is not taken yet.
type Slot<T> = RefCell<Option<Result<Batch<T>, CallError>>>;

impl<T: Wire> OfNode<T> {
    fn new(way: Way, number: u32) -> OfNode<T> {
        let slot = Rc::new(Slot::default());
        let pulls = Box::pin(pull(way.clone(), number, Rc::clone(&slot)));
        OfNode { slot, pulls, left: Left::of_reader(way, number) }
    }
}

impl<T> Ask<T> for OfNode<T> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Batch<T>, CallError>> {
        // It is over when its last items are taken.
        let _ = self.pulls.as_mut().poll(context);
        let Some(pulled) = self.slot.take() else { return Poll::Pending };
        if matches!(&pulled, Ok(Batch { end: Some(_), .. })) {
            self.left.over();
        }
        Poll::Ready(pulled)
    }

    fn received(&mut self) {
        self.left.received();
    }
}

/// Asks for items, whenever those before are taken.
async fn pull<T: Wire>(way: Way, number: u32, slot: Rc<Slot<T>>) {
    loop {
        let pulled = way.operate::<Wanted, Batch<T>>(Operation::Pull, Wanted(number)).await;
        let more = matches!(&pulled, Ok(Batch { end: None, .. }));
        *slot.borrow_mut() = Some(pulled);
        if !more {
            return;
        }
        poll_fn(|_| match slot.borrow().is_some() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }
}

/// What asks by a handle's calls.
pub(super) struct OfHandle<T> {
    // Given up before the stream is.
    call: SideCall<Wanted, Batch<T>>,
    left: Left<Arc<Side>>,
}

impl<T: Wire> OfHandle<T> {
    fn new(side: Arc<Side>, number: u32) -> OfHandle<T> {
        let pull = channel::Operation::Stream(Operation::Pull);
        let call = SideCall::new(&side, pull, Wanted(number));
        OfHandle { call, left: Left::of_reader(side, number) }
    }
}

impl<T> Ask<T> for OfHandle<T> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Batch<T>, CallError>> {
        let pulled = ready!(Pin::new(&mut self.call).poll(context));
        if matches!(&pulled, Ok(Batch { end: Some(_), .. })) {
            self.left.over();
        }
        Poll::Ready(pulled)
    }

    fn received(&mut self) {
        self.left.received();
    }
}

/// A stream as it was received.
pub(super) struct Pulled<T> {
    pub(super) reading: Reading<T>,
    pub(super) tie: Option<Tie>,
}

/// Who asks.
pub(super) enum Reading<T> {
    Node(Reader<T, OfNode<T>>),
    Handle(Reader<T, OfHandle<T>>),
}

/// Streams of the call's arguments, which go on while this one is read.
pub(super) struct Tie(Rc<Arguments>);

impl<T: Wire> Pulled<T> {
    /// The stream of this number.
    pub(super) fn new(way: Way, number: u32) -> Pulled<T> {
        let reading = match way {
            Way::Node(_) => Reading::Node(Reader::new(OfNode::new(way, number))),
            Way::Handle(side) => Reading::Handle(Reader::new(OfHandle::new(side, number))),
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
            Reading::Node(reader) => reader.asks.iter_mut().for_each(Ask::received),
            Reading::Handle(reader) => reader.asks.iter_mut().for_each(Ask::received),
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
    /// Whether the items are read that were here.
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
