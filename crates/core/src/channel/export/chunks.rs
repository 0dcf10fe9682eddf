//! Vectors that grow: where their elements lie.
//!
//! The elements of a growing vector lie in chunks, each twice as large as the one before. A chunk is never moved within
//! its value and never given back, so an element keeps its place for ever, and a pointer to it stays valid.
//!
//! The head of a vector has a version, a length, and for each chunk the first word of the chunk, counted from the beginning
//! of the exported value. 0 stands for a chunk that does not exist: the value itself begins there.

use super::layout::{LENGTH_WORDS, WORD};

/// The elements of the first chunk.
const FIRST: usize = 8;

/// The most chunks: together they have more elements than a value has words.
pub const CHUNKS: usize = 21;

/// The words of a vector without its elements.
pub const HEAD_WORDS: usize = LENGTH_WORDS + CHUNKS;

/// The place of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InChunk {
    /// The number of the chunk.
    pub chunk: usize,
    /// The index of the element in its chunk.
    pub index: usize,
}

/// Returns the place of an element, or `None` where no vector has one.
#[must_use]
pub const fn find(index: usize) -> Option<InChunk> {
    let chunk = (index / FIRST + 1).ilog2() as usize;
    if chunk >= CHUNKS {
        return None;
    }
    Some(InChunk { chunk, index: index - FIRST * ((1 << chunk) - 1) })
}

/// Returns the number of elements of a chunk.
#[must_use]
pub const fn len(chunk: usize) -> usize {
    FIRST << chunk
}

/// Returns the words of a chunk whose elements have so many bytes.
#[must_use]
pub const fn words(chunk: usize, each: usize) -> usize {
    len(chunk).saturating_mul(each).div_ceil(WORD)
}

/// Returns the word of the head that says where a chunk begins.
#[must_use]
pub const fn pointer(chunk: usize) -> usize {
    LENGTH_WORDS + chunk
}

/// Returns the number of chunks of a vector of so many elements.
#[must_use]
pub const fn count(elements: usize) -> usize {
    match elements.checked_sub(1) {
        None => 0,
        Some(last) => (last / FIRST + 1).ilog2() as usize + 1,
    }
}
