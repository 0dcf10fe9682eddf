//! The sessions at which each turn looks.
//!
//! A turn holds the list while it looks through it, so that looking at a session counts no reference.
//! What becomes hot, or is lost, meanwhile is noted, and the list changes when nobody holds it.
//! Invariant: from a session that was lost nothing more is read, also while it is still on the list.

use crate::session::Session;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use upbeat_memory::held::{Held, Holding};

/// The list.
#[derive(Default)]
pub(super) struct Hot {
    sessions: Held<Vec<Rc<Session>>>,
    /// Sessions that have become hot while the list was held.
    entering: RefCell<Vec<Rc<Session>>>,
    /// Whether the list lacks one of these, or has one that is not hot any more.
    is_stale: Cell<bool>,
}

impl Hot {
    /// Holds the list as it is.
    #[inline(always)]
    pub(super) fn hold(&self) -> Holding<'_, Vec<Rc<Session>>> {
        self.sessions.hold()
    }

    /// Whether the list is not up to date, because somebody holds it.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale.get()
    }

    /// Whether there is such a session, also of those that the list lacks.
    pub(super) fn any(&self, is_such: impl Fn(&Rc<Session>) -> bool) -> bool {
        let entering = self.entering.borrow();
        self.hold().iter().chain(entering.iter()).any(is_such)
    }

    /// Takes a session in.
    pub(super) fn enter(&self, session: &Rc<Session>) {
        self.entering.borrow_mut().push(Rc::clone(session));
        self.is_stale.set(true);
        self.update();
    }

    /// A session is not hot any more.
    pub(super) fn left(&self) {
        self.is_stale.set(true);
        self.update();
    }

    /// Brings the list up to date, unless somebody holds it.
    #[cold]
    #[inline(never)]
    pub(super) fn update(&self) {
        let Ok(mut sessions) = self.sessions.replace(Vec::new()) else { return };
        sessions.append(&mut self.entering.borrow_mut());
        self.is_stale.set(false);
        let left: Vec<_> = sessions.extract_if(.., |session| !session.noted.hot.get()).collect();
        // Nobody can have held the empty list that stood there meanwhile.
        let _empty = self.sessions.replace(sessions);
        // What its end drops may be the application's, and ask for the list.
        drop(left);
    }
}
