//! The `bench` command as the developers of Upbeat use it.

#[path = "../../../crates/cli/tests/bench_command/mod.rs"]
mod bench_command;

use bench_command::left_out::leave_out;
use bench_command::{Measuring, check, has_baseline, is_left_out, number, rows, text, two_cpus};
use serde_json::Value;

const BENCH: Measuring = Measuring { program: env!("CARGO_BIN_EXE_bench"), first: &[] };

#[test]
fn a_bill_comes_with_an_estimate_from_its_parts() {
    if !two_cpus() {
        return;
    }
    let cases = ["bill/null/local/polling", "bill/null/shared/sleeping"];
    let arguments: Vec<&str> = ["--json"].into_iter().chain(cases).collect();
    // A host that moves a processor during the measurement gives no bill.
    let is_told = |row: &Value| row["placement"] != "unsettled" && !is_left_out(row);
    let is_settled = |rows: &Vec<Value>| rows.iter().all(is_told);
    let mut runs = (0..5).map(|_| rows(&BENCH.briefly(&arguments)));
    let Some(rows) = runs.find(is_settled) else {
        leave_out("this host moves its processors again and again, or is busy");
        return;
    };
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
#[ignore = "takes 10 to 30 s: the step `benches` of .ci/run includes it"]
fn the_contract_is_held_against_its_paper() {
    if !two_cpus() {
        return;
    }
    let calls = ["null/polling", "null/both-compute", "null/poll-points"];
    // One program is enough without optimisation.
    let programs = ["heap/compute"];
    let all = ["contract", "--json"].into_iter().chain(calls).chain(programs);
    let lines = rows(&BENCH.briefly(&all.collect::<Vec<_>>()));
    let (told, measured): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.get("paper").is_some());
    measured.iter().for_each(|row| check(row));
    assert!(measured.iter().filter(|row| row.get("polled_percent").is_some()).count() >= 1);
    let named = |name: &str| told.iter().find(|line| line["row"] == name);
    // The rows may be missing where two placements have half of them each.
    if let Some(upcall) = named("upcall beside polling") {
        assert_eq!(number(upcall, "then"), 27_000.0);
        assert!(number(upcall, "today") > 0.0, "waking costs something: {upcall}");
    }
    let polled = named("a message, polled").expect("a call between polling nodes");
    assert!(number(polled, "today") > 0.0, "{polled}");
    // The programs are ours, so no line of the paper stands beside them.
    assert!(measured.iter().any(|row| row["case"] == "heap/compute"));
}

