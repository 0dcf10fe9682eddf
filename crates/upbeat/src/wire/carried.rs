//! Streams in a message, as who sends it goes on with them.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};

/// A stream that stands in arguments, or in a result.
pub trait Carried {
    /// The call in whose arguments it stands has been sent.
    fn sent(&self);

    /// It stands in a result that was read to its end.
    fn received(&self);

    /// Sends on what of it there is.
    fn feed(&self, context: &mut Context<'_>);

    /// It stands in a result, and goes on with the streams of the arguments when it is read.
    fn adopt(&self, arguments: &Rc<Arguments>);
}

/// The streams of a call's arguments, which go on where any of those of its result is read.
#[derive(Default)]
pub struct Arguments {
    pub(crate) streams: Vec<Rc<dyn Carried>>,
    /// Who reads one of the result.
    readers: RefCell<Vec<Waker>>,
}

impl Arguments {
    pub(crate) fn feed(&self, context: &mut Context<'_>) {
        let mut readers = self.readers.borrow_mut();
        if !readers.iter().any(|reader| reader.will_wake(context.waker())) {
            readers.push(context.waker().clone());
        }
        drop(readers);
        self.streams.iter().for_each(|stream| stream.feed(context));
    }

    /// One of those who read does so no more, and the others have them go on.
    pub(crate) fn leave(&self) {
        self.readers.take().into_iter().for_each(Waker::wake);
    }
}
