//! What is known of a handler that has become a task, besides its future.

use crate::dispatch::{Charge, Dispatcher, Handed, Lease};
use crate::sample::TaskTime;
use crate::wake::Wakeup;
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::context::Context;
use upbeat_core::frame::CallNumber;
use upbeat_memory::waker::WakeTarget;

/// Who waits for a handler's end.
#[derive(Clone, Copy)]
pub(super) enum Asker {
    Call(CallNumber),
    /// Nobody, but its session counts it.
    Oneway,
    /// Nobody any more.
    Gone,
    /// Nobody: it is a one-way message's, whose sender is gone.
    Left,
}

/// What is known of a handler that has become a task.
pub(super) struct Promoted {
    /// With its node and its session.
    pub(super) charge: Charge,
    pub(super) asker: Asker,
    /// Ticks for which it has been polled as a task.
    pub(super) ran: u64,
}

/// What few handlers have that have become tasks.
#[derive(Default)]
pub(super) struct Rare {
    /// When its time is over, if its caller has bounded it.
    pub(super) end: Option<u64>,
    /// Where that may be extended.
    pub(super) lease: Option<Rc<Lease>>,
    /// The values that its caller has sent along.
    pub(super) context: Option<Arc<Context>>,
    /// What is to be billed, if its message is sampled.
    pub(super) billed: Option<Billed>,
}

/// What is billed of a handler that has become a task.
pub(super) struct Billed {
    pub(super) timed: TaskTime,
    /// Says when the task was woken.
    pub(super) wakeup: WakeTarget<Wakeup>,
}

impl Rare {
    /// The handler is polled next.
    #[cold]
    pub(super) fn begin_poll(&mut self, node: &Dispatcher) {
        if let Some(Billed { timed, wakeup }) = &mut self.billed {
            timed.resumed(wakeup.woken());
        }
        if let Some(lease) = &self.lease {
            self.end = Some(lease.end());
        }
        if self.is_bound() {
            let handed = Handed { lease: self.lease.as_ref(), context: self.context.as_ref() };
            node.bound_by(self.end, handed);
        }
    }

    /// The handler was polled.
    #[cold]
    pub(super) fn end_poll(&self, node: &Dispatcher) {
        if self.is_bound() {
            node.unbound();
        }
    }

    fn is_bound(&self) -> bool {
        self.end.is_some() || self.context.is_some()
    }

    /// The handler waits.
    #[cold]
    pub(super) fn waits(&mut self, node: &Dispatcher) {
        if let Some(Billed { timed, wakeup }) = &mut self.billed {
            timed.paused(node.waited_for());
            wakeup.ask();
        }
    }
}
