//! Tasks that the application spawns: in what order they run, how they end, what they cost.

mod ends;
mod many;
mod nested;
mod order;

use crate::common::{Watchdog, alone};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::RwLockWriteGuard;
use std::task::{Poll, Waker};
use upbeat::Node;

/// Nobody is beside a test, and it has an end.
struct Alone {
    _watchdog: Watchdog,
    _guard: RwLockWriteGuard<'static, ()>,
}

/// A node that has no sockets, and nobody beside it until it is gone: what is allocated is counted.
fn local(name: &'static str) -> (Alone, Node) {
    let guard = Alone { _guard: alone(), _watchdog: Watchdog::new(name) };
    (guard, Node::builder(name).program("tasks").local_only().build().unwrap())
}

/// Turns a node until nothing is left to do.
fn settle(node: &Node) {
    while node.turn() {}
}

/// A wait that a test ends.
#[derive(Clone, Default)]
struct Gate(Rc<GateState>);

#[derive(Default)]
struct GateState {
    open: Cell<bool>,
    polls: Cell<u32>,
    wakers: RefCell<Vec<Waker>>,
}

impl Gate {
    async fn pass(&self) {
        poll_fn(|context| {
            self.0.polls.set(self.0.polls.get() + 1);
            if self.0.open.get() {
                return Poll::Ready(());
            }
            self.0.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn open(&self) {
        self.0.open.set(true);
        self.wake();
    }

    fn shut(&self) {
        self.0.open.set(false);
    }

    /// Wakes those that wait, for nothing if it is not open.
    fn wake(&self) {
        self.0.wakers.take().into_iter().for_each(Waker::wake);
    }

    fn polls(&self) -> u32 {
        self.0.polls.get()
    }
}
