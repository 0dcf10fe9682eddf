//! Random numbers that follow from a seed.

use std::ops::Range;
use std::time::Duration;

/// The generator SplitMix64.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Returns a number in which each bit depends on each bit of the argument.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns the time of a range that a random number chooses, or its start if it is empty.
pub(crate) fn within(times: &Range<Duration>, random: u64) -> Duration {
    let span = times.end.saturating_sub(times.start).as_nanos().max(1);
    times.start + Duration::from_nanos(random % u64::try_from(span).unwrap_or(u64::MAX))
}
