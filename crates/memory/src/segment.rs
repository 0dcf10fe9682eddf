//! Segments: memory shared between processes, in sealed memfds with one writer.
//!
//! The owner creates a segment, maps it writable, seals it and passes the descriptor to the peer.
//! The peer checks the file system, the size and the seals before its first read, and maps the
//! segment read-only. Segments have no names, so a killed process leaves nothing behind.
//!
//! Invariant: an access to a mapping made here never faults because of an act of the peer. The file
//! cannot shrink, since it is sealed. The file is on tmpfs; a hugetlb file would accept the seals
//! and then kill its reader. A file that only its owner writes has all of its pages allocated. The
//! reader of a hole would have to pay for its pages: 1 GiB for a message that cost its sender
//! nothing, and a fault if no page is left. No hole can be made later, because the seal against
//! writing forbids that too. A board has no such seal, but it has only one page.
//!
//! A forked child does not have the mappings of its parent. A child must not use a segment that was
//! made before the fork, and does not unmap it (`fork`). A segment that its parent has
//! [opened to read](open_to_read) is there in the child, too.

use crate::mapping::{InChild, MapError, Mapping};
use crate::region::Region;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::Resource;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_environment::process::{self, obtain};

/// The size of a page. The size of every segment is a multiple of it.
pub const PAGE: usize = 4096;

const TMPFS_MAGIC: i64 = 0x0102_1994;

/// The unit in which the system counts the allocated bytes of a file.
const BLOCK: i64 = 512;

/// The processes that may write into a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// The creator alone: lanes, node pages, counters.
    Owner,
    /// Every process that maps the segment: boards, which hold only hints.
    Everybody,
}

impl Writers {
    /// Returns exactly the seals that a segment of this kind carries.
    fn seals(self) -> SealFlags {
        let size = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        match self {
            Writers::Owner => size | SealFlags::FUTURE_WRITE,
            Writers::Everybody => size,
        }
    }
}

/// A segment that this process created: a writable region, and the descriptor for the peer.
pub struct Segment {
    region: Region,
    descriptor: OwnedFd,
}

impl Segment {
    /// Creates a zeroed segment of `bytes` bytes, rounded up to pages. `/proc/<pid>/fd` shows the
    /// `label`.
    pub fn create(label: &str, bytes: usize, writers: Writers) -> Result<Segment, SegmentError> {
        let bytes = bytes.next_multiple_of(PAGE);
        let failed = |act| move |error| SegmentError::System { act, error };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let limit = rustix::process::getrlimit(Resource::Fsize).current;
        if let Some(limit) = limit.filter(|limit| *limit < bytes as u64) {
            // For a larger file, the system would kill this process (SIGXFSZ).
            return Err(SegmentError::FileLimit { limit, wanted: bytes });
        }
        // Kernels from 6.3 want to know that the file is not executable; older ones do not know the
        // flag.
        obtain(process::Resource::Descriptors).map_err(failed("memfd_create"))?;
        let descriptor = rustix::fs::memfd_create(label, flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create(label, flags))
            .map_err(failed("memfd_create"))?;
        rustix::fs::ftruncate(&descriptor, bytes as u64).map_err(failed("ftruncate"))?;
        let mapping = Mapping::new(&descriptor, bytes, true, InChild::Nothing);
        let mapping = mapping.map_err(unmapped(bytes))?;
        rustix::fs::fcntl_add_seals(&descriptor, writers.seals()).map_err(failed("seal"))?;
        Ok(Segment { region: Region::mapped(mapping), descriptor })
    }

    /// Allocates all of the segment's memory now, so that missing memory is an error here and not a
    /// fault at the first write.
    pub fn reserve(self) -> Result<Segment, SegmentError> {
        let bytes = (self.region.words() * crate::region::WORD) as u64;
        let allocate = || {
            obtain(process::Resource::Room)?;
            rustix::fs::fallocate(&self.descriptor, FallocateFlags::empty(), 0, bytes)
        };
        rustix::io::retry_on_intr(allocate)
            .map_err(|error| SegmentError::System { act: "fallocate", error })?;
        Ok(self)
    }

