//! Memory shared between processes: sealed memfds with one writer.
//!
//! The owner creates a segment, maps it writable, seals it and hands the descriptor over; the
//! other side checks kind, size and seals before its first read and maps it read-only. There are
//! no names, so a killed process leaves nothing behind.
//!
//! Invariant: a mapping made here never faults because of what the peer does: the file cannot
//! shrink (sealed), it is tmpfs (a hugetlb file takes the seals and then kills its reader), and
//! what its owner alone writes has all of its memory. Where there is a hole, it is the reader who
//! takes a page for it, at its own expense: 1 GiB for a message that cost its sender nothing, and a
//! fault where there is none left. No hole can be made later, for the seal against writing forbids
//! that too. A board has no such seal, and one page.
//! A forked child does not have the mappings; it must not touch what was made before, and unmaps nothing
//! (`fork`).

use crate::mapping::{Mapping, Unmapped};
use crate::region::Region;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::Resource;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The size of a page, which every segment is a multiple of.
pub const PAGE: usize = 4096;

const TMPFS_MAGIC: i64 = 0x0102_1994;

/// The bytes by which the system counts what a file takes.
const BLOCK: i64 = 512;

/// Who may write into a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Its creator alone: lanes, node pages, counters.
    Owner,
    /// Everybody who maps it: boards, which hold nothing but hints.
    Everybody,
}

impl Writers {
    /// The seals that a segment of this kind carries, neither more nor fewer.
    fn seals(self) -> SealFlags {
        let size = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        match self {
            Writers::Owner => size | SealFlags::FUTURE_WRITE,
            Writers::Everybody => size,
        }
    }
}

/// A segment that this process made: a writable region and the descriptor to hand over.
pub struct Segment {
    region: Region,
    descriptor: OwnedFd,
}

impl Segment {
    /// Makes a zeroed segment of `bytes` bytes, rounded up to pages. `label` is what
    /// `/proc/<pid>/fd` shows.
    pub fn create(label: &str, bytes: usize, writers: Writers) -> Result<Segment, SegmentError> {
        let bytes = bytes.next_multiple_of(PAGE);
        let failed = |act| move |error| SegmentError::System { act, error };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let limit = rustix::process::getrlimit(Resource::Fsize).current;
        if let Some(limit) = limit.filter(|limit| *limit < bytes as u64) {
            // Beyond it, the system would kill this process (SIGXFSZ).
            return Err(SegmentError::FileLimit { limit, wanted: bytes });
        }
        // Kernels from 6.3 want to be told that this is no program; older ones do not know the flag.
        let descriptor = rustix::fs::memfd_create(label, flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create(label, flags))
            .map_err(failed("memfd_create"))?;
        rustix::fs::ftruncate(&descriptor, bytes as u64).map_err(failed("ftruncate"))?;
        let mapping = Mapping::new(&descriptor, bytes, true).map_err(unmapped(bytes))?;
        rustix::fs::fcntl_add_seals(&descriptor, writers.seals()).map_err(failed("seal"))?;
        Ok(Segment { region: Region::mapped(mapping), descriptor })
    }

    /// Takes all of the segment's memory now, so that a full machine shows here and not as a
    /// fault at the first write.
    pub fn reserve(self) -> Result<Segment, SegmentError> {
        let bytes = (self.region.words() * crate::region::WORD) as u64;
        let allocate =
            || rustix::fs::fallocate(&self.descriptor, FallocateFlags::empty(), 0, bytes);
        rustix::io::retry_on_intr(allocate)
            .map_err(|error| SegmentError::System { act: "fallocate", error })?;
        Ok(self)
    }

    /// The bytes, to write.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The descriptor, to hand over.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Gives up the descriptor and keeps the mapping.
    pub fn into_region(self) -> Region {
        self.region
    }
}

