//! What one side of a byte stream has shown the other of its lane's header.
//!
//! The words of a header are shown as they stand, and only those that have changed since. Over another
//! connection all are shown again: which of the values that were shown before have come is not known, and a
//! word of returned buffers that is 0 now may have been another before. When progress is due is decided
//! elsewhere. The invariant: what a peer has got of a connection, from its beginning on, are the words as they stood.

use super::Progress;
use crate::limits::SLABS_MAX;
use crate::mutant::{Mutant, mutated};
use alloc::vec::Vec;

/// Words of a lane's header, besides those of returned buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Slots of the other lane that were read.
    pub taken: u64,
    /// Requests of the other side that were accepted.
    pub accepted: u64,
    /// Whether the owner waits for room.
    pub wants_room: bool,
}

/// The words that were shown. [`Told::show`] makes the record that shows them, [`Told::again`] comes with another
/// connection.
#[derive(Debug, Default)]
pub struct Told {
    words: Words,
    /// Words of returned buffers by their slabs; those behind them are 0. A session without slabs has none.
    returned: Vec<u64>,
    /// Whether the peer may know anything else.
    stale: bool,
}

impl Told {
    /// Returns the words that were shown last.
    #[inline]
    pub const fn words(&self) -> Words {
        self.words
    }

    /// Returns the word of returns of a slab as it was shown last.
    #[inline]
    pub fn returned(&self, slab: usize) -> u64 {
        self.returned.get(slab).copied().unwrap_or(0)
    }

    fn set_returned(&mut self, slab: usize, word: u64) {
        if word != 0 && slab >= self.returned.len() {
            self.returned.resize(slab + 1, 0);
        }
        if let Some(shown) = self.returned.get_mut(slab) {
            *shown = word;
        }
    }

    /// Returns whether everything is to be shown at once.
    #[inline]
    pub const fn is_stale(&self) -> bool {
        self.stale
    }

    /// The session goes on over another connection.
    pub fn again(&mut self) {
        *self = Told { stale: true, ..Told::default() };
    }

    /// Shows the words as they stand: of returned buffers those of the slabs of which `back` has a bit, and all where
    /// that is due.
    pub fn show(&mut self, now: Words, back: u32, returned: impl Fn(usize) -> u64) -> Progress {
        let again = self.stale;
        let read = now.taken != self.words.taken && !(again && mutated(Mutant::AgainUnread));
        let accepts =
            now.accepted != self.words.accepted && !(again && mutated(Mutant::AgainUnaccepted));
        let mut progress = Progress {
            taken: read.then_some(now.taken),
            accepted: accepts.then_some(now.accepted),
            wants_room: now.wants_room && !(again && mutated(Mutant::AgainUnwanted)),
            ..Progress::default()
        };
        let back = if again && !mutated(Mutant::AgainUnreturned) { u32::MAX } else { back };
        for slab in (0..SLABS_MAX).filter(|slab| back >> slab & 1 == 1) {
            let word = returned(slab);
            if word == 0 && again && mutated(Mutant::AgainNonzero) {
                continue;
            }
            self.set_returned(slab, word);
            progress.give_back(slab, word);
        }
        (self.words, self.stale) = (now, false);
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_when_they_have_changed() {
        let mut told = Told::default();
        let now = Words { taken: 3, accepted: 0, wants_room: true };
        let progress = told.show(now, 1 << 4, |slab| slab as u64);
        assert_eq!((progress.taken, progress.accepted, progress.wants_room), (Some(3), None, true));
        assert!(progress.returned().eq([(4, 4)]));
        assert_eq!((told.words(), told.returned(4), told.returned(3)), (now, 4, 0));
        let progress = told.show(Words { accepted: 1, ..now }, 0, |_| 0);
        assert_eq!((progress.taken, progress.accepted, progress.wants_room), (None, Some(1), true));
        assert_eq!(progress.returned().count(), 0);
    }

    #[test]
    fn another_connection_begins_with_all_words() {
        let mut told = Told::default();
        let now = Words { taken: 3, accepted: 1, wants_room: false };
        told.show(now, 1, |_| 1);
        told.again();
        assert!(told.is_stale());
        // The buffer was lent and has come back again: its word is what it was at first.
        let progress = told.show(now, 0, |_| 0);
        assert_eq!((progress.taken, progress.accepted), (Some(3), Some(1)));
        assert!(progress.returned().eq((0..SLABS_MAX).map(|slab| (slab, 0))));
        assert!(!told.is_stale());
        assert_eq!(told.show(now, 0, |_| 0), Progress::default());
    }
}
