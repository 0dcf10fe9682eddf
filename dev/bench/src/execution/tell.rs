//! Output of the measurements, with the paper's figures beside them.

use super::{BENCH, PARTS};
use crate::beside;
use crate::papers::figures::oam::{ABORT, NULL};
use serde::Serialize;
use std::io::{self, Write};
use upbeat_cli::bench::report::{Placement, Row, rounded};
use upbeat_core::bill::timeline::time;

/// A figure of the paper, and of today.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Line {
    bench: &'static str,
    system: &'static str,
    paper: &'static str,
    table: &'static str,
    row: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    then_ns: Option<f64>,
    today_ns: f64,
    /// The ratio to active messages, in the paper and today.
    #[serde(skip_serializing_if = "Option::is_none")]
    then_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    today_ratio: Option<f64>,
    case: String,
    placement: Placement,
    cpus: [usize; 2],
}

/// The cases of table 1, and the paper's rows.
const NULLS: [(&str, &str); 6] = [
    ("am/idle", "AM, no thread running"),
    ("orpc/idle", "ORPC, no thread running"),
    ("trpc/idle", "TRPC, no thread running"),
    ("am/busy", "AM, some thread running"),
    ("orpc/busy", "ORPC, some thread running"),
    ("trpc/busy", "TRPC, some thread running"),
];

/// Returns the lines for rows of one placement.
fn lines(rows: &[&Row]) -> Vec<Line> {
    let am = NULL.value("AM, no thread running");
    let found = NULLS.iter().filter_map(|(case, row)| {
        Some((*row, rows.iter().find(|one| one.case == *case).copied()?))
    });
    let line = |(row, of): (&'static str, &Row)| {
        let then_ns = NULL.value(row);
        let ratio = then_ns.zip(am).map(|(then, am)| then / am);
        Line {
            bench: BENCH,
            system: NULL.system,
            paper: NULL.paper,
            table: NULL.table,
            row,
            then_ns,
            today_ns: rounded(of.p50_ns),
            then_ratio: ratio.filter(|_| of.compared.ratio_to_baseline.is_some()).map(rounded),
            today_ratio: of.compared.ratio_to_baseline,
            case: of.case.clone(),
            placement: of.placement,
            cpus: of.cpus,
        }
    };
    found.map(line).collect()
}

/// The ways to abort, the cases, and the paper's row where it has one.
const ABORTS: [(&str, &str); 3] = [
    ("lost/continuation", "continuation, live stack"),
    ("lost/rerun", "rerun"),
    ("lost/nack", "nack, with the caller's pause"),
];

/// Returns the lines for rows of one placement, in the form of other benchmarks.
pub(crate) fn paper_lines(rows: &[&Row]) -> Vec<beside::Line> {
    let find = |case: &str| rows.iter().find(|row| row.case == case).copied();
    let nulls = NULLS.iter().filter_map(|(case, row)| Some((*row, find(case)?)));
    let nulls = nulls.map(|(name, row)| beside::Line::new(BENCH, &NULL, name, row.p50_ns, row));
    let won = find("orpc/idle").map(|row| row.p50_ns);
    let aborts = ABORTS.iter().filter_map(|(case, name)| {
        let row = find(case)?;
        Some(beside::Line::new(BENCH, &ABORT, name, row.p50_ns - won?, row))
    });
    nulls.chain(aborts).collect()
}

/// Returns by how much adaptive execution is behind the better of the two others, for each fraction of lost bets.
fn behind(rows: &[&Row]) -> Vec<(u32, f64)> {
    let mut behind = Vec::new();
    for part in PARTS {
        let ratio = |execution: &str| {
            let case = format!("losing/{part}/{execution}");
            rows.iter().find(|row| row.case == case)?.compared.ratio_to_baseline
        };
        if let (Some(trpc), Some(adaptive)) = (ratio("trpc"), ratio("adaptive")) {
            behind.push((part, adaptive / trpc.min(1.0)));
        }
    }
    behind
}

