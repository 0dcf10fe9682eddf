//! The size of a batch, and the tag behind its items.

use crate::limits::{STREAM_BYTES_MAX, STREAM_ITEMS_MAX};

/// The items that a writer has collected for its next batch.
///
/// ```
/// use upbeat_core::channel::stream::BatchSize;
///
/// let mut size = BatchSize::default();
/// size.add(20_000);
/// assert!(size.admits());
/// // The last item may exceed the limit.
/// size.add(20_000);
/// assert!(!size.admits());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchSize {
    items: usize,
    bytes: usize,
}

impl BatchSize {
    /// Returns whether one more item may be collected.
    #[inline]
    pub const fn admits(self) -> bool {
        self.items < STREAM_ITEMS_MAX && self.bytes < STREAM_BYTES_MAX
    }

    /// Returns whether a received batch may have this many items.
    #[inline]
    pub const fn is_allowed(items: usize) -> bool {
        items <= STREAM_ITEMS_MAX
    }

    /// Adds an item of `bytes` bytes.
    #[inline]
    pub const fn add(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes;
    }

    /// Returns the bytes of the items.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.bytes
    }
}

/// The tag behind the items of a batch: whether the stream continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum BatchTail {
    /// More items may follow.
    More = 0,
    /// These items were the last.
    Done = 1,
    /// These items were the last, and the stream is broken off.
    Broken = 2,
}

impl BatchTail {
    /// Returns the tag of a word on the wire, if there is one.
    pub const fn from_word(word: u64) -> Option<BatchTail> {
        match word {
            0 => Some(BatchTail::More),
            1 => Some(BatchTail::Done),
            2 => Some(BatchTail::Broken),
            _ => None,
        }
    }

    /// Returns the word on the wire.
    pub const fn word(self) -> u64 {
        self as u64
    }
}
