//! Work that a passing test leaves out. The test harness keeps what a passing test prints, so the work is also
//! recorded in the file that `UPBEAT_LEFT_OUT` names, which `.ci/run` repeats at its end.

use std::fs::File;
use std::io::Write;

/// Says that the test of this thread leaves work out: which, and why.
pub(crate) fn leave_out(what: &str) {
    println!("left out: {what}");
    let Some(path) = std::env::var_os("UPBEAT_LEFT_OUT") else { return };
    let program = env!("CARGO_CRATE_NAME");
    let thread = std::thread::current();
    let what = what.replace('\n', " ");
    let line = format!("{program}::{}: {what}\n", thread.name().unwrap_or("another thread"));
    // A single write, so that the lines of tests that run at once stay whole.
    let mut file = File::options().append(true).create(true).open(path).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}