/// Prints rows and lines: as text, or one JSON object a line.
pub(crate) fn tell(rows: &[Row], json: bool, to: &mut impl Write) -> io::Result<()> {
    beside::tell_as(
        rows,
        lines,
        |rows, lines, to| grid(rows, lines, &behind(rows), to),
        NOTES,
        json,
        to,
    )
}

fn grid(
    rows: &[&Row],
    lines: &[Line],
    behind: &[(u32, f64)],
    to: &mut impl Write,
) -> io::Result<()> {
    if let Some(first) = lines.first() {
        writeln!(to, "{}, {}", first.system, first.paper)?;
        writeln!(to, "  CPUs {} and {}: {}", first.cpus[0], first.cpus[1], first.placement)?;
        writeln!(to, "  {:<40} {:>17} {:>17}", first.table, "paper (to AM)", "today (to AM)")?;
        for line in lines {
            let told = |time_ns: Option<f64>, ratio: Option<f64>| {
                let ratio = ratio.map_or(String::new(), |ratio| format!(" ({ratio:.2})"));
                time_ns.map_or("-".to_owned(), |ns| time(ns) + &ratio)
            };
            let then = told(line.then_ns, line.then_ratio);
            let today = told(Some(line.today_ns), line.today_ratio);
            writeln!(to, "    {:<38} {then:>17} {today:>17}", line.row)?;
        }
        writeln!(to)?;
    }
    if let Some(row) = rows.iter().find(|row| row.case == "beside/makes-way") {
        let (p50, p99) = (time(row.p50_ns), time(row.p99_ns));
        writeln!(
            to,
            "  beside a handler with a budget of 100 us that makes way: {p50}, p99 {p99}"
        )?;
    }
    for line in paper_lines(rows).iter().filter(|line| line.table == ABORT.table) {
        let then = line.then.map_or("-".to_owned(), time);
        let (row, more) = (line.row, time(line.today));
        writeln!(to, "  an abort by {row}: {more} more than a call without (paper: {then})")?;
    }
    for (part, ratio) in behind {
        writeln!(to, "  {part:>3}% of bets lost: adaptive takes {ratio:.3} of the better other")?;
    }
    writeln!(to)
}

const NOTES: &str = "\
All nodes poll. `idle`: the server's own future waits on a condition; `busy`: it polls and yields in a
loop. `trpc` puts the task of a request in front of those that want to run, `trpc-back` behind them.
In `beside/*` another session's handler works all the time, and has a `checkpoint` in its loop.
`lost/*` are compared with `lost/task-at-once`, `losing/*` with `orpc`: by the time of a call.
";

#[cfg(test)]
mod tests {
    use super::{Row, behind, lines, tell};
    use upbeat_cli::bench::report::Placement;

    fn row(case: &str, p50_ns: f64, baseline: Option<f64>) -> Row {
        let mut row = Row::alike("execution", case, Placement::OneL3, p50_ns);
        row.compared.ratio_to_baseline = baseline;
        row
    }

    #[test]
    fn the_papers_table_stands_beside_todays() {
        let rows = [
            row("am/idle", 180.0, None),
            row("orpc/idle", 181.0, Some(1.006)),
            row("trpc/busy", 400.0, Some(2.2)),
            row("losing/50/trpc", 300.0, Some(1.25)),
            row("losing/50/adaptive", 240.0, Some(1.01)),
            row("losing/100/trpc", 300.0, Some(0.8)),
            row("losing/100/adaptive", 300.0, Some(0.84)),
        ];
        let rows_of: Vec<&Row> = rows.iter().collect();
        let told: Vec<_> =
            lines(&rows_of).into_iter().map(|line| (line.then_ns, line.then_ratio)).collect();
        assert_eq!(told[0], (Some(13e3), None));
        assert_eq!(told[1], (Some(14e3), Some(1.077)));
        assert_eq!(told.len(), 3);
        let behind = behind(&rows_of);
        assert_eq!((behind[0], behind[1].0), ((50, 1.01), 100));
        assert!((behind[1].1 - 1.05).abs() < 1e-9);
        let mut text = Vec::new();
        tell(&rows, false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("74.00 us") && text.contains("50% of bets lost"), "{text}");
    }
}
