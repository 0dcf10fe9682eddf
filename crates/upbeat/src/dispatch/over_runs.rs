//! Over-runs: the methods whose handlers ran for longer than they may without a pause, and tasks that did.
//!
//! Invariant: whatever the machine took from the thread is subtracted before anybody is blamed. A report on standard
//! error comes once for each method and order of magnitude; each over-run is counted.

use super::Dispatcher;
use crate::sample::Names;
use crate::stuck::Who;
use crate::wait::thread_times;
use crate::warning::{Problem, may_warn_of, warn_of};
use std::cell::{Cell, RefCell};
use std::time::Duration;
use upbeat_core::bill::Counter;
use upbeat_core::bill::event::Event;
use upbeat_core::bill::way::POINTS_MAX;
use upbeat_core::limits::TASK_BUDGET_NS;
use upbeat_core::long_poll::{LongPoll, ThreadTimes, exceeds, judge};
use upbeat_memory::ticks::{Ticks, ticks};

/// The names of a task of the application, and of the main future: no service is named so.
const TASK: Names = ("", "task");
const MAIN: Names = ("", "main future");

/// The shortest time between two records of over-runs of one method, so that they leave room for samples.
const RECORD_EVERY_NS: u64 = 50_000_000;

/// The age up to which the account of the thread is good enough for a poll that is timed.
const ACCOUNT_NS: u64 = 1_000_000;

/// The age at which an account is renewed in any case, so that delays of long ago excuse nothing.
const ACCOUNT_NS_MAX: u64 = 1_000_000_000;

/// A method whose handlers ran beyond its budget without a pause: nothing else ran on their node
/// meanwhile. [`Node::over_runs`](crate::Node::over_runs) lists them.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/over-runs").local_only().build()?;
/// for upbeat::OverRun { service, method, count, blocked, longest, .. } in node.over_runs() {
///     println!("{service}.{method}: {count} times, for {longest:?} at most; {blocked} times it blocked");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverRun {
    /// The service; empty for `task`, a task of the application, and for `main future`.
    pub service: &'static str,
    /// The method.
    pub method: &'static str,
    /// How often that was seen.
    pub count: u64,
    /// How often of these the thread slept in a system call, instead of computing.
    pub blocked: u64,
    /// The longest run.
    pub longest: Duration,
    /// The time that a handler of the method may run.
    pub budget: Duration,
}

/// The over-runs of a node.
#[derive(Default)]
pub(super) struct OverRuns {
    noted: RefCell<Vec<(Names, Noted)>>,
    /// The kernel's last account of the thread, and the ticks at which it was read.
    account: Cell<Option<ThreadTimes>>,
    accounted: Cell<u64>,
    /// Whether a poll was judged, whatever came of it, since this was last forgotten.
    judged: Cell<bool>,
}

impl OverRuns {
    /// Returns whether a poll was judged since this was last forgotten.
    pub(super) fn has_judged(&self) -> bool {
        self.judged.get()
    }

    /// Forgets whether a poll was judged, and returns it.
    pub(super) fn forget_judgement(&self) -> bool {
        self.judged.take()
    }

    /// Keeps in mind that a poll was judged before this was forgotten, if one was.
    pub(super) fn keep_judgement(&self, before: bool) {
        self.judged.set(self.judged.get() | before);
    }
}

/// The times that a method ran beyond its budget.
#[derive(Clone, Copy)]
struct Noted {
    count: u64,
    blocked: u64,
    longest: u64,
    budget: u64,
    /// The order of magnitude of the longest reported run, in budgets, plus one: of those that computed, as far as is
    /// known, and of those that blocked.
    reported: [u32; 2],
    /// When an over-run was last recorded for observers, in ticks.
    recorded: u64,
}

impl Dispatcher {
    /// Reserves room for notes about so many methods, so that a call during which the machine gave
    /// the processor to others allocates no memory.
    pub(super) fn may_over_run(&self, methods: usize) {
        let mut noted = self.run.over_runs.noted.borrow_mut();
        let known = noted.len();
        noted.reserve(methods.saturating_sub(known));
        may_warn_of(methods);
    }

    /// Asks the kernel for its account of the thread, as the beginning of what is judged next.
    pub(super) fn account(&self) {
        self.run.over_runs.account.set(thread_times());
        self.run.over_runs.accounted.set(ticks());
    }

    /// Asks for the account of the thread if the last one is too old for a poll that is about to be timed.
    pub(super) fn account_anew(&self, now: u64) {
        self.account_if_older(now, ACCOUNT_NS);
    }

    /// Asks for the account of the thread about once a second.
    pub(super) fn account_now_and_then(&self) {
        self.account_if_older(ticks(), ACCOUNT_NS_MAX);
    }

    fn account_if_older(&self, now: u64, age_ns: u64) {
        let age = now.saturating_sub(self.run.over_runs.accounted.get());
        if Ticks(age).nanoseconds() > age_ns {
            self.account();
        }
    }

    /// Judges a poll, or a gap between two readings of the clock, by the accounts before and after it.
    pub(super) fn judged(&self, lasted: u64, budget: u64) -> LongPoll {
        self.run.over_runs.judged.set(true);
        let before = self.run.over_runs.account.get();
        self.account();
        let [lasted, budget] = [lasted, budget].map(|ticks| Ticks(ticks).nanoseconds());
        judge(lasted, budget, before.zip(self.run.over_runs.account.get()))
    }

    /// Compares the time of a poll with the budget. Returns whether the handler is blamed for it.
    #[inline]
    pub(super) fn hold_against(&self, names: &Names, ran: u64, budget: u64) -> bool {
        exceeds(ran, budget) && self.over_ran(names, ran, budget)
    }

