//! Checks timers and sockets by time, while a node is busy.
//!
//! A busy node ticks once in 256 turns. Where its tasks or its callers take long that is much too late. So the node also
//! asks for the time where it costs little: after the poll of a woken task, after as many messages as a session may
//! bring at a time, after some messages of several sessions, and after what streams bring. If timers and sockets were
//! checked a millisecond ago, they have their turn. A gap of `watched` goes on meanwhile, without the time that the node
//! itself takes, unless it is a long one by then.
//!
//! Invariant: a turn that takes a few messages of one session has no instruction more.

use super::Dispatcher;
use crate::wait::WATCH_NS;
use std::cell::Cell;
use std::rc::Rc;
use upbeat_memory::ticks::ticks;

/// The messages of several sessions between two readings of the clock.
const MESSAGES_PER_CHECK: u64 = 64;

/// The last check of timers and sockets.
#[derive(Default)]
pub(super) struct LastCheck {
    /// The time, in ticks.
    at: Cell<u64>,
    /// The number of messages that were taken until then, or until the clock was read for many of them.
    taken: Cell<u64>,
}

impl Dispatcher {
    /// Notes that the node has checked timers and sockets, or does so behind this turn in any case.
    pub(super) fn has_checked(&self) {
        self.waits.last_check.at.set(ticks());
        self.waits.last_check.taken.set(self.contract.frames_taken());
    }

    /// Returns whether timers and sockets have waited for as long as a polling node lets sockets wait.
    pub(super) fn is_check_due(&self) -> bool {
        ticks().saturating_sub(self.waits.last_check.at.get()) >= self.ticks_of(WATCH_NS)
    }

    /// Checks them now, if that is due. Returns whether code of the application may have run.
    #[inline]
    pub(super) fn check_if_due(self: &Rc<Self>) -> bool {
        self.is_check_due() && self.check_between_ticks()
    }

    /// Does the same for a loop of the application in which nothing else has come, and which may come round seldom.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_in_loop(self: &Rc<Self>) -> bool {
        let mut came = true;
        self.contained(|| came = self.check_if_due());
        came
    }

    /// Checks them behind this turn, if that is due.
    #[cold]
    #[inline(never)]
    pub(super) fn check_behind_turn(&self) {
        if self.is_check_due() {
            self.waits.ticker.interrupt();
        }
    }

    /// Does the same after a turn that looked at several sessions, once enough of their messages were taken.
    #[inline(always)]
    pub(super) fn check_behind_many(&self) {
        let taken = self.contract.frames_taken();
        if taken - self.waits.last_check.taken.get() >= MESSAGES_PER_CHECK {
            self.waits.last_check.taken.set(taken);
            self.check_behind_turn();
        }
    }

    /// Checks them within a gap of `watched`. Returns whether code of the application may have run.
    #[cold]
    #[inline(never)]
    pub(super) fn check_between_ticks(self: &Rc<Self>) -> bool {
        self.reads_long();
        let began = ticks();
        let now = self.now_ns();
        let mut came = self.fire(now);
        if self.waits.ticker.is_watch_due(now) {
            came |= self.watch_sockets();
        }
        self.has_checked();
        self.watch.leaves_out(ticks().saturating_sub(began));
        came
    }
}
