//! The waiting of a node: poll again, yield to other threads, or sleep.
//!
//! All pacing is in this module, but for looks at sockets (`core::looks`). Between two polls there is a PAUSE
//! instruction, so that a reader does not steal the cache line that its peer is about to write. How long a node spins
//! before it sleeps follows the recent waits: if most waits end within the cost of a wake-up, the node spins; if not,
//! it sleeps at once. While a computation of the node is under way on another thread, the node does not spin beside
//! it.
//!
//! If more threads are runnable than there are processors, a node that spins only takes the processor from the node
//! that it waits for. An adaptive node then sleeps whenever it has nothing to do. It notices other threads by three
//! signs: a gap between two of its own polls, a `sched_yield` that did not return at once, and, while messages come
//! without a pause, the time for which the kernel kept it from running. After a while the node yields a few times to
//! learn whether the others are gone; while they are not, it tries less and less often.
//!
//! Invariant: while messages come, these decisions read the clock only once in 256 turns, or as often as sockets that
//! rest are looked at; `dispatch/checks.rs` reads it more often where code of the application may have taken long.

mod processors;

mod neighbours;

use neighbours::Neighbours;
pub(crate) use processors::thread_times;
use processors::{delayed_ns, processors};
use std::cell::Cell;
use upbeat_core::limits::WATCHES_PER_SECOND;
use upbeat_environment::waiting::yield_now;
use upbeat_memory::ticks::{ticks, ticks_per_second};

/// The strategy with which a node waits for messages.
///
/// With any strategy, a node that has nothing to do sleeps while one of its computations is under way on another
/// thread ([`Node::compute`](crate::Node::compute)). A message wakes the node, and is served ahead of the
/// computation.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::{Node, Waiting};
///
/// // This node has a processor of its own.
/// let node = Node::builder("doc/waiting").waiting(Waiting::Polling).local_only().build()?;
/// assert_eq!(Waiting::default(), Waiting::Adaptive);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// Spins for a while, as long as that has paid lately, then sleeps. An idle node costs no processor time.
    #[default]
    Adaptive,
    /// Spins all the time: this gives the lowest latency, and needs a processor of its own.
    Polling,
    /// Sleeps whenever there is nothing to do.
    Sleeping,
}

/// The next act of a node that has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Check timers and sockets, and poll again.
    Tick,
    /// Yield the processor to another thread, then poll again.
    Yield,
    /// Sleep.
    Sleep,
}

/// The polls between two readings of the clock.
const LOOKS_PER_TICK: u32 = 64;
/// The turns of a node, or the waits of a handle, between two readings of the clock while messages come.
pub(crate) const TURNS_PER_TICK: u32 = 256;
/// The nanoseconds between two checks of the sockets while the thread is awake.
pub(crate) const WATCH_NS: u64 = 1_000_000_000 / WATCHES_PER_SECOND;
/// The longest time for which an adaptive node spins: about the cost of going to sleep and being woken.
const SPIN_US_MAX: u64 = 60;
/// The node spins for this many times the usual wait.
const SPIN_FACTOR: u64 = 3;
/// The node spins through one of this many waits although sleeping has paid, to learn whether spinning pays again.
const WAITS_PER_TRIAL: u32 = 8;

/// Decides when a thread that is awake reads the clock, and when it checks its sockets.
pub(crate) struct Ticker {
    turns_left: Cell<u32>,
    /// The turns of the count that are left behind the next interruption.
    kept: Cell<u32>,
    /// The most turns between two interruptions.
    stride: Cell<u32>,
    /// The turns from the last interruption to the next.
    stretch: Cell<u32>,
    /// The turns between the last two interruptions.
    passed: Cell<u32>,
    watched: Cell<u64>,
}

impl Ticker {
    pub(crate) const fn new() -> Ticker {
        Ticker {
            turns_left: Cell::new(TURNS_PER_TICK),
            kept: Cell::new(0),
            stride: Cell::new(TURNS_PER_TICK),
            stretch: Cell::new(TURNS_PER_TICK),
            passed: Cell::new(0),
            watched: Cell::new(0),
        }
    }

