//! Notices futures that keep the thread from everything else, at no cost for messages that do not.
//!
//! A node reads the clock when it has nothing to do, and once in 256 turns. A gap between two of these readings shows
//! that something took long. If one handler or task alone ran in the gap, it is named. Otherwise the node times each
//! poll for a while: the table of methods that the common path uses is empty then, so each request takes the path of
//! requests that are not found there, which times it; woken tasks are timed as well, and the clock is read in each
//! turn. A gap that none of these explains was the poll of a task whose call was answered.
//!
//! Invariant: while no poll is timed, the path of a message has no instruction more. The methods are in one of the two
//! tables, and only a turn without a running handler moves them.

use super::{Dispatcher, Entry, Main, Request, Running};
use crate::driver::Cause;
use crate::session::Session;
use crate::stuck::Who;
use crate::wait::TURNS_PER_TICK;
use crate::wake::{MAIN, TaskId};
use std::cell::Cell;
use std::rc::Rc;
use upbeat_core::limits::{HANDLER_BUDGET_NS, TASK_BUDGET_NS};
use upbeat_core::long_poll::{CloserLook, LongPoll, exceeds};
use upbeat_environment::chance::random;
use upbeat_environment::is_simulated;
use upbeat_environment::waiting::step;
use upbeat_memory::held::{Held, Holding};
use upbeat_memory::ticks::ticks;
use upbeat_transport::transfers;

/// The longest usual gap of a node that has had nothing to do in between: a few turns.
const IDLE_GAP_NS: u64 = 300_000;
/// The longest usual gap of a node that has had something to do in all turns.
const BUSY_GAP_NS: u64 = 10_000_000;
/// A gap of this length is more than the node itself takes for a message: the one poll in the gap is blamed for it.
const NAMED_GAP_NS: u64 = 2_000_000;

/// The watch over a node's polls.
#[derive(Default)]
pub(super) struct Watch {
    /// Whether each poll is timed.
    is_on: Cell<bool>,
    /// Whether that stays so.
    stays_on: bool,
    /// The methods, while each poll is timed.
    methods: Held<Vec<Entry>>,
    look: Cell<CloserLook>,
    /// Whether a loop drives the node that does nothing else, so that only futures run between two readings.
    drives: Cell<bool>,
    /// When the clock was last read, in ticks.
    read: Cell<u64>,
    /// The number of frames that were taken until then.
    taken: Cell<u64>,
    /// The polls of woken tasks since then.
    woken: Cell<u64>,
    /// The turns since the last tick, while each poll is timed.
    turns: Cell<u32>,
}

impl Watch {
    /// Returns the watch of a new node. In a simulated world half of the nodes time each poll, because such a node lets other
    /// threads run between two polls, and may be killed there.
    pub(super) fn new() -> Watch {
        let stays_on = is_simulated() && random().is_ok_and(|[drawn]| drawn.is_multiple_of(2));
        Watch { is_on: Cell::new(stays_on), stays_on, ..Watch::default() }
    }

    /// Returns whether each poll is timed.
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Counts a poll of a woken task.
    #[inline(always)]
    pub(super) fn polls_woken(&self) {
        self.woken.set(self.woken.get() + 1);
    }

    /// Leaves so many ticks out of the gap: they are the node's own.
    pub(super) fn leaves_out(&self, ticks: u64) {
        self.read.set(self.read.get() + ticks);
    }

    /// Returns whether this turn, after which the clock is read because each poll is timed, has no tick otherwise.
    pub(super) fn is_between_ticks(&self) -> bool {
        let turns = (self.turns.get() + 1) % TURNS_PER_TICK;
        self.turns.set(turns);
        self.is_on() && turns != 0
    }
}

