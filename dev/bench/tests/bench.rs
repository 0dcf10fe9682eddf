//! The `upbeat bench` command as a user meets it.
//!
//! `UPBEAT_BENCH_SECONDS` says how long each benchmark measures.

use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A case that hangs must not hold up the tests for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// Benchmarks that run side by side would wait for each other's time slices.
static ALONE: Mutex<()> = Mutex::new(());

fn upbeat(arguments: &[&str]) -> Output {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = Command::new(env!("CARGO_BIN_EXE_upbeat"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A long output does not fit the pipes: it is read while the run goes on.
    let [stdout, stderr] = [drained(child.stdout.take()), drained(child.stderr.take())];
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("`upbeat {}` still runs after {PATIENCE:?}", arguments.join(" "));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = child.wait().unwrap();
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Runs benchmarks for a short while: a round of each case is enough to see all that they print.
fn bench(arguments: &[&str]) -> Output {
    let seconds = std::env::var("UPBEAT_BENCH_SECONDS").unwrap_or_else(|_| "1".into());
    let brief: &[&str] = &["bench", "--quick", "--seconds", &seconds];
    upbeat(&[brief, arguments].concat())
}

fn drained(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        from.unwrap().read_to_end(&mut all).unwrap();
        all
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Whether this process may use two CPUs, which a benchmark needs.
fn two_cpus() -> bool {
    std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2)
}

fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} is no number in {row}"))
}

/// Whether a row has a ratio to its baseline. Between two placements there is none, and where the
/// machine moved in the run its rows say so.
fn has_baseline(row: &Value, rows: &[Value]) -> bool {
    let dropped = |row: &Value| row["rounds_dropped"].as_u64().is_some_and(|rounds| rounds > 0);
    let moved = |row: &Value| row["placement"] == "unsettled" || dropped(row);
    row["ratio_to_baseline"].as_f64().is_some_and(|ratio| ratio > 0.0) || rows.iter().any(moved)
}

/// What every line promises.
fn check(row: &Value) {
    assert!(row["case"].is_string() && row["bench"].is_string(), "{row}");
    let placement = row["placement"].as_str().unwrap();
    assert!(["one core", "one L3", "two L3s", "unsettled"].contains(&placement), "{row}");
    assert!(row["n"].as_u64().unwrap() > 0, "{row}");
    assert!(row["cpus"].as_array().unwrap().len() == 2, "{row}");
    let [min, p50, p99, p999] =
        ["min_ns", "p50_ns", "p99_ns", "p999_ns"].map(|name| number(row, name));
    assert!(0.0 < min && min <= p50 && 0.0 < p99 && p99 <= p999, "{row}");
}

#[test]
fn all_limits_are_measured_and_every_line_holds_its_promise() {
    if !two_cpus() {
        return;
    }
    let rows = rows(&bench(&["limits", "--json"]));
    rows.iter().for_each(check);
    let listed = text(&upbeat(&["bench", "limits", "--list"]).stdout);
    let listed: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.strip_prefix("limits/"))
        .collect();
    let measured: BTreeSet<&str> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert_eq!(measured, listed);
    for row in &rows {
        let case = row["case"].as_str().unwrap();
        let round_trip =
            ["line/", "eventfd/", "unix/", "tcp/"].iter().any(|head| case.starts_with(head));
        if round_trip {
            assert!(number(row, "ratio_to_line") > 0.0 && number(row, "ratio_to_tight") > 0.0);
        }
        if case.ends_with("/sleeping") {
            assert!(number(row, "ratio_to_eventfd") > 0.0);
        }
    }
}

#[test]
fn calls_of_every_kind_are_measured_against_their_floors() {
    if !two_cpus() {
        return;
    }
    let cases = [
        "call/null/shared",
        "call/null/local/polling",
        "call/1KiB/shared/polling",
        "call/ring8",
        "oneway",
    ];
    let arguments: Vec<&str> = ["--json"].into_iter().chain(cases).collect();
    let rows = rows(&bench(&arguments));
    rows.iter().for_each(check);
    let find = |case: &str| {
        rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("{case} is missing"))
    };
    for case in ["null/shared/polling", "null/local/polling", "1KiB/shared/polling"] {
        assert!(number(find(case), "ratio_to_line") > 0.0);
        assert!(number(find(case), "ratio_to_tight") > 0.0);
    }
    assert!(number(find("null/shared/sleeping"), "ratio_to_eventfd") > 0.0);
    assert!(has_baseline(find("null/shared/handle"), &rows));
    assert!(has_baseline(find("null/shared/idle1000"), &rows));
    assert!(number(find("null/shared/polling/64"), "per_second") > 0.0);
    let ring = find("ring8/shared/sleeping");
    assert!(number(ring, "least_per_second") <= number(ring, "per_second"));
    assert_eq!(ring["baseline"], "ring2/shared/sleeping");
    assert!(number(find("8B/shared/polling"), "per_second") > 0.0);
}