    /// Records that a handler has run beyond its budget, unless the machine ran other threads meanwhile. Returns whether
    /// it did.
    #[cold]
    #[inline(never)]
    fn over_ran(&self, names: &Names, ran: u64, budget: u64) -> bool {
        let why = self.judged(ran, budget);
        if why == LongPoll::Preempted {
            return false;
        }
        self.note_over_run(*names, (ran, budget), why);
        true
    }

    /// Records an over-run of a handler that was judged.
    pub(super) fn note_over_run(&self, names: Names, times: (u64, u64), why: LongPoll) {
        self.count(Counter::OverRuns);
        if let Some(noted) = self.note(names, times, why) {
            let (service, method) = names;
            report(names, &noted, why, format_args!("a handler of `{service}.{method}`"));
        }
    }

    /// Records that a task of the application, or the main future, has kept the thread for `ran` ticks.
    #[cold]
    pub(super) fn task_over_ran(&self, who: &Who, ran: u64) {
        let budget = Ticks::from_nanoseconds(TASK_BUDGET_NS).0;
        match self.judged(ran, budget) {
            LongPoll::Preempted => {}
            why => self.note_task(who, (ran, budget), why),
        }
    }

    /// Records an over-run of a task, or of the main future, that was judged.
    pub(super) fn note_task(&self, who: &Who, times: (u64, u64), why: LongPoll) {
        self.count(Counter::TaskOverRuns);
        let names = if *who == Who::Main { MAIN } else { TASK };
        if let Some(noted) = self.note(names, times, why) {
            let node = self.home.name().map(ToString::to_string).unwrap_or_default();
            match who {
                Who::Other => report(names, &noted, why, format_args!("a task of node `{node}`")),
                who => report(names, &noted, why, format_args!("{who} of node `{node}`")),
            }
        }
    }

    /// Notes an over-run, and returns the notes if this one is to be reported.
    fn note(&self, names: Names, (ran, budget): (u64, u64), why: LongPoll) -> Option<Noted> {
        let mut all = self.run.over_runs.noted.borrow_mut();
        let first =
            Noted { count: 0, blocked: 0, longest: 0, budget, reported: [0; 2], recorded: 0 };
        let at = all.iter().position(|(noted, _)| *noted == names).unwrap_or_else(|| {
            all.push((names, first));
            all.len() - 1
        });
        let noted = &mut all[at].1;
        noted.count += 1;
        noted.longest = noted.longest.max(ran);
        if let LongPoll::Blocked(_) = why {
            noted.blocked += 1;
            self.count(Counter::Blocked);
        }
        let now = ticks();
        if Ticks(now.saturating_sub(noted.recorded)).nanoseconds() >= RECORD_EVERY_NS {
            noted.recorded = now;
            self.record_over_run(names, ran, *noted, why);
        }
        let order = (ran / budget.max(1)).max(1).ilog10() + 1;
        let reported = &mut noted.reported[usize::from(matches!(why, LongPoll::Blocked(_)))];
        let is_news = order > *reported;
        *reported = order.max(*reported);
        is_news.then_some(Noted { longest: ran, ..*noted })
    }

    /// Records an over-run for observers: when it was, how long it was, the budget, and the counts so far.
    fn record_over_run(&self, names: Names, ran: u64, noted: Noted, why: LongPoll) {
        let event = match why {
            LongPoll::Blocked(_) => Event::Blocked,
            LongPoll::Ran | LongPoll::Preempted => Event::OverRan,
        };
        let mut stamps = [0; POINTS_MAX];
        (stamps[0], stamps[1]) = (noted.recorded.saturating_sub(ran), noted.recorded);
        stamps[2..6].copy_from_slice(&[noted.budget, noted.count, noted.blocked, noted.longest]);
        self.sampling().over_ran(names, event, stamps);
    }

    /// Returns the methods whose handlers ran beyond their budgets, and the tasks that did.
    pub(crate) fn over_runs(&self) -> Vec<OverRun> {
        let all = self.run.over_runs.noted.borrow();
        let told = all.iter().map(|((service, method), noted)| OverRun {
            service,
            method,
            count: noted.count,
            blocked: noted.blocked,
            longest: Ticks(noted.longest).into(),
            budget: Ticks(noted.budget).into(),
        });
        told.collect()
    }
}

/// Reports an over-run on standard error: what ran, for how long, and what to write instead.
fn report(names: Names, noted: &Noted, why: LongPoll, who: std::fmt::Arguments<'_>) {
    let [ran, budget] = [noted.longest, noted.budget].map(|ticks| Duration::from(Ticks(ticks)));
    let [computed, blocked] = noted.reported;
    match why {
        LongPoll::Blocked(slept) => warn_of(
            names,
            Problem::Blocks(blocked),
            format_args!(
                "{who} blocked its thread: it ran for {ran:.0?} without a pause, and slept in system calls for \
                 {:.0?} of it, beyond its budget of {budget:.0?}, while the node served nobody else: write \
                 `upbeat::sleep(…).await` for `std::thread::sleep`, a type of `upbeat::sync` for one of `std::sync`, \
                 and `upbeat::compute(move || …).await` around work with files, sockets and other processes",
                Duration::from_nanos(slept)
            ),
        ),
        LongPoll::Ran | LongPoll::Preempted => warn_of(
            names,
            Problem::LongPoll(computed),
            format_args!(
                "{who} ran for {ran:.0?} without a pause, beyond its budget of {budget:.0?}, while the node served \
                 nobody else: write `upbeat::compute(move || …).await` for a long computation, \
                 `upbeat::checkpoint().await` in its loops, `upbeat::sleep(…).await` for `std::thread::sleep`, or \
                 raise the method's budget"
            ),
        ),
    }
}
