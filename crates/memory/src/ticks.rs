//! The processor's own clock: a number that grows at a steady pace and costs one instruction.
//!
//! Stamps and short waits are taken in ticks; whoever shows them to a human converts. The counter
//! is that of the machine, so ticks of two processes of one host may be compared. A read is not
//! ordered against the instructions around it.
//!
//! What this leaves to others: machines whose counter stops or changes its pace. Linux itself
//! trusts the counter of every processor that Upbeat is made for.

use std::ops::{Add, AddAssign, Sub};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const NANOSECONDS: u64 = 1_000_000_000;

/// How long the counter is held against the monotonic clock when nobody says its pace.
const CALIBRATION: Duration = Duration::from_millis(4);

/// The counter, now.
///
/// ```
/// use upbeat_memory::ticks::ticks;
/// let before = ticks();
/// assert!(ticks() >= before);
/// ```
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    counter::now()
}

/// The counter, once every instruction before has been done. [`ticks`] alone may be read while a
/// load before it is still under way, and even before it is known that it is reached at all.
///
/// ```
/// use upbeat_memory::ticks::{ticks, ticks_after};
/// let before = ticks();
/// assert!(ticks_after() >= before);
/// ```
#[inline(always)]
#[must_use]
pub fn ticks_after() -> u64 {
    counter::after()
}

/// The pace of the counter. The first call takes a few milliseconds, later ones a load.
#[inline]
#[must_use]
pub fn ticks_per_second() -> u64 {
    static PACE: OnceLock<u64> = OnceLock::new();
    *PACE.get_or_init(|| counter::told().unwrap_or_else(measured))
}

/// A span of time in whole nanoseconds; `u64::MAX`, which is 584 years, if it is longer.
///
/// ```
/// use std::time::Duration;
/// use upbeat_memory::ticks::nanoseconds;
/// assert_eq!(nanoseconds(Duration::from_millis(3)), 3_000_000);
/// assert_eq!(nanoseconds(Duration::MAX), u64::MAX);
/// ```
#[inline]
#[must_use]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A span of time in ticks.
///
/// ```
/// use std::time::Duration;
/// use upbeat_memory::ticks::Ticks;
/// let millisecond = Ticks::from(Duration::from_millis(1));
/// assert_eq!(millisecond.nanoseconds().div_ceil(1000), 1000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// The ticks since `start`, 0 when that is yet to come (another processor's counter may be
    /// a little ahead).
    #[inline]
    #[must_use]
    pub fn since(start: u64) -> Ticks {
        Ticks(ticks().saturating_sub(start))
    }

    /// The span in whole nanoseconds, rounded down; `u64::MAX` when that is too small for it.
    #[must_use]
    pub fn nanoseconds(self) -> u64 {
        scale(self.0, NANOSECONDS, ticks_per_second())
    }

    /// The ticks that so many nanoseconds take, rounded down; `u64::MAX` for ever.
    #[must_use]
    pub fn from_nanoseconds(nanoseconds: u64) -> Ticks {
        Ticks(scale(nanoseconds, ticks_per_second(), NANOSECONDS))
    }
}

impl From<Duration> for Ticks {
    fn from(duration: Duration) -> Ticks {
        Ticks::from_nanoseconds(nanoseconds(duration))
    }
}

impl From<Ticks> for Duration {
    fn from(ticks: Ticks) -> Duration {
        Duration::from_nanos(ticks.nanoseconds())
    }
}

impl Add for Ticks {
    type Output = Ticks;

