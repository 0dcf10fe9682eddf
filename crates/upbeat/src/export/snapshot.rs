//! Snapshots: several parts of an export, read as of one moment.

use super::error::ReadError;
use super::imported::{Here, Imported, Mapping, not_read};
use super::location::Location;
use super::memory::Memory;
use super::path::Path;
use super::served::{Asked, NotRead};
use super::shared::{Readable, Shared, access};
use crate::error::CallError;
use std::sync::{Arc, PoisonError};
use upbeat_core::channel::export::Consistency;
use upbeat_core::limits::EXPORT_PARTS_MAX;
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_memory::copies::Look;

/// The most versions of memory that a snapshot notes.
const UNITS_MAX: usize = 4096;

/// The most reads of one run, so that a closure ends which follows what it finds.
const READS_MAX: usize = 1 << 18;

/// One run of the closure that reads a snapshot: the parts that were read, and how to tell whether they still stand.
#[doc(hidden)]
pub struct Snapshot {
    imported: Arc<Imported>,
    /// Where the paths of the run have the export.
    location: Location,
    /// The memory in which the export was when the run began, if this process maps it.
    begun: Option<Mapping>,
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
    /// The number of reads.
    reads: usize,
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
        if imported.location().consistency == Consistency::Raw {
            return Err(ReadError::Raw);
        }
        let mut phase = Snapshot::of(imported);
        if let Ok(here) = imported.mapped() {
            phase.location = here.location;
            phase.look = (here.location.consistency == Consistency::Guarded)
                .then(|| Look::at(&here.memory.0, here.location.version()));
            phase.begun = Some((*here).clone());
        }
        Ok(phase)
    }

    /// Begins a run that reads the words of these parts as of one moment, for which it asks the owner.
    pub(super) async fn granted_by_owner(
        imported: &Arc<Imported>,
        parts: Vec<Asked>,
    ) -> Result<Snapshot, ReadError> {
        imported.bets().call();
        let words = imported.read_all(parts.clone()).await.map_err(not_read)?;
        if words.len() != parts.len() {
            return Err(ReadError::Invalid);
        }
        let granted = Some(parts.iter().cloned().zip(words).collect());
        let notes = Notes { parts, granted, ..Notes::default() };
        Ok(Snapshot { notes: Mutex::new(notes), ..Snapshot::of(imported) })
    }

    fn of(imported: &Arc<Imported>) -> Snapshot {
        Snapshot {
            imported: Arc::clone(imported),
            location: *imported.location(),
            begun: None,
            look: None,
            notes: Mutex::default(),
        }
    }

    pub(super) fn imported(&self) -> &Imported {
        &self.imported
    }

    /// Returns where the export was when the run began.
    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    /// Returns the owner's memory, if the export is still where it was when the run began.
    pub(super) fn memory(&self) -> Result<Here<'_>, ReadError> {
        let here = self.imported.mapped()?;
        let is_same = self.begun.as_ref().is_some_and(|begun| begun.is(&here));
        if is_same { Ok(here) } else { Err(ReadError::Busy) }
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
        let stands = match self.memory() {
            Ok(here) => {
                let (memory, version) = (&here.memory.0, self.location.version());
                let copy = self.look.is_none_or(|look| look.stands(memory, version));
                upbeat_memory::unit::stand(memory, &notes.units) && copy
            }
            // The export has moved from the memory in which something was read, so its moment is not certain.
            Err(ReadError::Busy) => notes.units.is_empty() && self.look.is_none(),
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
        if T::GROWS {
            return Err(self.lose());
        }
        let words = self.location.words;
        self.load_with(memory, |copy, look| {
            path.versions(look);
            Ok(path.take(memory, at + copy * words))
        })
    }

    /// Takes a value from one of the copies of the export, and notes the versions that `take` shows. The last one is shown
    /// before the words of the value are loaded. All that the run has taken from memory until then is of one moment.
    pub(super) fn load_with<T>(
        &self,
        memory: &Memory,
        take: impl FnOnce(usize, &mut dyn FnMut(usize)) -> Result<Option<T>, ReadError>,
    ) -> Result<T, ReadError> {
        if let Some(look) = self.look {
            let found = take(look.copy(), &mut |_| ());
            return match look.stands(&memory.0, self.location.version()) {
                true => found?.ok_or_else(|| self.lose()),
                false => Err(self.lose()),
            };
        }
        let (mut notes, mut is_busy) = (self.notes(), false);
        let found = take(0, &mut |at| {
            let version = upbeat_memory::unit::look(&memory.0, at);
            match version.is_multiple_of(2) && notes.units.len() < UNITS_MAX {
                // Parts of one struct, which are read one after the other, have one version.
                true if notes.units.last() == Some(&(at, version)) => {}
                true => notes.units.push((at, version)),
                false => is_busy = true,
            }
        });
        let stands = !is_busy && upbeat_memory::unit::stand(&memory.0, &notes.units);
        drop(notes);
        match stands {
            true => found?.ok_or_else(|| self.lose()),
            false => Err(self.lose()),
        }
    }

    /// Notes that the run cannot be used.
    pub(super) fn lose(&self) -> ReadError {
        self.notes().is_lost = true;
        ReadError::Busy
    }

    /// Notes that a part is read. A run has a bounded number of reads.
    pub(super) fn note(&self, asked: &Asked) -> Result<(), ReadError> {
        let mut notes = self.notes();
        notes.reads += 1;
        if notes.reads > READS_MAX {
            return Err(ReadError::Large);
        }
        if !notes.parts.contains(asked) {
            notes.parts.push(asked.clone());
        }
        Ok(())
    }

    /// Returns the words of a part, if the owner was asked for all parts.
    pub(super) fn granted(&self, asked: &Asked) -> Option<Result<Vec<u64>, ReadError>> {
        let notes = self.notes();
        let granted = notes.granted.as_ref()?;
        let found = granted.iter().find(|(of, _)| of == asked).map(|(_, words)| words.clone());
        drop(notes);
        Some(found.ok_or_else(|| self.lose()))
    }

    /// Returns whether a read that has found this takes a call. A run that has begun in memory which the export has left is
    /// lost.
    pub(super) fn must_call<T>(&self, found: &Result<T, ReadError>) -> bool {
        let notes = self.notes();
        let has_begun = self.look.is_some() || !notes.units.is_empty();
        let may_call = notes.granted.is_none() && !has_begun;
        drop(notes);
        matches!(found, Err(ReadError::Busy)) && may_call && self.memory().is_err()
    }

    /// Reads a part by a call, and notes its version. A run has a bounded number of such parts, so that a closure ends
    /// which follows what it finds.
    pub(super) async fn call(&self, asked: Asked) -> Result<Vec<u64>, CallError<NotRead>> {
        if self.notes().called.len() >= EXPORT_PARTS_MAX {
            return Err(CallError::Method(NotRead::Large));
        }
        self.imported.bets().call();
        let (words, version) = self.imported.changed(asked.clone(), None).await?;
        self.notes().called.push((asked, version));
        Ok(words)
    }
}

access! { Arc<Snapshot>, Snapshot, (); }

impl<T: Readable> Path<&Snapshot, T> {
    /// Reads the value where this takes no message, or returns [`ReadError::Busy`], which ends the run of a
    /// [`try_snapshot`](super::Import::try_snapshot).
    pub fn try_read(&self) -> Result<T, ReadError> {
        let at = self.at()?;
        let phase = self.place().access();
        let (asked, shift) = self.asked(phase.location.value());
        phase.note(&asked)?;
        match phase.granted(&asked) {
            Some(words) => phase.imported.value_of(&words?, shift),
            None => phase.load(self, &phase.memory()?.memory, at),
        }
    }

    /// Reads the value, as one of those of a [`snapshot`](super::Import::snapshot).
    pub async fn read(&self) -> Result<T, ReadError> {
        let phase = self.place().access();
        let found = self.try_read();
        if !phase.must_call(&found) {
            return found;
        }
        let (asked, shift) = self.asked(phase.location.value());
        phase.imported.value_of(&phase.call(asked).await.map_err(not_read)?, shift)
    }
}
