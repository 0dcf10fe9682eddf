//! A page of counters that its owner bumps and anybody who may look at the process reads.
//!
//! The counters stand in a sealed segment with one writer, so a bump is a load and a store. An
//! observer finds the segment among the process's descriptors by its label and maps it read-only:
//! the process does not serve it, so one that hangs can still be looked at. What a counter counts
//! is said elsewhere; here it is a number with an index.
//!
//! Invariant: a view is made only of a segment that is sealed, whole and of this version, and
//! whatever its owner writes later, it only gives other numbers.

use crate::region::{Region, WORD};
use crate::segment::{self, PAGE, Segment, SegmentError, Writers};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// The name by which an observer knows the segment among a process's descriptors.
pub const LABEL: &str = "upbeat-counters";

/// The most counters that a page has: an observer maps no more, whatever a process offers.
pub const COUNTERS_MAX: usize = 1 << 16;

const MAGIC: u64 = u64::from_le_bytes(*b"upbeat#n");
const VERSION: u64 = 1;

/// Words of the header: a line of its own, which never changes.
const HEADER: usize = 8;
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const COUNT_AT: usize = 2;
const PID_AT: usize = 3;
const INCARNATION_AT: usize = 4;

/// The counters of one node, to write. One thread owns them.
pub struct Counters {
    whole: Region,
    values: Region,
    /// Keeps the descriptor by which observers come; None on the heap.
    segment: Option<Segment>,
    /// A bump is no atomic step, so two threads must not share this.
    one_thread: PhantomData<Cell<()>>,
}

impl Counters {
    /// Makes `count` counters that start at 0, in a segment that observers can find.
    ///
    /// # Panics
    /// When `count` is more than [`COUNTERS_MAX`].
    pub fn create(count: usize, incarnation: u64) -> Result<Counters, SegmentError> {
        let bytes = words_of(count) * WORD;
        let segment = Segment::create(LABEL, bytes, Writers::Owner)?.reserve()?;
        let region = segment.region().clone();
        Ok(Counters::over(region, count, incarnation, Some(segment)))
    }

    /// Makes `count` counters that start at 0, on the heap, where only this process sees them.
    ///
    /// # Panics
    /// When `count` is more than [`COUNTERS_MAX`].
    #[must_use]
    pub fn heap(count: usize, incarnation: u64) -> Counters {
        Counters::over(Region::heap(words_of(count)), count, incarnation, None)
    }

    fn over(whole: Region, count: usize, incarnation: u64, segment: Option<Segment>) -> Counters {
        whole.store(VERSION_AT, VERSION);
        whole.store(COUNT_AT, count as u64);
        whole.store(PID_AT, u64::from(std::process::id()));
        whole.store(INCARNATION_AT, incarnation);
        // Last: an observer that comes now finds a page of a kind that it does not know.
        whole.publish(MAGIC_AT, MAGIC);
        let values = whole.part(HEADER, count);
        Counters { whole, values, segment, one_thread: PhantomData }
    }

    /// The number of counters.
    #[inline]
    pub fn count(&self) -> usize {
        self.values.words()
    }

    /// Adds to a counter, which wraps round.
    ///
    /// ```
    /// use upbeat_memory::counters::Counters;
    /// let counters = Counters::heap(2, 1);
    /// counters.add(1, 5);
    /// assert_eq!((counters.get(0), counters.get(1)), (0, 5));
    /// ```
    ///
    /// # Panics
    /// When there is no such counter.
    #[inline]
    pub fn add(&self, index: usize, n: u64) {
        self.values.store(index, self.values.load(index).wrapping_add(n));
    }

    /// Sets a counter, for one that tells how much there is and not how often.
    ///
    /// # Panics
    /// When there is no such counter.
    #[inline]
    pub fn set(&self, index: usize, value: u64) {
        self.values.store(index, value);
    }

    /// The value of a counter.
    ///
    /// # Panics
    /// When there is no such counter.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        self.values.load(index)
    }

    /// What an observer of this process sees, for other threads of it.
    #[must_use]
    pub fn view(&self) -> CountersView {
        let header = Header::of(&self.whole);
        CountersView { header, values: self.values.clone() }
    }

    /// Whether other processes can find these counters.
    pub fn is_shared(&self) -> bool {
        self.segment.is_some()
    }
}

fn words_of(count: usize) -> usize {
    assert!(count <= COUNTERS_MAX, "{count} counters, the most are {COUNTERS_MAX}");
    HEADER + count
}

#[derive(Clone, Copy)]
struct Header {
    magic: u64,
    version: u64,
    count: u64,
    pid: u64,
    incarnation: u64,
}

impl Header {
    /// Each word once: what was checked is what is used.
    fn of(region: &Region) -> Header {
        Header {
            magic: region.load(MAGIC_AT),
            version: region.load(VERSION_AT),
            count: region.load(COUNT_AT),
            pid: region.load(PID_AT),
            incarnation: region.load(INCARNATION_AT),
        }
    }
}

/// Somebody's counters, to read. Each is what its owner says.
#[derive(Clone)]
pub struct CountersView {
    header: Header,
    values: Region,
}