/// Maps a segment that somebody else made, once its kind, its size and its seals are what they
/// must be. The mapping is read-only unless everybody writes to it.
pub fn open(
    descriptor: BorrowedFd<'_>,
    bytes: usize,
    writers: Writers,
) -> Result<Region, SegmentError> {
    let failed = |act| move |error| SegmentError::System { act, error };
    let kind = rustix::fs::fstatfs(descriptor).map_err(failed("fstatfs"))?.f_type;
    if kind as i64 != TMPFS_MAGIC {
        return Err(SegmentError::Kind { found: kind as u64 });
    }
    // The seals before the size: until it is sealed the file may still shrink behind our back.
    let seals = rustix::fs::fcntl_get_seals(descriptor).map_err(failed("read seals"))?;
    let wanted = writers.seals();
    // F_SEAL_EXEC (which NOEXEC_SEAL sets) says nothing about the bytes.
    let found = seals & (wanted | SealFlags::WRITE | SealFlags::FUTURE_WRITE);
    if found != wanted {
        return Err(SegmentError::Seals { found: seals.bits(), wanted: wanted.bits() });
    }
    let file = rustix::fs::fstat(descriptor).map_err(failed("fstat"))?;
    let found = file.st_size;
    if i64::try_from(bytes) != Ok(found) || bytes == 0 || !bytes.is_multiple_of(PAGE) {
        return Err(SegmentError::Size { found, wanted: bytes });
    }
    let there = file.st_blocks.saturating_mul(BLOCK);
    if writers == Writers::Owner && there < found {
        return Err(SegmentError::Holes { there, wanted: bytes });
    }
    let mapping = Mapping::new(descriptor, bytes, writers == Writers::Everybody);
    Ok(Region::mapped(mapping.map_err(unmapped(bytes))?))
}

fn unmapped(bytes: usize) -> impl FnOnce(Unmapped) -> SegmentError {
    move |Unmapped { act, error }| SegmentError::Mapping { bytes, act, error }
}

/// Why a segment cannot be made or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// The system refused.
    System {
        /// What was asked of it.
        act: &'static str,
        /// What it said.
        error: Errno,
    },
    /// This process may not make files of that size.
    FileLimit {
        /// The bytes that a file may have (`ulimit -f`).
        limit: u64,
        /// The bytes of the segment.
        wanted: usize,
    },
    /// The segment cannot be mapped here.
    Mapping {
        /// Its bytes.
        bytes: usize,
        /// The system call that failed.
        act: &'static str,
        /// What it said.
        error: Errno,
    },
    /// The descriptor is not of a tmpfs file.
    Kind {
        /// The file system's magic number.
        found: u64,
    },
    /// The file has another size than was said.
    Size {
        /// Its size.
        found: i64,
        /// What was said, in whole pages.
        wanted: usize,
    },
    /// The file does not have all of its memory.
    Holes {
        /// Bytes that are there.
        there: i64,
        /// Its size.
        wanted: usize,
    },
    /// The file is not sealed as it must be.
    Seals {
        /// Its seals.
        found: u32,
        /// The seals it must have.
        wanted: u32,
    },
}

impl SegmentError {
    /// Whether the system does not let this process share memory at all: it has no such call, or forbids it.
    pub fn is_refused(&self) -> bool {
        let error = match self {
            // What is asked about a descriptor of a peer's says something of the peer.
            SegmentError::System {
                act: "memfd_create" | "ftruncate" | "seal" | "fallocate",
                error,
            }
            | SegmentError::Mapping { error, .. } => error,
            _ => return false,
        };
        let refusals = [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::INVAL, Errno::OPNOTSUPP];
        refusals.contains(error)
    }

    /// Whether the segment is as it must be and this process has no memory, or no addresses, for it.
    pub fn is_no_memory(&self) -> bool {
        matches!(self, SegmentError::Mapping { error: Errno::NOMEM, .. })
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentError::System { act, error } => write!(f, "{act} failed: {error}"),
            SegmentError::FileLimit { limit, wanted } => write!(
                f,
                "a segment of {wanted} bytes is needed, and this process may make files of {limit} \
                 bytes at most: raise the limit with `ulimit -f`"
            ),
            SegmentError::Mapping { bytes, act, error } => write!(
                f,
                "a segment of {bytes} bytes cannot be mapped: {act} failed: {error}; see the limits \
                 of memory (`ulimit -v`)"
            ),
            SegmentError::Kind { found } => {
                write!(f, "the descriptor is of file system {found:#x}, not of tmpfs")
            }
            SegmentError::Size { found, wanted } => {
                write!(f, "the segment has {found} bytes where {wanted} were announced")
            }
            SegmentError::Holes { there, wanted } => {
                write!(
                    f,
                    "{there} of the segment's {wanted} bytes are there: its owner must reserve all"
                )
            }
            SegmentError::Seals { found, wanted } => {
                write!(f, "the segment has the seals {found:#x} where {wanted:#x} are needed")
            }
        }
    }
}

impl std::error::Error for SegmentError {}

#[cfg(all(test, not(miri)))]
mod tests;
