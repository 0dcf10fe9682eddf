//! Figure 5-2: the instructions of a reference, beside those that `cargo xtask instructions` has counted.

use crate::beside::Line;
use crate::papers::figures::starmod::INSTRUCTIONS;
use crate::reads::BENCH;
use std::io::{self, Write};
use upbeat_cli::bench::report::Row;

/// The counts that are checked in, and that `cargo xtask instructions --check` compares with new ones.
const COUNTED: &str = include_str!("../../../../xtask/instructions.gate");

/// The counted cases of a reader. The owner executes nothing.
const READS: [(&str, &str); 3] = [
    ("reader: all, of a number", "read/number"),
    ("reader: all, of an element of an array", "read/element"),
    ("reader: all, of a struct of three numbers", "read/struct"),
];

/// The counted case of a reference that fails and becomes a call, without what the call carries.
const CALL: (&str, &str) = ("both: a null call, which one that fails becomes", "null/shared");

/// The measured case whose placement the lines have.
const MEASURED: &str = "8B/shared";

/// Returns the instructions of a counted case.
fn counted(case: &str) -> Option<f64> {
    let mut all = COUNTED.lines().filter_map(|line| line.split_once(' '));
    let (_, count) = all.find(|(name, _)| *name == case)?;
    count.trim().parse().ok()
}

/// Returns today's rows and their counts.
fn today() -> Vec<(&'static str, &'static str, f64)> {
    let all = READS.into_iter().chain([CALL]);
    all.filter_map(|(name, case)| Some((name, case, counted(case)?))).collect()
}

/// Returns the lines of today's rows, if references of 8 bytes were measured.
pub(super) fn lines(rows: &[&Row]) -> Vec<Line> {
    let Some(of) = super::find(rows, MEASURED) else { return Vec::new() };
    let line = |(name, case, count): (&'static str, &str, f64)| {
        let line = Line::new(BENCH, &INSTRUCTIONS, name, count, of);
        let then = name.starts_with("reader").then(|| INSTRUCTIONS.sum(&["reader"]));
        Line { then, case: case.to_owned(), ..line }
    };
    today().into_iter().map(line).collect()
}

/// Prints the paper's rows, and today's.
pub(super) fn table(rows: &[&Row], to: &mut impl Write) -> io::Result<()> {
    if super::find(rows, MEASURED).is_none() {
        return Ok(());
    }
    let figure = &INSTRUCTIONS;
    writeln!(to, "  {:<62} {:>9} {:>9}", figure.table, "paper", "today")?;
    for (name, count) in figure.rows {
        let more = if *name == "owner: copy reply data" { " + 2 * size" } else { "" };
        writeln!(to, "    {:<60} {count:>9}", format!("{name}{more}"))?;
    }
    let (reader, owner) = (figure.sum(&["reader"]), figure.sum(&["owner"]));
    writeln!(to, "    {:<60} {reader:>9}", "reader: sum")?;
    writeln!(to, "    {:<60} {owner:>9} {:>9}", "owner: sum, without 2 * size", 0)?;
    for (name, case, count) in today() {
        let name = format!("{name} ({case})");
        writeln!(to, "    {name:<60} {:>9} {count:>9}", "-")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{counted, today};

    #[test]
    fn all_rows_are_counted() {
        assert_eq!(today().len(), 4);
        assert!(counted("read/number").is_some_and(|count| count > 1.0 && count <= 40.0));
        assert_eq!(counted("read"), None);
    }
}
