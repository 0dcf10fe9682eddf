//! Output of the measurements, with the paper's figures beside them.

use super::BENCH;
use crate::beside::{self, Line};
use crate::papers::figures::{EXPRESS_DEGRADATION, EXPRESS_POLLED, EXPRESS_UPCALL};
use std::io::{self, Write};
use upbeat_cli::bench::report::Row;

/// The programs by their names here and in the paper.
const PROGRAMS: [(&str, &str); 3] =
    [("heap", "LocusRoute"), ("heap4", "LocusRoute"), ("sor", "Red/Black SOR")];

/// Returns the lines for rows of one placement.
fn lines(rows: &[&Row]) -> Vec<Line> {
    let find = |case: &str| rows.iter().find(|row| row.case == case).copied();
    let mut lines = Vec::new();
    if let (Some(polling), Some(both)) = (find("null/polling"), find("null/both-compute")) {
        // A round trip has two messages.
        let (polled, woken) = (polling.p50_ns / 2.0, both.p50_ns / 2.0);
        lines.push(Line::new(BENCH, &EXPRESS_UPCALL, "a message, polled", polled, polling));
        lines.push(Line::new(BENCH, &EXPRESS_UPCALL, "a message, by upcall", woken, both));
        lines.push(Line::new(
            BENCH,
            &EXPRESS_UPCALL,
            "upcall beside polling",
            woken - polled,
            both,
        ));
    }
    for (program, name) in PROGRAMS {
        let polled = |row: &Row| row.traffic.polled_percent;
        if let Some((row, percent)) =
            find(&format!("{program}/compute")).and_then(|row| Some((row, polled(row)?)))
        {
            lines.push(Line::new(BENCH, &EXPRESS_POLLED, name, percent, row));
        }
    }
    for (program, name) in PROGRAMS {
        for way in ["polling-only", "poll-points"] {
            let row = find(&format!("{program}/{way}"));
            if let Some((row, ratio)) =
                row.and_then(|row| Some((row, row.compared.ratio_to_baseline?)))
            {
                let line = Line::new(BENCH, &EXPRESS_DEGRADATION, name, 100.0 * (ratio - 1.0), row);
                let then = line.then.filter(|_| way == "polling-only");
                lines.push(Line { then, ..line });
            }
        }
    }
    lines
}

/// Prints rows and lines: as text, or one JSON object a line.
pub(crate) fn tell(rows: &[Row], json: bool, to: &mut impl Write) -> io::Result<()> {
    beside::tell(rows, lines, NOTES, json, to)
}

const NOTES: &str = "\
A node and what it computes share one CPU, as in the paper. Half of a round trip is a message; both
nodes are told to poll, and sleep while they compute. Degradation is of a program that computes on
another thread (`compute`): by how much the other one takes longer, the median over alternating
rounds, less than nothing where it is faster. Messages polled are those of both nodes in `compute`.
`heap` has 64 pieces of work of 0 to 1 ms, each with 4 KiB from the other node, `heap4` 32 of 0 to 4
ms; `sor` 10 phases on 2,048 x 2,048 points.
";

#[cfg(test)]
mod tests {
    use super::{Row, lines, tell};
    use upbeat_cli::bench::report::Placement;

    fn row(case: &str, p50_ns: f64, baseline: Option<f64>) -> Row {
        let mut row = Row::alike("contract", case, Placement::OneL3, p50_ns);
        row.traffic.polled_percent = Some(90.0);
        row.compared.ratio_to_baseline = baseline;
        row
    }

    #[test]
    fn an_upcall_is_half_of_what_both_pay_and_degradation_what_a_program_loses() {
        let rows = [
            row("null/polling", 200.0, None),
            row("null/both-compute", 20_200.0, Some(101.0)),
            row("heap/compute", 1e7, None),
            row("heap/polling-only", 1.5e7, Some(1.39)),
            row("heap/poll-points", 1e7, Some(1.01)),
        ];
        let lines = lines(&rows.iter().collect::<Vec<_>>());
        let said: Vec<_> = lines.iter().map(|line| (line.row, line.then, line.today)).collect();
        assert_eq!(
            said,
            [
                ("a message, polled", None, 100.0),
                ("a message, by upcall", None, 10_100.0),
                ("upcall beside polling", Some(27e3), 10_000.0),
                ("LocusRoute", Some(83.0), 90.0),
                ("LocusRoute", Some(39.0), 39.0),
                ("LocusRoute", None, 1.0),
            ]
        );
        let mut text = Vec::new();
        tell(&rows, false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("27.00 us") && text.contains("39.0%"), "{text}");
    }
}
