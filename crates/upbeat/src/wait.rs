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

use rustix::fs::{Mode, OFlags};
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
pub(crate) const TURNS_PER_TICK: u32 = 256;
/// The longest that an adaptive node looks: about what going to sleep and being woken cost.
const SPIN_US_MAX: u64 = 60;
/// So many times the usual wait is looked out.
const SPIN_FACTOR: u64 = 3;
/// A gap between two readings that means: the processor was somebody else's meanwhile.
const GAP_US: u64 = 40;
/// A `sched_yield` that takes so long has let another thread run. Without one it takes under 1 us.
const YIELD_US: u64 = 3;
/// A node that was kept from running for this part of a time in which it did not sleep has others on its
/// processor.
const DELAYED_PART: u64 = 16;
/// So long is such a time, where the node has had others on its processor lately, and where it has not.
const ASK_US: u64 = 5_000;
const ASK_US_MAX: u64 = 80_000;
/// For so long a node does not poll after it has noticed others on its processor: at first, and at most.
/// The time doubles where it notices them again as soon as it polls.
const CROWDED_US: u64 = 5_000;
const CROWDED_US_MAX: u64 = 1_000_000;
/// It is also so many times as long as the processor was gone: what noticing costs is a small part.
const CROWDED_FACTOR: u64 = 16;
/// So many times a node then yields, and must come back at once, before it polls again.
const PROBES: u32 = 4;

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

