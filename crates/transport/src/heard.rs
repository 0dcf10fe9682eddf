//! What comes over a session's socket beside frames, and what goes: segments, refusals, the end.

use crate::error::descriptors_text;
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use upbeat_core::fault::Rule;
use upbeat_core::hello::Refusal;
use upbeat_memory::region::Region;
use upbeat_memory::segment::{self, SegmentError, Writers};

/// A segment of ours, to be [handed over](crate::carrier::Carrier::send_segment).
pub enum OwnSegment {
    /// It is shared with the peer.
    Shared(segment::Segment),
    /// It is shipped to the peer, on this process's heap.
    Heap(Region),
}

impl OwnSegment {
    /// The bytes, to write.
    pub fn region(&self) -> &Region {
        match self {
            OwnSegment::Shared(segment) => segment.region(),
            OwnSegment::Heap(region) => region,
        }
    }

    /// Keeps the memory, and nothing else.
    #[must_use]
    pub fn into_region(self) -> Region {
        match self {
            OwnSegment::Shared(segment) => segment.into_region(),
            OwnSegment::Heap(region) => region,
        }
    }
}

/// What came over the socket.
#[derive(Debug, Default)]
pub struct Drained {
    /// Rings.
    pub bells: usize,
    /// Segments in which the peer's lane goes on.
    pub segments: Vec<Segment>,
    /// Why the peer gives the session up.
    pub refusal: Option<Refusal>,
    /// The peer has closed, or is gone.
    pub closed: bool,
    /// The connection is broken, and the session waits for another: it is [resumable] and was not closed.
    ///
    /// [resumable]: crate::carrier::Carrier::set_resumable
    pub suspended: bool,
    /// The bound was reached and there may be more.
    pub more: bool,
}

/// A segment that the peer has handed over, not yet looked at.
#[derive(Debug)]
pub struct Segment {
    /// Which of the peer's segments it is.
    pub generation: u32,
    /// The bytes that it is said to have.
    pub bytes: u32,
    pub(crate) memory: Memory,
}

/// Where a segment of the peer's lies.
pub(crate) enum Memory {
    Descriptor(OwnedFd),
    /// Here, where what the peer ships of it is written; nowhere if there is no memory for it.
    Heap(Option<Region>),
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Descriptor(descriptor) => write!(f, "{descriptor:?}"),
            Memory::Heap(Some(region)) => write!(f, "{} words", region.words()),
            Memory::Heap(None) => f.write_str("nowhere"),
        }
    }
}

/// The heap has no room for a region of so many bytes.
pub(crate) const fn no_memory(bytes: usize) -> SegmentError {
    SegmentError::Mapping { bytes, act: "allocating memory", error: Errno::NOMEM }
}

impl Segment {
    pub(crate) fn heap(generation: u32, bytes: u32, region: Option<Region>) -> Segment {
        Segment { generation, bytes, memory: Memory::Heap(region) }
    }

    /// Maps it, once its kind, its size and its seals were checked. The descriptor is closed.
    pub fn open(self) -> Result<Region, SegmentError> {
        let bytes = self.bytes as usize;
        match self.memory {
            Memory::Descriptor(descriptor) => {
                segment::open(descriptor.as_fd(), bytes, Writers::Owner)
            }
            Memory::Heap(region) => region.ok_or(no_memory(bytes)),
        }
    }
}

/// What is wrong with a session's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BellFault {
    /// The peer broke a rule.
    Rule(Rule),
    /// The process has no descriptor left for a segment.
    Descriptors {
        /// How many it may have.
        limit: u64,
    },
    /// The system refused.
    System {
        /// What was asked of it.
        act: &'static str,
        /// What it said.
        error: Errno,
    },
}

impl fmt::Display for BellFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BellFault::Rule(rule) => write!(f, "the peer broke a rule: {rule}"),
            BellFault::Descriptors { limit } => descriptors_text(f, *limit),
            BellFault::System { act, error } => {
                write!(f, "{act} on the session's socket failed: {error}")
            }
        }
    }
}

impl std::error::Error for BellFault {}
