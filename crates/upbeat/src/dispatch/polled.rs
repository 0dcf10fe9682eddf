//! Notes about the future that is polled: the reason for which it waits, and the time that it takes.
//!
//! A handler's time is checked at its checkpoints: there the handler makes way when its
//! budget is used up. A handler without checkpoints is compared with its budget where a stamp is taken
//! anyway: where its message is sampled, and where it continues as a task; `watched` finds the others. Invariant: a
//! handler that neither waits nor has checkpoints costs one store here.

use super::bounds::Bound;
use super::leases::Leases;
use super::over_runs::OverRuns;
use super::{Dispatcher, Running};
use crate::sample::{Names, Reason, Sample};
use crate::session::Session;
use crate::wake::{Current, Polling, TaskId};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::bill::way::Point;
use upbeat_core::limits::HANDLER_BUDGET_NS;
use upbeat_core::session::Awaits;
use upbeat_memory::ticks::{Ticks, ticks};

/// The most checkpoints between two stamps.
const CHECKPOINTS_MAX: u64 = 64;

/// The future or handler that is polled, and how long it may run.
pub(super) struct Run {
    /// The future that is polled.
    pub(super) current: Polling,
    /// The handler or task that ends if a panic comes.
    pub(super) running: Cell<Running>,
    /// The number of the method of that handler, or of the last one since the clock was read.
    pub(super) method: Cell<u16>,
    pub(super) polled: Polled,
    pub(super) over_runs: OverRuns,
    pub(super) bound: Bound,
    pub(super) leases: Leases,
}

impl Default for Run {
    fn default() -> Run {
        Run {
            current: Polling::default(),
            running: Cell::new(Running::Nothing),
            method: Cell::new(0),
            polled: Polled::default(),
            over_runs: OverRuns::default(),
            bound: Bound::default(),
            leases: Leases::default(),
        }
    }
}

/// The notes that fit in one word.
#[derive(Clone, Copy, Default)]
struct Note {
    /// The reason for which the future waits.
    reason: Reason,
    /// Whether the future waits for a reply of another node, or for room there.
    answer: bool,
    /// Checkpoints until the next stamp; 0 if there was no stamp in this poll.
    checkpoints: u16,
}

/// All notes about the future that is polled.
pub(super) struct Polled {
    note: Cell<Note>,
    /// The name of the lock or the condition for which the future waits.
    lock: Cell<Option<Arc<str>>>,
    /// Whether a lock or a condition that the handler needs is missing, so that the handler has not begun.
    lacks: Cell<bool>,
    /// When the poll began, or its first checkpoint was reached, in ticks.
    began: Cell<u64>,
    /// When the last stamp was taken, and the number of checkpoints between that and the next.
    stamped: Cell<u64>,
    stride: Cell<u16>,
    /// The ticks that the poll may take.
    budget: Cell<u64>,
    /// The budget of a handler whose method states none.
    usual: u64,
    /// Whether a handler has used up its time since the last look at the lanes.
    is_late: Cell<bool>,
}

impl Default for Polled {
    fn default() -> Polled {
        let usual = Ticks::from_nanoseconds(HANDLER_BUDGET_NS).0;
        Polled {
            note: Cell::default(),
            lock: Cell::default(),
            lacks: Cell::default(),
            began: Cell::default(),
            stamped: Cell::default(),
            stride: Cell::default(),
            budget: Cell::new(usual),
            usual,
            is_late: Cell::default(),
        }
    }
}

impl Polled {
    /// Clears the notes before a poll.
    #[inline(always)]
    pub(super) fn begins(&self) {
        self.note.set(Note::default());
    }

    /// Notes that the future waits for a reply of another node.
    #[inline(always)]
    pub(super) fn awaits_answer(&self) {
        self.note.set(Note { reason: Reason::Call, answer: true, checkpoints: 0 });
    }

    /// Returns what the future waits for, as far as the charge of its request depends on it.
    #[inline(always)]
    pub(super) fn awaits(&self) -> Awaits {
        match self.note.get() {
            Note { answer: true, .. } => Awaits::Reply,
            Note { reason: Reason::Lock | Reason::Condition, .. } => Awaits::Handler,
            _ => Awaits::Other,
        }
    }

    #[inline(always)]
    pub(super) fn reason(&self) -> Reason {
        self.note.get().reason
    }

    /// Returns the ticks of the budget of a handler whose method states none.
    #[inline]
    pub(super) fn usual_budget(&self) -> u64 {
        self.usual
    }

    /// Returns whether a handler has used up its time.
    pub(super) fn is_late(&self) -> bool {
        self.is_late.get()
    }

    /// Returns whether a handler has used up its time, and clears that note.
    pub(super) fn was_late(&self) -> bool {
        self.is_late.take()
    }

    /// Takes the stamp that is due at a checkpoint. Returns whether the time is over.
    #[cold]
    #[inline(never)]
    fn stamp(&self, note: Note) -> bool {
        let now = ticks();
        if note.checkpoints == 0 {
            self.began.set(now);
            self.stride.set(1);
        }
        let spent = now.saturating_sub(self.began.get());
        let budget = self.budget.get();
        if spent >= budget {
            return true;
        }
        // Stamps come closer together as the end of the time comes near.
        let stride = u64::from(self.stride.get());
        let each = now.saturating_sub(self.stamped.replace(now)) / stride.max(1);
        let next = match note.checkpoints {
            0 => 1,
            _ => ((budget - spent) / 4 / each.max(1)).clamp(1, CHECKPOINTS_MAX.min(2 * stride)),
        };
        self.stride.set(next as u16);
        self.note.set(Note { checkpoints: next as u16, ..note });
        false
    }
}

