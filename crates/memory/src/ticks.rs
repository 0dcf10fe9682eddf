//! The processor's counter: a number that grows at a constant rate and takes one instruction to
//! read.
//!
//! Time stamps and short waits are measured in ticks; the code that shows them to a user converts
//! them. The counter belongs to the machine, so ticks of two processes of one host may be compared.
//! A read is not ordered against the instructions around it.
//!
//! In a simulated world the counter counts the nanoseconds of that world.
//!
//! This module does not handle machines whose counter stops or changes its rate. Linux itself
//! trusts the counter of every processor that Upbeat supports.

use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use upbeat_environment::is_simulated;
use upbeat_environment::time::now_ns;

pub use upbeat_environment::time::nanoseconds;

const NANOSECONDS: u64 = 1_000_000_000;

/// How long the counter is compared with the monotonic clock when neither processor nor firmware
/// gives its rate.
const CALIBRATION: Duration = Duration::from_millis(4);

/// Returns the counter's present value.
///
/// ```
/// use upbeat_memory::ticks::ticks;
/// let before = ticks();
/// assert!(ticks() >= before);
/// ```
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    if is_simulated() { now_ns() } else { counter::now() }
}

/// Returns the counter's value after every earlier instruction has completed. [`ticks`] may be read
/// while an earlier load is still under way, and even speculatively.
///
/// ```
/// use upbeat_memory::ticks::{ticks, ticks_after};
/// let before = ticks();
/// assert!(ticks_after() >= before);
/// ```
#[inline(always)]
#[must_use]
pub fn ticks_after() -> u64 {
    if is_simulated() { now_ns() } else { counter::after() }
}

/// Returns the counter's rate. The first call takes a few milliseconds, and later calls take one
/// load.
#[inline]
#[must_use]
pub fn ticks_per_second() -> u64 {
    if is_simulated() {
        return NANOSECONDS;
    }
    match PACE.load(Ordering::Relaxed) {
        0 => found_rate(),
        pace => pace,
    }
}

/// The counter's rate, once it is known. A thread that finds it unknown waits for no other: a forked child may not have
/// the thread that measures.
static PACE: AtomicU64 = AtomicU64::new(0);

#[cold]
#[inline(never)]
fn found_rate() -> u64 {
    let pace = counter::announced_rate().unwrap_or_else(measured_rate);
    PACE.compare_exchange(0, pace, Ordering::Relaxed, Ordering::Relaxed)
        .map_or_else(|known| known, |_| pace)
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
    /// Returns the ticks since `start`, or 0 when `start` is in the future (another processor's
    /// counter may be a little ahead).
    #[inline]
    #[must_use]
    pub fn since(start: u64) -> Ticks {
        Ticks(ticks().saturating_sub(start))
    }

    /// Returns the span in whole nanoseconds, rounded down, or `u64::MAX` if it is longer.
    #[must_use]
    pub fn nanoseconds(self) -> u64 {
        scale(self.0, NANOSECONDS, ticks_per_second())
    }

    /// Returns the number of ticks in a number of nanoseconds, rounded down, or `u64::MAX` if there
    /// are more.
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

/// Measures the rate with the monotonic clock.
fn measured_rate() -> u64 {
    let (start, from) = moment();
    while start.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let (end, to) = moment();
    let nanoseconds = (end - start).as_nanos() as u64;
    scale(to.saturating_sub(from), NANOSECONDS, nanoseconds.max(1)).max(1)
}

/// Returns the clock and the counter of one moment: of several tries, the least disturbed one.
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

    /// Returns the counter's rate as the processor gives it. Only bare metal is trusted: a
    /// hypervisor may scale the counter and pass on the host's answer.
    pub(super) fn announced_rate() -> Option<u64> {
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
        // SAFETY: the instruction reads a register that Linux lets programs read.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack)) };
        now
    }

    #[inline(always)]
    pub(super) fn after() -> u64 {
        let now;
        // The first barrier waits for the loads, and the second one keeps the counter from being read meanwhile.
        // SAFETY: as above; the barriers change no register.
        unsafe { asm!("dsb ishld", "isb", "mrs {}, cntvct_el0", out(reg) now, options(nostack)) };
        now
    }

    /// Returns the counter's rate as the firmware gives it.
    pub(super) fn announced_rate() -> Option<u64> {
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

    pub(super) fn announced_rate() -> Option<u64> {
        Some(super::NANOSECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ticks, measured_rate, scale, ticks_per_second};
    use std::time::Duration;

    #[test]
    #[cfg(not(miri))]
    fn ticks_keep_pace_with_the_clock() {
        let pace = ticks_per_second();
        assert_eq!(pace, ticks_per_second());
        // The test tries until one measurement is undisturbed, since other programs share the
        // machine.
        let held = (0..20).any(|_| {
            let (start, clock) = (super::ticks(), std::time::Instant::now());
            std::thread::sleep(Duration::from_millis(20));
            let (took, real) = (Ticks::since(start), clock.elapsed());
            Duration::from(took).abs_diff(real) < real / 100
        });
        assert!(held, "{pace} ticks per second disagree with the clock");
    }

    #[test]
    #[cfg(not(miri))]
    fn a_second_measurement_agrees() {
        let pace = ticks_per_second();
        assert!((0..20).any(|_| measured_rate().abs_diff(pace) < pace / 500));
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
        assert!(measured_rate() > 0);
    }
}
