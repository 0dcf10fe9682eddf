//! Long polls: futures that keep the thread of their node from everything else.
//!
//! A thread is gone for a while for one of three reasons: its future computes, its future blocks in a system call, or
//! the machine runs other threads on its processor. The kernel's account of the thread tells them apart, and only the
//! first two are the future's doing. A node does not read the clock around every poll, since that would cost every
//! message. It notices the gap between two readings that it makes anyway, and then times every poll for a while.
//!
//! Invariant: a future is not blamed for time in which its thread wanted to run and had no processor.

/// A future may exceed its budget by this part of it: one with checkpoints makes way late by the time between two.
const TOLERATED_PART: u64 = 4;

/// The shortest and the longest time for which every poll is timed after a gap.
const TIMED_NS: core::ops::RangeInclusive<u64> = 250_000_000..=16_000_000_000;

/// The kernel's account of a thread, in nanoseconds since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// The time for which the thread had a processor.
    pub ran_ns: u64,
    /// The time for which the thread was ready to run while others had its processor.
    pub delayed_ns: u64,
    /// How often the thread got a processor: unchanged, the thread has kept it.
    pub turns: u64,
}

/// The reason why a poll took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongPoll {
    /// The machine, or the machine around a virtual one, ran something else. Without that the poll would have kept its
    /// budget.
    Preempted,
    /// The thread slept in the poll, for this many nanoseconds at least.
    Blocked(u64),
    /// The poll computed, or nothing is known about its thread.
    Ran,
}

/// Returns whether a poll of `lasted` has exceeded its `budget`, both in any one unit.
#[inline(always)]
pub const fn exceeds(lasted: u64, budget: u64) -> bool {
    lasted > budget.saturating_add(budget / TOLERATED_PART)
}

/// Judges a poll that lasted `lasted_ns`, beyond its budget. The accounts of its thread are of some time before the
/// poll and of the time after it; the earlier the first one, the more is excused.
///
/// ```
/// use upbeat_core::long_poll::{LongPoll, ThreadTimes, judge};
///
/// let before = ThreadTimes { ran_ns: 7_000_000, delayed_ns: 0, turns: 3 };
/// let after = ThreadTimes { ran_ns: 7_030_000, delayed_ns: 19_990_000, turns: 4 };
/// assert_eq!(judge(20_000_000, 100_000, Some((before, after))), LongPoll::Preempted);
/// let after = ThreadTimes { delayed_ns: 10_000, ..after };
/// assert_eq!(judge(20_000_000, 100_000, Some((before, after))), LongPoll::Blocked(19_960_000));
/// ```
pub const fn judge(
    lasted_ns: u64,
    budget_ns: u64,
    accounts: Option<(ThreadTimes, ThreadTimes)>,
) -> LongPoll {
    let Some((before, after)) = accounts else { return LongPoll::Ran };
    let delayed = after.delayed_ns.saturating_sub(before.delayed_ns);
    let own = lasted_ns.saturating_sub(delayed);
    // A poll that lost its processor pays for the switches and finds its caches cold.
    let budget_ns = if delayed == 0 { budget_ns } else { budget_ns.saturating_mul(2) };
    if !exceeds(own, budget_ns) {
        return LongPoll::Preempted;
    }
    let slept = own.saturating_sub(after.ran_ns.saturating_sub(before.ran_ns));
    match slept >= own / 2 {
        false => LongPoll::Ran,
        // A thread that has kept its processor has not slept: its virtual processor did not run.
        true if after.turns == before.turns => LongPoll::Preempted,
        true => LongPoll::Blocked(slept),
    }
}

/// Decides for how long every poll is timed, after a gap that no single poll explains.
///
/// ```
/// use upbeat_core::long_poll::CloserLook;
///
/// let mut look = CloserLook::default();
/// look.gap(1_000_000_000);
/// assert!(look.lasts(1_200_000_000) && !look.lasts(1_300_000_000));
/// // A gap two seconds later: the next one is expected within four.
/// look.gap(3_000_000_000);
/// assert!(look.lasts(6_900_000_000) && !look.lasts(7_100_000_000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloserLook {
    last_gap_ns: Option<u64>,
    until_ns: u64,
}

