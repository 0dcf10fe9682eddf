//! A stream of an argument, on the caller's side, which writes it.

use super::batch::Batch;
use super::left::{AnyWay, Left, Way};
use super::source::Source;
use crate::wire::{Content, Output, Wire, WireError};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use upbeat_core::channel::stream::{Feed, Operation, Wanted};

/// The future that sends the items, until there are no more, or nobody wants them.
pub(super) type Fed = Pin<Box<dyn Future<Output = ()>>>;

/// Sends the items of a stream that stands in arguments.
pub(super) fn feed<T: Wire>(way: AnyWay, number: u32, source: Source<T>) -> Fed {
    match way {
        AnyWay::Node(way) => Box::pin(bring(Left::new(way, number), source)),
        AnyWay::Handle(way) => Box::pin(bring(Left::new(way, number), source)),
    }
}

async fn bring<W: Way, T: Wire>(mut left: Left<W, Feed>, mut source: Source<T>) {
    let batch = Rc::new(RefCell::new(Batch::default()));
    loop {
        poll_fn(|context| batch.borrow_mut().poll_fill(|| source.poll_next(context))).await;
        left.state.begin_push(batch.borrow().end.is_some());
        let brought = Brought { number: left.number(), batch: Rc::clone(&batch) };
        let answer = left.way().operate::<_, bool>(Operation::Push, brought).await;
        let wanted = match answer {
            Ok(true) => Wanted::More,
            Ok(false) => Wanted::Nothing,
            // The call itself reports the error.
            Err(_) => return,
        };
        if !left.state.handle_answer(wanted) {
            return;
        }
    }
}

/// The next items of a stream. Dropping it after sending frees the items and keeps the memory.
struct Brought<T> {
    number: u32,
    batch: Rc<RefCell<Batch<T>>>,
}

impl<T> Drop for Brought<T> {
    fn drop(&mut self) {
        self.batch.borrow_mut().clear();
    }
}

impl<T: Wire> Content for Brought<T> {
    const OPERATION: bool = true;

    fn bytes_likely(&self) -> usize {
        8 + Wire::bytes_likely(&*self.batch.borrow())
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        Wire::put(&self.number, out)?;
        Wire::put(&*self.batch.borrow(), out)
    }
}
