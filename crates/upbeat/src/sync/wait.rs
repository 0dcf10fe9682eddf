//! What every wait has in common: its place, its word to the bill, and its clock.
//!
//! Left to the types beside this one: when the wait is over. Invariant: where a node does not ask
//! for waits that last too long, nothing is kept of who took what.

use crate::dispatch::Dispatcher;
use crate::sample::Reason;
use crate::stuck::{Awaited, Holder, Stuck};
use crate::time::Sleep;
use std::cell::RefCell;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use upbeat_memory::pool::{Key, Pool};

/// The name that the bill and reports give it, if it has one.
pub(super) type Name = Option<Arc<str>>;

/// A future's wait.
pub(super) struct Wait {
    /// The place among those who wait, once it has one.
    pub(super) key: Option<Key>,
    /// Where in the source it begins.
    pub(super) at: &'static Location<'static>,
    overdue: Option<Box<Overdue>>,
}

/// What is kept of a wait where one that lasts too long is to be reported.
struct Overdue {
    alarm: Sleep,
    began_ns: u64,
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
        Wait { key: None, at, overdue: None }
    }

    /// The wait goes on. To be called with nothing borrowed: a report goes to the application.
    pub(super) fn goes_on(&mut self, context: &mut Context<'_>, aim: Aim<'_>) {
        if Dispatcher::may_watch() {
            self.watch(context, aim);
        }
        let reason = match aim.what {
            Awaited::Condition | Awaited::Signal | Awaited::Value => Reason::Condition,
            _ => Reason::Lock,
        };
        // Outside of a node nobody asks.
        Dispatcher::if_driving(|node| node.waits_for_named(reason, aim.name.as_ref()));
    }

    /// The wait is over.
    #[inline]
    pub(super) fn ends(&mut self) {
        self.overdue = None;
    }

    #[cold]
    fn watch(&mut self, context: &mut Context<'_>, aim: Aim<'_>) {
        let Some(node) = Dispatcher::if_driving(Rc::clone) else { return };
        let Some(after) = node.settings.stuck.after else { return };
        let overdue = self.overdue.get_or_insert_with(|| {
            Box::new(Overdue { alarm: Sleep::new(&node, after), began_ns: node.now_ns() })
        });
        while Pin::new(&mut overdue.alarm).poll_quietly(context).is_ready() {
            let waited = node.now_ns() - overdue.began_ns;
            let waited = std::time::Duration::from_nanos(waited);
            overdue.alarm = Sleep::new(&node, waited);
            node.settings.stuck.report(&Stuck {
                node: node.home.name().map(ToString::to_string).unwrap_or_default(),
                who: node.who(),
                what: aim.what,
                name: aim.name.clone(),
                at: self.at,
                waited,
                holders: aim.holders.map(Holders::list).unwrap_or_default(),
            });
        }
    }
}

/// Who holds something, as far as a node asks.
pub(super) struct Holders(RefCell<Option<Box<Pool<Holder>>>>);

impl Holders {
    pub(super) const fn new() -> Holders {
        Holders(RefCell::new(None))
    }

    /// Whoever is being run has taken it here.
    #[inline]
    pub(super) fn add(&self, at: &'static Location<'static>) -> Option<Key> {
        if Dispatcher::may_watch() { self.note(at) } else { None }
    }

    #[cold]
    fn note(&self, at: &'static Location<'static>) -> Option<Key> {
        let watching = |node: &Rc<Dispatcher>| node.settings.stuck.after.map(|_| node.who());
        let who = Dispatcher::if_driving(watching)??;
        let mut holders = self.0.borrow_mut();
        let holders = holders.get_or_insert_with(|| Box::new(Pool::new(u32::MAX)));
        holders.insert(Holder { who, at }).ok()
    }

    /// It was given back.
    #[inline]
    pub(super) fn remove(&self, key: Option<Key>) {
        if let Some(key) = key
            && let Some(holders) = &mut *self.0.borrow_mut()
        {
            holders.remove(key);
        }
    }

    fn list(&self) -> Vec<Holder> {
        let holders = self.0.borrow();
        let holders = holders.as_ref().map(|holders| holders.iter().map(|(_, one)| one.clone()));
        holders.into_iter().flatten().collect()
    }
}
