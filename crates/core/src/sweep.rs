//! The sweeps of a driver: polls of every lane, whether or not a note on the board names it.
//!
//! A note is a hint and may be lost; its message is then found by a sweep, at most one interval later. Invariant:
//! while its driver is awake, the time between two sweeps is no longer than the interval and one turn.

use crate::mutant::{Mutant, mutated};

/// The sweeps of one driver. Times are nanoseconds on its clock.
///
/// ```
/// use upbeat_core::sweep::Sweeps;
///
/// let mut sweeps = Sweeps::new(100, 0);
/// assert!(!sweeps.take_due(99) && sweeps.take_due(100));
/// assert!(!sweeps.take_due(150));
/// assert_eq!(sweeps.next(), 200);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweeps {
    interval: u64,
    last: u64,
}

impl Sweeps {
    /// Creates the sweeps of a driver that begins now, with this interval.
    pub const fn new(interval: u64, now: u64) -> Sweeps {
        Sweeps { interval, last: now }
    }

    /// Returns whether every lane must be polled now. The next sweep is then an interval later.
    pub fn take_due(&mut self, now: u64) -> bool {
        let is_due = now >= self.next() && !mutated(Mutant::HintsTrusted);
        if is_due || mutated(Mutant::SweepPutOff) {
            self.last = now;
        }
        is_due
    }

    /// Returns when the next sweep is due.
    pub const fn next(&self) -> u64 {
        self.last.saturating_add(self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sweeps_are_an_interval_and_a_turn_apart_at_most() {
        let mut sweeps = Sweeps::new(100, 0);
        let swept = (0..41).map(|turn| turn * 30).filter(|now| sweeps.take_due(*now));
        assert_eq!(swept.count(), 10, "at each fourth turn");
    }
}
