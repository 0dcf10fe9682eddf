//! The events of a session's socket besides frames: wake-ups, segments, refusals, and the end.

use crate::error::descriptors_text;
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use upbeat_core::fault::Rule;
use upbeat_core::hello::Refusal;
use upbeat_memory::region::Region;
use upbeat_memory::segment::{self, SegmentError, Writers};

/// A segment of this side, to be [handed over](crate::carrier::Carrier::send_segment).
pub enum OwnSegment {
    /// The segment is in memory shared with the peer.
    Shared(segment::Segment),
    /// The segment is on this process's heap, and its bytes are sent to the peer.
    Heap(Region),
}

impl OwnSegment {
    /// Returns the memory, for writing.
    pub fn region(&self) -> &Region {
        match self {
            OwnSegment::Shared(segment) => segment.region(),
            OwnSegment::Heap(region) => region,
        }
    }

    /// Keeps the memory and drops the rest.
    #[must_use]
    pub fn into_region(self) -> Region {
        match self {
            OwnSegment::Shared(segment) => segment.into_region(),
            OwnSegment::Heap(region) => region,
        }
    }
}

/// The events that have come over the socket.
#[derive(Debug, Default)]
pub struct SocketEvents {
    /// The number of wake-ups.
    pub bells: usize,
    /// The segments in which the peer's lane continues.
    pub segments: Vec<Segment>,
    /// The reason why the peer ends the session.
    pub refusal: Option<Refusal>,
    /// The peer has closed the session, or is gone.
    pub closed: bool,
    /// The peer has said that it ends the session in order.
    pub in_order: bool,
    /// The connection is broken, and the [resumable] session waits for another.
    ///
    /// [resumable]: crate::carrier::Carrier::set_resumable
    pub suspended: bool,
    /// The limit of one call was reached, so more events may wait.
    pub more: bool,
}

/// The progress of a session that [leaves](crate::carrier::Carrier::leave) in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Messages wait until the socket takes them or the peer's report says that the lane has room.
    Sending,
    /// The notice of the end waits, behind the last messages, until the socket takes it.
    Ending,
    /// The system has taken everything, and the peer's host has not confirmed all of it.
    Confirming,
    /// The peer's host has everything.
    Done,
    /// The connection is gone, with the messages that the peer's host has not confirmed.
    Lost,
}

/// A segment that the peer has handed over, and that is not yet checked.
#[derive(Debug)]
pub struct Segment {
    /// The number of the segment among the peer's segments.
    pub generation: u32,
    /// The size in bytes that the peer named.
    pub bytes: u32,
    pub(crate) memory: Memory,
}

/// The location of a peer's segment.
pub(crate) enum Memory {
    Descriptor(OwnedFd),
    /// A region of this process's heap, into which the peer's bytes are written.
    Heap(Arc<Replica>),
}

/// A region for the peer's bytes, which may come before there is memory for them.
#[derive(Default)]
pub(crate) struct Replica {
    region: OnceLock<Region>,
    /// The buffers whose last bytes came while there was no memory, as a set of bits.
    lost: AtomicU64,
}

impl Replica {
    pub(crate) fn region(&self) -> Option<&Region> {
        self.region.get()
    }

    /// Sets the region, which was lacking.
    pub(crate) fn supply(&self, region: Region) {
        let _ = self.region.set(region);
    }

    /// Notes whether bytes of a buffer are lost.
    pub(crate) fn note(&self, index: u32, is_lost: bool) {
        // Only the owner of the session writes and reads these bits, and they protect no other data.
        let others = self.lost.load(Ordering::Relaxed) & !(1 << index);
        self.lost.store(others | u64::from(is_lost) << index, Ordering::Relaxed);
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Descriptor(descriptor) => write!(f, "{descriptor:?}"),
            Memory::Heap(replica) => match replica.region() {
                Some(region) => write!(f, "{} words", region.words()),
                None => f.write_str("nowhere"),
            },
        }
    }
}

/// Returns the error of a heap that has no room for a region of this size.
pub(crate) const fn no_memory(bytes: usize) -> SegmentError {
    SegmentError::Mapping { bytes, act: "allocating memory", error: Errno::NOMEM }
}

impl Segment {
    pub(crate) fn heap(generation: u32, bytes: u32, replica: &Arc<Replica>) -> Segment {
        Segment { generation, bytes, memory: Memory::Heap(Arc::clone(replica)) }
    }

    /// Returns the buffers whose last bytes came while there was no memory for them, as a set of bits.
    pub fn lost(&self) -> u64 {
        match &self.memory {
            Memory::Descriptor(_) => 0,
            Memory::Heap(replica) => replica.lost.load(Ordering::Relaxed),
        }
    }

    /// Returns the file system and the number of the file in which the segment is. A process that maps the file already
    /// need not map it again.
    pub fn file(&self) -> Option<(u64, u64)> {
        match &self.memory {
            Memory::Descriptor(descriptor) => {
                let file = rustix::fs::fstat(descriptor).ok()?;
                Some((file.st_dev, file.st_ino))
            }
            Memory::Heap(_) => None,
        }
    }

    /// Maps the segment after checking its kind, size and seals.
    pub fn open(&self) -> Result<Region, SegmentError> {
        self.open_by(|descriptor, bytes| segment::open(descriptor, bytes, Writers::Owner))
    }

    /// Maps the segment, as [`open`](Self::open) does, for a reader that tells the peer nothing. A forked child reads
    /// there as well.
    pub fn open_to_read(&self) -> Result<Region, SegmentError> {
        self.open_by(segment::open_to_read)
    }

    fn open_by(
        &self,
        open: impl FnOnce(BorrowedFd<'_>, usize) -> Result<Region, SegmentError>,
    ) -> Result<Region, SegmentError> {
        let bytes = self.bytes as usize;
        match &self.memory {
            Memory::Descriptor(descriptor) => open(descriptor.as_fd(), bytes),
            Memory::Heap(replica) => {
                replica.region().map(Region::read_only).ok_or(no_memory(bytes))
            }
        }
    }
}

/// The error of a session's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// The peer broke a rule.
    Rule(Rule),
    /// The process has no descriptor left for a segment.
    Descriptors {
        /// The process's limit of descriptors.
        limit: u64,
    },
    /// A system call failed.
    System {
        /// The step that failed.
        act: &'static str,
        /// The error of the system.
        error: Errno,
    },
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketError::Rule(rule) => write!(f, "the peer broke a rule: {rule}"),
            SocketError::Descriptors { limit } => descriptors_text(f, *limit),
            SocketError::System { act, error } => {
                write!(f, "{act} on the session's socket failed: {error}")
            }
        }
    }
}

impl std::error::Error for SocketError {}
