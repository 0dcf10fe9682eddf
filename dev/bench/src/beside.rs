//! Figures of papers, each beside one of today: for benchmarks that repeat the measurement of a paper.

use crate::papers::figures::Printed;
use crate::papers::report::Beside;
use serde::Serialize;
use std::io::{self, Write};
use upbeat_cli::bench::report::{self, Placement, Row, placements, rounded};
use upbeat_core::bill::timeline::time;

/// A figure of the paper, and of today.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Line {
    pub(crate) bench: &'static str,
    pub(crate) system: &'static str,
    pub(crate) paper: &'static str,
    pub(crate) table: &'static str,
    pub(crate) row: &'static str,
    /// The unit of both figures: `ns`, `percent` and so on.
    pub(crate) unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) then: Option<f64>,
    pub(crate) today: f64,
    /// The case that was measured.
    pub(crate) case: String,
    pub(crate) placement: Placement,
    pub(crate) cpus: [usize; 2],
}

impl Line {
    pub(crate) fn new(
        bench: &'static str,
        printed: &Printed,
        row: &'static str,
        today: f64,
        of: &Row,
    ) -> Line {
        Line {
            bench,
            system: printed.system,
            paper: printed.paper,
            table: printed.table,
            row,
            unit: printed.unit.word(),
            then: printed.value(row),
            today: rounded(today),
            case: of.case.clone(),
            placement: of.placement,
            cpus: of.cpus,
        }
    }
}

impl From<Line> for Beside {
    fn from(line: Line) -> Beside {
        Beside {
            system: line.system.to_owned(),
            table: line.table.to_owned(),
            row: line.row.to_owned(),
            then: line.then,
            today: line.today,
            case: line.case,
            placement: line.placement.to_string(),
        }
    }
}

/// Prints rows, and the lines of those of one placement: as text, or one JSON object a line.
pub(crate) fn tell(
    rows: &[Row],
    lines: impl Fn(&[&Row]) -> Vec<Line>,
    notes: &str,
    json: bool,
    to: &mut impl Write,
) -> io::Result<()> {
    tell_as(rows, lines, |_, lines, to| grid(lines, to), notes, json, to)
}

/// Prints rows with lines of another kind; `show` formats some rows as text.
pub(crate) fn tell_as<L: Serialize, W: Write>(
    rows: &[Row],
    lines: impl Fn(&[&Row]) -> Vec<L>,
    grid: impl Fn(&[&Row], &[L], &mut W) -> io::Result<()>,
    notes: &str,
    json: bool,
    to: &mut W,
) -> io::Result<()> {
    if json {
        report::json(rows, to)?
    } else {
        report::table(rows, to)?
    }
    for placement in placements(rows) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.placement == placement).collect();
        let lines = lines(&rows);
        if json {
            for line in &lines {
                serde_json::to_writer(&mut *to, line)?;
                writeln!(to)?;
            }
        } else {
            grid(&rows, &lines, to)?;
        }
    }
    if json { Ok(()) } else { write!(to, "{notes}") }
}

/// Prints the lines of one placement, by tables.
pub(crate) fn grid(lines: &[Line], to: &mut impl Write) -> io::Result<()> {
    let Some(first) = lines.first() else { return Ok(()) };
    writeln!(to, "{}, {}", first.system, first.paper)?;
    writeln!(to, "  CPUs {} and {}: {}", first.cpus[0], first.cpus[1], first.placement)?;
    let mut table = "";
    for line in lines {
        if line.table != table {
            table = line.table;
            writeln!(to, "  {table:<46} {:>10} {:>10}", "paper", "today")?;
        }
        let unit = |value: f64| match line.unit {
            "percent" => format!("{value:.1}%"),
            _ => time(value),
        };
        let then = line.then.map_or("-".to_owned(), unit);
        let name = format!("{} ({})", line.row, line.case);
        writeln!(to, "    {name:<44} {then:>10} {:>10}", unit(line.today))?;
    }
    writeln!(to)
}