#[test]
fn a_bill_comes_with_an_estimate_from_its_parts() {
    if !two_cpus() {
        return;
    }
    let cases = ["bill/null/local/polling", "bill/null/shared/sleeping"];
    let arguments: Vec<&str> = ["--json"].into_iter().chain(cases).collect();
    let rows = rows(&bench(&arguments));
    rows.iter().for_each(check);
    for row in &rows {
        let parts = row["parts"].as_array().unwrap();
        assert!(parts.iter().all(|part| part["part"].is_string() && number(part, "ns") > 0.0));
        let sum: f64 = parts.iter().map(|part| number(part, "ns") * number(part, "times")).sum();
        let (estimate, measured) = (number(row, "estimate_ns"), number(row, "measured_ns"));
        assert!((sum - estimate).abs() < 0.01, "{row}");
        let error = 100.0 * (estimate - measured) / measured;
        assert!((error - number(row, "estimate_error_percent")).abs() < 0.1, "{row}");
    }
}

#[test]
fn a_table_has_a_line_for_the_case_that_was_asked_for() {
    if !two_cpus() {
        return;
    }
    let output = bench(&["limits/syscall"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("syscall") && table.contains("p99.9"), "{table}");
    assert!(!table.contains("line/tight"), "{table}");
    assert!(output.stderr.is_empty(), "no bar where there is no terminal");
}

#[test]
fn the_peers_are_measured_in_the_repository_alone() {
    let elsewhere = std::env::temp_dir();
    let output = Command::new(env!("CARGO_BIN_EXE_upbeat"))
        .args(["bench", "peers", "--quick"])
        .current_dir(&elsewhere)
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
    assert!(said.contains("dev/bench") && said.contains("clone"), "{said}");
    assert!(said.contains(&*elsewhere.to_string_lossy()), "{said}");
    let help = text(&upbeat(&["bench", "peers", "--help"]).stdout);
    assert!(help.contains("--write-readme") && help.contains("dev/bench/prepare"), "{help}");
}

#[test]
#[ignore = "takes 10 to 30 s: the step `benches` of .ci/run includes it"]
fn the_contract_is_held_against_its_paper() {
    if !two_cpus() {
        return;
    }
    let calls = ["null/polling", "null/both-compute", "null/poll-points"];
    // One is enough where nothing is optimised.
    let programs = ["heap/compute"];
    let all = ["contract", "--json"].into_iter().chain(calls).chain(programs);
    let lines = rows(&bench(&all.collect::<Vec<_>>()));
    let (told, measured): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.get("paper").is_some());
    measured.iter().for_each(|row| check(row));
    assert!(measured.iter().filter(|row| row.get("polled_percent").is_some()).count() >= 1);
    let named = |name: &str| told.iter().find(|line| line["row"] == name);
    // Two placements may have halves of it.
    if let Some(upcall) = named("upcall beside polling") {
        assert_eq!(number(upcall, "then"), 27_000.0);
        assert!(number(upcall, "today") > 0.0, "waking costs something: {upcall}");
    }
    assert!(named("LocusRoute").is_some_and(|line| line["today"].is_f64()));
}

/// What was measured, and the lines of papers.
fn beside_papers(arguments: &[&str]) -> (Vec<Value>, Vec<Value>) {
    let lines = rows(&bench(arguments));
    let (told, measured): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line.get("paper").is_some());
    measured.iter().for_each(check);
    assert!(told.iter().all(|line| {
        [&line["today"], &line["today_ns"]].iter().any(|today| today.as_f64() > Some(0.0))
    }));
    (measured, told)
}

#[test]
fn tasks_are_held_against_their_paper() {
    if !two_cpus() {
        return;
    }
    let (measured, told) = beside_papers(&["tasks", "--json"]);
    for case in ["switch", "monitor", "mutex/handed", "signal"] {
        assert!(measured.iter().any(|row| row["case"] == case), "{case}");
    }
    let switch = told.iter().find(|line| line["row"] == "Process switch").expect("a switch");
    assert_eq!(number(switch, "then"), 220_400.0);
}

