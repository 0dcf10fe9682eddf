//! A stream of a result, as its reader has it: this side asks for items.
//!
//! One call asks at a time, and the next is made when its items begin to be read: so the one who writes
//! collects while they are.

use super::batch::{Batch, End};
use super::left::{Builtin, Left, Way};
use crate::error::CallError;
use crate::wire::{Arguments, Wire};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// The items that have come and are not read.
type Slot<T> = RefCell<Option<Result<Batch<T>, CallError>>>;

pub(super) struct Pulled<T> {
    items: std::vec::IntoIter<T>,
    /// Why none come behind those.
    broken: Option<CallError>,
    slot: Rc<Slot<T>>,
    /// What asks, until the end has come.
    pulls: Option<Pin<Box<dyn Future<Output = ()>>>>,
    is_of_node: bool,
    /// Streams of the call's arguments, which go on while this one is read.
    arguments: Option<Rc<Arguments>>,
}

impl<T: Wire> Pulled<T> {
    /// The stream of this number.
    pub(super) fn new(way: Way, number: u32) -> Pulled<T> {
        let slot = Rc::new(Slot::default());
        let is_of_node = matches!(way, Way::Node(_));
        let pulls = pull(Left::new(way, number, true), Rc::clone(&slot));
        Pulled {
            items: Vec::new().into_iter(),
            broken: None,
            slot,
            pulls: Some(Box::pin(pulls)),
            is_of_node,
            arguments: None,
        }
    }
}

impl<T> Pulled<T> {
    pub(super) fn is_of_node(&self) -> bool {
        self.is_of_node
    }

    pub(super) fn adopt(&mut self, arguments: &Rc<Arguments>) {
        self.arguments = Some(Rc::clone(arguments));
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
        if let Some(arguments) = &self.arguments {
            arguments.feed(context);
        }
        let Some(pulls) = &mut self.pulls else { return Poll::Ready(None) };
        if self.slot.borrow().is_none() {
            // It is over when its last items are taken.
            let _ = pulls.as_mut().poll(context);
        }
        let Some(result) = self.slot.take() else { return Poll::Pending };
        match &result {
            Ok(Batch { end: None, .. }) => {
                let _ = pulls.as_mut().poll(context);
            }
            Ok(Batch { end: Some(end), .. }) => {
                if let End::Broken(text) = end {
                    self.broken = Some(CallError::Stream { text: text.as_str().into() });
                }
                self.pulls = None;
            }
            Err(_) => self.pulls = None,
        }
        Poll::Ready(Some(result))
    }
}

impl<T> Drop for Pulled<T> {
    fn drop(&mut self) {
        if let Some(arguments) = self.arguments.take() {
            arguments.leave();
        }
    }
}

/// Asks for items, whenever those before are taken.
async fn pull<T: Wire>(left: Left, slot: Rc<Slot<T>>) {
    loop {
        let pulled = left.call::<u32, Batch<T>>(Builtin::Pull, left.number()).await;
        let more = match &pulled {
            Ok(Batch { end: None, .. }) => true,
            Ok(_) => {
                left.over();
                false
            }
            Err(_) => false,
        };
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
