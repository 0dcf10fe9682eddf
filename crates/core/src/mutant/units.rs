//! Unit tests of a crate find the faults that `faults.txt` assigns to it.

use std::env;
use std::fs;
use std::num::NonZero;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const FOUND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/tests/programs/faults.txt");

/// Runs one test of the calling program in a process with a fault. Returns what it prints if it fails.
fn fails(fault: &str, test: &str) -> Option<String> {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test]).env("UPBEAT_FAULT", fault);
    // A test with generated cases has the same ones in each run, and keeps none.
    command.env("PROPTEST_RNG_SEED", "1").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    let run = command.env("PROPTEST_MAX_SHRINK_ITERS", "0").output().unwrap();
    (!run.status.success()).then(|| String::from_utf8_lossy(&run.stdout).into_owned())
}

/// Runs the unit tests to which `faults.txt` assigns faults of this crate, each with its fault. The test program of the
/// crate calls this.
///
/// # Panics
/// If a test passes, or does not say what stands in its line.
pub fn find_faults(of: &str) {
    let found = fs::read_to_string(FOUND).unwrap();
    let lines = found.lines().map(|line| line.splitn(4, ' ').collect::<Vec<_>>());
    let units: Vec<_> = lines.filter(|words| words[1] == of).collect();
    assert!(!units.is_empty(), "{FOUND} assigns no fault to {of}");
    let (next, threads) =
        (AtomicUsize::new(0), thread::available_parallelism().map_or(1, NonZero::get));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let [fault, _, test, says] = unit[..] else { panic!("{unit:?}") };
                    let said =
                        fails(fault, test).unwrap_or_else(|| panic!("{test} passes with {fault}"));
                    assert!(
                        said.contains(says),
                        "{test} with {fault} does not say `{says}`: {said}"
                    );
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_fault_is_found_by_its_unit_test() {
        super::find_faults("core");
    }
}
