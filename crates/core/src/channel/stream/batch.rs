//! How many items go in one message, and what stands behind them.

use crate::limits::{STREAM_BYTES_MAX, STREAM_ITEMS_MAX};

/// The items that a writer has collected for its next batch.
///
/// ```
/// use upbeat_core::channel::stream::BatchSize;
///
/// let mut size = BatchSize::default();
/// size.add(20_000);
/// assert!(size.admits());
/// // The last item may go beyond.
/// size.add(20_000);
/// assert!(!size.admits());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchSize {
    items: usize,
    bytes: usize,
}

impl BatchSize {
    /// Returns whether one more item is collected.
    #[inline]
    pub const fn admits(self) -> bool {
        self.items < STREAM_ITEMS_MAX && self.bytes < STREAM_BYTES_MAX
    }

    /// Returns whether a batch of so many items may come.
    #[inline]
    pub const fn is_allowed(items: usize) -> bool {
        items <= STREAM_ITEMS_MAX
    }

    /// Adds an item of so many bytes.
    #[inline]
    pub const fn add(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes;
    }

    /// Returns the bytes of its items.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.bytes
    }
}

/// The tag behind the items of a batch: whether the stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Tail {
    /// More may follow.
    More = 0,
    /// These were the last.
    Done = 1,
    /// These were the last, and the stream is broken off.
    Broken = 2,
}

impl Tail {
    /// The tail of a word on the wire, if there is one.
    pub const fn from_word(word: u64) -> Option<Tail> {
        match word {
            0 => Some(Tail::More),
            1 => Some(Tail::Done),
            2 => Some(Tail::Broken),
            _ => None,
        }
    }

    /// The word on the wire.
    pub const fn word(self) -> u64 {
        self as u64
    }
}
