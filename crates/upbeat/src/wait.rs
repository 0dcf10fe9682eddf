//! How a node waits: look again, let others run, sleep.
//!
//! All pacing is here. Between two looks stands a PAUSE, so that a reader does not steal the line
//! that its peer is about to write. How long to look before sleeping follows what waiting has cost
//! lately: a wait that mostly ends within the price of a wake is looked out, one that does not is
//! slept through at once. Where more wants to run than there are processors, looking only takes the
//! processor from the one that is waited for; a node sees that from the gaps between its own looks.
//!
//! Invariant: deciding costs no clock reading while messages come.

use upbeat_memory::ticks::{ticks, ticks_per_second};

/// How a node waits for what comes next.
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
/// The longest that an adaptive node looks: about what going to sleep and being woken cost.
const SPIN_US_MAX: u64 = 60;
/// So many times the usual wait is looked out.
const SPIN_FACTOR: u64 = 3;
/// A gap between two readings that means: the processor was somebody else's meanwhile.
const GAP_US: u64 = 40;
/// For so long after such a gap nothing is looked out.
const CROWDED_US: u64 = 5_000;

/// A node's waiting, from turn to turn.
pub(crate) struct Pace {
    policy: Waiting,
    alone: bool,
    tick_per_us: u64,
    began: u64,
    last: u64,
    /// What waits have lasted lately, in ticks, the longest counted as the maximum.
    usual: u64,
    crowded_until: u64,
    yielded: bool,
}

impl Pace {
    pub(crate) fn new(policy: Waiting) -> Pace {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        Pace {
            policy,
            alone: processors == 1,
            tick_per_us: (ticks_per_second() / 1_000_000).max(1),
            began: 0,
            last: 0,
            usual: 0,
            crowded_until: 0,
            yielded: false,
        }
    }

    /// How often to look before asking again.
    pub(crate) fn looks(&self) -> u32 {
        if self.policy == Waiting::Sleeping { 1 } else { LOOKS_PER_TICK }
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
    }

    /// The node has slept and is awake again.
    pub(crate) fn slept(&mut self) {
        let now = ticks();
        let lasted = if self.began == 0 { 0 } else { now.saturating_sub(self.began) };
        self.learn(lasted);
    }

    /// Nothing has come: what next?
    #[inline]
    pub(crate) fn idle(&mut self) -> Idle {
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
        let now = ticks();
        if self.began == 0 {
            self.began = now;
        } else if now - self.last > GAP_US * self.tick_per_us {
            self.crowded_until = now + CROWDED_US * self.tick_per_us;
        }
        self.last = now;
        let waited = now - self.began;
        if waited < self.spin(now) {
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
    fn spin(&self, now: u64) -> u64 {
        let most = SPIN_US_MAX * self.tick_per_us;
        if self.alone || now < self.crowded_until || self.usual > most / 2 {
            return 0;
        }
        (self.usual * SPIN_FACTOR).clamp(2 * self.tick_per_us, most)
    }
}
