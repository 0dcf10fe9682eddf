//! Pages that a program keeps for observers, and the search for them.
//!
//! A page is a sealed segment with one writer. An observer finds it by its label among the descriptors of a
//! process and maps it read-only. The process does nothing for its observers, so a hanging process can still be
//! observed. Every page begins with the same header: mark, version, process, incarnation, three words whose meaning
//! depends on the kind of page, and the node's name, with that of its program in a line behind it. The rest of the page
//! depends on the kind.
//!
//! Invariant: a page is accepted only if it is sealed, of its kind and of this version. Each word of the header is
//! loaded once, so that the checked value is the one that is used.

use crate::region::{Region, WORD};
use crate::segment::{self, PAGE, SegmentError, Writers};
use crate::sync::{Ordering, fence};
use crate::text;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// The words of the header: four lines, which never change.
pub(crate) const HEADER: usize = 32;
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const PID_AT: usize = 2;
const INCARNATION_AT: usize = 3;
/// The words of the header that depend on the kind, in the first line.
pub(crate) const OWN_AT: usize = 4;
const OWN: usize = 3;
/// The names of the node and of its program, in lines of their own.
pub(crate) const NODE_AT: usize = 8;
const NODE_WORDS: usize = HEADER - NODE_AT;

/// The largest number of pages of one kind that are opened of one process.
const PAGES_MAX: usize = 1024;

/// A kind of page.
pub(crate) struct Kind {
    /// The label of the kind's segments.
    pub(crate) label: &'static str,
    /// The mark, which is the first word of a page.
    pub(crate) magic: u64,
    /// The version of the page's layout.
    pub(crate) version: u64,
    /// The largest number of words of a page: an observer maps no more, whatever a process offers.
    pub(crate) words_max: usize,
}

/// The header of a page.
#[derive(Clone)]
pub(crate) struct Header {
    pub(crate) pid: u64,
    pub(crate) incarnation: u64,
    pub(crate) node: Arc<str>,
    /// The program of the node; empty if the page names none.
    pub(crate) program: Arc<str>,
    pub(crate) own: [u64; OWN],
}

impl Kind {
    /// Writes the header of a page whose other words are initialised. `node` is the name of the node, which that of
    /// its program may follow in a second line.
    pub(crate) fn announce(
        &self,
        page: &Region,
        node: &str,
        incarnation: u64,
        own: [u64; OWN],
    ) -> Header {
        page.store(VERSION_AT, self.version);
        page.store(PID_AT, u64::from(std::process::id()));
        page.store(INCARNATION_AT, incarnation);
        for (i, word) in own.into_iter().enumerate() {
            page.store(OWN_AT + i, word);
        }
        text::put(page, NODE_AT, NODE_WORDS, node);
        // The mark is stored last: an earlier observer finds a page of an unknown kind.
        page.publish(MAGIC_AT, self.magic);
        let (node, program) = names(&text::get(page, NODE_AT, NODE_WORDS).unwrap_or_default());
        Header { pid: page.load(PID_AT), incarnation, node, program, own }
    }

    /// Reads the header of a page that another process writes.
    pub(crate) fn header(&self, page: &Region) -> Result<Header, ObserveError> {
        if page.words() < HEADER {
            return Err(ObserveError::Foreign { magic: 0 });
        }
        let magic = page.load(MAGIC_AT);
        if magic != self.magic {
            return Err(ObserveError::Foreign { magic });
        }
        fence(Ordering::Acquire);
        let version = page.load(VERSION_AT);
        if version != self.version {
            return Err(ObserveError::Version { found: version, known: self.version });
        }
        let text = text::get(page, NODE_AT, NODE_WORDS)
            .map_err(|bytes| ObserveError::Name { bytes, max: text::bytes_max(NODE_WORDS) })?;
        let (node, program) = names(&text);
        Ok(Header {
            pid: page.load(PID_AT),
            incarnation: page.load(INCARNATION_AT),
            node,
            program,
            own: std::array::from_fn(|i| page.load(OWN_AT + i)),
        })
    }

