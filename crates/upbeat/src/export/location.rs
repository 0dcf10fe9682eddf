//! Where an export lies in its memory.

use super::memory::Memory;
use upbeat_core::channel::export::Consistency;
use upbeat_core::limits::LINE_BYTES;
use upbeat_memory::region::{Region, WORD};

/// The words before a value: its state, and in a line of its own the version of the whole.
pub(super) const HEAD: usize = 2 * LINE;
pub(super) const LINE: usize = LINE_BYTES / WORD;

/// The state of an export that stands.
pub(super) const STANDS: u64 = 1;
pub(super) const ENDED: u64 = 2;

/// The state of an export that lies elsewhere, because it has grown.
pub(super) const MOVED: u64 = 3;

/// The states of a segment, in its first word: exports are there, its owner needs it no more, and the node of the owner has
/// shut down.
pub(super) const IN_USE: u64 = 1;
pub(super) const GIVEN_UP: u64 = 2;
pub(super) const SHUT_DOWN: u64 = 3;

/// The state of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The export is there.
    Stands,
    /// The export has grown, and lies elsewhere.
    Moved,
    /// The owner has withdrawn the export.
    Ended,
}

/// Where an export lies in its segment, and how it is read there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Location {
    /// The first word of the head.
    pub(super) head: usize,
    /// The words of a copy of the value.
    pub(super) words: usize,
    pub(super) consistency: Consistency,
}

impl Location {
    /// Returns a location without memory, for a reader that calls.
    pub(super) const fn nowhere(words: usize, consistency: Consistency) -> Location {
        Location { head: 0, words, consistency }
    }

    /// Returns the location at this word, if the value fits behind it.
    pub(super) fn checked(self, head: u64, region: &Region) -> Option<Location> {
        let head = usize::try_from(head).ok()?;
        (head.checked_add(self.room()?)? <= region.words()).then_some(Location { head, ..self })
    }

    /// Returns the words of the head and the value.
    pub(super) fn room(self) -> Option<usize> {
        self.words.checked_mul(self.consistency.copies())?.checked_add(HEAD)
    }

    pub(super) const fn head(self) -> u64 {
        self.head as u64
    }

    pub(super) const fn value(self) -> usize {
        self.head + HEAD
    }

    pub(super) const fn version(self) -> usize {
        self.head + LINE
    }

    /// Returns the state of the export.
    pub(super) fn state(self, memory: &Memory) -> State {
        match memory.load(self.head) {
            STANDS => State::Stands,
            MOVED => State::Moved,
            _ => State::Ended,
        }
    }

    /// Returns whether the export stands.
    #[inline(always)]
    pub(super) fn stands(self, memory: &Memory) -> bool {
        memory.load(self.head) == STANDS
    }
}
