//! The system's answers about processors: how many the program has, and how long a thread waited for its own.

use rustix::fs::{Mode, OFlags};
use upbeat_core::long_poll::ThreadTimes;
use upbeat_environment::is_simulated;
use upbeat_memory::thread_clock::thread_time_ns;

/// Returns the number of processors that the program can use. The affinity of this thread says nothing about its
/// peers; a quota of the control group does.
pub(super) fn processors() -> usize {
    if is_simulated() {
        return 1;
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let online = online.and_then(|list| count_in(list.trim())).unwrap_or(1);
    let quota = std::fs::read_to_string("/sys/fs/cgroup/cpu.max").ok();
    quota.and_then(|text| whole_processors(&text)).map_or(online, |quota| online.min(quota))
}

/// Returns the number of processors in a list such as `0-3,8`.
fn count_in(list: &str) -> Option<usize> {
    list.split(',').try_fold(0, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        Some(count + last.checked_sub(first)? + 1)
    })
}

/// Returns the whole processors that a quota such as `150000 100000` grants, at least one.
fn whole_processors(quota: &str) -> Option<usize> {
    let (time, period) = quota.trim().split_once(' ')?;
    let (time, period) = (time.parse::<usize>().ok()?, period.parse::<usize>().ok()?);
    Some((time / period.max(1)).max(1))
}

/// Returns the kernel's account of this thread, if the kernel keeps one.
pub(crate) fn thread_times() -> Option<ThreadTimes> {
    if is_simulated() {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open("/proc/thread-self/schedstat", flags, Mode::empty()).ok()?;
    let mut text = [0; 64];
    let length = rustix::io::read(file, &mut text).ok()?;
    let mut numbers = std::str::from_utf8(&text[..length]).ok()?.split_whitespace();
    let mut next = || numbers.next()?.parse().ok();
    let (_, delayed_ns, turns) = (next()?, next()?, next()?);
    // The first number may be a tick of the kernel old, and this one is not.
    Some(ThreadTimes { ran_ns: thread_time_ns(), delayed_ns, turns })
}

/// Returns the nanoseconds for which this thread was ready to run while others ran, if the kernel counts them.
pub(super) fn delayed_ns() -> Option<u64> {
    thread_times().map(|times| times.delayed_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_and_quotas_are_read() {
        assert_eq!(count_in("0"), Some(1));
        assert_eq!(count_in("0-3,8"), Some(5));
        assert_eq!((count_in(""), count_in("3-1"), count_in("a-b")), (None, None, None));
        assert_eq!(whole_processors("max 100000\n"), None);
        assert_eq!(whole_processors("50000 100000\n"), Some(1));
        assert_eq!(whole_processors("250000 100000\n"), Some(2));
    }

    #[test]
    fn the_kernel_counts_for_how_long_a_thread_ran_and_was_kept_from_running() {
        if std::fs::exists("/proc/thread-self/schedstat").unwrap_or(false) {
            let before = thread_times().unwrap();
            let text = (0..20_000).map(|n| n.to_string().len()).sum::<usize>();
            let after = thread_times().unwrap();
            assert!(text > 0 && after.ran_ns > before.ran_ns);
            assert!(delayed_ns() >= Some(after.delayed_ns));
        }
    }
}
