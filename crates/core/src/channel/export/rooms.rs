//! Rooms: which words of which segments an export has.
//!
//! A node's exports lie in segments. A room that nobody has opened is used again once its export has ended or moved. A room
//! that was *lent*, which means that a reader was told where it is, is never used again: the reader may look there at any
//! time, also when its session has ended, and finds the state and the words of the export that it has opened. The memory of
//! lent rooms comes back with their segment, which the owner gives up when no export is there any more. Where few exports are
//! left in large segments, the owner moves them together ([`Rooms::begin_moves`]).
//!
//! Invariant: two rooms that are taken have no word in common, and a word of a lent room is in no later room of its segment.
//! Once [`Rooms::begin_moves`] asks for no more moves, the segments have at most twice the words of the rooms that are taken,
//! the slack, and the rest of a page. One call asks for as many moves as one segment has room for, as a rule for all.

use crate::limits::{EXPORT_SEGMENT_BYTES_MAX, EXPORT_WORDS_MAX, LINE_BYTES, MESSAGE_BYTES_MAX};
use alloc::collections::BTreeMap;

const LINE: usize = LINE_BYTES / 8;

/// The words of the largest segment.
const SEGMENT_WORDS_MAX: usize = EXPORT_SEGMENT_BYTES_MAX / 8;

// Two copies of the largest value, with two lines in front of them, have room in a segment, and rooms of several exports
// have it beside each other.
const _: () = assert!(2 * Rooms::<()>::needed(2 * EXPORT_WORDS_MAX + 2 * LINE) < SEGMENT_WORDS_MAX);
// A session announces segments as long as the longest message.
const _: () = assert!(EXPORT_SEGMENT_BYTES_MAX <= MESSAGE_BYTES_MAX);

/// The words in front of the first room of a segment, which say what has become of the segment.
pub const SEGMENT_HEAD: usize = LINE;

/// Words of a segment that an export has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    segment: u32,
    /// The first word, which begins a line.
    pub first: usize,
    /// The number of words, which are whole lines.
    pub words: usize,
    /// The words, from the first one on, that another export may have had.
    pub used: usize,
}

/// How generous the segments of a list of readers are.
#[derive(Clone, Copy, Debug)]
pub struct Thrift {
    /// The least words of a segment.
    pub least: usize,
    /// The words that the segments may have besides twice those of the rooms that are taken.
    pub slack: usize,
}

/// A segment, of which the runtime keeps an `S`.
#[derive(Debug)]
struct Held<S> {
    kept: S,
    words: usize,
    /// The words of the rooms that are taken.
    taken: usize,
    /// The ranges that may be taken, by their first words.
    free: BTreeMap<usize, usize>,
    /// The first word that no room has had.
    fresh: usize,
    /// Whether no room is to be taken there, because those that are taken move away.
    closed: bool,
}

/// The rooms of exports for the same readers.
#[derive(Debug)]
pub struct Rooms<S> {
    segments: BTreeMap<u32, Held<S>>,
    next: u32,
    thrift: Thrift,
    taken: usize,
    held: usize,
}

impl<S> Rooms<S> {
    /// Returns rooms without a segment.
    #[must_use]
    pub const fn new(thrift: Thrift) -> Rooms<S> {
        Rooms { segments: BTreeMap::new(), next: 0, thrift, taken: 0, held: 0 }
    }

    /// Returns the words of the rooms that are taken.
    #[must_use]
    pub const fn taken(&self) -> usize {
        self.taken
    }

