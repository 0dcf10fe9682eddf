//! Texts of bounded length in shared words: one word with the length in bytes, and then the bytes.
//!
//! Invariant: a text that is read has at most the bytes for which there is room, whatever its owner wrote, and is
//! a private copy.

use crate::region::{Region, WORD};

/// The mark at the end of a text that was cut.
const CUT: &str = "…";

/// Returns the largest number of bytes of a text in `words` words, which include its length.
pub(crate) const fn bytes_max(words: usize) -> usize {
    (words - 1) * WORD
}

/// Writes a text into `words` words from word `at`. A longer text is cut between two characters.
///
/// # Panics
/// Panics when the region is read-only or too short.
pub(crate) fn put(region: &Region, at: usize, words: usize, text: &str) {
    let (max, first) = (bytes_max(words), (at + 1) * WORD);
    let mut bytes = text.len();
    if bytes > max {
        let kept = text.floor_char_boundary(max - CUT.len());
        region.write(first, &text.as_bytes()[..kept]);
        region.write(first + kept, CUT.as_bytes());
        bytes = kept + CUT.len();
    } else {
        region.write(first, text.as_bytes());
    }
    region.publish(at, bytes as u64);
}

/// Reads a text from `words` words from word `at`, and replaces bytes that are no UTF-8. Returns the announced
/// length as the error if there is no room for it.
///
/// # Panics
/// Panics when the region is too short.
pub(crate) fn get(region: &Region, at: usize, words: usize) -> Result<String, u64> {
    let found = region.load(at);
    match usize::try_from(found) {
        Ok(length) if length <= bytes_max(words) => {
            let mut bytes = vec![0; length];
            region.read((at + 1) * WORD, &mut bytes);
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        _ => Err(found),
    }
}

#[cfg(test)]
mod tests;