impl Dispatcher {
    /// Returns the methods, wherever they are.
    pub(super) fn entries(&self) -> Holding<'_, Vec<Entry>> {
        match self.watch.is_on() {
            true => self.watch.methods.hold(),
            false => self.served.methods.hold(),
        }
    }

    /// Replaces the methods, unless one of them runs.
    pub(super) fn replace_entries(&self, entries: Vec<Entry>) -> Result<Vec<Entry>, Vec<Entry>> {
        match self.watch.is_on() {
            true => self.watch.methods.replace(entries),
            false => self.served.methods.replace(entries),
        }
    }

    /// Notes that a loop that does nothing else drives the node from now on.
    pub(crate) fn begins_drive(&self) {
        self.watch.drives.set(true);
        self.reads_anew();
        self.has_checked();
    }

    /// Notes that this loop has ended.
    pub(crate) fn ends_drive(&self) {
        self.reads_idle();
        self.watch.drives.set(false);
    }

    /// Begins a new gap, because the node did not run, or did something of its own.
    pub(super) fn reads_anew(&self) {
        self.gap_begins(ticks());
    }

    /// Does work of the node that takes long, and is no fault of the poll before it or behind it.
    pub(super) fn apart<R>(&self, work: impl FnOnce() -> R) -> R {
        self.reads_busy();
        let done = work();
        self.reads_anew();
        done
    }

    fn gap_begins(&self, now: u64) {
        self.watch.read.set(now);
        self.watch.taken.set(self.contract.frames_taken());
        self.watch.woken.set(0);
        self.run.method.set(0);
        self.run.over_runs.forget_judgement();
    }

    /// Reads the clock of a node that has nothing to do.
    #[inline]
    pub(super) fn reads_idle(&self) {
        self.reads_clock(IDLE_GAP_NS);
    }

    /// Reads the clock of a node that had something to do in each turn.
    pub(super) fn reads_busy(&self) {
        self.reads_clock(BUSY_GAP_NS);
    }

    /// Reads the clock of a busy node between two ticks, if the gap is longer than usual by now. A shorter one goes on.
    pub(super) fn reads_long(&self) {
        let frames = self.contract.frames_taken() - self.watch.taken.get();
        let polls = frames + self.watch.woken.get();
        let usual_ns = if polls == 1 { NAMED_GAP_NS } else { BUSY_GAP_NS };
        if ticks().saturating_sub(self.watch.read.get()) > self.ticks_of(usual_ns) {
            self.reads_clock(usual_ns);
        }
    }

    #[inline]
    fn reads_clock(&self, usual_ns: u64) {
        let now = ticks();
        let gap = now.saturating_sub(self.watch.read.get());
        if gap > self.ticks_of(usual_ns) {
            self.gap(gap, usual_ns);
        }
        if self.watch.is_on() {
            self.watches_on();
        }
        self.gap_begins(now);
    }

    /// Returns the ticks of a multiple of a handler's usual budget, which is known in ticks.
    #[inline]
    pub(super) fn ticks_of(&self, nanoseconds: u64) -> u64 {
        nanoseconds / HANDLER_BUDGET_NS * self.run.polled.usual_budget()
    }

    /// Names the only poll of a long gap, or times every poll for a while.
    #[cold]
    #[inline(never)]
    fn gap(&self, gap: u64, usual_ns: u64) {
        // Between two turns of a loop of the application, the application computes and waits for itself. A poll that
        // was judged is known already.
        if !self.watch.drives.get() || self.run.over_runs.has_judged() {
            return;
        }
        let why = self.judged(gap, self.ticks_of(usual_ns));
        // The node itself may have taken so long for long messages, for which it never blocks: the polls are timed.
        let is_moved = why == LongPoll::Ran && transfers::last_long() > self.watch.read.get();
        if why == LongPoll::Preempted || !is_moved && self.names_alone(gap, why) {
            return;
        }
        let mut look = self.watch.look.get();
        look.gap(self.now_ns());
        self.watch.look.set(look);
        if let (false, Ok(methods)) = (self.watch.is_on(), self.served.methods.replace(Vec::new()))
        {
            self.watch.is_on.set(true);
            // Nobody holds this table while no poll is timed.
            let _empty = self.watch.methods.replace(methods);
            self.waits.ticker.hurry();
        }
    }

    /// Blames the only poll in a gap that is longer than the node itself takes for anything. Returns false if there
    /// was another number of polls, or if it is not known whose poll it was.
    fn names_alone(&self, gap: u64, why: LongPoll) -> bool {
        if gap < self.ticks_of(NAMED_GAP_NS) {
            return false;
        }
        let frames = self.contract.frames_taken() - self.watch.taken.get();
        let entries = self.entries();
        let task = self.run.current.current().task;
        let who = match (frames, self.watch.woken.get(), self.run.method.get()) {
            (1, 0, method @ 1..) => {
                let Some(entry) = entries.get(usize::from(method) - 1) else { return false };
                let budget = entry.method.budget();
                if exceeds(gap, budget) {
                    self.note_over_run((entry.offer.service, entry.offer.name), (gap, budget), why);
                }
                return true;
            }
            (1, 0, 0) | (0, 1, 0) if self.work.tasks.is_handler(task) => return false,
            (1, 0, 0) | (0, 1, 0) if task == MAIN => Who::Main,
            (1, 0, 0) | (0, 1, 0) => Who::Task(task),
            // All other polls are timed.
            (1.., ..) if self.watch.is_on() && matches!(why, LongPoll::Blocked(_)) => Who::Other,
            _ => return false,
        };
        // The main future of a node that serves nothing keeps nobody waiting.
        if matches!(who, Who::Task(_)) || !entries.is_empty() {
            self.note_task(&who, (gap, self.ticks_of(TASK_BUDGET_NS)), why);
        }
        true
    }

    /// Has the polls timed on, or no longer.
    #[cold]
    #[inline(never)]
    fn watches_on(&self) {
        if self.watch.stays_on || self.watch.look.get().lasts(self.now_ns()) {
            return;
        }
        if let Ok(methods) = self.watch.methods.replace(Vec::new()) {
            self.watch.is_on.set(false);
            let _empty = self.served.methods.replace(methods);
        }
    }

    /// Runs a request of a method whose polls are timed.
    pub(super) fn request_timed(
        self: &Rc<Self>,
        session: &Rc<Session>,
        entry: &Entry,
        running: Running,
        request: Request<'_>,
    ) {
        self.timed(entry, || {
            self.run.running.set(running);
            entry.method.arrive(self, session, request);
            self.ran();
        });
    }

    /// Runs what a request of this method needs, and compares the time with the method's budget, unless that was
    /// done meanwhile.
    pub(super) fn timed(&self, entry: &Entry, run: impl FnOnce()) {
        step();
        let began = ticks();
        self.account_anew(began);
        let before = self.run.over_runs.forget_judgement();
        run();
        let ran = ticks().saturating_sub(began);
        step();
        let budget = entry.method.budget();
        if exceeds(ran, budget) && !self.run.over_runs.has_judged() {
            let why = self.judged(ran, budget);
            // Reading and writing long values is no fault of the handler.
            let allowed = budget + self.ticks_of(TASK_BUDGET_NS);
            if matches!(why, LongPoll::Blocked(_)) || why == LongPoll::Ran && ran > allowed {
                self.note_over_run((entry.offer.service, entry.offer.name), (ran, budget), why);
            }
        }
        self.run.over_runs.keep_judgement(before);
    }

    /// Polls a woken task, or the main future, and times it.
    #[cold]
    #[inline(never)]
    pub(super) fn run_timed(self: &Rc<Self>, id: TaskId, main: Main<'_>) {
        let is_handler = self.work.tasks.is_handler(id);
        let who = if id == MAIN { Who::Main } else { Who::Task(id) };
        let began = ticks();
        self.account_anew(began);
        match id {
            MAIN => main(Cause::Ready),
            id => self.run(id, Cause::Ready),
        }
        let ran = ticks().saturating_sub(began);
        step();
        // The poll of a handler has compared its time with the budget of its method.
        let counts = !is_handler && (id != MAIN || !self.entries().is_empty());
        if counts && exceeds(ran, self.ticks_of(TASK_BUDGET_NS)) {
            self.task_over_ran(&who, ran);
        }
    }
}
