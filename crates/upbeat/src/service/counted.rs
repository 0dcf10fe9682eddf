//! Methods whose calls and outcomes are counted: see [`statistics`](crate::statistics).
//!
//! Invariant: without statistics, no method is one of these.

use crate::dispatch::{Dispatcher, Method, Request};
use crate::sample::Sample;
use crate::session::Session;
use crate::statistics::MethodCounts;
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::frame::CallNumber;

/// The method is another one of its kind, in a box: so it is compiled once, as if nobody counted.
pub(super) struct Tallied {
    pub(super) method: Box<dyn Method>,
    pub(super) tally: Rc<MethodCounts>,
}

/// Dropped, a handler has panicked.
struct Panicked<'a>(&'a MethodCounts);

impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        self.0.count(Counter::Panics);
    }
}

impl Tallied {
    /// Runs a request. What does not end in its first poll is counted where that is found.
    #[inline]
    fn around(&self, node: &Dispatcher, run: impl FnOnce(&dyn Method)) {
        let Tallied { method, tally } = self;
        tally.called();
        let before = node.inline_so_far();
        let panicked = Panicked(tally);
        run(&**method);
        std::mem::forget(panicked);
        if node.inline_so_far() != before {
            tally.count(Counter::HandlersInline);
        }
    }
}

impl Method for Tallied {
    fn call(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, call: CallNumber, len: u32) {
        self.around(node, |method| method.call(node, session, call, len));
    }

    fn arrive(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, request: Request<'_>) {
        self.around(node, |method| method.arrive(node, session, request));
    }

    fn sampled(
        &self,
        node: &Rc<Dispatcher>,
        session: &Rc<Session>,
        request: Request<'_>,
        sample: &mut Sample,
    ) {
        self.around(node, |method| method.sampled(node, session, request, sample));
    }

    fn budget(&self) -> u64 {
        self.method.budget()
    }
}
