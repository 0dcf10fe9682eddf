//! Tasks that were woken by their node's own thread.
//!
//! A thread has one list, which belongs to one of its nodes at a time. Invariant: the tasks on the list belong to a
//! live node of this thread.

use super::{TaskId, WakeQueue, empty};
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
    /// The roster of the node to which the tasks belong.
    of: *const WakeQueue,
    tasks: Vec<TaskId>,
}

/// Returns the number of this thread, which makes a node.
pub(super) fn number() -> u64 {
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// Adds a task, if its node belongs to this thread. Returns false while that node may sleep, because then its
/// doorbell must ring.
#[inline]
pub(super) fn push(roster: &WakeQueue, task: TaskId) -> bool {
    let thread = NUMBER.get();
    if thread == 0 || thread != roster.thread.load(Ordering::Relaxed) || roster.is_asleep() {
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

/// Empties the list, if it belongs to this node.
#[inline]
pub(super) fn take(roster: &WakeQueue, each: impl FnMut(TaskId)) {
    with(|woken| {
        if ptr::eq(woken.of, roster) {
            empty(&mut woken.tasks, each);
        }
    });
}

/// Runs `act` on the list. Returns None in the last drops of a thread whose list is gone.
#[inline]
fn with<R>(act: impl FnOnce(&mut Woken) -> R) -> Option<R> {
    WOKEN.try_with(|woken| act(&mut woken.borrow_mut())).ok()
}
