//! Tasks that were woken by their node's own thread.
//!
//! A thread has one list, which is of one of its nodes at a time. Invariant: what is written down is of
//! a node of this thread's that lives.

use super::{Roster, TaskId, empty};
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the next thread that makes a node.
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The number of this thread; 0 as long as it has made no node.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    static WOKEN: RefCell<Woken> = const { RefCell::new(Woken { of: ptr::null(), tasks: Vec::new() }) };
}

struct Woken {
    /// The roster of the node whose they are.
    of: *const Roster,
    tasks: Vec<TaskId>,
}

/// The number of this thread, which makes a node.
pub(super) fn number() -> u64 {
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// Writes a task down, if its node is of this thread. Not while that node may sleep: it is to be rung.
#[inline]
pub(super) fn push(roster: &Roster, task: TaskId) -> bool {
    let thread = NUMBER.get();
    if thread == 0
        || thread != roster.thread.load(Ordering::Relaxed)
        || roster.asleep.load(Ordering::Relaxed)
    {
        return false;
    }
    let pushed = with(|woken| {
        if !ptr::eq(woken.of, roster) {
            if !woken.tasks.is_empty() {
                return false;
            }
            woken.of = roster;
        }
        woken.tasks.push(task);
        true
    });
    pushed.unwrap_or(false)
}

/// Empties the list, if it is of this node.
#[inline]
pub(super) fn take(roster: &Roster, each: impl FnMut(TaskId)) {
    with(|woken| {
        if ptr::eq(woken.of, roster) {
            empty(&mut woken.tasks, each);
        }
    });
}

/// None in what a thread drops last, when its list is gone.
#[inline]
fn with<R>(act: impl FnOnce(&mut Woken) -> R) -> Option<R> {
    WOKEN.try_with(|woken| act(&mut woken.borrow_mut())).ok()
}
