//! The sessions that each turn looks at.
//!
//! A turn holds the list while it looks through it, so that looking at a session counts no reference.
//! Sessions that become hot, or are lost, meanwhile are noted, and the list changes when it is not held.
//! Invariant: nothing more is read from a session that was lost, even while it is still on the list.

use crate::session::Session;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use upbeat_memory::held::{Held, Holding};

/// The list of hot sessions.
#[derive(Default)]
pub(super) struct Hot {
    sessions: Held<Vec<Rc<Session>>>,
    /// The sessions that have become hot while the list was held.
    entering: RefCell<Vec<Rc<Session>>>,
    /// Whether the list lacks one of these, or contains a session that is not hot any more.
    is_stale: Cell<bool>,
}

impl Hot {
    /// Holds the list in its present state.
    #[inline(always)]
    pub(super) fn hold(&self) -> Holding<'_, Vec<Rc<Session>>> {
        self.sessions.hold()
    }

    /// Returns whether the list needs an update that was not possible while it was held.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale.get()
    }

    /// Returns whether there is such a session, even among those that the list lacks.
    pub(super) fn any(&self, is_such: impl Fn(&Rc<Session>) -> bool) -> bool {
        let entering = self.entering.borrow();
        self.hold().iter().chain(entering.iter()).any(is_such)
    }

    /// Adds a session.
    pub(super) fn enter(&self, session: &Rc<Session>) {
        self.entering.borrow_mut().push(Rc::clone(session));
        self.is_stale.set(true);
        self.update();
    }

    /// Notes that a session is not hot any more.
    pub(super) fn left(&self) {
        self.is_stale.set(true);
        self.update();
    }

    /// Brings the list up to date, unless it is held.
    #[cold]
    #[inline(never)]
    pub(super) fn update(&self) {
        let Ok(mut sessions) = self.sessions.replace(Vec::new()) else { return };
        sessions.append(&mut self.entering.borrow_mut());
        self.is_stale.set(false);
        let left: Vec<_> = sessions.extract_if(.., |session| !session.noted.hot.get()).collect();
        // The empty list that replaced it meanwhile cannot be held.
        let _empty = self.sessions.replace(sessions);
        // The end of a session may drop values of the application, and their drop may use the list.
        drop(left);
    }
}