    /// Interrupts the count after so many turns, and then each time after as many, for looks at sockets.
    pub(crate) fn set_stride(&self, turns: u32) {
        let turns = turns.clamp(1, TURNS_PER_TICK);
        self.stride.set(turns);
        if self.turns_left.get() > 1 {
            self.cut(turns);
        }
    }

    /// Interrupts the count after this many turns, or goes on beyond the interruption that there is.
    fn cut(&self, turns: u32) {
        let left = self.turns_left.get();
        let next = turns.min(left + self.kept.get());
        self.stretch.set(self.passed_since() + next);
        self.kept.set(left + self.kept.get() - next);
        self.turns_left.set(next);
    }

    /// Returns the turns before the last interruption, back to the one before.
    pub(crate) fn passed(&self) -> u32 {
        self.passed.get()
    }

    fn passed_since(&self) -> u32 {
        self.stretch.get() - self.turns_left.get()
    }

    /// Counts a turn. Returns whether the thread reads the clock now, and [restarts](Ticker::restart) the count.
    #[inline(always)]
    pub(crate) fn turn(&self) -> bool {
        let left = self.turns_left.get() - 1;
        self.turns_left.set(left);
        left == 0
    }

    /// Restarts the count, because the thread reads the clock.
    pub(crate) fn restart(&self) {
        self.go_on(TURNS_PER_TICK);
    }

    fn go_on(&self, turns: u32) {
        self.passed.set(self.passed_since());
        let next = turns.min(self.stride.get());
        self.turns_left.set(next);
        self.stretch.set(next);
        self.kept.set(turns - next);
    }

    /// Makes the thread read the clock after this turn.
    #[inline]
    pub(crate) fn hurry(&self) {
        self.stretch.set(self.passed_since() + 1);
        self.turns_left.set(1);
        self.kept.set(0);
    }

    /// Interrupts the count after this turn, unless it ends there.
    pub(crate) fn interrupt(&self) {
        if self.turns_left.get() > 1 {
            self.cut(1);
        }
    }

    /// Goes on with a count that was interrupted after this turn. Returns false if the count has ended.
    pub(crate) fn goes_on(&self) -> bool {
        let left = self.kept.get();
        if left != 0 {
            self.go_on(left);
        }
        left != 0
    }

    /// Returns whether the thread checks its sockets now.
    pub(crate) fn is_watch_due(&self, now_ns: u64) -> bool {
        let is_due = now_ns - self.watched.get() >= WATCH_NS;
        if is_due {
            self.watched.set(now_ns);
        }
        is_due
    }
}

/// The state of the waiting of a node or a handle, from turn to turn.
pub(crate) struct IdlePolicy {
    policy: Waiting,
    alone: bool,
    tick_per_us: u64,
    began: u64,
    last: u64,
    /// The recent length of waits in ticks, where the longest count as the maximum.
    usual: u64,
    neighbours: Neighbours,
    yielded: bool,
    /// The number of waits since the last trial to spin although it has not paid lately.
    untried: u32,
    /// Whether the node sleeps in favour of a computation, which says nothing about its waits.
    yields: bool,
}

impl IdlePolicy {
    pub(crate) fn new(policy: Waiting) -> IdlePolicy {
        let alone = processors() == 1;
        IdlePolicy {
            policy,
            alone,
            tick_per_us: (ticks_per_second() / 1_000_000).max(1),
            began: 0,
            last: 0,
            usual: 0,
            neighbours: Neighbours::new(),
            yielded: false,
            untried: 0,
            yields: false,
        }
    }

    /// Returns how often to poll before asking again.
    pub(crate) fn looks(&self, computing: bool) -> u32 {
        let polls = match self.policy {
            Waiting::Adaptive => self.neighbours.are_gone() && !self.alone,
            Waiting::Polling => true,
            Waiting::Sleeping => false,
        };
        if polls && !computing { LOOKS_PER_TICK } else { 1 }
    }

