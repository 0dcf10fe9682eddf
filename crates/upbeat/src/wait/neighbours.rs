//! Neighbours of a node: other threads that want its processor.
//!
//! What notices them costs little where there are none: a gap between two looks and a `sched_yield` are
//! measured anyway, and the kernel is asked less and less often.

/// A gap between two readings that means: the processor was somebody else's meanwhile.
pub(super) const GAP_US: u64 = 40;
/// A `sched_yield` that takes so long has let another thread run. Without one it takes under 1 us.
pub(super) const YIELD_US: u64 = 3;
/// A node that was kept from running for this part of a time in which it did not sleep has others on its
/// processor.
pub(super) const DELAYED_PART: u64 = 16;
/// So long is such a time, where the node has had others on its processor lately, and where it has not.
pub(super) const ASK_US: u64 = 5_000;
pub(super) const ASK_US_MAX: u64 = 80_000;
/// For so long a node does not poll after it has noticed others on its processor: at first, and at most.
/// The time doubles where it notices them again as soon as it polls.
pub(super) const CROWDED_US: u64 = 5_000;
pub(super) const CROWDED_US_MAX: u64 = 1_000_000;
/// It is also so many times as long as the processor was gone: what noticing costs is a small part.
pub(super) const CROWDED_FACTOR: u64 = 16;
/// So many times a node then yields, and must come back at once, before it polls again.
pub(super) const PROBES: u32 = 4;

/// Whether a node has its processor to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// As far as it knows.
    None,
    /// It does not, and does not look again before this time.
    Others { until: u64 },
    /// It looks again: so many times it still has to come back at once from a `sched_yield`.
    Probing { left: u32 },
}

/// What a node knows of its neighbours. Times are in ticks, of which `per_us` make a microsecond.
pub(super) struct Neighbours {
    pub(super) company: Company,
    /// When the node last found its processor to itself, and for how long it had not polled before.
    polls_since: u64,
    pub(super) crowded_us: u64,
    /// When the kernel was last asked for how long it has kept this thread from running, what it said, and
    /// after which time it is asked again.
    asked: u64,
    delayed_ns: u64,
    pub(super) ask_us: u64,
    /// Whether the node has polled ever since: what delays a thread that is woken tells nothing.
    polled_since: bool,
}

impl Neighbours {
    pub(super) const fn new() -> Neighbours {
        Neighbours {
            company: Company::None,
            polls_since: 0,
            crowded_us: CROWDED_US,
            asked: 0,
            delayed_ns: 0,
            ask_us: ASK_US,
            polled_since: false,
        }
    }

    /// Returns whether the node has its processor to itself, as far as it knows.
    pub(super) fn are_gone(&self) -> bool {
        self.company == Company::None
    }

    /// The node has slept.
    pub(super) fn slept(&mut self) {
        self.polled_since = false;
    }

    /// The node has its processor again after a `sched_yield` of so many ticks.
    pub(super) fn yielded(&mut self, now: u64, gone: u64, per_us: u64) {
        if gone > YIELD_US * per_us {
            self.noticed(now, gone, per_us);
        } else if let Company::Probing { left } = &mut self.company {
            *left -= 1;
            if *left == 0 {
                self.company = Company::None;
                self.polls_since = now;
            }
        }
    }

    /// The node looks again, so many ticks after it looked last.
    pub(super) fn looked(&mut self, now: u64, gone: u64, per_us: u64) {
        if gone > GAP_US * per_us {
            self.noticed(now, gone, per_us);
        }
    }

    /// Returns whether the processor is left to the neighbours. When that time is over, the node probes
    /// whether they are gone.
    pub(super) fn have_the_processor(&mut self, now: u64) -> bool {
        let Company::Others { until } = self.company else { return false };
        if now >= until {
            self.company = Company::Probing { left: PROBES };
        }
        now < until
    }

    /// Another thread wants this processor, and has had it for so many ticks.
    pub(super) fn noticed(&mut self, now: u64, gone: u64, per_us: u64) {
        let soon = (self.crowded_us + ASK_US_MAX) * per_us;
        // Noticed again as soon as it polls: they have been there all the time.
        let still = self.company != Company::None
            || self.polls_since != 0 && now.saturating_sub(self.polls_since) < soon;
        let least = if still { (self.crowded_us * 2).min(CROWDED_US_MAX) } else { CROWDED_US };
        let gone_us = gone / per_us;
        self.crowded_us = (gone_us * CROWDED_FACTOR).clamp(least, CROWDED_US_MAX);
        self.ask_us = ASK_US;
        self.polled_since = false;
        self.company = Company::Others { until: now + self.crowded_us * per_us };
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
