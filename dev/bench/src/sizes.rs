//! Rows of one placement by the size of their messages and the last word of their case.

use crate::bench::report::{Placement, Row, json, placements};
use std::io::{self, Write};

/// The rows.
pub(crate) struct Sizes<'r> {
    /// All of them.
    pub(crate) rows: Vec<&'r Row>,
}

impl<'r> Sizes<'r> {
    /// Those that were measured there.
    pub(crate) fn of(rows: &'r [Row], placement: Placement) -> Sizes<'r> {
        Sizes { rows: rows.iter().filter(|row| row.placement == placement).collect() }
    }

    /// The sizes that there are, the smallest first.
    pub(crate) fn all(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.rows.iter().filter_map(|row| row.bytes).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The row of a size whose case ends so.
    pub(crate) fn find(&self, bytes: u64, word: &str) -> Option<&'r Row> {
        let ends = |case: &str| case.rsplit('/').next() == Some(word);
        self.rows.iter().find(|row| row.bytes == Some(bytes) && ends(&row.case)).copied()
    }

    /// What `value` gives for each size, for those for which it gives something.
    pub(crate) fn points(
        &self,
        word: &str,
        value: impl Fn(&Row) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        let of = |bytes: u64| Some((bytes as f64, value(self.find(bytes, word)?)?));
        self.all().into_iter().filter_map(of).collect()
    }
}

/// Prints a table of each placement, and behind them what a paper says to the usual one.
pub(crate) fn tell<W: Write>(
    rows: &[Row],
    as_json: bool,
    to: &mut W,
    table: impl Fn(&Sizes<'_>, &mut W) -> io::Result<()>,
    paper: impl Fn(&Sizes<'_>, &mut W) -> io::Result<()>,
) -> io::Result<()> {
    if as_json {
        return json(rows, to);
    }
    let all = placements(rows);
    for &placement in &all {
        table(&Sizes::of(rows, placement), to)?;
    }
    match all.first() {
        Some(&usual) => paper(&Sizes::of(rows, usual), to),
        None => Ok(()),
    }
}
