//! A stream of an argument, on the caller's side, which writes it.

use super::batch::{Batch, End};
use super::route::{AnyRoute, StreamEnd, StreamRoute};
use super::source::Source;
use crate::wire::{Content, Output, Wire, WireError};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use upbeat_core::channel::stream::{ArgumentWriter, Operation, Wanted};

/// The future that sends the items, until there are no more, or nobody wants them.
pub(super) type FeedFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Sends the items of a stream that stands in arguments.
pub(super) fn feed<T: Wire>(way: AnyRoute, number: u32, source: Source<T>) -> FeedFuture {
    match way {
        AnyRoute::Node(way) => Box::pin(bring(StreamEnd::new(way, number), source)),
        AnyRoute::Handle(way) => Box::pin(bring(StreamEnd::new(way, number), source)),
    }
}

async fn bring<W: StreamRoute, T: Wire>(
    mut left: StreamEnd<W, ArgumentWriter>,
    mut source: Source<T>,
) {
    let batch = Rc::new(RefCell::new(Batch::default()));
    let mut has_failed = false;
    loop {
        poll_fn(|context| batch.borrow_mut().poll_fill(|| source.poll_next(context))).await;
        left.state.begin_push(batch.borrow().end.is_some());
        let brought = PushedBatch { number: left.number(), batch: Rc::clone(&batch) };
        let answer = left.way().operate::<_, bool>(Operation::Push, brought).await;
        let wanted = match answer {
            Ok(true) => Wanted::More,
            Ok(false) => Wanted::Nothing,
            // A reader that has not begun hears no control. The end comes to it behind its call, as items do.
            Err(error) if !has_failed => {
                has_failed = true;
                batch.borrow_mut().end = Some(End::Broken(error.to_string()));
                continue;
            }
            // The call itself reports the loss of its session.
            Err(_) => return,
        };
        if !left.state.handle_answer(wanted) {
            return;
        }
    }
}

/// The next items of a stream. Dropping it after sending frees the items and keeps the memory.
struct PushedBatch<T> {
    number: u32,
    batch: Rc<RefCell<Batch<T>>>,
}

impl<T> Drop for PushedBatch<T> {
    fn drop(&mut self) {
        self.batch.borrow_mut().clear();
    }
}

impl<T: Wire> Content for PushedBatch<T> {
    const OPERATION: bool = true;

    fn bytes_likely(&self) -> usize {
        8 + Wire::bytes_likely(&*self.batch.borrow())
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        Wire::put(&self.number, out)?;
        Wire::put(&*self.batch.borrow(), out)
    }
}