    /// Notes that a message has come.
    #[inline]
    pub(crate) fn busy(&mut self) {
        if self.usual != 0 || self.began != 0 {
            self.ended();
        }
    }

    #[inline(never)]
    fn ended(&mut self) {
        let lasted = if self.began == 0 { 0 } else { self.last.saturating_sub(self.began) };
        self.learn(lasted);
    }

    fn learn(&mut self, lasted: u64) {
        let lasted = lasted.min(SPIN_US_MAX * self.tick_per_us);
        self.usual = self.usual - self.usual / 8 + lasted / 8;
        self.began = 0;
        self.yielded = false;
        self.untried = self.untried.wrapping_add(1);
    }

    /// Notes that the node has slept and is awake again.
    pub(crate) fn slept(&mut self) {
        self.neighbours.slept();
        if std::mem::take(&mut self.yields) {
            self.began = 0;
            self.yielded = false;
            return;
        }
        let now = ticks();
        let lasted = if self.began == 0 { 0 } else { now.saturating_sub(self.began) };
        self.learn(lasted);
    }

    /// Yields the processor to another thread.
    pub(crate) fn yield_now(&mut self) {
        yield_now();
        self.has_yielded();
    }

    /// Notes that the thread has its processor again after a yield, or did not need one.
    pub(crate) fn has_yielded(&mut self) {
        self.came_back(ticks());
    }

    fn came_back(&mut self, now: u64) {
        let gone = now.saturating_sub(self.last);
        self.neighbours.yielded(now, gone, self.tick_per_us);
        self.last = now;
    }

    /// Looks for other threads on this processor after many turns in each of which a message came: such a node never
    /// waits, and so sees no gap.
    #[cold]
    pub(crate) fn tick(&mut self) {
        if self.policy == Waiting::Adaptive && self.neighbours.are_gone() {
            self.neighbours.tick(ticks(), self.tick_per_us, delayed_ns);
        }
    }

    /// Returns what to do when no message has come. A computation under way gets the processor.
    #[inline]
    pub(crate) fn idle(&mut self, computing: bool) -> Idle {
        if computing {
            self.yields = true;
            return Idle::Sleep;
        }
        if self.policy == Waiting::Sleeping {
            return self.before_sleep();
        }
        self.consider()
    }

    fn before_sleep(&mut self) -> Idle {
        if self.began == 0 {
            self.began = ticks();
        }
        Idle::Sleep
    }

    fn consider(&mut self) -> Idle {
        if self.policy == Waiting::Polling {
            return Idle::Tick;
        }
        if self.alone {
            return self.before_sleep();
        }
        self.consider_at(ticks())
    }

    fn consider_at(&mut self, now: u64) -> Idle {
        if self.began == 0 {
            self.began = now;
        }
        let gone = now.saturating_sub(self.last);
        if self.began != now {
            self.neighbours.looked(now, gone, self.tick_per_us);
        }
        self.last = now;
        if self.neighbours.have_the_processor(now) {
            return Idle::Sleep;
        }
        if self.neighbours.are_gone() && now.saturating_sub(self.began) < self.spin() {
            return Idle::Tick;
        }
        // Another runnable thread may be the one that this node waits for.
        if !self.yielded {
            self.yielded = true;
            return Idle::Yield;
        }
        Idle::Sleep
    }

    /// Returns for how many ticks to spin.
    fn spin(&self) -> u64 {
        let most = SPIN_US_MAX * self.tick_per_us;
        if self.usual > most / 2 {
            // Two nodes that both sleep make each other wait for a wake-up. A node that spins now and then lets both
            // find that spinning pays.
            return if self.untried.is_multiple_of(WAITS_PER_TRIAL) { most } else { 0 };
        }
        (self.usual * SPIN_FACTOR).clamp(2 * self.tick_per_us, most)
    }
}

#[cfg(test)]
mod tests;
