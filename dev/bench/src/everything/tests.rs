use super::{CASES, lines};
use crate::papers::figures::{Entry, all};
use crate::papers::report::{Beside, Section, missing, tell};
use crate::suite::SUITE;
use upbeat_cli::bench::report::{Billed, BilledItem, Placement, Row};
use upbeat_cli::bench::suite::Choice;

/// Returns a row as the measurement of a case makes it.
fn row(bench: &'static str, case: &str) -> Row {
    let mut row = Row::alike(bench, case, Placement::OneL3, 100.0);
    row.sizes.bytes = case.split_once("B/").and_then(|(bytes, _)| bytes.parse().ok());
    row.compared.ratio_to_baseline = Some(1.5);
    let other = case.rsplit_once('/').map(|(head, _)| format!("{head}/local"));
    row.compared.baseline = match case {
        "awaited" => Some("8B/local".to_owned()),
        _ => other,
    };
    row.traffic.protocol_frames_per_message = Some(0.25);
    row.traffic.optimistic_percent = Some(90.0);
    row.traffic.refused_percent = Some(0.0);
    let item = |item, place| BilledItem { item, place, ns: 10.0, percent: 10.0 };
    if bench == "papers" {
        let items = vec![item("publish", "here"), item("wire", "wire"), item("reply", "there")];
        row.bill = Some(Billed { items, sum_ns: 30.0, measured_ns: 30.0, ..Billed::default() });
    }
    row
}

/// Returns what a run of `bench papers` would have beside the papers.
fn measured() -> Vec<Beside> {
    let cases = CASES.iter().map(|case| (*case).to_owned()).collect();
    let choice = Choice { cases, list: false, quick: true, seconds: None, json: false, pin: None };
    let chosen = SUITE.chosen(&choice).unwrap();
    let mut all = Vec::new();
    for bench in SUITE.benches {
        let mut cases: Vec<String> = (bench.list)().into_iter().map(|(case, _)| case).collect();
        cases.retain(|case| chosen.wants(bench, case));
        if bench.name == "papers" && !cases.is_empty() {
            // The list has the tables, which need these cases.
            cases = crate::papers::cases();
        }
        let rows: Vec<Row> = cases.iter().map(|case| row(bench.name, case)).collect();
        all.extend(lines(bench.name, &rows.iter().collect::<Vec<_>>()));
    }
    all
}

#[test]
fn every_row_of_the_papers_is_measured_or_called_absent() {
    let measured = measured();
    for entry in all() {
        let Entry::Held(printed) = entry else { continue };
        assert_eq!(missing(printed, &measured), [""; 0], "{}, {}", printed.system, printed.table);
        for (row, _) in printed.rows {
            let of = |one: &&Beside| one.table == printed.table && one.row == *row;
            let count = measured.iter().filter(of).count();
            assert_eq!(count == 0, printed.absent(row).is_some(), "{row} of {}", printed.table);
        }
    }
    for one in &measured {
        let is_of = |entry: Entry| entry.system() == one.system && entry.table() == one.table;
        assert!(all().any(is_of), "{one:?}");
    }
}

#[test]
fn the_output_has_each_figure_of_each_paper() {
    let (entries, measured): (Vec<Entry>, _) = (all().collect(), measured());
    let mut text = Vec::new();
    tell(&entries, &measured, false, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut json = Vec::new();
    tell(&entries, &measured, true, &mut json).unwrap();
    let json = String::from_utf8(json).unwrap();
    for entry in all() {
        assert!(text.contains(entry.table()) && json.contains(entry.table()), "{}", entry.table());
        let section = Section::of(entry, &measured);
        match entry {
            Entry::Held(printed) => assert!(section.rows.len() >= printed.rows.len()),
            Entry::Absent(absent) => {
                assert_eq!(section.rows.len(), absent.rows.len());
                assert!(section.conditions.iter().any(|one| one.contains("*absent*")));
            }
        }
        assert!(section.rows.iter().all(|row| row.len() == section.heads.len()));
    }
    assert!(text.contains("absent: ports are not built"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("not measured"), "{text}");
}