/// Returns the measured rows, and the lines of papers.
fn beside_papers(arguments: &[&str]) -> (Vec<Value>, Vec<Value>) {
    let lines = rows(&BENCH.briefly(arguments));
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
#[ignore = "takes 3 to 10 s: the step `benches` of .ci/run includes it"]
fn references_are_held_against_their_paper() {
    if !two_cpus() {
        return;
    }
    let output = BENCH.briefly(&["reads", "--json"]);
    let (told, measured): (Vec<_>, Vec<_>) =
        rows(&output).into_iter().partition(|line: &Value| line.get("paper").is_some());
    measured.iter().for_each(check);
    for case in ["8B/into", "chain/shared", "reissued", "item/stream", "effect/synchronised"] {
        let row = measured.iter().find(|row| row["case"] == case).expect(case);
        assert!(has_baseline(row, &measured), "{row}");
    }
    for case in ["program/failing", "reissued"] {
        let failing = measured.iter().find(|row| row["case"] == case).expect(case);
        let share = number(failing, "called_percent");
        assert!(share > 0.0 && share <= 100.0, "each reference loses its bet: {failing}");
    }
    let find = |table: &str, row: &str| {
        let is_it = |line: &&Value| {
            line["table"].as_str().unwrap().starts_with(table) && line["row"] == row
        };
        let line = told.iter().find(is_it).unwrap_or_else(|| panic!("no {row} of {table}"));
        (line["then"].as_f64(), number(line, "today"))
    };
    assert_eq!(find("figure 5-1", "1024 bytes").0, Some(13_963_000.0));
    assert_eq!(find("figure 5-3", "1024 bytes").0, Some(9_301_000.0));
    assert!(find("figure 5-2", "reader: all, of a number").1 > 0.0);
    // Each of these is a ratio of rounds of one placement, of which there are none where the host moves processors.
    if measured.iter().all(|row| row["placement"] != "unsettled" && row["rounds_dropped"] == 0) {
        assert_eq!(find("figure 6-1, ratio", "Memory Reference").0, Some(206.0));
        assert_eq!(find("section 6.2.1.1", "a reference that fails").0, Some(23.0));
        let (then, lost) = find("sections 5.5", "1% of references are remote");
        assert!(then == Some(59.3) && lost < 100.0, "{lost}");
    }
}

#[test]
#[ignore = "takes 3 to 10 s: the step `benches` of .ci/run includes it"]
fn executions_are_held_against_their_papers() {
    if !two_cpus() {
        return;
    }
    let cases = [
        "am/idle",
        "orpc/busy",
        "beside/makes-way",
        "lost/rerun",
        "lost/nack",
        "losing/50/adaptive",
    ];
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
fn every_row_of_the_papers_is_printed_or_called_absent() {
    if !two_cpus() {
        return;
    }
    let seconds = std::env::var("UPBEAT_BENCH_SECONDS").unwrap_or_else(|_| "1".into());
    let run = ["papers", "--quick", "--seconds", &seconds, "--json"];
    let lines = rows(&BENCH.run(&run));
    let (left_out, lines): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line.get("left_out").is_some());
    for line in &lines {
        assert_eq!(line["bench"], "papers");
        assert!(line["paper"].as_str().unwrap().contains("19") && line["table"].is_string());
        assert_ne!(line["today"].is_f64(), line["absent"].is_string(), "{line}");
        // Where a placement changed, or nodes waited in another way, a figure may be missing.
        let is_missing = line["absent"] == "not measured in this run";
        let dropped = line["unit"] == "percent" || line["unit"] == "times" || !left_out.is_empty();
        assert!(!is_missing || dropped, "{line}");
    }
    let today = |name: &str| {
        let is_today = |line: &&Value| line["row"] == name && line["today"].is_f64();
        lines.iter().filter(is_today).count()
    };
    assert!(left_out.len() > 2 || today("nullop, different nodes") >= 1, "{left_out:?}");
    for table in ["figure 4-7", "table 4-2", "table 5, degradation", "section 7, explicit receipt"]
    {
        let of = |line: &&Value| line["table"].as_str().unwrap().starts_with(table);
        let mut of_table = lines.iter().filter(of).peekable();
        assert!(of_table.peek().is_some(), "{table}");
        assert!(of_table.all(|line| line["absent"].is_string()), "absent, not faked: {table}");
    }
}

#[test]
fn the_tables_of_a_paper_have_the_parts_of_a_call() {
    if !two_cpus() {
        return;
    }
    let text = text(&BENCH.briefly(&["papers/lynx/times"]).stdout);
    assert!(text.contains("2.04 ms") && text.contains("instructions --categories"), "{text}");
    assert!(!text.contains("SIGCOMM") && !text.contains("local/polling"), "{text}");
}

/// A path for a plot, which is removed with the test.
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

/// Returns the rows of every size, by the last word of their case.
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
    let rows = rows(&BENCH.briefly(&["size", "--json", "--plot", picture.path()]));
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
    assert!(asleep.len() >= 8);
    let mut measured = asleep.iter().filter(|row| !is_left_out(row));
    assert!(measured.all(|row| number(row, "bytes") <= 2000.0), "{asleep:?}");
    let drawn = picture.text();
    assert!(drawn.starts_with("<svg ") && drawn.contains("line ours"), "{drawn}");

    let output = BENCH.briefly(&["size/100B", "size/200B", "--conservative"]);
    let table = text(&output.stdout);
    assert!(output.status.success() && table.contains("conservative: 200 bytes take"), "{table}");
    assert!(!table.contains("optimistic: 200 bytes"), "{table}");
}

#[test]
#[ignore = "takes 3 to 10 s: the step `benches` of .ci/run includes it"]
fn messages_of_every_size_are_measured_beside_bare_rings() {
    if !two_cpus() {
        return;
    }
    let picture = Picture::new("throughput");
    let sizes = ["8B", "500B", "4KiB", "64KiB", "1MiB"].map(|size| format!("throughput/{size}"));
    let mut arguments = vec!["--json", "--plot", picture.path()];
    arguments.extend(sizes.iter().map(String::as_str));
    let rows = rows(&BENCH.briefly(&arguments));
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
    let output = BENCH.briefly(&["throughput/500B"]);
    let table = text(&output.stdout);
    assert!(table.contains("0.24") && table.contains("88%"), "{table}");
}

/// Honest clients connect, and sessions that stand go on, while strangers come at the greatest rates. The promise is two
/// seconds on a machine that does nothing else.
#[test]
#[ignore = "takes half a minute: the step `hostile` of .ci/run includes it"]
fn floods_keep_no_honest_client_out() {
    if !two_cpus() {
        return;
    }
    let most = std::env::var("UPBEAT_HONEST_MS").map_or(10_000.0, |ms| ms.parse().unwrap());
    let rows = rows(&BENCH.run(&["floods", "--quick", "--json"]));
    assert_eq!(rows.len(), 2 * (4 + 4 + 4 + 2) + 3);
    for row in &rows {
        assert_eq!((&row["bench"], &row["failed"]), (&"floods".into(), &0.into()), "{row}");
        for what in ["strangers", "honest", "calls"] {
            assert!(number(row, what) > 0.0, "{row}");
        }
        for what in ["honest_worst_ms", "after_ms", "call_worst_ms"] {
            assert!(number(row, what) < most, "{what} in {row}");
        }
    }
}

