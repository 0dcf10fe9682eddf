//! Streams in a message, and how their sender continues them.

use crate::contain::wake;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};

/// The method whose call has a result: the service and the name.
#[derive(Clone, Copy)]
pub struct CalledMethod {
    pub(crate) service: &'static str,
    pub(crate) method: &'static str,
}

/// A stream in arguments, or in a result.
pub trait Carried {
    /// Notes that the call whose arguments contain the stream was sent.
    fn sent(&self);

    /// Notes that the result which contains the stream was read to its end: that of a call of this method.
    fn received(&self, of: CalledMethod);

    /// Sends the items that are ready.
    fn feed(&self, context: &mut Context<'_>);

    /// Makes the stream, which is in a result, continue the streams of the arguments when it is read.
    fn adopt(&self, arguments: &Rc<Arguments>);
}

/// The streams of a call's arguments, which continue when any stream of its result is read.
#[derive(Default)]
pub struct Arguments {
    pub(crate) streams: Vec<Rc<dyn Carried>>,
    /// The readers of the result's streams.
    readers: RefCell<Vec<Waker>>,
}

impl Arguments {
    pub(crate) fn feed(&self, context: &mut Context<'_>) {
        let waker = context.waker();
        let knows = || self.readers.borrow().iter().any(|reader| reader.will_wake(waker));
        if !knows() {
            let waker = waker.clone();
            self.readers.borrow_mut().push(waker);
        }
        self.streams.iter().for_each(|stream| stream.feed(context));
    }

    /// Wakes the other readers when one stops reading, so that they continue the streams of the arguments.
    pub(crate) fn leave(&self) {
        self.readers.take().into_iter().for_each(wake);
    }
}
