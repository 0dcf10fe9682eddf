//! The delay of a refused caller before it retries.
//!
//! The delay doubles with each refusal, and is a random time in the upper half of that span, so that callers that
//! were refused together do not retry together. The callee counts the refusals of a call ([`REFUSALS_MAX`]); other
//! modules wait and have the clock. Invariant: the delay is bounded, and depends only on the arguments.

use crate::mutant::{Mutant, mutated};

/// The number of refusals after which a call is run as a task and not refused again.
pub const REFUSALS_MAX: u64 = 8;

/// Returns whether a call that was refused this many times may be refused once more.
///
/// ```
/// use upbeat_core::backoff::{REFUSALS_MAX, is_refusable};
///
/// assert!(is_refusable(0) && !is_refusable(REFUSALS_MAX));
/// ```
pub fn is_refusable(refusals: u64) -> bool {
    refusals < REFUSALS_MAX || mutated(Mutant::RefusedForEver)
}

/// The longest delay in nanoseconds after the first refusal. It doubles with each further one.
pub const BACKOFF_FIRST_NS: u64 = 20_000;

/// Returns the delay in nanoseconds after this many refusals, with a random number.
///
/// ```
/// use upbeat_core::backoff::delay_ns;
///
/// assert!((10_000..=20_000).contains(&delay_ns(1, 0x9e37_79b9_7f4a_7c15)));
/// assert!(delay_ns(4, 7) >= 4 * 20_000);
/// ```
pub fn delay_ns(refusals: u64, random: u64) -> u64 {
    let doublings = refusals.clamp(1, REFUSALS_MAX) - 1;
    let half = (BACKOFF_FIRST_NS << doublings) / 2;
    half + random % (half + 1)
}

/// Returns the new count of refusals of a call that was refused once more, and the delay in nanoseconds before it
/// is retried, with a random number.
///
/// ```
/// use upbeat_core::backoff::{again, delay_ns};
///
/// assert_eq!(again(2, 7), (3, delay_ns(3, 7)));
/// ```
pub fn again(refusals: u64, random: u64) -> (u64, u64) {
    let delay = delay_ns(refusals + 1, random);
    (refusals + u64::from(!mutated(Mutant::RefusalsUncounted)), delay)
}

/// The longest delay in nanoseconds of a caller whose first attempt to connect met a busy node. It doubles with
/// each further attempt, up to 64 times.
pub const CONNECT_BACKOFF_FIRST_NS: u64 = 2_000_000;

/// Returns the delay in nanoseconds before the next attempt to connect, with a random number.
///
/// ```
/// use upbeat_core::backoff::connect_delay_ns;
///
/// assert!((1_000_000..=2_000_000).contains(&connect_delay_ns(1, 77)));
/// assert!(connect_delay_ns(1000, 77) <= 128_000_000);
/// ```
pub fn connect_delay_ns(attempts: u32, random: u64) -> u64 {
    let half = (CONNECT_BACKOFF_FIRST_NS << (attempts.clamp(1, 7) - 1)) / 2;
    half + random % (half + 1)
}

/// Attempts to connect to a node that is not there yet, or not any more: how many have failed, and until when
/// there is a next one.
///
/// ```
/// use upbeat_core::backoff::Retry;
///
/// let mut retry = Retry::until(10_000_000);
/// assert!((1_000_000..=2_000_000).contains(&retry.failed(0, 77).unwrap()));
/// // The last attempt is made when the time is over.
/// assert_eq!(retry.failed(9_999_000, 77), Some(1_000));
/// assert_eq!(retry.failed(10_000_000, 77), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    until_ns: u64,
    failed: u32,
}

impl Retry {
    /// Returns attempts that are made until this time.
    pub fn until(until_ns: u64) -> Retry {
        Retry { until_ns, failed: 0 }
    }

    /// Has the attempts go on until another time, for a caller that has come or gone.
    ///
    /// ```
    /// use upbeat_core::backoff::Retry;
    ///
    /// let mut retry = Retry::until(0);
    /// assert_eq!(retry.failed(1_000, 77), None);
    /// retry.lasts_until(10_000_000);
    /// assert!(retry.failed(1_000, 77).is_some());
    /// ```
    pub fn lasts_until(&mut self, until_ns: u64) {
        self.until_ns = until_ns;
    }

    /// Notes that an attempt has failed. Returns after how many nanoseconds the next one is made, by a random
    /// number. None if the time is over.
    pub fn failed(&mut self, now_ns: u64, random: u64) -> Option<u64> {
        let left = self.until_ns.checked_sub(now_ns).filter(|left| *left > 0)?;
        self.failed = self.failed.saturating_add(1);
        Some(connect_delay_ns(self.failed, random).min(left))
    }
}

/// Returns the milliseconds for an attempt at one of several addresses of a host: an equal share of the time that
/// is left, but at least a second, so that a silent address leaves time for the others. No attempt gets more than
/// the time that is left.
///
/// ```
/// use upbeat_core::backoff::attempt_ms;
///
/// assert_eq!([attempt_ms(10_000, 4), attempt_ms(7_500, 3)], [2_500, 2_500]);
/// assert_eq!([attempt_ms(3_000, 16), attempt_ms(300, 2), attempt_ms(300, 0)], [1_000, 300, 300]);
/// ```
pub fn attempt_ms(left_ms: u64, addresses: usize) -> u64 {
    let share = left_ms / (addresses as u64).max(1);
    share.max(left_ms.min(1_000))
}

/// A source of random numbers from a seed: an xorshift generator.
#[derive(Clone, Copy, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Jitter {
        Jitter(seed | 1)
    }

    /// Returns the next number, and the generator behind it.
    #[must_use]
    pub fn next(self) -> (u64, Jitter) {
        let mut random = self.0;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random, Jitter(random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_sent_back_a_bounded_number_of_times() {
        let sent_back = |refusals: &u64| is_refusable(*refusals).then(|| again(*refusals, 7).0);
        let refusals = core::iter::successors(Some(0), sent_back).take(1 + REFUSALS_MAX as usize);
        assert_eq!(refusals.last(), Some(REFUSALS_MAX));
        assert!(!is_refusable(REFUSALS_MAX));
    }

    #[test]
    fn delays_double_and_have_a_bound() {
        for refusals in 0..=64 {
            let least = delay_ns(refusals, 0);
            let most = BACKOFF_FIRST_NS << (refusals.clamp(1, REFUSALS_MAX) - 1);
            assert_eq!(least, most / 2);
            assert_eq!(delay_ns(refusals, most / 2), most);
            assert!((least..=most).contains(&delay_ns(refusals, u64::MAX)));
        }
        assert_eq!(delay_ns(REFUSALS_MAX, 0), delay_ns(u64::MAX, 0));
    }

    #[test]
    fn delays_depend_on_the_seed_and_are_repeatable() {
        let drawn = |seed| {
            let (mut jitter, mut delays) = (Jitter::new(seed), Vec::new());
            for _ in 0..100 {
                let (random, next) = jitter.next();
                jitter = next;
                delays.push(delay_ns(1, random));
            }
            delays
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        let mut different = drawn(7);
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 90, "the delays are spread");
    }
}