impl Dispatcher {
    /// Begins the first poll of a handler, which has the identity under which it would wait.
    #[inline(always)]
    pub(crate) fn polls_first(&self, handler: Current) {
        self.run.current.begin(handler);
    }

    /// Ends the first poll of a handler.
    #[inline(always)]
    pub(crate) fn has_polled_first(&self) {
        self.run.current.end();
    }

    /// Begins a poll of a handler or a task. The future itself will say for what it waits.
    #[inline(always)]
    pub(crate) fn polls(&self) {
        self.run.polled.begins();
    }

    /// Begins a poll of a handler whose budget is so many ticks from now.
    #[inline(always)]
    pub(crate) fn polls_within(&self, budget: u64) {
        let now = ticks();
        let polled = &self.run.polled;
        polled.note.set(Note { checkpoints: 1, ..Note::default() });
        polled.began.set(now);
        polled.stamped.set(now);
        polled.stride.set(1);
        polled.budget.set(budget);
    }

    /// Ends a poll, and compares its time with the budget. Later polls have budgets of their own. Returns how many
    /// ticks the poll took, and whether the handler is blamed for that.
    #[inline(always)]
    pub(crate) fn has_polled(&self, names: &Names) -> (u64, bool) {
        let polled = &self.run.polled;
        let budget = polled.budget.replace(polled.usual);
        let ran = ticks().saturating_sub(polled.began.get());
        (ran, self.hold_against(names, ran, budget))
    }

    /// Clears the budget of a handler that panicked.
    pub(super) fn forget_budget(&self) {
        self.run.polled.budget.set(self.run.polled.usual);
    }

    /// Ends the poll of a handler whose message is sampled.
    #[cold]
    pub(crate) fn has_polled_sampled(&self, names: &Names, sample: &mut Sample) {
        let at = |point| sample.taken.at(point);
        if let (Some(decoded), Some(ran)) = (at(Point::Decoded), at(Point::Ran)) {
            let ran = ran.saturating_sub(decoded);
            if self.hold_against(names, ran, self.run.polled.usual) {
                sample.over_ran(ran);
            }
        }
    }

    /// Passes a checkpoint of the polled future. Returns whether its time is over, so that it must make way.
    #[inline]
    pub(crate) fn is_time_over(&self) -> bool {
        let mut note = self.run.polled.note.get();
        if note.checkpoints > 1 {
            note.checkpoints -= 1;
            self.run.polled.note.set(note);
            return false;
        }
        self.run.polled.stamp(note) && self.is_late()
    }

    /// Notes that the polled future makes way: each session has its turn before much else is done, and timers
    /// and sockets have theirs.
    #[cold]
    fn is_late(&self) -> bool {
        self.waits_for(Reason::Budget);
        self.run.polled.is_late.set(true);
        self.waits.ticker.hurry();
        true
    }

    /// Notes that the polled future waits for a reply of another node.
    #[inline(always)]
    pub(crate) fn awaits_answer(&self) {
        self.run.polled.awaits_answer();
    }

    /// Notes that the polled future waits for room at another node, and then for a reply.
    pub(crate) fn awaits_room(&self) {
        let note = Note { reason: Reason::Full, answer: true, checkpoints: 0 };
        self.run.polled.note.set(note);
    }

    /// Notes that a lock or a condition that the polled handler needs is missing, and that none of its body has run.
    pub(crate) fn lacks_needs(&self) {
        self.run.polled.lacks.set(true);
    }

    /// Returns whether the handler that was polled lacked one, and clears that note.
    pub(crate) fn lacked_needs(&self) -> bool {
        self.run.polled.lacks.take()
    }

    /// Returns whether a task is polled, and not a handler.
    pub(crate) fn runs_task(&self) -> bool {
        !matches!(self.run.running.get(), Running::Handler(_) | Running::Kept(..))
    }

    /// Notes for what the polled future waits.
    #[inline(always)]
    pub(crate) fn waits_for(&self, reason: Reason) {
        self.run.polled.note.set(Note { reason, ..self.run.polled.note.get() });
    }

    /// Notes that the polled future waits for a lock or a condition of this name.
    pub(crate) fn waits_for_named(&self, reason: Reason, name: Option<&Arc<str>>) {
        self.waits_for(reason);
        self.run.polled.lock.set(name.cloned());
    }

    /// Returns the reason for which the handler waits that was polled and is this task, and the name of the lock, the
    /// condition or the called node for which it waits.
    #[cold]
    pub(crate) fn waited_for_by(&self, task: TaskId) -> (Reason, Option<Arc<str>>) {
        match self.waited_for() {
            (Reason::Call, None) => (Reason::Call, self.called_by(task)),
            waits => waits,
        }
    }

    /// Returns the name of the node from which this task awaits a reply.
    fn called_by(&self, task: TaskId) -> Option<Arc<str>> {
        let awaits = |session: &Rc<Session>| session.is_awaited_by(task);
        let session = self.sessions().into_iter().find(awaits)?;
        Some(session.carrier.peer.name.as_ref()?.to_string().into())
    }

    /// Returns the reason for which the polled future waits, if the future gave one, and the name of the lock or
    /// the condition.
    pub(crate) fn waited_for(&self) -> (Reason, Option<Arc<str>>) {
        let (reason, lock) = (self.run.polled.note.get().reason, self.run.polled.lock.take());
        // An earlier future that was not asked may have left the name of its lock.
        (reason, lock.filter(|_| matches!(reason, Reason::Lock | Reason::Condition)))
    }
}
