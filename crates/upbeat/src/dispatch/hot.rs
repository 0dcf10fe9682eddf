//! The sessions that each turn looks at.
//!
//! A turn holds the list while it looks through it, so that looking at a session counts no reference.
//! Sessions that become hot, or are lost, meanwhile are noted, and the list changes when it is not held: at the end of
//! the turn at the latest.
//! Invariant: nothing more is read from a session that was lost, even while it is still on the list.

use crate::session::Session;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use upbeat_memory::held::{Held, Holding};

/// The list of hot sessions.
pub(super) struct Hot<T = Rc<Session>> {
    sessions: Held<Vec<T>>,
    /// The sessions that have become hot since the list was up to date.
    entering: RefCell<Vec<T>>,
    /// Room for those that leave in an update.
    leaving: Cell<Vec<T>>,
    /// Whether the list lacks one of these, or contains a session that is not hot any more.
    is_stale: Cell<bool>,
}

impl<T> Default for Hot<T> {
    fn default() -> Hot<T> {
        Hot {
            sessions: Held::default(),
            entering: RefCell::default(),
            leaving: Cell::default(),
            is_stale: Cell::new(false),
        }
    }
}

impl<T> Hot<T> {
    /// Holds the list in its present state.
    #[inline(always)]
    pub(super) fn hold(&self) -> Holding<'_, Vec<T>> {
        self.sessions.hold()
    }

    /// Returns whether the list needs an [update](Hot::update).
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale.get()
    }

    /// Returns whether there is such a session, even among those that the list lacks.
    pub(super) fn any(&self, is_such: impl Fn(&T) -> bool) -> bool {
        let entering = self.entering.borrow();
        self.hold().iter().chain(entering.iter()).any(is_such)
    }

    /// Adds a session: to the list itself, if that is up to date and not held.
    pub(super) fn enter(&self, session: T) {
        if !self.is_stale.get()
            && let Ok(mut sessions) = self.sessions.replace(Vec::new())
        {
            sessions.push(session);
            // The empty list that replaced it meanwhile cannot be held.
            let _empty = self.sessions.replace(sessions);
            return;
        }
        self.entering.borrow_mut().push(session);
        self.is_stale.set(true);
    }

    /// Notes that a session is not hot any more. The next update removes it.
    pub(super) fn left(&self) {
        self.is_stale.set(true);
    }

    /// Brings the list up to date, unless it is held.
    #[cold]
    #[inline(never)]
    pub(super) fn update(&self, is_hot: impl Fn(&T) -> bool) {
        let Ok(mut sessions) = self.sessions.replace(Vec::new()) else { return };
        sessions.append(&mut self.entering.borrow_mut());
        self.is_stale.set(false);
        let mut left = self.leaving.take();
        left.extend(sessions.extract_if(.., |session| !is_hot(session)));
        let _empty = self.sessions.replace(sessions);
        // The end of a session may drop values of the application, and their drop may use the list.
        left.clear();
        self.leaving.set(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSIONS: usize = 60_000;

    /// Sixty thousand sessions become hot and leave, as many in a turn as there are events: one pass over the list
    /// serves all that leave in a turn, and none is needed for those that come.
    #[test]
    fn sessions_that_come_and_go_take_one_pass_in_a_turn() {
        let hot = Hot::default();
        let (is_hot, visits) = (vec![Cell::new(true); SESSIONS], Cell::new(0));
        let update = || {
            hot.update(|number: &usize| {
                visits.set(visits.get() + 1);
                is_hot[*number].get()
            });
        };
        (0..SESSIONS).for_each(|number| hot.enter(number));
        assert!(!hot.is_stale() && hot.hold().len() == SESSIONS);
        for of_one in &is_hot[..SESSIONS / 2] {
            of_one.set(false);
            hot.left();
        }
        assert!(hot.is_stale());
        update();
        assert_eq!((visits.get(), hot.hold().len()), (SESSIONS, SESSIONS / 2));
        assert!(!hot.is_stale() && hot.any(|number| *number == SESSIONS - 1));
    }

    #[test]
    fn a_session_that_comes_while_the_list_is_held_or_stale_is_on_it_after_the_update() {
        let hot = Hot::default();
        hot.enter(1);
        let held = hot.hold();
        hot.enter(2);
        hot.update(|_| true);
        assert!(hot.is_stale() && *held == [1] && hot.any(|number| *number == 2));
        drop(held);
        hot.left();
        hot.enter(3);
        hot.update(|number| *number != 1);
        assert!(!hot.is_stale() && *hot.hold() == [2, 3]);
    }
}
