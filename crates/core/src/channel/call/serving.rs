//! The table of requests that this side serves.

use alloc::vec::Vec;

use crate::fault::Rule;
use crate::frame::CallNumber;
use crate::limits::CALLS_PER_SESSION_MAX;
use crate::mutant::{Mutant, mutated};

/// The requests that this side has accepted and not finished: calls that became tasks, under the
/// peer's numbers, and the count of one-way messages that did.
///
/// A call that is answered within its handler's first poll is never entered. The table's memory is
/// bounded by [`CALLS_PER_SESSION_MAX`], whatever numbers the peer makes up.
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
    /// By the index of the call's number.
    pub(super) calls: Vec<Option<(u32, K)>>,
    len: u32,
    oneways: u32,
}

impl<K> Serving<K> {
    /// A table without calls.
    pub const fn new() -> Serving<K> {
        Serving { calls: Vec::new(), len: 0, oneways: 0 }
    }

    /// Calls that are being served as tasks.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether no call is being served as a task.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Enters a call that became a task. The peer breaks a rule if its number is in use or beyond
    /// every table.
    pub fn insert(&mut self, call: CallNumber, task: K) -> Result<(), Rule> {
        let (index, generation) = (call.index(), call.generation());
        let place = index as usize;
        if place >= CALLS_PER_SESSION_MAX {
            return Err(Rule::TooManyCalls { index, max: CALLS_PER_SESSION_MAX as u32 });
        }
        if mutated(Mutant::ServingForgotten) {
            return Ok(());
        }
        if place >= self.calls.len() {
            self.calls.resize_with(place + 1, || None);
        }
        if mutated(Mutant::DuplicateServed) && self.calls[place].is_some() {
            return Ok(());
        }
        if self.calls[place].is_some() {
            return Err(Rule::DuplicateCall { index, generation });
        }
        self.calls[place] = Some((generation, task));
        self.len += 1;
        Ok(())
    }

    /// Whether a call of this number may begin: the check of [`Self::insert`] without entering.
    #[inline]
    pub fn admits(&self, call: CallNumber) -> Result<(), Rule> {
        let (index, generation) = (call.index(), call.generation());
        if index as usize >= CALLS_PER_SESSION_MAX {
            return Err(Rule::TooManyCalls { index, max: CALLS_PER_SESSION_MAX as u32 });
        }
        match self.calls.get(index as usize) {
            Some(Some(_)) if !mutated(Mutant::DuplicateServed) => {
                Err(Rule::DuplicateCall { index, generation })
            }
            _ => Ok(()),
        }
    }

    /// The task of a call, for a cancel. `None` is no fault: the answer may have crossed it.
    pub fn task_mut(&mut self, call: CallNumber) -> Option<&mut K> {
        match self.calls.get_mut(call.index() as usize)? {
            Some((generation, task)) if *generation == call.generation() => Some(task),
            _ => None,
        }
    }

    /// Removes a call because it is being answered.
    pub fn remove(&mut self, call: CallNumber) -> Option<K> {
        self.task_mut(call)?;
        if mutated(Mutant::ServingStays) {
            return None;
        }
        self.len -= 1;
        self.calls[call.index() as usize].take().map(|(_, task)| task)
    }

    /// Removes every call, because the session is lost or closes.
    pub fn drain(&mut self) -> impl Iterator<Item = (CallNumber, K)> + '_ {
        let Serving { calls, len, .. } = self;
        (0u32..).zip(calls.iter_mut()).filter_map(move |(index, place)| {
            let (generation, task) = place.take()?;
            *len -= 1;
            Some((CallNumber::new(index, generation), task))
        })
    }

    /// One-way messages that became tasks and are not finished.
    pub const fn oneways(&self) -> usize {
        self.oneways as usize
    }

    /// Counts a one-way message that became a task.
    pub const fn begin_oneway(&mut self) {
        self.oneways += 1;
    }

    /// Counts one that is finished.
    ///
    /// # Panics
    ///
    /// If none is unfinished.
    pub fn end_oneway(&mut self) {
        if mutated(Mutant::OnewayUncounted) {
            return;
        }
        self.oneways = self.oneways.checked_sub(1).expect("a one-way message ended twice");
    }
}

impl<K> Default for Serving<K> {
    fn default() -> Serving<K> {
        Serving::new()
    }
}
