//! The state of a handler that has become a task, besides its future.

use crate::dispatch::{Charge, Dispatcher, Handed, Lease};
use crate::sample::TaskTime;
use crate::wake::Wakeup;
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::context::Context;
use upbeat_core::frame::CallNumber;
use upbeat_memory::waker::WakeTarget;

/// The party that waits for a handler's end.
#[derive(Clone, Copy)]
pub(super) enum Asker {
    Call(CallNumber),
    /// Nobody, for a one-way message, which its session counts.
    Oneway,
    /// Nobody any more, since the caller is gone.
    Gone,
    /// Nobody, for a one-way message whose sender is gone.
    Left,
}

/// The state of a handler that has become a task.
pub(super) struct Promoted {
    /// The charge, with the node and the session.
    pub(super) charge: Charge,
    pub(super) asker: Asker,
    /// The ticks for which the handler has been polled as a task.
    pub(super) ran: u64,
}

/// The parts that only few tasks have.
#[derive(Default)]
pub(super) struct Rare {
    /// The deadline, if the caller has set one.
    pub(super) end: Option<u64>,
    /// The lease by which the deadline may be extended.
    pub(super) lease: Option<Rc<Lease>>,
    /// The values that the caller has sent along.
    pub(super) context: Option<Arc<Context>>,
    /// The sample for the bill, if the message is sampled.
    pub(super) billed: Option<Billed>,
}

/// The sample of a handler that has become a task.
pub(super) struct Billed {
    pub(super) timed: TaskTime,
    /// The wake target that tells when the task was woken.
    pub(super) wakeup: WakeTarget<Wakeup>,
}

impl Rare {
    /// Begins a poll of the handler.
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

    /// Ends a poll of the handler, which took so many ticks if the handler is blamed for them.
    #[cold]
    pub(super) fn end_poll(&mut self, node: &Dispatcher, over_ran: Option<u64>) {
        if self.is_bound() {
            node.unbound();
        }
        if let (Some(Billed { timed, .. }), Some(ran)) = (&mut self.billed, over_ran) {
            timed.sample.over_ran(ran);
        }
    }

    fn is_bound(&self) -> bool {
        self.end.is_some() || self.context.is_some()
    }

    /// Notes that the handler waits.
    #[cold]
    pub(super) fn waits(&mut self, node: &Dispatcher) {
        if let Some(Billed { timed, wakeup }) = &mut self.billed {
            timed.paused(node.waited_for_by(wakeup.task()), wakeup.ask());
        }
    }
}
