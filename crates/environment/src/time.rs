//! The clocks.

use crate::world::current;
use std::ops::{Add, Sub};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The calendar's time at which a simulated world begins: the first day of 2026.
const WORLD_BEGINS: Duration = Duration::from_secs(1_767_225_600);

/// The moment from which the monotonic clock of this process counts, and at which its worlds begin.
static BEGAN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// A moment of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(std::time::Instant);

impl Instant {
    /// Returns the present moment.
    #[inline]
    #[must_use]
    pub fn now() -> Instant {
        match current() {
            Some(world) => Instant(*BEGAN + Duration::from_nanos(world.now_ns())),
            None => Instant(std::time::Instant::now()),
        }
    }

    /// Returns the time since this moment.
    #[inline]
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Instant::now() - self
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// # Panics
    /// If the clock cannot count so far.
    fn add(self, time: Duration) -> Instant {
        Instant(self.0 + time)
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Returns the time between two moments, or zero if the other one is later.
    #[inline]
    fn sub(self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

/// Converts a span of time to whole nanoseconds, or to `u64::MAX`, which is 584 years, if it is
/// longer.
///
/// ```
/// use std::time::Duration;
/// use upbeat_environment::time::nanoseconds;
/// assert_eq!(nanoseconds(Duration::from_millis(3)), 3_000_000);
/// assert_eq!(nanoseconds(Duration::MAX), u64::MAX);
/// ```
#[inline]
#[must_use]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the nanoseconds of the monotonic clock, from a moment of this process on.
#[must_use]
pub fn now_ns() -> u64 {
    match current() {
        Some(world) => world.now_ns(),
        None => BEGAN.elapsed().as_nanos() as u64,
    }
}

/// Returns the time of the calendar.
#[must_use]
pub fn calendar() -> SystemTime {
    match current() {
        Some(world) => UNIX_EPOCH + WORLD_BEGINS + Duration::from_nanos(world.now_ns()),
        None => SystemTime::now(),
    }
}