    /// Returns the views of all pages of this kind in a process, in the order of their descriptors. A process
    /// without a node has none, which is no error. A page that cannot be read is an error only if no other page
    /// can be read.
    pub(crate) fn find<V>(
        &self,
        pid: u32,
        view: impl Fn(&Region) -> Result<V, ObserveError>,
    ) -> Result<Vec<V>, ObserveError> {
        let listed = |error: std::io::Error| match Errno::from_io_error(&error) {
            Some(Errno::NOENT) | None => ObserveError::Gone { pid },
            Some(error) => ObserveError::Refused { pid, error },
        };
        let label = format!("/memfd:{} (deleted)", self.label);
        let (mut views, mut seen, mut fault) = (Vec::new(), Vec::new(), None);
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(listed)? {
            // Descriptors may be opened and closed during the loop.
            let Ok(path) = entry.map(|entry| entry.path()) else { continue };
            if !std::fs::read_link(&path).is_ok_and(|target| target.as_os_str() == label.as_str()) {
                continue;
            }
            if seen.len() == PAGES_MAX {
                break;
            }
            match self.open(pid, &path) {
                Ok((file, _)) if seen.contains(&file) => {}
                Ok((file, page)) => {
                    seen.push(file);
                    match view(&page) {
                        Ok(view) => views.push(view),
                        Err(error) => fault = fault.or(Some(error)),
                    }
                }
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        match fault {
            Some(fault) if views.is_empty() => Err(fault),
            _ => Ok(views),
        }
    }

    /// Opens one descriptor of a process. Returns the inode number and the page.
    pub(crate) fn open(&self, pid: u32, path: &Path) -> Result<(u64, Region), ObserveError> {
        let refused = |error| ObserveError::Refused { pid, error };
        // The process may replace the file meanwhile, so this open must neither block nor have side effects.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let descriptor: OwnedFd = rustix::fs::open(path, flags, Mode::empty()).map_err(refused)?;
        let file = rustix::fs::fstat(&descriptor).map_err(refused)?;
        let most = (self.words_max * WORD).next_multiple_of(PAGE);
        let bytes = usize::try_from(file.st_size).unwrap_or(0).min(most);
        let page = segment::open(descriptor.as_fd(), bytes, Writers::Owner)
            .map_err(|fault| ObserveError::Segment { pid, fault })?;
        Ok((file.st_ino, page))
    }
}

/// Returns the names of a node and of its program.
fn names(text: &str) -> (Arc<str>, Arc<str>) {
    let (node, program) = text.split_once('\n').unwrap_or((text, ""));
    (node.into(), program.into())
}

/// The reason why the pages of a process cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserveError {
    /// There is no such process.
    Gone {
        /// The number of the process.
        pid: u32,
    },
    /// The system forbids access: the process belongs to another user, or is protected.
    Refused {
        /// The number of the process.
        pid: u32,
        /// The error of the system.
        error: Errno,
    },
    /// The segment is not one that a node creates.
    Segment {
        /// The number of the process.
        pid: u32,
        /// The fault of the segment.
        fault: SegmentError,
    },
    /// The page is of another kind.
    Foreign {
        /// The word in the place of the mark.
        magic: u64,
    },
    /// The page is of another version.
    Version {
        /// The version of the page.
        found: u64,
        /// The version of this program.
        known: u64,
    },
    /// The page announces a node's name that is too long.
    Name {
        /// The announced number of bytes.
        bytes: u64,
        /// The largest number of bytes.
        max: usize,
    },
    /// The page announces more entries than it has room for.
    Count {
        /// The announced number.
        count: u64,
        /// The number for which there is room.
        room: usize,
    },
    /// The page announces a clock of 0 ticks per second.
    Pace,
}

impl fmt::Display for ObserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObserveError::Gone { pid } => write!(f, "there is no process {pid}"),
            ObserveError::Refused { pid, error } => {
                write!(f, "process {pid} cannot be observed: {error}")
            }
            ObserveError::Segment { pid, fault } => {
                write!(f, "process {pid} offers a page that cannot be read safely: {fault}")
            }
            ObserveError::Foreign { magic } => {
                write!(f, "the page begins with {magic:#x}, which is not the mark of its kind")
            }
            ObserveError::Version { found, known } => {
                write!(f, "the page is of version {found}, this program reads {known}")
            }
            ObserveError::Name { bytes, max } => {
                write!(f, "the page announces a name of {bytes} bytes and has room for {max}")
            }
            ObserveError::Count { count, room } => {
                write!(f, "the page announces {count} entries and has room for {room}")
            }
            ObserveError::Pace => write!(f, "the page announces 0 ticks per second"),
        }
    }
}

impl std::error::Error for ObserveError {}
