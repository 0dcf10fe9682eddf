//! Runs a command that measures, and checks each line of its output.
//!
//! `UPBEAT_BENCH_SECONDS` sets the time for which each benchmark measures.

/// Work that a test leaves out, as the transport's tests record it.
#[path = "../../../transport/tests/left_out/mod.rs"]
pub(crate) mod left_out;

use left_out::leave_out;
use serde_json::Value;
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time after which a command that hangs is killed: several times what the longest one takes on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(400);

/// A lock that keeps benchmarks from running in parallel, because they would take each other's CPU time.
static ALONE: Mutex<()> = Mutex::new(());

/// A command that measures.
pub(crate) struct Measuring {
    /// The path of the program.
    pub(crate) program: &'static str,
    /// The first arguments.
    pub(crate) first: &'static [&'static str],
}

impl Measuring {
    /// Runs the command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut child = Command::new(self.program)
            .args(self.first)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A long output does not fit into the pipes, so threads read it during the run.
        let [stdout, stderr] = [drained(child.stdout.take()), drained(child.stderr.take())];
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if start.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("`{} {}` still runs after {PATIENCE:?}", self.program, arguments.join(" "));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let status = child.wait().unwrap();
        Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
    }

    /// Runs benchmarks for a short time: a round of each case is enough to produce all output.
    pub(crate) fn briefly(&self, arguments: &[&str]) -> Output {
        let seconds = std::env::var("UPBEAT_BENCH_SECONDS").unwrap_or_else(|_| "1".into());
        let brief: &[&str] = &["--quick", "--seconds", &seconds];
        self.run(&[brief, arguments].concat())
    }

    /// Returns the error message of a command that fails.
    pub(crate) fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success() && output.stdout.is_empty());
        text(&output.stderr)
    }
}

fn drained(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        from.unwrap().read_to_end(&mut all).unwrap();
        all
    })
}

/// Returns output as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns whether this process may use the two CPUs that a benchmark needs. If not, the benchmark is left out.
pub(crate) fn two_cpus() -> bool {
    let two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2);
    if !two {
        leave_out("a benchmark needs two CPUs");
    }
    two
}

/// Parses the output of a successful run as one JSON object per line.
pub(crate) fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns a number of a row.
pub(crate) fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} is no number in {row}"))
}

/// Returns whether a case was left out because its nodes did not wait as its name says, which a busy machine causes.
pub(crate) fn is_left_out(row: &Value) -> bool {
    row.get("left_out").is_some()
}

/// Returns whether a row has a ratio to its baseline. There is none between two placements, and none if the
/// host moved the CPUs during the run, which the rows then report.
pub(crate) fn has_baseline(row: &Value, rows: &[Value]) -> bool {
    let dropped = |row: &Value| row["rounds_dropped"].as_u64().is_some_and(|rounds| rounds > 0);
    let moved = |row: &Value| row["placement"] == "unsettled" || dropped(row);
    row["ratio_to_baseline"].as_f64().is_some_and(|ratio| ratio > 0.0) || rows.iter().any(moved)
}

/// Checks the fields that every line has.
pub(crate) fn check(row: &Value) {
    assert!(row["case"].is_string() && row["bench"].is_string(), "{row}");
    let placement = row["placement"].as_str().unwrap();
    assert!(["one core", "one L3", "two L3s", "unsettled"].contains(&placement), "{row}");
    if is_left_out(row) {
        return assert!(row["left_out"].as_str().is_some_and(|reason| !reason.is_empty()), "{row}");
    }
    assert!(row["n"].as_u64().unwrap() > 0, "{row}");
    assert!(row["cpus"].as_array().unwrap().len() == 2, "{row}");
    let [min, p50, p99, p999] =
        ["min_ns", "p50_ns", "p99_ns", "p999_ns"].map(|name| number(row, name));
    assert!(0.0 < min && min <= p50 && 0.0 < p99 && p99 <= p999, "{row}");
}