    /// Returns the writable region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Returns the descriptor, for the peer.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Gives up the descriptor and keeps the mapping.
    pub fn into_region(self) -> Region {
        self.region
    }
}

/// Maps a segment of a peer after a check of its file system, its size and its seals. The mapping
/// is read-only unless every process may write.
pub fn open(
    descriptor: BorrowedFd<'_>,
    bytes: usize,
    writers: Writers,
) -> Result<Region, SegmentError> {
    Ok(Region::mapped(checked(descriptor, bytes, writers, InChild::Nothing)?))
}

/// Maps a segment that its owner alone writes, as [`open`] does, for a reader that tells the owner
/// nothing. A forked child reads there as well.
pub fn open_to_read(descriptor: BorrowedFd<'_>, bytes: usize) -> Result<Region, SegmentError> {
    Ok(Region::mapped(checked(descriptor, bytes, Writers::Owner, InChild::TheSame)?))
}

fn checked(
    descriptor: BorrowedFd<'_>,
    bytes: usize,
    writers: Writers,
    in_child: InChild,
) -> Result<Mapping, SegmentError> {
    let failed = |act| move |error| SegmentError::System { act, error };
    let kind = rustix::fs::fstatfs(descriptor).map_err(failed("fstatfs"))?.f_type;
    if kind as i64 != TMPFS_MAGIC {
        return Err(SegmentError::Kind { found: kind as u64 });
    }
    // The seals are checked before the size: an unsealed file may shrink after the check.
    let seals = rustix::fs::fcntl_get_seals(descriptor).map_err(failed("read seals"))?;
    let wanted = writers.seals();
    // F_SEAL_EXEC, which NOEXEC_SEAL sets, does not concern the bytes.
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
    let mapping = Mapping::new(descriptor, bytes, writers == Writers::Everybody, in_child);
    mapping.map_err(unmapped(bytes))
}

fn unmapped(bytes: usize) -> impl FnOnce(MapError) -> SegmentError {
    move |MapError { act, error }| SegmentError::Mapping { bytes, act, error }
}

/// The reason why a segment cannot be created or mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// A system call failed.
    System {
        /// The system call.
        act: &'static str,
        /// The error of the system call.
        error: Errno,
    },
    /// The limit of this process for the size of a file is smaller than the segment.
    FileLimit {
        /// The largest size of a file in bytes (`ulimit -f`).
        limit: u64,
        /// The size of the segment in bytes.
        wanted: usize,
    },
    /// The segment cannot be mapped here.
    Mapping {
        /// The size of the segment in bytes.
        bytes: usize,
        /// The system call that failed.
        act: &'static str,
        /// The error of the system call.
        error: Errno,
    },
    /// The descriptor is not of a tmpfs file.
    Kind {
        /// The magic number of the file system.
        found: u64,
    },
    /// The file has another size than the peer announced.
    Size {
        /// The size of the file.
        found: i64,
        /// The announced size, in whole pages.
        wanted: usize,
    },
    /// Not all pages of the file are allocated.
    Holes {
        /// The number of allocated bytes.
        there: i64,
        /// The size of the file.
        wanted: usize,
    },
    /// The file does not have exactly the required seals.
    Seals {
        /// The seals of the file.
        found: u32,
        /// The required seals.
        wanted: u32,
    },
}

impl SegmentError {
    /// Returns whether the system does not let this process share memory at all, because the call
    /// does not exist or is forbidden.
    pub fn is_refused(&self) -> bool {
        let error = match self {
            // An error about a peer's descriptor says something about the peer, not about this
            // process.
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

    /// Returns whether the segment is valid and this process lacks the memory, or the addresses, to
    /// map it.
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
                    "{there} of the segment's {wanted} bytes are allocated: its owner must reserve all of them"
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
