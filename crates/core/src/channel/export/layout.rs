//! The words of arrays, texts and vectors.

/// The bytes of a word.
pub(super) const WORD: usize = 8;

/// Returns the words of an array of scalars: its bytes, and a version in front of them if they are more than a word.
#[must_use]
pub const fn packed_words(each: usize, len: usize) -> usize {
    let words = (each * len).div_ceil(WORD);
    if has_version(each, len) { words + 1 } else { words }
}

pub(super) const fn has_version(each: usize, len: usize) -> bool {
    each * len > WORD
}

/// Returns the words of a text: its version, its length and its bytes.
#[must_use]
pub const fn text_words(bytes: usize) -> usize {
    2 + bytes.div_ceil(WORD)
}

/// The words of a version and a length in front of elements.
pub(super) const LENGTH_WORDS: usize = 2;

/// Returns the words of a vector of fixed capacity: its version, its length, and elements of so many bytes.
#[must_use]
pub const fn vec_words(each: usize, len: usize) -> usize {
    LENGTH_WORDS.saturating_add(each.saturating_mul(len).div_ceil(WORD))
}
