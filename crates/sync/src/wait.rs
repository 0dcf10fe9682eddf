//! What every wait has in common: its place in the line, and what the thread's runtime is told of it.
//!
//! Left to the types beside this one: when the wait is over. Invariant: where the runtime does not
//! watch long waits, nothing is kept of who took what.

use crate::line::Key;
use crate::runtime::{self, Awaited, Holding, LongWait, Runtime, Watch};
use slab::Slab;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;
use std::task::Context;

/// The name that the application gives what is waited for, if it gives one.
pub(super) type Name = Option<Arc<str>>;

/// A future's wait.
pub(super) struct Wait {
    /// The place among those who wait, once it has one.
    pub(super) key: Option<Key>,
    /// Where in the source it begins.
    pub(super) at: &'static Location<'static>,
    watch: Option<Box<dyn Watch>>,
}

/// What is waited for.
#[derive(Clone, Copy)]
pub(super) struct Aim<'a> {
    pub(super) what: Awaited,
    pub(super) name: &'a Name,
    /// Where it can be held.
    pub(super) holders: Option<&'a Holders>,
}

impl Wait {
    #[inline]
    pub(super) const fn at(at: &'static Location<'static>) -> Wait {
        Wait { key: None, at, watch: None }
    }

    /// The wait goes on. To be called with nothing borrowed: a report goes to the application.
    pub(super) fn goes_on(&mut self, context: &mut Context<'_>, aim: Aim<'_>) {
        if let Some(runtime) = runtime::watching() {
            self.watch(runtime, context, aim);
        }
        if let Some(runtime) = runtime::attached() {
            runtime.waits(aim.what, aim.name.as_ref());
        }
    }

    /// The wait is over.
    #[inline]
    pub(super) fn ends(&mut self) {
        self.watch = None;
    }

    #[cold]
    fn watch(&mut self, runtime: &dyn Runtime, context: &mut Context<'_>, aim: Aim<'_>) {
        if self.watch.is_none() {
            self.watch = runtime.watch();
        }
        if let Some(watch) = &mut self.watch {
            let name = aim.name.as_ref();
            let holders = || aim.holders.map(Holders::list).unwrap_or_default();
            watch.poll(context, &LongWait { what: aim.what, name, at: self.at, holders: &holders });
        }
    }
}

/// Who holds something, as far as the runtime watches.
pub(super) struct Holders(RefCell<Option<Box<Slab<Holding>>>>);

impl Holders {
    pub(super) const fn new() -> Holders {
        Holders(RefCell::new(None))
    }

    /// Whoever is being run has taken it here.
    #[inline]
    pub(super) fn add(&self, at: &'static Location<'static>) -> Option<Key> {
        self.note(runtime::watching()?, at)
    }

    #[cold]
    fn note(&self, runtime: &dyn Runtime, at: &'static Location<'static>) -> Option<Key> {
        let who = runtime.who()?;
        let mut holders = self.0.borrow_mut();
        let holders = holders.get_or_insert_default();
        Some(holders.insert(Holding { who, at }))
    }

    /// It was given back.
    #[inline]
    pub(super) fn remove(&self, key: Option<Key>) {
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
