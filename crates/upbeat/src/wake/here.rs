//! Tasks that were woken by the thread that drives their node.
//!
//! Invariant: a list is of the node that the thread is driving, and is empty when it drives none.

use super::{Roster, TaskId, empty};
use std::cell::{Cell, RefCell};
use std::ptr;

thread_local! {
    static HERE: List = const { List { roster: Cell::new(ptr::null()), woken: RefCell::new(Vec::new()) } };
}

struct List {
    /// That of the node which the thread is driving.
    roster: Cell<*const Roster>,
    woken: RefCell<Vec<TaskId>>,
}

/// The list of a thread.
pub(crate) struct Here;

impl Here {
    /// The thread drives the node of this roster from now on.
    #[inline]
    pub(crate) fn enter(roster: &Roster) {
        HERE.with(|here| here.roster.set(roster));
    }

    /// It drives none any more: what was woken and not taken goes where others write.
    #[inline]
    pub(crate) fn leave(roster: &Roster) {
        HERE.with(|here| {
            here.roster.set(ptr::null());
            if !here.woken.borrow().is_empty() {
                empty(&mut here.woken.borrow_mut(), |task| roster.push(task));
            }
        });
    }

    /// Writes a task down, if this thread drives its node.
    #[inline]
    pub(super) fn push(roster: &Roster, task: TaskId) -> bool {
        // A waker may be used by what is dropped last of a thread.
        let pushed = HERE.try_with(|here| {
            let is_here = ptr::eq(here.roster.get(), roster);
            if is_here {
                here.woken.borrow_mut().push(task);
            }
            is_here
        });
        pushed.unwrap_or(false)
    }

    /// Empties the list, if this thread drives the node.
    #[inline]
    pub(super) fn take(roster: &Roster, each: impl FnMut(TaskId)) {
        HERE.with(|here| {
            if ptr::eq(here.roster.get(), roster) {
                empty(&mut here.woken.borrow_mut(), each);
            }
        });
    }
}
