//! Faults of a peer that lends buffers.

use std::fmt;

/// A peer broke a rule of slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabFault {
    /// The slab has no buffer of this index.
    Index {
        /// The index that was lent.
        index: u32,
        /// The number of buffers.
        count: u32,
    },
    /// A buffer has fewer bytes than were announced.
    Length {
        /// The announced number of bytes.
        len: usize,
        /// The size of a buffer in bytes.
        each: usize,
    },
    /// The buffer was lent again before it was returned.
    Held {
        /// The index that was lent.
        index: u32,
    },
}

impl fmt::Display for SlabFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlabFault::Index { index, count } => {
                write!(f, "buffer {index} was lent of a slab of {count}")
            }
            SlabFault::Length { len, each } => {
                write!(f, "{len} bytes were lent in a buffer of {each}")
            }
            SlabFault::Held { index } => {
                write!(f, "buffer {index} was lent again before it was back")
            }
        }
    }
}

impl std::error::Error for SlabFault {}
