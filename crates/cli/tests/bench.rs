//! Tests the `upbeat bench` command from a user's view.

mod bench_command;

use bench_command::{Measuring, check, has_baseline, is_left_out, number, rows, text, two_cpus};
use serde_json::Value;
use std::collections::BTreeSet;

const UPBEAT: Measuring = Measuring { program: env!("CARGO_BIN_EXE_upbeat"), first: &["bench"] };

#[test]
fn all_limits_are_measured_and_every_line_has_the_documented_fields() {
    if !two_cpus() {
        return;
    }
    let rows = rows(&UPBEAT.briefly(&["limits", "--json"]));
    rows.iter().for_each(check);
    let listed = text(&UPBEAT.run(&["limits", "--list"]).stdout);
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
    let rows = rows(&UPBEAT.briefly(&arguments));
    rows.iter().for_each(check);
    let find = |case: &str| {
        rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("{case} is missing"))
    };
    for case in ["null/shared/polling", "null/local/polling", "1KiB/shared/polling"] {
        assert!(number(find(case), "ratio_to_line") > 0.0);
        assert!(number(find(case), "ratio_to_tight") > 0.0);
    }
    let sleeping = find("null/shared/sleeping");
    assert!(is_left_out(sleeping) || number(sleeping, "ratio_to_eventfd") > 0.0);
    let handle = find("null/shared/handle");
    assert!(is_left_out(handle) || has_baseline(handle, &rows));
    assert!(has_baseline(find("null/shared/awaited"), &rows));
    assert!(has_baseline(find("null/shared/idle1000"), &rows));
    assert!(number(find("null/shared/polling/64"), "per_second") > 0.0);
    let ring = find("ring8/shared/sleeping");
    assert!(number(ring, "least_per_second") <= number(ring, "per_second"));
    assert_eq!(ring["baseline"], "ring2/shared/sleeping");
    assert!(number(find("8B/shared/polling"), "per_second") > 0.0);
}

/// Returns how often both sides slept for each operation of a case.
fn sleeps(rows: &[Value], case: &str) -> [Option<f64>; 2] {
    let row = rows.iter().find(|row| row["case"] == case);
    let row = row.unwrap_or_else(|| panic!("{case} is missing"));
    ["caller_sleeps", "callee_sleeps"].map(|name| row[name].as_f64())
}

#[test]
#[ignore = "takes 3 to 10 s: the step `benches` of .ci/run includes it"]
fn a_case_waits_in_company_as_it_does_alone() {
    if !two_cpus() {
        return;
    }
    let all = rows(&UPBEAT.briefly(&["call", "oneway", "--json"]));
    all.iter().for_each(check);
    for case in ["null/shared/sleeping", "1KiB/shared/sleeping", "null/stream/sleeping"] {
        let alone = rows(&UPBEAT.briefly(&[&format!("call/{case}"), "--json"]));
        for (alone, company) in sleeps(&alone, case).into_iter().zip(sleeps(&all, case)) {
            let (alone, company) = (alone.unwrap(), company.unwrap());
            // On a busy machine, and in rounds of few operations, some messages find their receiver awake.
            assert!(
                alone > 0.4 && company > 0.6 * alone,
                "{case}: {alone} alone, {company} in company"
            );
        }
    }
    for case in
        ["null/shared/polling", "null/local/polling", "null/shared/idle1000", "8B/shared/lone"]
    {
        assert_eq!(sleeps(&all, case), [Some(0.0), Some(0.0)], "{case}");
    }
    // A handle counts nothing itself.
    assert_eq!(sleeps(&all, "null/shared/handle"), [None, Some(0.0)]);
    for case in ["ring8/shared/sleeping", "ring2/shared/sleeping"] {
        assert!(sleeps(&all, case).into_iter().flatten().sum::<f64>() >= 0.1, "{case}");
    }
}

#[test]
fn calls_over_tcp_and_tls_are_measured_beside_bare_connections() {
    if !two_cpus() {
        return;
    }
    let rows = rows(&UPBEAT.briefly(&["tcp", "--json"]));
    rows.iter().for_each(check);
    assert!(rows.iter().all(|row| row["bench"] == "tcp"), "no case of another benchmark");
    let listed = text(&UPBEAT.run(&["tcp", "--list"]).stdout);
    for case in
        listed.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix("tcp/"))
    {
        let row = rows.iter().find(|row| row["case"] == case);
        let row = row.unwrap_or_else(|| panic!("{case} is missing"));
        if is_left_out(row) {
            continue;
        }
        assert!(case.contains("/bare-") || has_baseline(row, &rows), "{row}");
        assert!(!case.starts_with("1MiB") || number(row, "gigabytes_per_second") > 0.0, "{row}");
        assert!(!case.starts_with("oneway") || number(row, "per_second") > 0.0, "{row}");
    }
}

#[test]
fn reads_of_exports_are_measured_beside_bare_loads() {
    if !two_cpus() {
        return;
    }
    let rows = rows(&UPBEAT.briefly(&["read", "--json"]));
    rows.iter().for_each(check);
    let listed = text(&UPBEAT.run(&["read", "--list"]).stdout);
    for case in
        listed.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix("read/"))
    {
        let row = rows.iter().find(|row| row["case"] == case);
        let row = row.unwrap_or_else(|| panic!("{case} is missing"));
        let begins = |heads: &[&str]| heads.iter().any(|head| case.starts_with(head));
        if !begins(&["whole", "stream"]) {
            assert!(number(row, "ratio_to_load") > 0.0, "{row}");
        }
        if begins(&["whole", "owner", "stream"])
            && !["owner/0-readers", "stream/null"].contains(&case)
        {
            assert!(has_baseline(row, &rows), "{row}");
        }
    }
}

#[test]
fn the_table_of_reads_says_which_targets_they_meet() {
    if !two_cpus() {
        return;
    }
    let output = UPBEAT.briefly(&["read/8B/quiet"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let target = |line: &str| {
        let verdict = line.split_whitespace().next();
        line.contains("8B/quiet") && matches!(verdict, Some("met" | "missed"))
    };
    assert!(table.contains("/ load"), "{table}");
    assert_eq!(table.lines().filter(|line| target(line)).count() % 3, 0, "{table}");
    assert!(table.lines().any(target), "{table}");
}

#[test]
fn a_table_has_a_line_for_the_chosen_case() {
    if !two_cpus() {
        return;
    }
    let output = UPBEAT.briefly(&["limits/syscall"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("syscall") && table.contains("p99.9"), "{table}");
    assert!(!table.contains("line/tight"), "{table}");
    assert!(output.stderr.is_empty(), "no bar where there is no terminal");
}

#[test]
fn wrong_arguments_are_explained() {
    let refused = |arguments: &[&str]| UPBEAT.refusal(arguments);
    let said = refused(&["limits/lien"]);
    assert!(said.contains("no case has the name `limits/lien`"), "{said}");
    assert!(said.contains("`upbeat bench --list`"), "{said}");
    assert!(refused(&["--pin", "0"]).contains("`0` does not name two CPUs"));
    assert!(refused(&["--pin", "0,0"]).contains("not 0 twice"));
    assert!(refused(&["--pin", "0,1000"]).contains("CPU 1000 is not among those"));
}
