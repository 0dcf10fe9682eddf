use super::{degradation, failing_factor, lines, tell};
use crate::papers::figures::starmod::{PROGRAM, RATIOS};
use upbeat_cli::bench::report::{Placement, Row};

fn row(case: &str, ns: f64, baseline: Option<(&str, f64)>) -> Row {
    let mut row = Row::alike("reads", case, Placement::OneL3, ns);
    let size = case.split_once("B/").and_then(|(bytes, _)| bytes.parse().ok());
    row.sizes.bytes = size;
    row.compared.baseline = baseline.map(|(case, _)| case.to_owned());
    row.compared.ratio_to_baseline = baseline.map(|(_, ratio)| ratio);
    row
}

fn rows() -> Vec<Row> {
    let mut failing = row("program/failing", 10_800.0, Some(("program/local", 1.08)));
    failing.traffic.called_percent = Some(93.21);
    vec![
        row("2B/local", 0.5, None),
        row("2B/shared", 2.0, Some(("2B/local", 4.0))),
        row("2B/into", 2.0, Some(("2B/shared", 1.0))),
        row("2B/stream", 9_000.0, Some(("2B/local", 18_000.0))),
        row("8B/shared", 2.5, Some(("8B/local", 5.0))),
        row("1024B/shared", 60.0, Some(("1024B/local", 3.0))),
        row("1024B/into", 40.0, Some(("1024B/shared", 0.667))),
        row("1024B/stream", 18_000.0, Some(("1024B/local", 900.0))),
        row("call/local", 1.0, None),
        row("call/shared", 200.0, Some(("call/local", 200.0))),
        row("effect/plain", 9_000.0, Some(("effect/null", 1.02))),
        row("effect/qualified", 8_900.0, Some(("effect/plain", 0.99))),
        row("reissued", 900.0, Some(("awaited", 45.0))),
        row("program/local", 10_000.0, None),
        row("program/shared", 10_500.0, Some(("program/local", 1.05))),
        failing,
    ]
}

#[test]
fn the_figures_of_the_paper_stand_beside_todays() {
    let rows = rows();
    let lines = lines(&rows.iter().collect::<Vec<_>>());
    let of = |table: &str| {
        let found = lines.iter().filter(|line| line.table.starts_with(table));
        found.map(|line| (line.case.as_str(), line.then, line.today)).collect::<Vec<_>>()
    };
    let first = of("figure 5-1");
    assert_eq!(first[0], ("2B/shared", Some(880e3), 2.0));
    assert_eq!(first[4], ("1024B/stream", Some(13_963e3), 18_000.0));
    assert_eq!(of("figure 5-3")[1], ("1024B/into", Some(9301e3), 40.0));
    assert_eq!(of("figure 5-2").len(), 4);
    let effects = [("effect/plain", None, 2.0), ("effect/qualified", Some(10.0), -1.0)];
    assert_eq!(of("sections 5.4.4.4"), effects);
    let ratios = of(RATIOS.table);
    assert_eq!(ratios[0], ("2B/shared", Some(206.0), 4.0));
    assert_eq!(ratios[2], ("call/shared", Some(240.0), 200.0));
    let programs = of(PROGRAM.table);
    assert_eq!(programs[0], ("program/shared", Some(59.3), 4.762));
    assert_eq!(programs[1], ("program/failing", Some(64.0), 7.407));
    assert_eq!(programs.len(), 2);
    let failed = [("reissued", Some(23.0), 45.0), ("program/failing", Some(23.0), 51.0)];
    assert_eq!(of("section 6.2.1.1"), failed);
}

#[test]
fn the_text_has_a_table_for_each_figure() {
    let mut text = Vec::new();
    tell(&rows(), false, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = |begin: &str| {
        let found = text.lines().find(|line| line.trim_start().starts_with(begin));
        found
            .unwrap_or_else(|| panic!("no {begin} in {text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
    };
    let cells = ["1024", "13.96", "ms", "15.87", "-", "60.0", "ns", "3.00", "18.00", "us", "2.00"];
    assert_eq!(line("1024 "), [&cells[..], &["-33.4%", "-33.3%"]].concat());
    assert_eq!(
        line("Memory Reference"),
        ["Memory", "Reference", "880.00", "us", "4.27", "us", "206"]
    );
    let ratio = text.lines().rfind(|line| line.trim_start().starts_with("2B/stream")).unwrap();
    assert!(ratio.ends_with(" 9.00 us     0.5 ns      18000"), "{ratio}");
    assert_eq!(line("owner: sum").last(), Some(&"0"));
    assert!(text.contains("program/failing: 93.2% of the reads"), "{text}");
}

#[test]
fn what_a_program_loses_follows_from_its_times() {
    assert_eq!(degradation(1.0), 0.0);
    // The paper's figures: 166,666 and 67,843 instructions a second.
    assert!((degradation(166_666.0 / 67_843.0) - 59.3).abs() < 0.1);
    // A local reference takes 1 ns, a remote one 6 ns, one that fails 306 ns.
    assert_eq!(failing_factor(10_000.0, 10_500.0, 10_800.0), Some(51.0));
    assert_eq!(failing_factor(10_000.0, 10_000.0, 10_800.0), None);
}
