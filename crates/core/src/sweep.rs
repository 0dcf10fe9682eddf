//! When a driver looks at every lane, whether or not a note says that something came there.
//!
//! A note is a hint: it may be lost, and its message is found by this look, a sweep's interval later at most.
//! Invariant: while its driver is awake, no time without a sweep is longer than the interval and one turn.

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
    /// Sweeps that are so long apart, of a driver that begins now.
    pub const fn new(interval: u64, now: u64) -> Sweeps {
        Sweeps { interval, last: now }
    }

    /// Returns whether every lane is to be looked at now. If so, the next sweep is an interval later.
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