#[test]
fn executions_are_held_against_their_papers() {
    if !two_cpus() {
        return;
    }
    let cases = ["am/idle", "orpc/busy", "beside/makes-way", "lost/rerun", "losing/50/adaptive"];
    let named = cases.map(|case| format!("execution/{case}"));
    let mut arguments = vec!["--json"];
    arguments.extend(named.iter().map(String::as_str));
    let (measured, told) = beside_papers(&arguments);
    for case in cases {
        assert!(measured.iter().any(|row| row["case"] == case), "{case}");
    }
    assert!(told.iter().any(|line| line["row"] == "ORPC, some thread running"));
    let picture = Picture::new("arguments");
    let sizes = ["2B", "1024B", "64KiB"].map(|size| format!("arguments/{size}"));
    let mut arguments = vec!["--json", "--plot", picture.path()];
    arguments.extend(sizes.iter().map(String::as_str));
    let (measured, told) = beside_papers(&arguments);
    assert!(measured.len() >= 11, "four ways of each size, three of the least");
    for (figure, then) in [("figure 4-5", 35.88e6), ("figure 4-6", 32.02e6)] {
        let of = |line: &&Value| line["table"].as_str().unwrap().contains(figure);
        let line = told.iter().filter(of).find(|line| line["row"] == "1024 bytes");
        assert_eq!(number(line.expect("1 KiB"), "then").round(), then);
    }
    assert!(picture.text().contains("line ours dashed"));
}

#[test]
fn the_tables_of_the_papers_are_held_against_today() {
    if !two_cpus() {
        return;
    }
    let lines = rows(&bench(&["papers", "--json"]));
    for line in &lines {
        assert_eq!(line["bench"], "papers");
        assert!(line["paper"].as_str().unwrap().contains("19") && line["table"].is_string());
        assert!(line["then"].is_f64() || line["today"].is_f64(), "{line}");
        assert!(line.get("ratio").is_none_or(|ratio| ratio.as_f64().unwrap() > 0.0), "{line}");
    }
    let named = |name: &str| lines.iter().filter(|line| line["row"] == name).count();
    for row in ["nullop, different nodes", "nullop, same node", "bigop, same node"] {
        assert!(named(row) >= 2, "{row}");
    }
    assert_eq!(named("nullop, explicit receipt"), 0, "absent, not faked");
    let text = text(&bench(&["papers/lynx/times"]).stdout);
    assert!(text.contains("2.04 ms") && text.contains("instructions --categories"), "{text}");
    assert!(!text.contains("SIGCOMM"), "{text}");
}

/// A path for a picture that goes away with the test.
struct Picture(std::path::PathBuf);

