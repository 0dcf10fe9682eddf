//! Ticks, sleep, and wake-ups.

use super::checks::LastCheck;
use super::{Dispatcher, Main};
use crate::contain::wake;
use crate::reactor::Source;
use crate::wait::{Idle, IdlePolicy, Ticker, WATCH_NS};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::limits::SWEEP_NS;
use upbeat_core::looks::{Activity, EpollLooks};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::sweep::Sweeps;
use upbeat_environment::time::Instant;
use upbeat_environment::waiting::looks_again;
use upbeat_memory::sync::fence_full;
use upbeat_memory::ticks::{Ticks, ticks};

/// The longest sleep: a day.
const SLEEP_NS_MAX: u64 = 86_400_000_000_000;

/// The node's own clock: nanoseconds since it began.
pub(super) struct Clock {
    began: Instant,
    sweeps: Cell<Sweeps>,
}

impl Clock {
    pub(super) fn new() -> Clock {
        let sweeps = Cell::new(Sweeps::new(SWEEP_NS, 0));
        Clock { began: Instant::now(), sweeps }
    }
}

/// How a node waits when there is nothing to do.
pub(super) struct Waits {
    pub(super) pace: RefCell<IdlePolicy>,
    pub(super) clock: Clock,
    pub(super) ticker: Ticker,
    pub(super) last_check: LastCheck,
    /// How often a turn looks before it pumps streams.
    pub(super) looks: Cell<u32>,
    /// How often a turn looks in all, if it finds nothing.
    pub(super) pump_looks: Cell<u32>,
    /// The looks into the epoll, in ticks.
    pub(super) epoll_looks: Cell<EpollLooks>,
    /// Whether a loop of the application may have waited for the descriptor. The polling flag is not set
    /// then.
    pub(super) waited: Cell<bool>,
}

impl Waits {
    /// Makes the waits of a node that keeps this pace.
    pub(super) fn new(pace: IdlePolicy) -> Waits {
        let (looks, pump_looks) = (Cell::new(pace.looks(false)), Cell::new(pace.looks(false)));
        let between_watches = Ticks::from_nanoseconds(WATCH_NS).0;
        Waits {
            pace: RefCell::new(pace),
            clock: Clock::new(),
            ticker: Ticker::new(),
            last_check: LastCheck::default(),
            looks,
            pump_looks,
            epoll_looks: Cell::new(EpollLooks::new(between_watches)),
            waited: Cell::new(false),
        }
    }
}

impl Dispatcher {
    /// Returns the nanoseconds since the node began.
    pub(crate) fn now_ns(&self) -> u64 {
        self.waits.clock.began.elapsed().as_nanos() as u64
    }

