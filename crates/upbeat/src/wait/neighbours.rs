//! The neighbours of a node: other threads that want its processor.
//!
//! Noticing neighbours costs little if there are none: the gap between two polls and the time of a `sched_yield` are
//! measured anyway, and the kernel is asked less and less often.

/// A gap between two readings of the clock in which another thread must have had the processor.
pub(super) const GAP_US: u64 = 40;
/// A `sched_yield` that takes this long has let another thread run. Otherwise the call takes under 1 us.
pub(super) const YIELD_US: u64 = 3;
/// A node that was kept from running for this part of a period without sleep has neighbours on its processor.
pub(super) const DELAYED_PART: u64 = 16;
/// The length of that period, if the node had neighbours on its processor lately, and if not.
pub(super) const ASK_US: u64 = 5_000;
pub(super) const ASK_US_MAX: u64 = 80_000;
/// The time for which a node does not spin after it has noticed neighbours: at first, and at most. The time doubles
/// if the node notices them again as soon as it spins.
pub(super) const CROWDED_US: u64 = 5_000;
pub(super) const CROWDED_US_MAX: u64 = 1_000_000;
/// The time is also this many times as long as the processor was gone, so that noticing costs only a small part.
pub(super) const CROWDED_FACTOR: u64 = 16;
/// The number of times that a node must come back at once from a yield before it spins again.
pub(super) const PROBES: u32 = 4;

/// The node's knowledge about whether other threads want its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NeighbourState {
    /// The node knows of no neighbours.
    None,
    /// The node has neighbours, and does not check again before this time.
    Others { until: u64 },
    /// The node checks again: it still has to come back at once from this many `sched_yield`s.
    Probing { left: u32 },
}

/// The neighbours of a node. Times are in ticks, of which `per_us` make a microsecond.
pub(super) struct Neighbours {
    pub(super) company: NeighbourState,
    /// The time at which the node last found itself without neighbours, and for how long it had not spun before.
    polls_since: u64,
    pub(super) crowded_us: u64,
    /// The time at which the kernel was last asked for how long it has kept this thread from running, the answer, and
    /// the time after which it is asked again.
    asked: u64,
    delayed_ns: u64,
    pub(super) ask_us: u64,
    /// Whether the node has been awake since then: the delay of a thread that is woken says nothing.
    polled_since: bool,
}

impl Neighbours {
    pub(super) const fn new() -> Neighbours {
        Neighbours {
            company: NeighbourState::None,
            polls_since: 0,
            crowded_us: CROWDED_US,
            asked: 0,
            delayed_ns: 0,
            ask_us: ASK_US,
            polled_since: false,
        }
    }

    /// Returns whether the node has no neighbours, as far as it knows.
    pub(super) fn are_gone(&self) -> bool {
        self.company == NeighbourState::None
    }

    /// Notes that the node has slept.
    pub(super) fn slept(&mut self) {
        self.polled_since = false;
    }

    /// Notes that the node has its processor again after a `sched_yield` of `gone` ticks.
    pub(super) fn yielded(&mut self, now: u64, gone: u64, per_us: u64) {
        if gone > YIELD_US * per_us {
            self.noticed(now, gone, per_us);
        } else if let NeighbourState::Probing { left } = &mut self.company {
            *left -= 1;
            if *left == 0 {
                self.company = NeighbourState::None;
                self.polls_since = now;
            }
        }
    }

    /// Notes that the node polls again, `gone` ticks after its last poll.
    pub(super) fn looked(&mut self, now: u64, gone: u64, per_us: u64) {
        if gone > GAP_US * per_us {
            self.noticed(now, gone, per_us);
        }
    }

    /// Returns whether the processor is left to the neighbours. After that time the node probes whether they are
    /// gone.
    pub(super) fn have_the_processor(&mut self, now: u64) -> bool {
        let NeighbourState::Others { until } = self.company else { return false };
        if now >= until {
            self.company = NeighbourState::Probing { left: PROBES };
        }
        now < until
    }

    /// Notes that another thread wants this processor, and has had it for `gone` ticks.
    pub(super) fn noticed(&mut self, now: u64, gone: u64, per_us: u64) {
        let soon = (self.crowded_us + ASK_US_MAX) * per_us;
        // Neighbours that are noticed as soon as the node spins have been there all the time.
        let still = self.company != NeighbourState::None
            || self.polls_since != 0 && now.saturating_sub(self.polls_since) < soon;
        let least = if still { (self.crowded_us * 2).min(CROWDED_US_MAX) } else { CROWDED_US };
        let gone_us = gone / per_us;
        self.crowded_us = (gone_us * CROWDED_FACTOR).clamp(least, CROWDED_US_MAX);
        self.ask_us = ASK_US;
        self.polled_since = false;
        self.company = NeighbourState::Others { until: now + self.crowded_us * per_us };
    }

    /// Asks the kernel, if it is time, for how long it has kept this thread from running.
    pub(super) fn tick(&mut self, now: u64, per_us: u64, delayed_ns: impl FnOnce() -> Option<u64>) {
        let passed_us = now.saturating_sub(self.asked) / per_us;
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
            true => self.noticed(now, delayed_us * per_us, per_us),
            false => self.ask_us = (self.ask_us * 2).min(ASK_US_MAX),
        }
    }
}
