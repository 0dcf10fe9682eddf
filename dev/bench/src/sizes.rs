//! Sizes of messages, and rows of one placement by their size and the last word of their case.

use std::io::{self, Write};
use upbeat_cli::bench::report::{Placement, Row, json, placements};
use upbeat_core::limits::MESSAGE_BYTES_MAX;

/// 1,024 bytes.
pub(crate) const KIB: usize = 1 << 10;
/// 1,024 times as many.
pub(crate) const MIB: usize = 1 << 20;

/// Returns the sizes that a message may have. If some are too long, the longest possible one is the last.
pub(crate) fn possible(sizes: &[usize]) -> Vec<usize> {
    clipped(sizes, MESSAGE_BYTES_MAX)
}

fn clipped(sizes: &[usize], most: usize) -> Vec<usize> {
    let mut all: Vec<usize> = sizes.iter().map(|&size| size.min(most)).collect();
    all.dedup();
    all
}

/// Returns a size as it stands in a case's path.
pub(crate) fn size_word(bytes: usize) -> String {
    match bytes {
        mib if mib >= MIB && mib.is_multiple_of(MIB) => format!("{}MiB", mib / MIB),
        kib if kib >= 4 * KIB && kib.is_multiple_of(KIB) => format!("{}KiB", kib / KIB),
        bytes => format!("{bytes}B"),
    }
}

/// Returns whether messages of a case are so long that a few of them take seconds.
pub(crate) fn is_slow(case: &str) -> bool {
    let size = case.split('/').next().and_then(|size| size.strip_suffix("MiB"));
    size.and_then(|mib| mib.parse().ok()).is_some_and(|mib: u64| mib >= 16)
}

/// The rows.
pub(crate) struct Sizes<'r> {
    /// All of them.
    pub(crate) rows: Vec<&'r Row>,
}

impl<'r> Sizes<'r> {
    /// Returns the rows that were measured in a placement.
    pub(crate) fn of(rows: &'r [Row], placement: Placement) -> Sizes<'r> {
        Sizes { rows: rows.iter().filter(|row| row.placement == placement).collect() }
    }

    /// Returns the sizes of the rows, the smallest first.
    pub(crate) fn all(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.rows.iter().filter_map(|row| row.sizes.bytes).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the row of a size whose case ends with a word.
    pub(crate) fn find(&self, bytes: u64, word: &str) -> Option<&'r Row> {
        let ends = |case: &str| case.rsplit('/').next() == Some(word);
        self.rows.iter().find(|row| row.sizes.bytes == Some(bytes) && ends(&row.case)).copied()
    }

    /// Returns `value` for each size, where there is one.
    pub(crate) fn points(
        &self,
        word: &str,
        value: impl Fn(&Row) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        let of = |bytes: u64| Some((bytes as f64, value(self.find(bytes, word)?)?));
        self.all().into_iter().filter_map(of).collect()
    }
}

/// Prints a table of each placement, and behind each the paper's statements about the usual one.
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

#[cfg(test)]
mod tests {
    use super::{clipped, is_slow, size_word};

    #[test]
    fn sizes_end_at_the_longest_message() {
        assert_eq!(clipped(&[0, 8, 1024, 4096], 1 << 20), [0, 8, 1024, 4096]);
        assert_eq!(clipped(&[8, 1024, 4096, 8192], 3000), [8, 1024, 3000]);
        assert_eq!(clipped(&[8, 1024], 1024), [8, 1024]);
    }

    #[test]
    fn sizes_have_short_words() {
        let words = [0, 105, 1000, 1024, 4096, 65 << 10, (1 << 20) - 1024, 64 << 20].map(size_word);
        let wanted = ["0B", "105B", "1000B", "1024B", "4KiB", "65KiB", "1023KiB", "64MiB"];
        assert_eq!(words, wanted);
    }

    #[test]
    fn long_messages_are_slow() {
        assert!(is_slow("16MiB/optimistic") && is_slow("64MiB/two-copies"));
        assert!(!is_slow("4MiB/optimistic") && !is_slow("1023KiB/asleep") && !is_slow("64KiB/x"));
    }
}