    /// Drives the node until `done`. One `catch_unwind` covers all turns.
    pub(crate) fn run_until(self: &Rc<Self>, main: Main<'_>, done: &Cell<bool>) {
        self.home.page().set_polling();
        self.begins_drive();
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.turn_until(main, done))) {
            self.turn_panicked(panic, main);
        }
    }

    fn turn_until(self: &Rc<Self>, main: Main<'_>, done: &Cell<bool>) {
        if self.waits.waited.take() {
            self.turn_resumed(main);
        }
        while !done.get() {
            if self.turn_once(self.waits.looks.get(), main) {
                self.waits.pace.borrow_mut().busy();
                continue;
            }
            match self.idle() {
                Idle::Tick => {
                    looks_again();
                    self.tick(Activity::Idle);
                }
                Idle::Yield => {
                    self.waits.pace.borrow_mut().yield_now();
                    self.reads_anew();
                    self.account.sampling.drained();
                }
                Idle::Sleep => {
                    let woken = self.sleep();
                    self.waits.pace.borrow_mut().slept();
                    self.reads_anew();
                    if woken {
                        self.turn_woken(main);
                    }
                    self.attend_late();
                }
            }
        }
    }

    /// Decides what to do when nothing has arrived.
    #[inline]
    fn idle(&self) -> Idle {
        self.reads_idle();
        let computing = self.work.roster.is_computing();
        let mut pace = self.waits.pace.borrow_mut();
        let idle = pace.idle(computing);
        self.set_looks(pace.looks(computing));
        idle
    }

    /// Ticks after so many turns in which something has arrived: notices other threads that run on this processor.
    #[cold]
    pub(super) fn tick_busy(self: &Rc<Self>) -> bool {
        if self.waits.ticker.goes_on() {
            return if self.is_check_due() {
                self.check_between_ticks()
            } else {
                self.look_out(Activity::Busy)
            };
        }
        self.reads_busy();
        if self.watch.is_between_ticks() {
            self.waits.ticker.hurry();
            return self.check_if_due();
        }
        let mut pace = self.waits.pace.borrow_mut();
        pace.tick();
        self.set_looks(pace.looks(self.work.roster.is_computing()));
        drop(pace);
        self.tick(Activity::Busy)
    }

    /// Adjusts the looks of a turn when a computation has begun beside the node.
    pub(crate) fn now_computes(&self) {
        self.set_looks(self.waits.pace.borrow().looks(true));
    }

    /// Handles events that must not wait for a sleep: timers, and now and then the sockets. Returns whether
    /// code of the application may have run.
    pub(super) fn tick(self: &Rc<Self>, activity: Activity) -> bool {
        self.waits.ticker.restart();
        let now = self.now_ns();
        let mut came = self.fire(now);
        self.show_all();
        self.relieve_all();
        if self.pressed.get() {
            self.settle_all(false);
        }
        if self.waits.ticker.is_watch_due(now) {
            came |= self.watch_sockets();
            self.reads_anew();
        } else {
            came |= self.look_out(activity);
        }
        self.tidy(now);
        self.has_checked();
        came
    }

    /// Shows the counters, and handles the sockets that have an event. Returns whether code of the application may have
    /// run.
    pub(super) fn watch_sockets(self: &Rc<Self>) -> bool {
        self.show_counters();
        self.attend_now()
    }

    /// Looks into the epoll between two [watches](Self::watch_sockets), if that is due because rounds of looks pass over
    /// sockets. Returns as that does.
    fn look_out(self: &Rc<Self>, activity: Activity) -> bool {
        let (looks, now) = (self.waits.epoll_looks.get(), ticks());
        if !looks.has_rested() {
            return false;
        }
        let came = looks.is_due(now, activity) && self.apart(|| self.attend_now());
        let mut looks = self.waits.epoll_looks.get();
        let turns = looks.turns_to_next(ticks(), self.waits.ticker.passed(), activity);
        self.waits.ticker.set_stride(turns);
        self.waits.epoll_looks.set(looks);
        came
    }

    /// Looks into the epoll more often from now on, because rounds of looks begin to pass over a socket.
    #[cold]
    pub(super) fn look_out_soon(&self) {
        let mut looks = self.waits.epoll_looks.get();
        looks.rests(ticks());
        self.waits.epoll_looks.set(looks);
        self.waits.ticker.set_stride(0);
    }

    fn attend_now(self: &Rc<Self>) -> bool {
        self.count(Counter::Watches);
        let mut sources = self.events.sources.take();
        // The events that woke the node may not have been handled yet.
        if sources.is_empty() {
            let began = ticks();
            self.events.reactor.wait(Some(0), &mut sources);
            let (mut looks, now) = (self.waits.epoll_looks.get(), ticks());
            looks.looked(now, now.saturating_sub(began));
            self.waits.epoll_looks.set(looks);
        }
        let came = self.attend(sources);
        self.account.sampling.drained();
        came
    }

    /// Cools sessions and gives up memory that has not been used for a while, now and then.
    fn tidy(&self, now: u64) {
        let mut sweeps = self.waits.clock.sweeps.get();
        let is_due = sweeps.take_due(now);
        self.waits.clock.sweeps.set(sweeps);
        if is_due {
            self.apart(|| {
                self.cool();
                self.sweep_all();
            });
            self.account_now_and_then();
        }
    }

    /// Returns when idle memory may be given up: a node does not sleep beyond that.
    fn next_tidying(&self) -> Option<u64> {
        let hot = self.peers.hot.hold();
        let kept = hot.iter().filter_map(|session| session.tidy_in_ns()).min()?;
        Some((self.now_ns() + kept).max(self.waits.clock.sweeps.get().next()))
    }

    /// Wakes timers and ends handlers whose time has come. Returns whether anything was ended: woken futures
    /// are in the wake queue.
    pub(super) fn fire(self: &Rc<Self>, now: u64) -> bool {
        loop {
            let due = self.events.timers.borrow_mut().due(now);
            let Some(waker) = due else { break };
            wake(waker);
        }
        self.mend(now) | self.expire_due(now)
    }

    /// Clears the polling flag, and sends every peer all messages and progress that it may wait for.
    fn come_to_rest(self: &Rc<Self>) {
        self.home.page().clear_polling();
        self.settle_all(false);
        self.show_all();
        // A peer that has not seen what was published is seen to wait.
        let _ = fence_full();
        self.relieve_all();
        self.rest_streams();
    }

    /// Sleeps until something arrives. Returns false if something has arrived before.
    fn sleep(self: &Rc<Self>) -> bool {
        self.come_to_rest();
        let sleeps = self.work.roster.may_sleep()
            && (mutated(Mutant::LastLookLeft) || !self.anything_came());
        let mut sources = self.events.sources.take();
        if sleeps {
            self.count(Counter::Sleeps);
            self.show_counters();
            self.events.reactor.wait(self.next_timer(), &mut sources);
            self.count(Counter::Wakes);
            self.account.sampling.woke();
        }
        self.home.page().set_polling();
        self.work.roster.awake(sources.contains(&Source::Roster));
        self.events.sources.set(sources);
        sleeps
    }

    /// Handles the sockets that woke the node, and its timers, after the first
    /// turn: a doorbell only says that a message lies in a lane, and its sender waits for the turn. Returns
    /// whether code of the application may have run.
    fn attend_late(self: &Rc<Self>) -> bool {
        // Handshakes take long.
        let came = self.apart(|| self.attend(self.events.sources.take()));
        let now = self.now_ns();
        self.tidy(now);
        came | self.fire(now)
    }

    /// Clears the polling flag for a loop of the application that is about to wait for the
    /// descriptor. Returns false if something has arrived.
    pub(crate) fn may_wait(self: &Rc<Self>) -> bool {
        self.waits.waited.set(true);
        self.life.drives.waits_for_node();
        self.come_to_rest();
        if !self.work.roster.may_sleep() || self.anything_came() {
            return false;
        }
        self.count(Counter::Sleeps);
        self.show_counters();
        // Without an alarm the loop must not wait, since timers could not wake it.
        self.events.reactor.set_alarm(self.next_timer()).is_ok()
    }

    /// Sets the polling flag again, and runs a turn if such a loop has waited; returns `None` otherwise.
    #[cold]
    #[inline(never)]
    pub(super) fn resume(self: &Rc<Self>, main: Main<'_>) -> Option<bool> {
        self.home.page().set_polling();
        self.waits.waited.take().then(|| self.turn_resumed(main))
    }

    /// Handles the events that woke such a loop, and runs a turn. Returns whether anything happened:
    /// code of the application may have run, for instance by the last messages of a peer, and its loop looks again
    /// before it waits.
    #[cold]
    #[inline(never)]
    pub(super) fn turn_resumed(self: &Rc<Self>, main: Main<'_>) -> bool {
        let mut sources = self.events.sources.take();
        self.events.reactor.wait(Some(0), &mut sources);
        self.account.sampling.woke();
        self.reads_anew();
        self.work.roster.awake(sources.contains(&Source::Roster));
        self.events.sources.set(sources);
        self.turn_woken(main) | self.attend_late()
    }

    /// Looks for the last time before a sleep, after the polling flag was cleared.
    pub(super) fn anything_came(&self) -> bool {
        self.home.board().is_marked()
            || self.flow.budgets.has_replied()
            || self.events.is_any_left()
            || self.peers.hot.any(|session| {
                session.is_unflushed()
                    || session.has_frame()
                    || session.is_pumped() && session.carrier.has_input()
                    || session.awaits_senders()
                    || session.is_pressed() && session.carrier.was_put_off()
            })
    }

    /// Returns the nanoseconds to the next timer or deadline.
    fn next_timer(&self) -> Option<u64> {
        let timer = self.events.timers.borrow_mut().next();
        let opening = self.next_opening_deadline();
        let mending = self.next_mending();
        let expiry = self.next_expiry().filter(|_| !mutated(Mutant::ExpiryUnawaited));
        let next = [timer, expiry, opening, mending, self.next_tidying()];
        let next = next.into_iter().flatten().min()?;
        // A longer wait needs `epoll_pwait2`, which an older kernel or a sandbox may not have.
        Some(next.saturating_sub(self.now_ns()).min(SLEEP_NS_MAX))
    }
}
