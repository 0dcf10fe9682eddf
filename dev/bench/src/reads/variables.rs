//! The variables that the second process exports, and the names of its node and of its exports.
//!
//! A value of some bytes is its size alone, and no two of its bytes in a row are the same.

use upbeat::Shared;

/// The node of the second process whose readers share its memory.
pub(super) const OWNER: &str = "bench-reads/owner";
/// The node of the second process whose readers do not. A node that has a byte stream looks at it again and again.
pub(super) const OWNER_APART: &str = "bench-reads/owner-apart";

/// Calls `$of` for each size of the paper.
macro_rules! of_each_size {
    (|$size:ident| $of:expr) => {
        of_each_size!(@ $size $of; 2 4 8 16 32 64 128 256 512 1024)
    };
    (@ $size:ident $of:expr; $($bytes:literal)*) => {
        [$({
            const $size: usize = $bytes;
            $of
        }),*]
    };
}
pub(super) use of_each_size;

/// The bytes of the values, as in the paper.
pub(super) const SIZES: [usize; 10] = of_each_size!(|SIZE| SIZE);

/// Returns the name of the export with so many bytes.
pub(super) fn name(bytes: usize) -> String {
    format!("{bytes}-bytes")
}

/// Returns the value of so many bytes.
pub(super) fn value<const N: usize>() -> [u8; N] {
    std::array::from_fn(|at| (at * 7 + N / 2) as u8)
}

/// A value that its owner updates again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Shared)]
pub(super) struct Written {
    /// Nothing, which a program adds to its next index.
    pub(super) step: u64,
    /// The number of the last update.
    pub(super) number: u64,
    /// The same number again.
    pub(super) again: u64,
}

#[cfg(test)]
mod tests {
    use super::{SIZES, value};
    use crate::papers::figures::starmod::{REFERENCES, REFERENCES_COPY_LESS};

    #[test]
    fn the_sizes_are_those_of_the_paper() {
        for figure in [&REFERENCES, &REFERENCES_COPY_LESS] {
            let rows: Vec<&str> = figure.rows.iter().map(|(row, _)| *row).collect();
            assert_eq!(rows, SIZES.map(|bytes| format!("{bytes} bytes")));
        }
    }

    #[test]
    fn a_value_differs_in_each_byte_from_the_one_before() {
        let bytes = value::<1024>();
        assert!(bytes.windows(2).all(|two| two[0] != two[1]));
        assert_ne!(value::<2>(), [0; 2]);
    }
}