    /// Returns the words of the segments.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.held
    }

    /// Returns the segments.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = &S> {
        self.segments.values().map(|held| &held.kept)
    }

    /// Takes a room of at least so many words, if there is one.
    pub fn take(&mut self, words: usize) -> Option<(Room, &S)> {
        let words = words.checked_next_multiple_of(LINE)?;
        let (number, first) = self.segments.iter().find_map(|(number, held)| {
            let mut free = held.free.iter().filter(|_| !held.closed);
            free.find(|(_, len)| **len >= words).map(|(first, _)| (*number, *first))
        })?;
        let held = self.segments.get_mut(&number)?;
        let len = held.free.remove(&first)?;
        if len > words {
            held.free.insert(first + words, len - words);
        }
        let used = held.fresh.saturating_sub(first).min(words);
        held.fresh = held.fresh.max(first + words);
        held.taken += words;
        self.taken += words;
        Some((Room { segment: number, first, words, used }, &held.kept))
    }

    /// Returns the words of a new segment in which a room of so many words is to be taken: enough, and more the more
    /// segments there are, up to the largest segment.
    #[must_use]
    pub fn wanted(&self, words: usize) -> usize {
        let generous = (self.held / 4).min(SEGMENT_WORDS_MAX);
        Self::needed(words).max(self.thrift.least).max(generous)
    }

    /// Returns the fewest words of a segment in which a room of so many words has its place.
    #[must_use]
    pub const fn needed(words: usize) -> usize {
        words.saturating_add(SEGMENT_HEAD + LINE)
    }

    /// Adds a segment of so many words, all of which are zero.
    pub fn add(&mut self, words: usize, kept: S) {
        let room = words.saturating_sub(SEGMENT_HEAD) / LINE * LINE;
        let held = Held {
            kept,
            words,
            taken: 0,
            free: BTreeMap::from([(SEGMENT_HEAD, room)]),
            fresh: SEGMENT_HEAD,
            closed: false,
        };
        self.segments.insert(self.next, held);
        self.next = self.next.wrapping_add(1);
        self.held += words;
    }

    /// Takes a room back whose export has ended or moved. Returns the segment if it is given up.
    #[must_use]
    pub fn give_back(&mut self, room: Room, is_lent: bool) -> Option<S> {
        let held = self.segments.get_mut(&room.segment)?;
        held.taken -= room.words;
        self.taken -= room.words;
        if !is_lent {
            held.free(room.first, room.words);
        }
        if held.taken > 0 {
            return None;
        }
        let usable: usize = held.free.values().sum();
        let is_kept = !held.closed && usable > held.words / 2 && !self.is_sparse();
        if is_kept { None } else { self.give_up(room.segment) }
    }

    fn give_up(&mut self, segment: u32) -> Option<S> {
        let held = self.segments.remove(&segment)?;
        self.held -= held.words;
        Some(held.kept)
    }

    /// Returns whether the segments have too many words for the rooms that are taken.
    #[must_use]
    pub const fn is_sparse(&self) -> bool {
        self.held > 2 * self.taken + self.thrift.slack
    }

    /// Closes the segments of which less than a half is taken, if there are too many words, as far as the rooms that are taken
    /// there fit into the largest segment. Returns the words of a new segment for these rooms: add it, move the rooms
    /// ([`Rooms::moves`]) there, and give them back. Or [cancel](Self::cancel_moves).
    pub fn begin_moves(&mut self) -> Option<usize> {
        if !self.is_sparse() {
            return None;
        }
        let mut words = 0;
        let sparse = self.segments.values_mut().filter(|held| held.taken < held.words / 2);
        for held in sparse.filter(|held| held.taken > 0) {
            held.closed = Self::needed(words + held.taken) <= SEGMENT_WORDS_MAX;
            words += if held.closed { held.taken } else { 0 };
        }
        (words > 0).then(|| Self::needed(words))
    }

    /// Takes rooms from the closed segments again, because there is no memory to move to.
    pub fn cancel_moves(&mut self) {
        self.segments.values_mut().for_each(|held| held.closed = false);
    }

    /// Returns whether a room is to move.
    #[must_use]
    pub fn moves(&self, room: Room) -> bool {
        self.segments.get(&room.segment).is_some_and(|held| held.closed)
    }

    /// Gives up a segment without rooms, if there are too many words. Call this until there is none.
    #[must_use]
    pub fn give_up_empty(&mut self) -> Option<S> {
        let is_due = self.is_sparse();
        let empty = self.segments.iter().find(|(_, held)| held.taken == 0 && is_due);
        let number = *empty?.0;
        self.give_up(number)
    }
}

impl<S> Held<S> {
    /// Makes a range free, and joins it to those beside it.
    fn free(&mut self, first: usize, words: usize) {
        let (mut first, mut words) = (first, words);
        if let Some(behind) = self.free.remove(&(first + words)) {
            words += behind;
        }
        if let Some((before, len)) = self.free.range(..first).next_back()
            && before + len == first
        {
            (first, words) = (*before, words + len);
        }
        self.free.insert(first, words);
    }
}

#[cfg(test)]
mod tests;