    fn add(self, other: Ticks) -> Ticks {
        Ticks(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Ticks {
    fn add_assign(&mut self, other: Ticks) {
        *self = *self + other;
    }
}

impl Sub for Ticks {
    type Output = Ticks;

    fn sub(self, other: Ticks) -> Ticks {
        Ticks(self.0.saturating_sub(other.0))
    }
}

fn scale(value: u64, to: u64, from: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(to) / u128::from(from);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The pace as the monotonic clock sees it.
fn measured() -> u64 {
    let (start, from) = moment();
    while start.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let (end, to) = moment();
    let nanoseconds = (end - start).as_nanos() as u64;
    scale(to.saturating_sub(from), NANOSECONDS, nanoseconds.max(1)).max(1)
}

/// Clock and counter at one moment: of several tries the one that was least disturbed.
fn moment() -> (Instant, u64) {
    let mut best = (u64::MAX, Instant::now(), 0);
    for _ in 0..16 {
        let before = ticks();
        let clock = Instant::now();
        let took = ticks().saturating_sub(before);
        if took < best.0 {
            best = (took, clock, before + took / 2);
        }
    }
    (best.1, best.2)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter {
    use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

    #[inline(always)]
    pub(super) fn now() -> u64 {
        // SAFETY: every x86-64 processor has the counter, and Linux lets programs read it.
        unsafe { _rdtsc() }
    }

    #[inline(always)]
    pub(super) fn after() -> u64 {
        // SAFETY: every x86-64 processor has the fence, which has no operands.
        unsafe { _mm_lfence() };
        now()
    }

    /// What the processor says of its counter's pace. Only bare metal is believed: a hypervisor
    /// may scale the counter and hand the host's answer through.
    pub(super) fn told() -> Option<u64> {
        const TIME: u32 = 0x15;
        const FEATURES: u32 = 1;
        const UNDER_HYPERVISOR: u32 = 1 << 31;
        if __cpuid(FEATURES).ecx & UNDER_HYPERVISOR != 0 || __cpuid(0).eax < TIME {
            return None;
        }
        let time = __cpuid(TIME);
        if time.eax == 0 || time.ebx == 0 || time.ecx == 0 {
            return None;
        }
        Some(u64::from(time.ecx) * u64::from(time.ebx) / u64::from(time.eax))
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod counter {
    use std::arch::asm;

    #[inline(always)]
    pub(super) fn now() -> u64 {
        let now;
        // SAFETY: reads a register that Linux lets programs read.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack)) };
        now
    }

    #[inline(always)]
    pub(super) fn after() -> u64 {
        let now;
        // SAFETY: as above; the barrier has no operands.
        unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) now, options(nostack)) };
        now
    }

    /// What the firmware says of the counter's pace.
    pub(super) fn told() -> Option<u64> {
        let pace: u64;
        // SAFETY: as above.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) pace, options(nomem, nostack)) };
        (pace != 0).then_some(pace)
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod counter {
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(super) fn now() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    pub(super) fn after() -> u64 {
        now()
    }

    pub(super) fn told() -> Option<u64> {
        Some(super::NANOSECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ticks, measured, scale, ticks_per_second};
    use std::time::Duration;

    #[test]
    #[cfg(not(miri))]
    fn ticks_keep_pace_with_the_clock() {
        let pace = ticks_per_second();
        assert_eq!(pace, ticks_per_second());
        // Alternate tries until one is undisturbed: the machine is shared.
        let held = (0..20).any(|_| {
            let (start, clock) = (super::ticks(), std::time::Instant::now());
            std::thread::sleep(Duration::from_millis(20));
            let (took, real) = (Ticks::since(start), clock.elapsed());
            Duration::from(took).abs_diff(real) < real / 100
        });
        assert!(held, "{pace} ticks a second are not the clock's");
    }

    #[test]
    #[cfg(not(miri))]
    fn a_second_measurement_agrees() {
        let pace = ticks_per_second();
        assert!((0..20).any(|_| measured().abs_diff(pace) < pace / 500));
    }

    #[test]
    fn spans_convert_there_and_back() {
        for nanoseconds in [0, 1, 999, 1_000_000, 3_600_000_000_000, u64::MAX] {
            let span = Ticks::from_nanoseconds(nanoseconds);
            let back = span.nanoseconds();
            let grain = 1_000_000_000 / ticks_per_second() + 1;
            assert!(back <= nanoseconds && (nanoseconds - back <= grain || span.0 == u64::MAX));
        }
        assert_eq!(Ticks::from(Duration::MAX), Ticks::from_nanoseconds(u64::MAX));
        assert_eq!(scale(u64::MAX, 3, 2), u64::MAX);
        assert_eq!(Ticks(3) - Ticks(5), Ticks(0));
        assert_eq!(Ticks(3) + Ticks(u64::MAX), Ticks(u64::MAX));
        assert!(measured() > 0);
    }
}
