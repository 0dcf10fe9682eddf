//! A wait: the part that the waits of all types share, which is its place in the queue and the
//! reports to the thread's runtime.
//!
//! The types in the other modules decide when a wait is over. Invariant: while the runtime does not
//! watch long waits, this module records no holders.

use crate::runtime::{self, Awaited, Holding, LongWait, Runtime, Watch};
use crate::waiters::WaiterKey;
use slab::Slab;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;
use std::task::Context;

/// The optional name that the application gives to the thing that is waited for.
pub(super) type Name = Option<Arc<str>>;

/// The wait of one future.
pub(super) struct Wait {
    /// The waiter's key in the queue, while it is queued or notified.
    pub(super) key: Option<WaiterKey>,
    /// Where in the source the wait begins.
    pub(super) at: &'static Location<'static>,
    watch: Option<Box<dyn Watch>>,
}

/// The thing that a future waits for.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) what: Awaited,
    pub(super) name: &'a Name,
    /// The holders of the thing, if it can be held.
    pub(super) holders: Option<&'a Holders>,
}

impl Wait {
    #[inline]
    pub(super) const fn at(at: &'static Location<'static>) -> Wait {
        Wait { key: None, at, watch: None }
    }

    /// Reports that the wait is not over. The caller must have nothing borrowed, since the report runs
    /// code of the application.
    pub(super) fn note_pending(&mut self, context: &mut Context<'_>, target: Target<'_>) {
        if let Some(runtime) = runtime::watching() {
            self.watch(runtime, context, target);
        }
        if let Some(runtime) = runtime::attached() {
            runtime.waits(target.what, target.name.as_ref());
        }
    }

    /// Ends the wait and drops its watch.
    #[inline]
    pub(super) fn finish(&mut self) {
        self.watch = None;
    }

    #[cold]
    fn watch(&mut self, runtime: &dyn Runtime, context: &mut Context<'_>, target: Target<'_>) {
        if self.watch.is_none() {
            self.watch = runtime.watch();
        }
        if let Some(watch) = &mut self.watch {
            let name = target.name.as_ref();
            let holders = || target.holders.map(Holders::list).unwrap_or_default();
            watch.poll(
                context,
                &LongWait { what: target.what, name, at: self.at, holders: &holders },
            );
        }
    }
}

/// The holders of one thing, recorded while the runtime watches long waits.
pub(super) struct Holders(RefCell<Option<Box<Slab<Holding>>>>);

impl Holders {
    pub(super) const fn new() -> Holders {
        Holders(RefCell::new(None))
    }

    /// Records that the task that is being polled took the thing at this place in the source.
    #[inline]
    pub(super) fn add(&self, at: &'static Location<'static>) -> Option<WaiterKey> {
        self.record(runtime::watching()?, at)
    }

    #[cold]
    fn record(&self, runtime: &dyn Runtime, at: &'static Location<'static>) -> Option<WaiterKey> {
        let who = runtime.who()?;
        let mut holders = self.0.borrow_mut();
        let holders = holders.get_or_insert_default();
        Some(holders.insert(Holding { who, at }))
    }

    /// Removes a holder.
    #[inline]
    pub(super) fn remove(&self, key: Option<WaiterKey>) {
        if let Some(key) = key
            && let Some(holders) = &mut *self.0.borrow_mut()
        {
            holders.try_remove(key);
        }
    }

    fn list(&self) -> Vec<Holding> {
        let holders = self.0.borrow();
        holders
            .iter()
            .flat_map(|holders| holders.iter().map(|(_, holding)| holding.clone()))
            .collect()
    }
}
