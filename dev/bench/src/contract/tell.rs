//! Output of the measurements, with the paper's figures beside them.

use super::BENCH;
use crate::beside::{self, Line};
use crate::papers::figures::express::UPCALL;
use std::io::{self, Write};
use upbeat_cli::bench::report::Row;

/// The programs. They are ours: the paper's stand in its tables 4 and 5 and are not built.
const PROGRAMS: [&str; 3] = ["heap", "heap4", "grid"];

/// Returns the lines for rows of one placement.
pub(crate) fn lines(rows: &[&Row]) -> Vec<Line> {
    let find = |case: &str| rows.iter().find(|row| row.case == case).copied();
    let mut lines = Vec::new();
    if let (Some(polling), Some(both)) = (find("null/polling"), find("null/both-compute")) {
        // A round trip has two messages.
        let (polled, woken) = (polling.p50_ns / 2.0, both.p50_ns / 2.0);
        lines.push(Line::new(BENCH, &UPCALL, "a message, polled", polled, polling));
        lines.push(Line::new(BENCH, &UPCALL, "a message, by upcall", woken, both));
        lines.push(Line::new(BENCH, &UPCALL, "upcall beside polling", woken - polled, both));
    }
    lines
}

/// Prints rows and lines: as text, or one JSON object a line.
pub(crate) fn tell(rows: &[Row], json: bool, to: &mut impl Write) -> io::Result<()> {
    beside::tell_as(rows, lines, grid, NOTES, json, to)
}

fn grid(rows: &[&Row], lines: &[Line], to: &mut impl Write) -> io::Result<()> {
    beside::grid(lines, to)?;
    let find = |case: String| rows.iter().find(|row| row.case == case).copied();
    let percent = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}%"));
    let lost = |row: Option<&Row>| {
        percent(row.and_then(|row| Some(100.0 * (row.compared.ratio_to_baseline? - 1.0))))
    };
    for program in PROGRAMS {
        let Some(row) = find(format!("{program}/compute")) else { continue };
        let polled = percent(row.traffic.polled_percent);
        let [only, points] =
            ["polling-only", "poll-points"].map(|way| lost(find(format!("{program}/{way}"))));
        writeln!(
            to,
            "  {program}: {polled} of the messages polled; slower by {only} without upcalls, by {points} with poll points"
        )?;
    }
    writeln!(to)
}

const NOTES: &str = "\
A node and what it computes share one CPU, as in the paper. Half of a round trip is a message; both
nodes are told to poll, and sleep while they compute. Degradation is of a program that computes on
another thread (`compute`): by how much the other one takes longer, the median over alternating
rounds, less than nothing where it is faster. Messages polled are those of both nodes in `compute`.
The programs are small ones of our own, and not those of the paper's tables 4 and 5.
`heap` has 64 pieces of work of 0 to 1 ms, each with 4 KiB from the other node, `heap4` 32 of 0 to 4
ms; `grid` 10 phases on 2,048 x 2,048 points.
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
    fn an_upcall_is_half_of_what_both_pay_and_a_program_of_ours_has_its_own_name() {
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
            ]
        );
        let mut text = Vec::new();
        tell(&rows, false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("27.00 us"), "{text}");
        assert!(text.contains("heap: 90.0% of the messages polled; slower by 39.0%"), "{text}");
        assert!(!text.contains("LocusRoute") && !text.contains("Red/Black"), "toys: {text}");
    }
}
