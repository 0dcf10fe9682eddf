//! The targets of reads, beside what was measured.

use crate::bench::report::{self, Placement, Row};
use crate::bench::suite::Output;
use std::io::{self, Write};

/// A figure that a read should not exceed.
struct Target {
    case: &'static str,
    about: &'static str,
    most: f64,
    /// Returns the figure from a row, and from the row of `base`.
    figure: fn(&Row, &Row) -> Option<f64>,
    /// The case with which the figure compares, or the case itself.
    base: &'static str,
}

const TARGETS: &[Target] = &[
    Target::of_load("8B/quiet", "of a bare load", 1.5),
    Target { figure: |row, _| Some(row.p50_ns), ..Target::of_load("8B/quiet", "ns", 8.0) },
    Target::of_load("8B/quiet", "of a load of a variable of this process", 10.0),
    Target::of_load("8B/dirty", "of a bare load", 1.3),
    Target::of_load("1KiB/quiet", "of a bare copy", 1.5),
    Target::of_load("64KiB/quiet", "of a bare copy", 1.1),
    Target {
        figure: |row, base| Some(row.compared.ratio_to_load? / base.compared.ratio_to_load?),
        base: "a[i].f/10",
        ..Target::of_load("a[i].f/10000", "of the ratio to a load in an array of 10", 1.1)
    },
    Target::of_baseline("owner/1-readers", "of an update without a reader", 1.1),
    Target::of_baseline("owner/100-readers", "of an update without a reader", 1.2),
    Target::of_baseline("owner/1-readers/apart", "of an update without a reader", 1.1),
    Target::of_baseline("owner/100-readers/apart", "of an update without a reader", 1.2),
    Target::of_baseline("stream/qualified", "of a null call over a stream", 1.1),
    Target::of_baseline("stream/synchronised", "of a qualified read over a stream", 1.06),
];

impl Target {
    const fn of_load(case: &'static str, about: &'static str, most: f64) -> Target {
        Target { case, about, most, figure: |row, _| row.compared.ratio_to_load, base: case }
    }

    const fn of_baseline(case: &'static str, about: &'static str, most: f64) -> Target {
        Target {
            figure: |row, _| row.compared.ratio_to_baseline,
            ..Target::of_load(case, about, most)
        }
    }

    /// Returns the figure in a placement, if its cases were measured there.
    fn found(&self, rows: &[Row], placement: Placement) -> Option<f64> {
        let find = |case| rows.iter().find(|row| row.case == case && row.placement == placement);
        (self.figure)(find(self.case)?, find(self.base)?)
    }
}

/// Writes the rows, and for people whether they meet the targets.
pub(crate) fn tell(
    rows: &[Row],
    _: &dyn Fn(&str) -> bool,
    json: bool,
    to: &mut Output,
) -> io::Result<()> {
    if json {
        return report::json(rows, to);
    }
    report::table(rows, to)?;
    write_targets(rows, to)
}

fn write_targets(rows: &[Row], to: &mut impl Write) -> io::Result<()> {
    for placement in report::placements(rows) {
        let found: Vec<(&Target, f64)> = TARGETS
            .iter()
            .filter_map(|target| Some((target, target.found(rows, placement)?)))
            .collect();
        if found.is_empty() {
            continue;
        }
        writeln!(to, "targets on {placement}")?;
        for (target, figure) in found {
            let Target { case, about, most, .. } = target;
            let verdict = if figure <= *most { "met" } else { "missed" };
            writeln!(to, "  {verdict:<6}  {case:<23}  {figure:>6.2} {about}, at most {most}")?;
        }
        writeln!(to)?;
    }
    Ok(())
}

/// The explanation of the table.
pub(crate) const NOTES: &str = "\
min and p50 are the times of batches. p99 and p99.9 are the times of single operations, each with one
reading of the clock, or the times of batches if marked with *. `load` is a bare load of the same word,
or a bare copy of the same bytes, from a segment that the owner's process writes. Slices of reads and
loads alternate in each round, and the ratio is the median. Beside the owner's updates, `load` is bare
stores of the words that an update changes, while the same threads read them by bare loads: a line that
one processor writes and another reads moves between them, with the library or without it. Where a number is read, its value is the
index of the next one: the time is the latency of a read. A row that is compared with another case has
the median over alternating rounds of both.
";

#[cfg(test)]
mod tests {
    use super::{Placement, Row, write_targets};

    #[test]
    fn a_figure_meets_its_target_or_misses_it() {
        let mut quiet = Row::alike("read", "8B/quiet", Placement::OneL3, 3.0);
        quiet.compared.ratio_to_load = Some(1.6);
        let mut text = Vec::new();
        write_targets(&[quiet], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "targets on one L3");
        assert_eq!(
            lines[1],
            "  missed  8B/quiet                   1.60 of a bare load, at most 1.5"
        );
        assert_eq!(lines[2], "  met     8B/quiet                   3.00 ns, at most 8");
        assert_eq!(lines.len(), 5, "{text}");
    }

    #[test]
    fn an_array_is_compared_with_a_shorter_one() {
        let row = |case, ratio| {
            let mut row = Row::alike("read", case, Placement::OneL3, 3.0);
            row.compared.ratio_to_load = Some(ratio);
            row
        };
        let mut text = Vec::new();
        write_targets(&[row("a[i].f/10", 1.2), row("a[i].f/10000", 1.8)], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("missed  a[i].f/10000               1.50 of the ratio"), "{text}");
    }
}