impl CloserLook {
    /// Notes a gap, which the machine did not cause. Polls are timed for twice as long as the last gap was ago.
    pub fn gap(&mut self, now_ns: u64) {
        let ago = self.last_gap_ns.replace(now_ns).map_or(0, |last| now_ns.saturating_sub(last));
        let lasts = ago.saturating_mul(2).clamp(*TIMED_NS.start(), *TIMED_NS.end());
        self.until_ns = self.until_ns.max(now_ns.saturating_add(lasts));
    }

    /// Returns whether polls are still timed.
    pub const fn lasts(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u64 = 100_000;

    fn accounts(ran_ns: u64, delayed_ns: u64) -> Option<(ThreadTimes, ThreadTimes)> {
        let before = ThreadTimes { ran_ns: 5, delayed_ns: 9, turns: 2 };
        let after = ThreadTimes { ran_ns: 5 + ran_ns, delayed_ns: 9 + delayed_ns, turns: 3 };
        Some((before, after))
    }

    #[test]
    fn a_poll_that_lost_its_processor_is_not_blamed() {
        assert_eq!(judge(4_000_000, BUDGET, accounts(20_000, 3_980_000)), LongPoll::Preempted);
        // Other delays since the first account are excused as well.
        assert_eq!(judge(4_000_000, BUDGET, accounts(20_000, 9_000_000)), LongPoll::Preempted);
        assert_eq!(
            judge(20_000_000, BUDGET, accounts(100, 4_000_000)),
            LongPoll::Blocked(15_999_900)
        );
    }

    #[test]
    fn a_poll_that_slept_is_told_from_one_that_computed() {
        assert_eq!(judge(20_000_000, BUDGET, accounts(19_990_000, 0)), LongPoll::Ran);
        assert_eq!(judge(20_000_000, BUDGET, accounts(40_000, 0)), LongPoll::Blocked(19_960_000));
        assert_eq!(judge(20_000_000, BUDGET, None), LongPoll::Ran);
        // The thread computed for long before the poll: nothing is certain.
        assert_eq!(judge(20_000_000, BUDGET, accounts(45_000_000, 0)), LongPoll::Ran);
    }

    #[test]
    fn a_poll_that_lost_its_processor_may_take_another_budget() {
        let lasted = 4_000_000;
        assert_eq!(judge(lasted, BUDGET, accounts(240_000, 3_760_000)), LongPoll::Preempted);
        assert_eq!(judge(lasted, BUDGET, accounts(260_000, 3_740_000)), LongPoll::Ran);
        assert_eq!(judge(240_000, BUDGET, accounts(240_000, 0)), LongPoll::Ran);
    }

    #[test]
    fn a_poll_whose_virtual_processor_was_gone_is_not_blamed() {
        let (before, after) = accounts(40_000, 0).unwrap();
        let kept = Some((before, ThreadTimes { turns: before.turns, ..after }));
        assert_eq!(judge(20_000_000, BUDGET, kept), LongPoll::Preempted);
    }

    #[test]
    fn a_quarter_of_the_budget_is_tolerated() {
        assert!(!exceeds(125, 100) && exceeds(126, 100) && !exceeds(u64::MAX, u64::MAX));
    }

    #[test]
    fn rare_gaps_lengthen_the_look_within_bounds() {
        let mut look = CloserLook::default();
        assert!(!look.lasts(0));
        look.gap(10);
        assert!(look.lasts(TIMED_NS.start() + 9) && !look.lasts(TIMED_NS.start() + 10));
        let later = 1 << 40;
        look.gap(later);
        assert!(look.lasts(later + TIMED_NS.end() - 1) && !look.lasts(later + TIMED_NS.end()));
        // A gap soon afterwards does not shorten what was decided.
        look.gap(later + 1);
        assert!(look.lasts(later + TIMED_NS.end() - 1));
    }
}