impl CountersView {
    /// A view of the counters in a region that somebody else writes.
    pub fn new(region: &Region) -> Result<CountersView, ObserveError> {
        let room = region.words().checked_sub(HEADER).ok_or(ObserveError::Foreign { magic: 0 })?;
        let header = Header::of(region);
        if header.magic != MAGIC {
            return Err(ObserveError::Foreign { magic: header.magic });
        }
        if header.version != VERSION {
            return Err(ObserveError::Version { found: header.version, known: VERSION });
        }
        match usize::try_from(header.count) {
            Ok(count) if count <= room => {
                Ok(CountersView { header, values: region.part(HEADER, count) })
            }
            _ => Err(ObserveError::Count { count: header.count, room }),
        }
    }

    /// The number of counters.
    pub fn count(&self) -> usize {
        self.values.words()
    }

    /// The process as it numbers itself: in a container this is not the number seen from outside.
    pub fn pid(&self) -> u64 {
        self.header.pid
    }

    /// The incarnation of the node that counts.
    pub fn incarnation(&self) -> u64 {
        self.header.incarnation
    }

    /// The value of a counter, None when the owner has no such counter (it may be of an older
    /// make than we are).
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        (index < self.values.words()).then(|| self.values.load(index))
    }

    /// All values, in the order of their indices. They are not of one moment.
    pub fn values(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.values.words()).map(|index| self.values.load(index))
    }
}

/// The counters of all nodes in a process, in the order of their descriptors. None at all is no
/// error: the process has no node. What is there and cannot be read is one only when nothing else
/// could be read.
pub fn observe(pid: u32) -> Result<Vec<CountersView>, ObserveError> {
    let listed = |error: std::io::Error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT) | None => ObserveError::Gone { pid },
        Some(error) => ObserveError::Refused { pid, error },
    };
    let label = format!("/memfd:{LABEL} (deleted)");
    let (mut views, mut seen, mut fault) = (Vec::new(), Vec::new(), None);
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(listed)? {
        // Descriptors come and go while we look.
        let Ok(path) = entry.map(|entry| entry.path()) else { continue };
        if !std::fs::read_link(&path).is_ok_and(|target| target.as_os_str() == label.as_str()) {
            continue;
        }
        match open(pid, &path) {
            Ok((file, _)) if seen.contains(&file) => {}
            Ok((file, view)) => {
                seen.push(file);
                views.push(view);
            }
            Err(error) => fault = fault.or(Some(error)),
        }
    }
    match fault {
        Some(fault) if views.is_empty() => Err(fault),
        _ => Ok(views),
    }
}

/// Opens one descriptor of a process: the file's own number, and the counters in it.
fn open(pid: u32, path: &Path) -> Result<(u64, CountersView), ObserveError> {
    let refused = |error| ObserveError::Refused { pid, error };
    // The process may put another file there meanwhile, so this open must neither wait nor act.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let descriptor: OwnedFd = rustix::fs::open(path, flags, Mode::empty()).map_err(refused)?;
    let file = rustix::fs::fstat(&descriptor).map_err(refused)?;
    let most = ((HEADER + COUNTERS_MAX) * WORD).next_multiple_of(PAGE);
    let bytes = usize::try_from(file.st_size).unwrap_or(0).min(most);
    let region = segment::open(descriptor.as_fd(), bytes, Writers::Owner)
        .map_err(|fault| ObserveError::Segment { pid, fault })?;
    Ok((file.st_ino, CountersView::new(&region)?))
}

/// Why a process's counters cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserveError {
    /// There is no such process.
    Gone {
        /// Its number.
        pid: u32,
    },
    /// The system does not let us look: the process is another user's, or guards itself.
    Refused {
        /// Its number.
        pid: u32,
        /// What the system said.
        error: Errno,
    },
    /// The segment is not what a node makes.
    Segment {
        /// The process.
        pid: u32,
        /// What is wrong with it.
        fault: SegmentError,
    },
    /// The page holds no counters.
    Foreign {
        /// What stands where the counters' mark should.
        magic: u64,
    },
    /// The page is of another version.
    Version {
        /// Its version.
        found: u64,
        /// Ours.
        known: u64,
    },
    /// The page announces more counters than it has room for.
    Count {
        /// What it announces.
        count: u64,
        /// What there is room for.
        room: usize,
    },
}

impl fmt::Display for ObserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObserveError::Gone { pid } => write!(f, "there is no process {pid}"),
            ObserveError::Refused { pid, error } => {
                write!(f, "the counters of process {pid} cannot be looked at: {error}")
            }
            ObserveError::Segment { pid, fault } => {
                write!(f, "process {pid} offers counters that are unsafe to read: {fault}")
            }
            ObserveError::Foreign { magic } => {
                write!(f, "the page begins with {magic:#x}, which is not the mark of counters")
            }
            ObserveError::Version { found, known } => {
                write!(f, "the counters are of version {found}, this program reads {known}")
            }
            ObserveError::Count { count, room } => {
                write!(f, "the page announces {count} counters and has room for {room}")
            }
        }
    }
}

impl std::error::Error for ObserveError {}

#[cfg(test)]
mod tests;
