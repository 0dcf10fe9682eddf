//! How a node waits: look again, let others run, sleep.
//!
//! All pacing is here. Between two looks stands a PAUSE, so that a reader does not steal the line
//! that its peer is about to write. How long to look before sleeping follows what waiting has cost
//! lately: a wait that mostly ends within the price of a wake is looked out, one that does not is
//! slept through at once. Where more wants to run than there are processors, looking only takes the
//! processor from the one that is waited for; a node sees that from the gaps between its own looks.
//! While a computation of the node's is under way on another thread it does not look beside it.
//!
//! Invariant: deciding costs no clock reading while messages come.

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
/// The longest that an adaptive node looks: about what going to sleep and being woken cost.
const SPIN_US_MAX: u64 = 60;
/// So many times the usual wait is looked out.
const SPIN_FACTOR: u64 = 3;
/// A gap between two readings that means: the processor was somebody else's meanwhile.
const GAP_US: u64 = 40;
/// For so long after such a gap nothing is looked out.
const CROWDED_US: u64 = 5_000;

/// Of so many waits that are slept through one is looked out, to see whether that pays again.
const WAITS_PER_TRIAL: u32 = 8;

/// The processors that the program can be on. The affinity of this thread says nothing of where its
/// peers run; a quota of the control group does.
fn processors() -> usize {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let online = online.and_then(|list| count_in(list.trim())).unwrap_or(1);
    let quota = std::fs::read_to_string("/sys/fs/cgroup/cpu.max").ok();
    quota.and_then(|text| whole_processors(&text)).map_or(online, |quota| online.min(quota))
}

/// The processors in a list such as `0-3,8`.
fn count_in(list: &str) -> Option<usize> {
    list.split(',').try_fold(0, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        Some(count + last.checked_sub(first)? + 1)
    })
}

/// The whole processors that a quota such as `150000 100000` grants, at least one.
fn whole_processors(quota: &str) -> Option<usize> {
    let (time, period) = quota.trim().split_once(' ')?;
    let (time, period) = (time.parse::<usize>().ok()?, period.parse::<usize>().ok()?);
    Some((time / period.max(1)).max(1))
}

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
            crowded_until: 0,
            yielded: false,
            untried: 0,
            yields: false,
        }
    }

    /// How often to look before asking again.
    pub(crate) fn looks(&self, computing: bool) -> u32 {
        if computing || self.policy == Waiting::Sleeping { 1 } else { LOOKS_PER_TICK }
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
        if std::mem::take(&mut self.yields) {
            self.began = 0;
            self.yielded = false;
            return;
        }
        let now = ticks();
        let lasted = if self.began == 0 { 0 } else { now.saturating_sub(self.began) };
        self.learn(lasted);
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
        if self.alone || now < self.crowded_until {
            return 0;
        }
        if self.usual > most / 2 {
            // Two nodes that both sleep make each other wait for a wake. Now and then one looks,
            // and then both find that it pays.
            return if self.untried.is_multiple_of(WAITS_PER_TRIAL) { most } else { 0 };
        }
        (self.usual * SPIN_FACTOR).clamp(2 * self.tick_per_us, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_and_quotas_are_read() {
        assert_eq!(count_in("0"), Some(1));
        assert_eq!(count_in("0-3,8"), Some(5));
        assert_eq!((count_in(""), count_in("3-1"), count_in("a-b")), (None, None, None));
        assert_eq!(whole_processors("max 100000\n"), None);
        assert_eq!(whole_processors("50000 100000\n"), Some(1));
        assert_eq!(whole_processors("250000 100000\n"), Some(2));
    }

    fn adaptive() -> Pace {
        Pace { alone: false, tick_per_us: 1, ..Pace::new(Waiting::Adaptive) }
    }

    #[test]
    fn waits_that_end_soon_are_looked_out_and_long_ones_are_not() {
        let mut pace = adaptive();
        (0..32).for_each(|_| pace.learn(10));
        assert!((24..=60).contains(&pace.spin(0)), "{}", pace.spin(0));
        (0..32).for_each(|_| pace.learn(1_000_000));
        let spins: Vec<u64> = (0..8)
            .map(|_| {
                pace.learn(1_000_000);
                pace.spin(0)
            })
            .collect();
        // One of eight is tried.
        assert_eq!(spins.iter().filter(|spin| **spin == 0).count(), 7, "{spins:?}");
    }

    #[test]
    fn a_crowded_or_single_processor_is_not_looked_on() {
        let mut pace = adaptive();
        pace.crowded_until = 100;
        assert_eq!(pace.spin(99), 0);
        assert_ne!(pace.spin(100), 0);
        pace.alone = true;
        assert_eq!(pace.spin(100), 0);
    }

    #[test]
    fn the_policies_do_as_they_say() {
        assert_eq!(Pace::new(Waiting::Sleeping).idle(false), Idle::Sleep);
        assert_eq!(Pace::new(Waiting::Sleeping).looks(false), 1);
        let mut polling = Pace::new(Waiting::Polling);
        assert!((0..1000).all(|_| polling.idle(false) == Idle::Tick));
        // An adaptive node that nothing reaches lets others run, and then sleeps.
        let mut pace = adaptive();
        let mut acts = Vec::new();
        while acts.last() != Some(&Idle::Sleep) {
            acts.push(pace.idle(false));
        }
        assert_eq!(acts[acts.len() - 2], Idle::Yield);
    }

    #[test]
    fn nobody_looks_beside_a_computation_or_learns_from_it() {
        for policy in [Waiting::Polling, Waiting::Adaptive, Waiting::Sleeping] {
            let mut pace = Pace::new(policy);
            assert_eq!((pace.looks(true), pace.idle(true)), (1, Idle::Sleep), "{policy:?}");
            pace.slept();
            assert_eq!((pace.usual, pace.began), (0, 0), "{policy:?}");
            assert_eq!(pace.idle(false) == Idle::Sleep, policy == Waiting::Sleeping);
        }
    }
}
