//! The values of the benchmark, and the words of the bare segment beside them.
//!
//! The bare segment is memory of the same kind as an export's, and has the same words in the same lines: what a plain load
//! finds there costs as little as the machine allows.

use crate::bench::ground::{COUNT_LINE, DIRTY_LINES, DIRTY_STEP, LINE_WORDS};
use upbeat::Shared;
use upbeat_memory::region::WORD;
use upbeat_memory::segment::PAGE;

/// The node of the second process, which exports the values.
pub(super) const OWNER: &str = "bench-read/owner";

/// The elements of the chain that is read again and again, which fits into the first cache.
pub const HOPS: usize = 512;
/// The elements whose lines the owner writes before each read. One in a line is read.
pub(super) const DIRTY_WORDS: usize = DIRTY_LINES * LINE_WORDS;
/// The number that is read over a byte stream.
pub(super) const NUMBER: u64 = 1982;
/// The bytes of the values that are read whole.
pub(super) const SMALL: usize = 1 << 10;
/// The bytes of the larger of them.
pub(super) const LARGE: usize = 64 << 10;
/// The rows of the arrays of which a field is read.
pub(super) const ROWS: [usize; 4] = [10, 100, 1000, 10_000];
/// The words of a [`Row`] in an export: its version, and its fields.
pub(super) const ROW_WORDS: usize = 4;

/// The rows that the owner updates. The export has as many more rows, which the owner leaves as they are.
pub(super) const UPDATED: usize = 1000;
/// The rows of that export.
pub(super) const UPDATABLE: usize = 2 * UPDATED;

/// A row of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Shared)]
pub(super) struct Row {
    /// The row that is read next.
    pub(super) next: u64,
    /// The number of the update that wrote the row.
    pub(super) number: u64,
    /// The same number again.
    pub(super) again: u64,
}

/// The threads that read while the owner updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Readers {
    /// The number of threads.
    pub(super) threads: usize,
    /// Whether the threads read other rows than those that the owner updates.
    pub(super) is_apart: bool,
}

impl Readers {
    /// Returns the first row that the threads read.
    pub(super) fn first_row(self) -> usize {
        if self.is_apart { UPDATED } else { 0 }
    }
}

/// A chain: each element has the index of the next. No two steps have the same length, so that no line is prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The number of elements.
    pub len: usize,
    /// The element behind the first one. It has no divisor in common with the number of elements.
    second: usize,
}

/// With this factor, a chain leads through all elements if their number is a power of 2 or of 10.
const FACTOR: usize = 21;

/// The chain of [`HOPS`].
pub const QUIET: Chain = Chain { len: HOPS, second: 317 };
/// The chain of dirty lines.
pub(super) const DIRTY: Chain = Chain { len: DIRTY_LINES, second: DIRTY_STEP };

impl Chain {
    /// Returns the chain of so many rows, a power of ten.
    pub(super) fn of_rows(len: usize) -> Chain {
        // A prime, which is far from the beginning and the end of each array.
        Chain { len, second: 6_367 % len }
    }

    /// Returns the element behind this one.
    pub fn next(self, at: usize) -> usize {
        (at * FACTOR + self.second) % self.len
    }

    /// Returns all elements, in the order of the chain.
    pub(super) fn order(self) -> Vec<usize> {
        std::iter::successors(Some(0), |at| Some(self.next(*at))).take(self.len).collect()
    }

    /// Returns the element that is so many steps behind the first.
    pub fn after(self, steps: u64) -> usize {
        (0..steps % self.len as u64).fold(0, |at, _| self.next(at))
    }
}

/// Returns the byte at an index of a value that is read whole.
pub(super) fn byte_at(index: usize) -> u8 {
    (index * 7 + index / 256) as u8
}

/// The word of the bare segment with an element of [`QUIET`]. As in an export, a version is in front of the first.
pub(super) const QUIET_AT: usize = 1;
/// The word with the first element of [`DIRTY`].
pub(super) const DIRTY_AT: usize = HOPS + LINE_WORDS + 1;
/// The word with the first of [`LARGE`] bytes.
pub(super) const BYTES_AT: usize = DIRTY_AT - 1 + DIRTY_WORDS + LINE_WORDS + 1;
const ROWS_AT: usize = BYTES_AT - 1 + LARGE / WORD + LINE_WORDS;

/// Returns the word with the version of the first of so many rows.
pub(super) fn rows_at(rows: usize) -> usize {
    let before = ROWS.iter().take_while(|len| **len < rows);
    ROWS_AT + before.map(|len| (len * ROW_WORDS).next_multiple_of(LINE_WORDS)).sum::<usize>()
}

/// The word of the owner's lines with the ratio of its updates to bare stores.
pub(super) const RATIO_AT: usize = COUNT_LINE + 1;
/// The word of the owner's lines that says which memory the threads read: [`READ_BARE`] or [`READ_EXPORT`].
pub(super) const READ_AT: usize = COUNT_LINE + 2;
/// The threads read the bare segment.
pub(super) const READ_BARE: u64 = 1;
/// The threads read the export.
pub(super) const READ_EXPORT: u64 = 2;

/// Returns the word with the version of the first of the rows that the owner updates.
pub(super) fn updated_at() -> usize {
    rows_at(usize::MAX)
}

/// Returns the bytes of the bare segment, in whole pages.
pub(super) fn bare_bytes() -> usize {
    ((updated_at() + UPDATABLE * ROW_WORDS) * WORD).next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::{Chain, DIRTY, QUIET, ROWS};

    #[test]
    fn chains_lead_through_all_of_their_elements() {
        for chain in ROWS.map(Chain::of_rows).into_iter().chain([QUIET, DIRTY]) {
            let (mut at, mut seen) = (0, vec![false; chain.len]);
            for steps in 0..chain.len {
                assert_eq!(chain.after(steps as u64), at);
                assert!(!std::mem::replace(&mut seen[at], true), "{chain:?} at {at}");
                at = chain.next(at);
            }
            assert_eq!(at, 0);
        }
    }
}
