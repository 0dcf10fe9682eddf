//! Tests `upbeat bill` with a real program whose calls are slow for known reasons: the example
//! `slow_calls`, in a separate process.

#[allow(dead_code, reason = "the made-up program is for other tests")]
mod program;

#[allow(dead_code, reason = "what the example's `main` does with its arguments")]
#[path = "../../upbeat/examples/slow_calls.rs"]
mod slow_calls;

use program::{Scratch, bill, printed};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::DirBuilderExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The variable that is set in the process of the example.
const PART: &str = "UPBEAT_TEST_SLOW_CALLS";
/// The time for which the test repeats its check, because on a busy machine other delays may be longer.
const PATIENCE: Duration = Duration::from_secs(150);

/// Each method with its cause, and two texts: as the headline of a slow message, or as a further finding.
const CAUSES: [(&str, &str, [&str; 2]); 4] = [
    ("Bank", "transfer", ["waiting for the lock `accounts`", "s for the lock `accounts`"]),
    (
        "Sums",
        "sum",
        ["without a pause and beyond its budget", "without a pause, beyond its budget"],
    ),
    ("Echo", "ping", ["waking `sleeper`, which slept", "`sleeper` slept: waking it took up to"]),
    ("Diary", "note", ["for room in a full lane to `slowpoke`"; 2]),
];

/// Runs the example. In the test's own process this function does nothing.
#[test]
fn the_program() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    std::thread::spawn(|| {
        // The input is closed when the test ends, even if the test panics.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    slow_calls::call_for(Duration::from_secs(3600)).unwrap();
}

/// The running example.
struct Running(Child);

impl Running {
    fn start(scratch: &Scratch) -> Running {
        let place = scratch.path("sockets");
        std::fs::DirBuilder::new().mode(0o700).create(&place).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_program", "--nocapture"])
            .env(PART, "1")
            .env("XDG_RUNTIME_DIR", place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.any(|line| line.unwrap().contains("ready: "));
        assert!(ready, "it ended before it was ready");
        // The thread reads the further output of the test harness.
        std::thread::spawn(|| lines.for_each(drop));
        Running(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the findings about a method.
fn said<'a>(bill: &'a Value, service: &str, method: &str) -> Vec<&'a str> {
    let of = |finding: &Value| {
        let at = finding["subject"].as_u64()? as usize;
        let subject = &bill["subjects"][at];
        (subject["service"] == service && subject["method"] == method).then_some(())
    };
    let findings = bill["findings"].as_array().unwrap().iter();
    findings.filter(|one| of(one).is_some()).map(|one| one["title"].as_str().unwrap()).collect()
}

/// Returns the text of a page without tags.
fn words(page: &str) -> String {
    let body = page.split("<body").nth(1).unwrap().split("<script").next().unwrap();
    body.split('<')
        .skip(1)
        .filter_map(|piece| piece.split_once('>'))
        .map(|(_, text)| text)
        .collect()
}

#[test]
fn the_bill_names_all_four_causes_with_their_methods() {
    let scratch = Scratch::new("slow-calls");
    let running = Running::start(&scratch);
    let (pid, page) = (running.0.id().to_string(), scratch.path("page.html"));
    let began = Instant::now();
    loop {
        let json = printed(&bill(&[&pid, "--seconds", "2", "--json", "--html", &page]));
        let json: Value = serde_json::from_str(&json).unwrap();
        let words = words(&std::fs::read_to_string(&page).unwrap());
        let missing = CAUSES.iter().find(|(service, method, causes)| {
            let said = said(&json, service, method);
            let named = said.iter().find(|title| causes.iter().any(|cause| title.contains(cause)));
            // The page contains the findings in the same words.
            named.is_none_or(|title| !words.contains(&title.replace('`', "")))
        });
        let Some((service, method, _)) = missing else { break };
        assert!(began.elapsed() < PATIENCE, "{service}.{method} in {:#}", json["findings"]);
    }
}
