//! The processor time of a thread. In a simulated world that is the world's time.
//!
//! The C library reads the clock: a library that looks for the kernel's own function does not find it where valgrind
//! runs the program, and fails there.

use upbeat_environment::is_simulated;
use upbeat_environment::time::now_ns;

/// Returns the nanoseconds for which the calling thread has had a processor, or 0 if the system does not say.
///
/// ```
/// use upbeat_memory::thread_clock::thread_time_ns;
/// let before = thread_time_ns();
/// assert!(thread_time_ns() >= before);
/// ```
#[must_use]
pub fn thread_time_ns() -> u64 {
    if is_simulated() {
        return now_ns();
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a `timespec` that lives for the call, and the call writes nothing else.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    match result {
        0 => (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no clock of a thread")]
    fn a_thread_that_sleeps_has_no_processor() {
        let (before, begun) = (thread_time_ns(), Instant::now());
        std::thread::sleep(Duration::from_millis(50));
        let slept = thread_time_ns() - before;
        assert!(u128::from(slept) < begun.elapsed().as_nanos() / 2, "{slept}");
        let mut sum = 0_u64;
        while thread_time_ns() == before + slept {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
