//! How a node waits: look again, let others run, sleep.
//!
//! All pacing is here. Between two looks stands a PAUSE, so that a reader does not steal the line
//! that its peer is about to write. How long to look before sleeping follows what waiting has cost
//! lately: a wait that mostly ends within the price of a wake is looked out, one that does not is
//! slept through at once. While a computation of the node's is under way on another thread it does
//! not look beside it.
//!
//! Where more threads want to run than there are processors, a node that polls only takes the processor
//! from the node that it waits for. An adaptive node then sleeps whenever it has nothing to do, as a
//! sleeping node does. Three signs tell it that another thread wants its processor: a gap between two
//! of its own looks, a `sched_yield` that did not come back at once, and, while messages come without a
//! pause, the time for which the kernel kept it from running. After a while it yields a few times to see whether the
//! others are gone; as long as they are not, it tries again less and less often.
//!
//! Invariant: deciding costs no clock reading while messages come, but once in 256 turns.

mod processors;

mod neighbours;

use neighbours::Neighbours;
use processors::{delayed_ns, processors};
use std::cell::Cell;
use upbeat_core::limits::WATCHES_PER_SECOND_MAX;
use upbeat_memory::ticks::{ticks, ticks_per_second};

/// How a node waits for what comes next.
///
/// Whichever is chosen, the node sleeps where there is nothing to do while a computation of its
/// own is under way on another thread ([`Node::compute`](crate::Node::compute)): a message wakes it,
/// and is served ahead of that.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::{Node, Waiting};
///
/// // A node with a processor of its own.
/// let node = Node::builder("doc/waiting").waiting(Waiting::Polling).local_only().build()?;
/// assert_eq!(Waiting::default(), Waiting::Adaptive);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Looks for a while, as long as that has paid lately, then sleeps. An idle node costs no
    /// processor time.
    #[default]
    Adaptive,
    /// Looks for ever: the shortest delays, and a processor of its own.
    Polling,
    /// Sleeps whenever there is nothing to do.
    Sleeping,
}

/// What to do now that there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// See to timers and sockets, and look again.
    Tick,
    /// Let another thread have the processor, then look again.
    Yield,
    /// Sleep.
    Sleep,
}

/// Looks between two readings of the clock.
const LOOKS_PER_TICK: u32 = 64;
/// Turns of a node, or waits of a handle, between two looks at the clock while messages come.
const TURNS_PER_TICK: u32 = 256;
/// Nanoseconds between two looks at the sockets while the thread is awake.
const WATCH_NS: u64 = 1_000_000_000 / WATCHES_PER_SECOND_MAX;
/// The longest that an adaptive node looks: about what going to sleep and being woken cost.
const SPIN_US_MAX: u64 = 60;
/// So many times the usual wait is looked out.
const SPIN_FACTOR: u64 = 3;
/// Of so many waits that are slept through one is looked out, to see whether that pays again.
const WAITS_PER_TRIAL: u32 = 8;

/// Says when a thread that is awake looks at the clock, and when at its sockets.
pub(crate) struct Ticker {
    turns_left: Cell<u32>,
    watched: Cell<u64>,
}

impl Ticker {
    pub(crate) const fn new() -> Ticker {
        Ticker { turns_left: Cell::new(TURNS_PER_TICK), watched: Cell::new(0) }
    }

    /// Counts a turn. Returns whether the thread looks at the clock now, and [restarts](Ticker::restart).
    #[inline(always)]
    pub(crate) fn turn(&self) -> bool {
        let left = self.turns_left.get() - 1;
        self.turns_left.set(left);
        left == 0
    }

    /// Notes that the thread looks at the clock, however many turns were counted.
    pub(crate) fn restart(&self) {
        self.turns_left.set(TURNS_PER_TICK);
    }

    /// Has the thread look at the clock when this turn is over.
    #[inline]
    pub(crate) fn hurry(&self) {
        self.turns_left.set(1);
    }

    /// Returns whether the thread looks at its sockets now.
    pub(crate) fn is_watch_due(&self, now_ns: u64) -> bool {
        let is_due = now_ns - self.watched.get() >= WATCH_NS;
        if is_due {
            self.watched.set(now_ns);
        }
        is_due
    }
}

/// The waiting of a node or a handle, from turn to turn.
pub(crate) struct Pace {
    policy: Waiting,
    alone: bool,
    tick_per_us: u64,
    began: u64,
    last: u64,
    /// What waits have lasted lately, in ticks, the longest counted as the maximum.
    usual: u64,
    neighbours: Neighbours,
    yielded: bool,
    /// Waits since looking was tried although it has not paid lately.
    untried: u32,
    /// Whether the node sleeps for the sake of a computation, which says nothing of waits.
    yields: bool,
}

impl Pace {
    pub(crate) fn new(policy: Waiting) -> Pace {
        let alone = processors() == 1;
        Pace {
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

    /// How often to look before asking again.
    pub(crate) fn looks(&self, computing: bool) -> u32 {
        let polls = match self.policy {
            Waiting::Adaptive => self.neighbours.are_gone() && !self.alone,
            Waiting::Polling => true,
            Waiting::Sleeping => false,
        };
        if polls && !computing { LOOKS_PER_TICK } else { 1 }
    }

    /// Something has come.
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

    /// The node has slept and is awake again.
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

    /// Lets another thread have the processor.
    pub(crate) fn yield_now(&mut self) {
        rustix::thread::sched_yield();
        self.has_yielded();
    }

    /// The thread has yielded, or need not, and has its processor again.
    pub(crate) fn has_yielded(&mut self) {
        self.came_back(ticks());
    }

    fn came_back(&mut self, now: u64) {
        let gone = now.saturating_sub(self.last);
        self.neighbours.yielded(now, gone, self.tick_per_us);
        self.last = now;
    }

    /// So many turns are over in each of which something has come: notices others that run on this
    /// processor meanwhile. The node never waits, and so sees no gap.
    #[cold]
    pub(crate) fn tick(&mut self) {
        if self.policy == Waiting::Adaptive && self.neighbours.are_gone() {
            self.neighbours.tick(ticks(), self.tick_per_us, delayed_ns);
        }
    }

    /// Nothing has come: what next? With a computation under way the processor is left to it.
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
        // Another runnable thread may be the one that is waited for.
        if !self.yielded {
            self.yielded = true;
            return Idle::Yield;
        }
        Idle::Sleep
    }

    /// For how long to look, in ticks.
    fn spin(&self) -> u64 {
        let most = SPIN_US_MAX * self.tick_per_us;
        if self.usual > most / 2 {
            // Two nodes that both sleep make each other wait for a wake. Now and then one looks,
            // and then both find that it pays.
            return if self.untried.is_multiple_of(WAITS_PER_TRIAL) { most } else { 0 };
        }
        (self.usual * SPIN_FACTOR).clamp(2 * self.tick_per_us, most)
    }
}

#[cfg(test)]
mod tests;
