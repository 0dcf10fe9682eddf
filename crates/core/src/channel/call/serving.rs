//! The table of the calls that this side serves.

use alloc::vec::Vec;

use crate::fault::Rule;
use crate::frame::CallNumber;
use crate::limits::CALLS_PER_SESSION_MAX;
use crate::mutant::{Mutant, mutated};

/// The requests that this side has accepted and not finished: the calls that became tasks, by the peer's numbers,
/// and the count of one-way messages that became tasks.
///
/// A call that is answered within its handler's first poll is never entered. The table's memory is bounded by
/// [`CALLS_PER_SESSION_MAX`], whatever numbers the peer invents.
///
/// ```
/// use upbeat_core::channel::call::Serving;
/// use upbeat_core::frame::CallNumber;
///
/// let mut serving = Serving::new();
/// let call = CallNumber::new(0, 1);
/// serving.insert(call, "a task").unwrap();
/// assert!(serving.insert(call, "the same again").is_err());
/// assert_eq!(serving.remove(call), Some("a task"));
/// ```
#[derive(Debug)]
pub struct Serving<K> {
    /// The entries, by the index of the call's number.
    pub(super) calls: Vec<Entry<K>>,
    len: u32,
    oneways: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<K> {
    /// The number of the served call, so that one compare finds it, or [`VACANT`] if there is none.
    call: CallNumber,
    /// The task of the served call, or of the last one.
    task: K,
}

/// The number of no call: its index is greater than that of every entry.
const VACANT: CallNumber = CallNumber::new(u32::MAX, 0);

impl<K: Copy + Default> Serving<K> {
    /// Creates a table without calls.
    pub const fn new() -> Serving<K> {
        Serving { calls: Vec::new(), len: 0, oneways: 0 }
    }

    /// Returns the number of calls that are served as tasks.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether no call is served as a task.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Enters a call that became a task. The peer breaks a rule if the call's number is in use or out of range.
    #[inline(always)]
    pub fn insert(&mut self, call: CallNumber, task: K) -> Result<(), Rule> {
        match self.calls.get_mut(call.index() as usize) {
            Some(entry) if entry.call == VACANT && !mutated(Mutant::ServingForgotten) => {
                *entry = Entry { call, task };
                self.len += 1;
                Ok(())
            }
            _ => self.insert_rarely(call, task),
        }
    }

    /// Enters a call when the table is too short, or the number is in use.
    #[cold]
    #[inline(never)]
    fn insert_rarely(&mut self, call: CallNumber, task: K) -> Result<(), Rule> {
        if mutated(Mutant::ServingForgotten) {
            return Ok(());
        }
        if self.calls.len() > call.index() as usize && mutated(Mutant::DuplicateServed) {
            return Ok(());
        }
        self.admits(call)?;
        self.calls.resize(call.index() as usize + 1, Entry { call: VACANT, task: K::default() });
        self.insert(call, task)
    }

    /// Checks whether a call of this number may begin, as [`Self::insert`] does, without entering it.
    #[inline]
    pub fn admits(&self, call: CallNumber) -> Result<(), Rule> {
        let (index, generation) = (call.index(), call.generation());
        if index as usize >= CALLS_PER_SESSION_MAX {
            return Err(Rule::TooManyCalls { index, max: CALLS_PER_SESSION_MAX as u32 });
        }
        match self.calls.get(index as usize) {
            Some(entry) if entry.call != VACANT && !mutated(Mutant::DuplicateServed) => {
                Err(Rule::DuplicateCall { index, generation })
            }
            _ => Ok(()),
        }
    }

    /// Returns the task of a call, for a cancel. A missing call is no fault, since the reply may have crossed the
    /// cancel.
    pub fn task_mut(&mut self, call: CallNumber) -> Option<&mut K> {
        match self.calls.get_mut(call.index() as usize)? {
            entry if entry.call == call => Some(&mut entry.task),
            _ => None,
        }
    }

    /// Removes a call because it is being answered.
    #[inline(always)]
    pub fn remove(&mut self, call: CallNumber) -> Option<K> {
        match self.calls.get_mut(call.index() as usize)? {
            entry if entry.call == call && !mutated(Mutant::ServingStays) => {
                entry.call = VACANT;
                self.len -= 1;
                Some(entry.task)
            }
            _ => None,
        }
    }

    /// Removes every call, because the session is lost or closed.
    pub fn drain(&mut self) -> impl Iterator<Item = (CallNumber, K)> + '_ {
        let Serving { calls, len, .. } = self;
        calls.iter_mut().filter(|entry| entry.call != VACANT).map(move |entry| {
            *len -= 1;
            (core::mem::replace(&mut entry.call, VACANT), entry.task)
        })
    }

    /// Returns the number of one-way messages that became tasks and are not finished.
    pub const fn oneways(&self) -> usize {
        self.oneways as usize
    }

    /// Counts a one-way message that became a task.
    pub const fn begin_oneway(&mut self) {
        self.oneways += 1;
    }

    /// Counts the end of a one-way message that became a task.
    ///
    /// # Panics
    /// Panics if there is no unfinished one.
    pub fn end_oneway(&mut self) {
        if mutated(Mutant::OnewayUncounted) {
            return;
        }
        self.oneways = self.oneways.checked_sub(1).expect("a one-way message ended twice");
    }
}

impl<K: Copy + Default> Default for Serving<K> {
    fn default() -> Serving<K> {
        Serving::new()
    }
}
