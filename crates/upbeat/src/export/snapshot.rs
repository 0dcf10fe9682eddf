//! Snapshots: several parts of an export, read as of one moment.

use super::error::ReadError;
use super::imported::{Imported, not_read, value_of};
use super::memory::Memory;
use super::path::Path;
use super::served::Asked;
use super::shared::{Shared, access};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use upbeat_core::channel::export::Consistency;
use upbeat_memory::copies::Look;

/// The most versions of memory that a snapshot notes.
const UNITS_MAX: usize = 4096;

/// One run of the closure that reads a snapshot: the parts that were read, and how to tell whether they still stand.
#[doc(hidden)]
pub struct Snapshot {
    imported: Arc<Imported>,
    /// The last copy when the run began, if the export has two and this process maps them.
    look: Option<Look>,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    /// The versions in memory of what was read there.
    units: Vec<(usize, u64)>,
    /// The parts that were read by a call, and their versions.
    called: Vec<(Asked, u64)>,
    /// All parts that were read.
    parts: Vec<Asked>,
    /// The words of the parts that the owner has granted, if it was asked to.
    granted: Option<Vec<(Asked, Vec<u64>)>>,
    /// Whether a read met an update, or a part that was not granted.
    is_lost: bool,
}

impl Snapshot {
    /// Begins a run that reads in memory where it can, and otherwise by calls.
    pub(super) fn new(imported: &Arc<Imported>) -> Result<Snapshot, ReadError> {
        let location = imported.location();
        let look = match (location.consistency, imported.memory()) {
            (Consistency::Raw, _) => return Err(ReadError::Raw),
            (Consistency::Guarded, Ok(memory)) => Some(Look::at(&memory.0, location.version())),
            _ => None,
        };
        Ok(Snapshot { imported: Arc::clone(imported), look, notes: Mutex::default() })
    }

    /// Begins a run that reads the words of these parts as of one moment, for which it asks the owner.
    pub(super) async fn granted(
        imported: &Arc<Imported>,
        parts: Vec<Asked>,
    ) -> Result<Snapshot, ReadError> {
        imported.bets().call();
        let numbers = parts.iter().map(|asked| asked.part).collect();
        let words = imported.read_all(numbers).await.map_err(not_read)?;
        if words.len() != parts.len() {
            return Err(ReadError::Invalid);
        }
        let granted = Some(parts.iter().copied().zip(words).collect());
        let notes = Notes { parts, granted, ..Notes::default() };
        Ok(Snapshot { imported: Arc::clone(imported), look: None, notes: notes.into() })
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the parts that were read, or are to be granted.
    pub(super) fn parts(&self) -> Vec<Asked> {
        self.notes().parts.clone()
    }

    /// Returns whether the owner has to grant more parts.
    pub(super) fn lacks(&self) -> bool {
        self.notes().is_lost
    }

    /// Returns what a run has found in memory, or `None` if it is of several moments.
    pub(super) fn end<R>(&self, found: Result<R, ReadError>) -> Option<Result<R, ReadError>> {
        let notes = self.notes();
        let stands = match self.imported.memory() {
            Ok(memory) => {
                let version = self.imported.location().version();
                let copy = self.look.is_none_or(|look| look.stands(&memory.0, version));
                upbeat_memory::unit::stand(&memory.0, &notes.units) && copy
            }
            Err(ReadError::Busy) => true,
            Err(error) => return Some(Err(error)),
        };
        let is_whole = stands && !notes.is_lost;
        if !is_whole {
            self.imported.bets().lose();
        }
        is_whole.then_some(found)
    }

    /// As [`end`](Self::end), of a run that may have called as well.
    pub(super) async fn ended<R>(
        &self,
        found: Result<R, ReadError>,
    ) -> Result<Option<Result<R, ReadError>>, ReadError> {
        let called = std::mem::take(&mut self.notes().called);
        if !called.is_empty() && !self.imported.stand(called).await.map_err(not_read)? {
            self.notes().is_lost = true;
        }
        Ok(self.end(found))
    }

    /// Reads a value in memory, and notes its versions.
    fn load<T: Shared>(
        &self,
        path: &Path<&Snapshot, T>,
        memory: &Memory,
        at: usize,
    ) -> Result<T, ReadError> {
        if let Some(look) = self.look {
            let at = at + look.copy() * self.imported.location().words;
            // The words are torn only where the copy does not stand.
            return path.take(memory, at).ok_or_else(|| self.lose());
        }
        let mut notes = self.notes();
        let (first, mut is_busy) = (notes.units.len(), false);
        path.versions(&mut |at| match memory.load(at) {
            version if version % 2 == 0 && notes.units.len() < UNITS_MAX => {
                notes.units.push((at, version))
            }
            _ => is_busy = true,
        });
        let units = &notes.units[first..];
        let found = (!is_busy)
            .then(|| upbeat_memory::unit::between(&memory.0, units, || path.take(memory, at)));
        drop(notes);
        found.flatten().flatten().ok_or_else(|| self.lose())
    }

    /// Notes that the run cannot be used.
    fn lose(&self) -> ReadError {
        self.notes().is_lost = true;
        ReadError::Busy
    }

    fn note(&self, asked: Asked) {
        let mut notes = self.notes();
        if !notes.parts.contains(&asked) {
            notes.parts.push(asked);
        }
    }
}

access! { Arc<Snapshot>, Snapshot; }

impl<T: Shared> Path<&Snapshot, T> {
    /// Reads the value where this takes no message, or returns [`ReadError::Busy`], which ends the run of a
    /// [`try_snapshot`](super::Import::try_snapshot).
    pub fn try_read(&self) -> Result<T, ReadError> {
        let at = self.at()?;
        let phase = self.place().access();
        let (asked, shift) = self.asked(phase.imported.location().value());
        phase.note(asked);
        if let Some(granted) = &phase.notes().granted {
            if let Some((_, words)) = granted.iter().find(|(of, _)| *of == asked) {
                return value_of(words, shift);
            }
        } else {
            return phase.load(self, phase.imported.memory()?, at);
        }
        Err(phase.lose())
    }

    /// Reads the value, as one of those of a [`snapshot`](super::Import::snapshot).
    pub async fn read(&self) -> Result<T, ReadError> {
        let phase = self.place().access();
        let found = self.try_read();
        let must_call = phase.imported.memory().is_err() && phase.notes().granted.is_none();
        if !matches!(found, Err(ReadError::Busy)) || !must_call {
            return found;
        }
        let (asked, shift) = self.asked(phase.imported.location().value());
        phase.imported.bets().call();
        let (words, version) = phase.imported.changed(asked, None).await.map_err(not_read)?;
        phase.notes().called.push((asked, version));
        value_of(&words, shift)
    }
}