/// Nanoseconds for which this thread was ready to run while others ran, as the kernel counts them, if it
/// does.
fn delayed_ns() -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open("/proc/thread-self/schedstat", flags, Mode::empty()).ok()?;
    let mut text = [0; 64];
    let length = rustix::io::read(file, &mut text).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a node has its processor to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    /// As far as it knows.
    None,
    /// It does not, and does not look again before this time.
    Others { until: u64 },
    /// It looks again: so many times it still has to come back at once from a `sched_yield`.
    Probing { left: u32 },
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
    company: Company,
    /// When the node last found its processor to itself, and for how long it had not polled before.
    polls_since: u64,
    crowded_us: u64,
    /// When the kernel was last asked for how long it has kept this thread from running, what it said, and
    /// after which time it is asked again.
    asked: u64,
    delayed_ns: u64,
    ask_us: u64,
    /// Whether the node has polled ever since: what delays a thread that is woken tells nothing.
    polled_since: bool,
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
            company: Company::None,
            polls_since: 0,
            crowded_us: CROWDED_US,
            asked: 0,
            delayed_ns: 0,
            ask_us: ASK_US,
            polled_since: false,
            yielded: false,
            untried: 0,
            yields: false,
        }
    }

    /// How often to look before asking again.
    pub(crate) fn looks(&self, computing: bool) -> u32 {
        let polls = match self.policy {
            Waiting::Adaptive => self.company == Company::None && !self.alone,
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
        self.polled_since = false;
        if std::mem::take(&mut self.yields) {
            self.began = 0;
            self.yielded = false;
            return;
        }
        let now = ticks();
        let lasted = if self.began == 0 { 0 } else { now.saturating_sub(self.began) };
        self.learn(lasted);
    }

    /// The node has yielded, and has its processor again.
    pub(crate) fn has_yielded(&mut self) {
        self.came_back(ticks());
    }

    fn came_back(&mut self, now: u64) {
        let gone = now.saturating_sub(self.last);
        if gone > YIELD_US * self.tick_per_us {
            self.has_company(now, gone);
        } else if let Company::Probing { left } = &mut self.company {
            *left -= 1;
            if *left == 0 {
                self.company = Company::None;
                self.polls_since = now;
            }
        }
        self.last = now;
    }

    /// Another thread wants this processor, and has had it for so many ticks.
    fn has_company(&mut self, now: u64, gone: u64) {
        let soon = (self.crowded_us + ASK_US_MAX) * self.tick_per_us;
        // Noticed again as soon as it polls: they have been there all the time.
        let still = self.company != Company::None
            || self.polls_since != 0 && now.saturating_sub(self.polls_since) < soon;
        let least = if still { (self.crowded_us * 2).min(CROWDED_US_MAX) } else { CROWDED_US };
        let gone_us = gone / self.tick_per_us;
        self.crowded_us = (gone_us * CROWDED_FACTOR).clamp(least, CROWDED_US_MAX);
        self.ask_us = ASK_US;
        self.polled_since = false;
        self.company = Company::Others { until: now + self.crowded_us * self.tick_per_us };
    }

    /// So many turns are over in each of which something has come: notices others that run on this
    /// processor meanwhile. The node never waits, and so sees no gap.
    pub(crate) fn tick(&mut self) {
        if self.policy == Waiting::Adaptive && self.company == Company::None {
            self.tick_at(ticks(), delayed_ns);
        }
    }

    fn tick_at(&mut self, now: u64, delayed_ns: impl FnOnce() -> Option<u64>) {
        let passed_us = now.saturating_sub(self.asked) / self.tick_per_us;
        if passed_us < self.ask_us {
            return;
        }
        self.asked = now;
        let is_whole = std::mem::replace(&mut self.polled_since, true);
        let Some(delayed_ns) = delayed_ns() else { return };
        let before = std::mem::replace(&mut self.delayed_ns, delayed_ns);
        if !is_whole {
            return;
        }
        let delayed_us = delayed_ns.saturating_sub(before) / 1000;
        match delayed_us > passed_us / DELAYED_PART {
            true => self.has_company(now, delayed_us * self.tick_per_us),
            false => self.ask_us = (self.ask_us * 2).min(ASK_US_MAX),
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
        if self.began != now && gone > GAP_US * self.tick_per_us {
            self.has_company(now, gone);
        }
        self.last = now;
        if let Company::Others { until } = self.company {
            if now < until {
                return Idle::Sleep;
            }
            self.company = Company::Probing { left: PROBES };
        }
        if self.company == Company::None && now.saturating_sub(self.began) < self.spin() {
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
        assert!((24..=60).contains(&pace.spin()), "{}", pace.spin());
        (0..32).for_each(|_| pace.learn(1_000_000));
        let spins: Vec<u64> = (0..8)
            .map(|_| {
                pace.learn(1_000_000);
                pace.spin()
            })
            .collect();
        // One of eight is tried.
        assert_eq!(spins.iter().filter(|spin| **spin == 0).count(), 7, "{spins:?}");
    }

    #[test]
    fn a_single_processor_is_not_polled_on() {
        let mut pace = Pace { alone: true, ..adaptive() };
        assert_eq!((pace.looks(false), pace.idle(false)), (1, Idle::Sleep));
    }

    /// Waits until the node sleeps, from this time on, and gives what it did before.
    fn wait(pace: &mut Pace, mut now: u64, yield_us: u64) -> Vec<Idle> {
        let mut acts = Vec::new();
        loop {
            acts.push(pace.consider_at(now));
            match acts.last() {
                Some(Idle::Sleep) => break,
                Some(Idle::Yield) => {
                    now += yield_us;
                    pace.came_back(now);
                }
                _ => now += 1,
            }
        }
        pace.learn(10);
        acts
    }

    #[test]
    fn whoever_shares_a_processor_sleeps_and_probes_less_and_less_often() {
        let mut pace = adaptive();
        let mut now = 1_000_000;
        assert_eq!((wait(&mut pace, now, 0).len(), pace.looks(false)), (4, LOOKS_PER_TICK));
        // A yield that takes long.
        wait(&mut pace, now, YIELD_US + 1);
        let mut spans = Vec::new();
        for _ in 0..8 {
            assert_eq!(pace.looks(false), 1);
            let Company::Others { until } = pace.company else { panic!("{:?}", pace.company) };
            spans.push((until - now) / 1000);
            assert_eq!(wait(&mut pace, until - 1, 0), [Idle::Sleep]);
            now = until;
            assert_eq!(wait(&mut pace, now, YIELD_US + 1), [Idle::Yield, Idle::Sleep]);
        }
        assert_eq!(spans, [5, 10, 20, 40, 80, 160, 320, 640]);
        // The others are gone.
        let Company::Others { until } = pace.company else { panic!("{:?}", pace.company) };
        now = until;
        for _ in 1..PROBES {
            assert_eq!(wait(&mut pace, now, 0), [Idle::Yield, Idle::Sleep]);
            assert_eq!(pace.looks(false), 1);
        }
        assert_eq!(wait(&mut pace, now, 0)[..2], [Idle::Yield, Idle::Tick]);
        assert_eq!((pace.company, pace.looks(false)), (Company::None, LOOKS_PER_TICK));
        // A gap between two looks, at once: they are not; later, they are new.
        pace.consider_at(now);
        assert_eq!(pace.consider_at(now + GAP_US + 1), Idle::Sleep);
        assert_eq!(pace.crowded_us, CROWDED_US_MAX);
        now += 2 * CROWDED_US_MAX;
        pace.company = Company::None;
        pace.has_company(now, YIELD_US + 1);
        assert_eq!(pace.crowded_us, CROWDED_US);
        // Those that keep the processor for a time slice are not tried again soon.
        pace.has_company(now, 3_000);
        assert_eq!(pace.crowded_us, 3_000 * CROWDED_FACTOR);
    }

    #[test]
    fn a_node_that_does_not_wait_learns_of_others_from_the_kernel() {
        let mut pace = adaptive();
        let mut now = 1_000_000;
        let mut tick = |pace: &mut Pace, us, delayed_us: u64| {
            now += us;
            let asked = std::cell::Cell::new(false);
            pace.tick_at(now, || {
                asked.set(true);
                Some(delayed_us * 1000)
            });
            (asked.get(), pace.company == Company::None)
        };
        // Asked less and less often, as long as this thread runs.
        let asked = (0..1000).filter(|_| tick(&mut pace, 1000, 90).0).count();
        assert!((14..=18).contains(&asked), "{asked}");
        assert_eq!(tick(&mut pace, ASK_US_MAX, 90 + ASK_US_MAX / DELAYED_PART), (true, true));
        // What it was delayed when it was woken does not count.
        pace.slept();
        assert_eq!(tick(&mut pace, 1000, 60_000), (false, true));
        assert_eq!(tick(&mut pace, ASK_US_MAX, 60_000), (true, true));
        assert_eq!(tick(&mut pace, ASK_US_MAX, 90_000), (true, false));
        assert_eq!((pace.ask_us, pace.crowded_us), (ASK_US, 30_000 * CROWDED_FACTOR));
    }

    #[test]
    fn the_kernel_counts_for_how_long_a_thread_was_kept_from_running() {
        if std::fs::exists("/proc/thread-self/schedstat").unwrap_or(false) {
            assert!(delayed_ns().is_some());
        }
    }

    #[test]
    fn the_policies_do_as_they_say() {
        assert_eq!(Pace::new(Waiting::Sleeping).idle(false), Idle::Sleep);
        assert_eq!(Pace::new(Waiting::Sleeping).looks(false), 1);
        let mut polling = Pace::new(Waiting::Polling);
        assert!((0..1000).all(|_| polling.idle(false) == Idle::Tick));
        // An adaptive node that nothing reaches lets others run, and then sleeps.
        let acts = wait(&mut adaptive(), 1, 0);
        assert_eq!(acts[acts.len() - 3..], [Idle::Tick, Idle::Yield, Idle::Sleep]);
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