#[test]
#[ignore = "takes 10 to 30 s: the step `benches` of .ci/run includes it"]
fn a_crowd_gets_what_there_is_and_loses_nothing() {
    if !two_cpus() {
        return;
    }
    let rows = rows(&BENCH.run(&["incast", "--quick", "--json", "--senders", "5"]));
    let cases: Vec<&str> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["oneway", "call"]);
    for row in &rows {
        assert_eq!((&row["bench"], &row["senders"]), (&"incast".into(), &5.into()));
        assert_eq!((&row["lost"], &row["failed"]), (&0.into(), &0.into()), "{row}");
        // Calls that wait for room are made by many tasks, whose order is not defined.
        assert!(row["misordered"] == 0 || row["case"] == "call", "{row}");
        // The goodput is bounded by the receiver's capacity, and depends on the load of this host.
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
}

/// Checks that the cells of a sweep are well.
fn check_sweep(arguments: &[&str]) -> Vec<Value> {
    let output = BENCH.run(&[&["sweep", "--json"], arguments].concat());
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let cells = rows(&output);
    for cell in &cells {
        assert_eq!((&cell["bench"], &cell["outcome"]), (&"sweep".into(), &"OK".into()), "{cell}");
        assert!(cell["sent"] == cell["messages"] && number(cell, "messages") > 0.0, "{cell}");
    }
    cells
}

/// Lengths of half a ring go over TCP, whose sender blocks.
#[test]
fn a_sweep_sends_at_the_borders_of_sizes() {
    let words = ["--messages", "40", "tcp", "blocking", "adaptive", "oneway"];
    assert!(check_sweep(&words).len() > 20);
    let none = BENCH.refusal(&["sweep", "no-such-word"]);
    assert!(none.contains("sweep --list"), "{none}");
}

#[test]
#[ignore = "takes a minute: the step `benches` of .ci/run includes it"]
fn a_sweep_passes_every_border_with_every_carrier() {
    let messages = std::env::var("UPBEAT_SWEEP_MESSAGES").unwrap_or_else(|_| "200".into());
    let cells = check_sweep(&["--messages", &messages, "--jobs", "3"]);
    for carrier in ["local", "shared", "stream", "tcp", "tls"] {
        let is_its = |cell: &&Value| cell["case"].as_str().unwrap().starts_with(carrier);
        assert!(cells.iter().filter(is_its).count() > 500, "{carrier}");
    }
}

#[test]
fn mistakes_are_named() {
    let refused = |arguments: &[&str]| BENCH.refusal(arguments);
    let said = refused(&["size/12cm"]);
    assert!(said.contains("no case has the name `size/12cm`"), "{said}");
    assert!(said.contains("`cargo run --release -p bench -- --list`"), "{said}");
    for arguments in [&["tasks"][..], &[], &["size", "throughput"]] {
        let all = [&["--plot", "/dev/null"], arguments].concat();
        assert!(refused(&all).contains("name one of them"), "{arguments:?}");
    }
    for arguments in [&["arguments"][..], &[], &["tasks", "execution"]] {
        let text = refused(&[&["--conservative"], arguments].concat());
        assert!(text.contains("`size` and `throughput` send optimistically"), "{text}");
    }
    let nowhere = refused(&["size", "--plot", "/dev/null/size.svg"]);
    assert!(nowhere.contains("/dev/null/size.svg"), "{nowhere}");
}

#[test]
fn every_benchmark_is_listed_and_explained() {
    let listed = text(&BENCH.run(&["--list"]).stdout);
    let help = text(&BENCH.run(&["--help"]).stdout);
    for bench in [
        "bill",
        "papers",
        "size",
        "throughput",
        "contract",
        "tasks",
        "execution",
        "arguments",
        "reads",
    ] {
        assert!(listed.contains(&format!("\n  {bench}/")), "{bench}: {listed}");
        assert!(help.contains(&format!("\n  bench {bench}")), "{bench}: {help}");
    }
    let incast = text(&BENCH.run(&["incast", "--help"]).stdout);
    assert!(incast.contains("--seconds") && incast.contains("--senders"), "{incast}");
    let peers = text(&BENCH.run(&["peers", "--help"]).stdout);
    assert!(
        peers.contains("--write-readme") && peers.contains("dev/bench/peers/prepare"),
        "{peers}"
    );
}
