//! The results, and the paper's figures beside them.

use super::BENCH;
use crate::beside::{self, Line};
use crate::papers::figures::starmod::OPERATIONS;
use std::io::{self, Write};
use upbeat_cli::bench::report::Row;

/// The paper's rows, the cases that correspond to them, and the number of operations in each case.
const ROWS: [(&str, &str, f64); 4] = [
    ("StarMod procedure call", "procedure", 1.0),
    ("Interface procedure call", "monitor", 1.0),
    ("Process creation/termination", "spawn", 1.0),
    ("Process switch", "switch", 2.0),
];

/// Returns the lines for rows of one placement.
pub(crate) fn lines(rows: &[&Row]) -> Vec<Line> {
    let find = |case: &str| rows.iter().find(|row| row.case == case).copied();
    let line = |row, case, times| {
        let of = find(case)?;
        Some(Line::new(BENCH, &OPERATIONS, row, of.p50_ns / times, of))
    };
    let mut lines: Vec<Line> =
        ROWS.into_iter().filter_map(|(row, case, times)| line(row, case, times)).collect();
    if let Some(pair) = line("Send a signal, wait for a signal", "signal", 2.0) {
        let then = OPERATIONS.sum(&["Send a signal", "Wait for a signal"]);
        lines.push(Line { then: Some(then), ..pair });
    }
    lines
}

/// Prints rows and lines: as text, or one JSON object a line.
pub(crate) fn tell(rows: &[Row], json: bool, to: &mut impl Write) -> io::Result<()> {
    beside::tell(rows, lines, NOTES, json, to)
}

const NOTES: &str = "\
All tasks are of one node, on one CPU. A task that makes way goes behind those that want to run; a
signal's time has the switch to who waits for it, and half of two that answer each other is one. The
paper's machine is a PDP 11/23, whose processes have stacks; it adds a register in 1.72 us.
";

#[cfg(test)]
mod tests {
    use super::{Row, lines};
    use upbeat_cli::bench::report::Placement;

    #[test]
    fn a_switch_is_half_of_two_and_a_signal_is_sent_and_waited_for() {
        let row = |case: &str, p50_ns: f64| Row::alike("tasks", case, Placement::OneL3, p50_ns);
        let rows = [row("switch", 100.0), row("mutex", 3.0), row("signal", 300.0)];
        let lines = lines(&rows.iter().collect::<Vec<_>>());
        let said: Vec<_> = lines.iter().map(|line| (line.row, line.then, line.today)).collect();
        let signal = ("Send a signal, wait for a signal", Some(426_000.0), 150.0);
        assert_eq!(said, [("Process switch", Some(220_400.0), 50.0), signal]);
    }
}
