//! The segments with exports of other nodes that this process has mapped.
//!
//! All imports of a process share one mapping of a segment. A segment stays mapped until the last import in it is dropped,
//! also when its owner needs it no more: then the memory is there for this process alone. Such segments are counted, and
//! are limited. A forked child has the mappings of its parent, and those that it maps itself are counted apart.

use super::location::{GIVEN_UP, SHUT_DOWN};
use super::memory::Memory;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};
use upbeat_core::limits::{EXPORT_COPIES_BYTES_MAX, EXPORT_COPIES_MAX};
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_memory::fork::{PerProcess, Process};
use upbeat_memory::region::WORD;
use upbeat_transport::carrier::Segment;
use upbeat_transport::watch::PeerProcess;

/// The segments that are mapped, by file system and file.
static MAPPED: PerProcess<Mutex<Files>> = PerProcess::new();

type Files = BTreeMap<(u64, u64), Weak<Mapped>>;

/// A segment that is mapped, and the process of its owner.
pub(crate) struct Mapped {
    pub(super) memory: Memory,
    process: Option<Arc<PeerProcess>>,
    /// The process that has asked whose the segment is.
    made: Process,
}

/// The reason why a segment is not mapped.
#[derive(Debug)]
pub(crate) enum NotMapped {
    /// This process keeps too many segments that their owners need no more.
    Copies(MappedMemory),
    /// The segment cannot be mapped, for this reason.
    Broken(String),
}

/// The memory that the imports of this process keep mapped: see [`mapped_memory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MappedMemory {
    /// The number of segments.
    pub segments: usize,
    /// The bytes of the segments.
    pub bytes: usize,
    /// The number of those that their owners need no more: the exports that were imported from there have ended or moved, or
    /// their owners have ended.
    pub ended_segments: usize,
    /// The bytes of those.
    pub ended_bytes: usize,
}

/// Returns the memory of other nodes that the imports of this process keep mapped.
///
/// A segment stays mapped until the last import of an export in it is dropped. A forked child maps anew for its own
/// imports; the mappings of its parent are not counted there. Of those that their owners need no more, a
/// process keeps 256, of 256 MiB together, and then imports nothing that lies in another segment
/// ([`ImportError::Copies`](super::ImportError::Copies)).
///
/// ```
/// let memory = upbeat::export::mapped_memory();
/// assert!(memory.ended_bytes <= memory.bytes);
/// ```
#[must_use]
pub fn mapped_memory() -> MappedMemory {
    count(&mapped_here())
}

/// Returns a segment that has come from this process, mapped.
pub(super) fn map((segment, pid): (Segment, Option<u32>)) -> Result<Arc<Mapped>, NotMapped> {
    let mut mapped = mapped_here();
    mapped.retain(|_, known| known.strong_count() > 0);
    let file = segment.file();
    let known = file.and_then(|file| mapped.get(&file)?.upgrade());
    if let Some(known) = known {
        return Ok(known);
    }
    let memory = count(&mapped);
    if memory.ended_segments >= EXPORT_COPIES_MAX || memory.ended_bytes >= EXPORT_COPIES_BYTES_MAX {
        return Err(NotMapped::Copies(memory));
    }
    let region = segment.open_to_read().map_err(|error| NotMapped::Broken(error.to_string()))?;
    let process = pid.and_then(|pid| process(&mapped, pid));
    let new = Arc::new(Mapped { memory: Memory::new(region, 0), process, made: Process::this() });
    file.into_iter().for_each(|file| drop(mapped.insert(file, Arc::downgrade(&new))));
    Ok(new)
}

/// Returns the process of this number, whose session is open.
fn process(mapped: &Files, pid: u32) -> Option<Arc<PeerProcess>> {
    let others = mapped.values().filter_map(Weak::upgrade);
    let mut others = others.filter_map(|other| other.process.clone());
    let known = others.find(|process| process.pid() == pid && !process.has_ended());
    known.or_else(|| PeerProcess::of(pid).ok().map(Arc::new))
}

fn count(mapped: &Files) -> MappedMemory {
    let mut memory = MappedMemory::default();
    for segment in mapped.values().filter_map(Weak::upgrade) {
        let (bytes, ended) = (segment.memory.words() * WORD, segment.has_ended());
        memory.segments += 1;
        memory.bytes += bytes;
        memory.ended_segments += usize::from(ended);
        memory.ended_bytes += if ended { bytes } else { 0 };
    }
    memory
}

impl Mapped {
    fn state(&self) -> u64 {
        self.memory.load(0)
    }

    /// Returns whether the owner needs the segment no more: it has given it up, has shut down, or has died.
    fn has_ended(&self) -> bool {
        let has_died = || self.process.as_ref().is_some_and(|process| process.has_ended());
        matches!(self.state(), GIVEN_UP | SHUT_DOWN) || has_died()
    }

    /// Returns whether the owner has given the segment up, and marks nothing here any more: not that it shuts down either.
    pub(super) fn was_given_up(&self) -> bool {
        self.state() == GIVEN_UP
    }

    /// Returns whether the owner's node has shut down.
    pub(super) fn has_shut_down(&self) -> bool {
        self.state() == SHUT_DOWN
    }

    /// Returns the owner's process, if this process can know whether that is alive. A forked child cannot, whose parent may
    /// be the owner.
    pub(super) fn process(&self) -> Option<&PeerProcess> {
        self.process.as_deref().filter(|_| self.made.is_this())
    }
}

fn mapped_here() -> MutexGuard<'static, Files> {
    MAPPED.get(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}