impl Picture {
    fn new(name: &str) -> Picture {
        Picture(std::env::temp_dir().join(format!("upbeat-{name}-{}.svg", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The rows of every size, by the last word of their case.
fn by_word<'r>(rows: &'r [Value], word: &str) -> Vec<&'r Value> {
    let ends = |row: &&Value| row["case"].as_str().unwrap().ends_with(&format!("/{word}"));
    rows.iter().filter(ends).collect()
}

#[test]
fn round_trips_of_every_size_are_measured_both_ways_and_drawn() {
    if !two_cpus() {
        return;
    }
    let picture = Picture::new("size");
    let rows = rows(&bench(&["size", "--json", "--plot", picture.path()]));
    rows.iter().for_each(check);
    let [optimistic, conservative] =
        ["optimistic", "conservative"].map(|word| by_word(&rows, word));
    assert!(optimistic.len() >= 16 && optimistic.len() == conservative.len());
    for (one, other) in optimistic.iter().zip(&conservative) {
        assert_eq!(one["bytes"], other["bytes"]);
        assert_eq!(other["baseline"], one["case"]);
        assert!(number(one, "ratio_to_line") > 0.0 && has_baseline(other, &rows));
    }
    let asleep = by_word(&rows, "asleep");
    assert!(asleep.iter().all(|row| number(row, "bytes") <= 2000.0) && asleep.len() >= 8);
    let drawn = picture.text();
    assert!(drawn.starts_with("<svg ") && drawn.contains("line ours"), "{drawn}");

    let output = bench(&["size/100B", "size/200B", "--conservative"]);
    let table = text(&output.stdout);
    assert!(output.status.success() && table.contains("conservative: 200 bytes take"), "{table}");
    assert!(!table.contains("optimistic: 200 bytes"), "{table}");
}

#[test]
fn messages_of_every_size_are_measured_beside_bare_rings() {
    if !two_cpus() {
        return;
    }
    let picture = Picture::new("throughput");
    let sizes = ["8B", "500B", "4KiB", "64KiB", "1MiB"].map(|size| format!("throughput/{size}"));
    let mut arguments = vec!["--json", "--plot", picture.path()];
    arguments.extend(sizes.iter().map(String::as_str));
    let rows = rows(&bench(&arguments));
    rows.iter().for_each(check);
    for word in ["optimistic", "conservative", "two-copies", "one-copy", "in-place"] {
        let found = by_word(&rows, word);
        let short = if word == "in-place" { 2 } else { 0 };
        assert!(found.len() >= sizes.len() - short, "{word}");
        for row in found {
            let (many, bytes) = (number(row, "per_second"), number(row, "bytes"));
            let rate = number(row, "gigabytes_per_second") * 1e9;
            assert!((many * bytes - rate).abs() < 1e6 + rate / 100.0, "{row}");
            assert_eq!(row.get("ring_bytes").is_some(), ["two-copies", "one-copy"].contains(&word));
            let against = word != "two-copies";
            assert_eq!(row.get("baseline").is_some(), against, "{row}");
            assert!(!against || has_baseline(row, &rows), "{row}");
        }
    }
    assert!(picture.text().contains("line floor"));
    let output = bench(&["throughput/500B"]);
    let table = text(&output.stdout);
    assert!(table.contains("0.24") && table.contains("88%"), "{table}");
}

#[test]
#[ignore = "takes 10 to 30 s: the step `benches` of .ci/run includes it"]
fn a_crowd_gets_what_there_is_and_loses_nothing() {
    if !two_cpus() {
        return;
    }
    let rows = rows(&upbeat(&["bench", "incast", "--quick", "--json", "--senders", "5"]));
    let cases: Vec<&str> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["oneway", "call"]);
    for row in &rows {
        assert_eq!((&row["bench"], &row["senders"]), (&"incast".into(), &5.into()));
        assert_eq!((&row["lost"], &row["failed"]), (&0.into(), &0.into()), "{row}");
        // Calls that wait for room at once are of many tasks, whose order nobody promises.
        assert!(row["misordered"] == 0 || row["case"] == "call", "{row}");
        // More than is let through is not done; how much less depends on who else runs here.
        let (goodput, offered) = (number(row, "goodput_ratio"), number(row, "offered_ratio"));
        assert!((0.2..1.1).contains(&goodput) && (5.0..=10.5).contains(&offered), "{row}");
        assert!(number(row, "sent") > 1_000.0 && row["rss_kib"].as_array().unwrap().len() >= 4);
        for client in ["neighbour", "client"] {
            for rank in ["p50", "p99"] {
                assert!(number(&row[client], &format!("crowd_{rank}_ns")) > 0.0, "{row}");
                assert!(number(&row[client], &format!("{rank}_ratio")) > 0.0, "{row}");
            }
        }
    }
    let help = text(&upbeat(&["bench", "incast", "--help"]).stdout);
    assert!(help.contains("--seconds") && help.contains("--senders"), "{help}");
}

#[test]
fn mistakes_are_named() {
    let refused = |arguments: &[&str]| {
        let output = upbeat(arguments);
        assert!(!output.status.success() && output.stdout.is_empty());
        text(&output.stderr)
    };
    assert!(refused(&["bench", "limits/lien"]).contains("no case is called `limits/lien`"));
    for arguments in [&["limits"][..], &[], &["size", "throughput"]] {
        let all: Vec<&str> =
            ["bench", "--plot", "/dev/null"].iter().chain(arguments).copied().collect();
        assert!(refused(&all).contains("name one of them"), "{arguments:?}");
    }
    for arguments in [&["arguments"][..], &[], &["call", "execution"]] {
        let all: Vec<&str> = ["bench", "--conservative"].iter().chain(arguments).copied().collect();
        let text = refused(&all);
        assert!(text.contains("`size` and `throughput` send optimistically"), "{text}");
    }
    let nowhere = refused(&["bench", "size", "--plot", "/dev/null/size.svg"]);
    assert!(nowhere.contains("/dev/null/size.svg"), "{nowhere}");
    assert!(refused(&["bench", "--pin", "0"]).contains("`0` does not name two CPUs"));
    assert!(refused(&["bench", "--pin", "0,0"]).contains("not 0 twice"));
    assert!(refused(&["bench", "--pin", "0,1000"]).contains("CPU 1000 is not among those"));
}
