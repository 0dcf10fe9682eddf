//! The words of a lane's header that one side of a byte stream has sent to the other.
//!
//! Only words that have changed are sent, with their present values. Over another connection all words are sent
//! again: it is not known which of the earlier ones have arrived, and a word of returned buffers that is 0 now may
//! have had another value before. Another module decides when progress is due. Invariant: the words that a peer
//! has received over a connection were once the true ones.

use super::Progress;
use crate::limits::SLABS_MAX;
use crate::mutant::{Mutant, mutated};
use alloc::vec::Vec;

/// The words of a lane's header, except those of returned buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The number of slots of the other lane that were read.
    pub taken: u64,
    /// The number of requests of the other side that were accepted.
    pub accepted: u64,
    /// Whether the owner waits for room.
    pub wants_room: bool,
}

/// The words that were sent. [`SentHeader::show`] creates the next record, and [`SentHeader::again`] is called for
/// another connection.
#[derive(Debug, Default)]
pub struct SentHeader {
    words: Words,
    /// The words of returned buffers by slab; missing words are 0. A session without slabs has none.
    returned: Vec<u64>,
    /// Whether the peer may have other values.
    stale: bool,
}

impl SentHeader {
    /// Returns the words that were sent last.
    #[inline]
    pub const fn words(&self) -> Words {
        self.words
    }

    /// Returns the word of returns of a slab that was sent last.
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

    /// Returns whether all words must be sent.
    #[inline]
    pub const fn is_stale(&self) -> bool {
        self.stale
    }

    /// Handles another connection: all words must be sent again.
    pub fn again(&mut self) {
        *self = SentHeader { stale: true, ..SentHeader::default() };
    }

    /// Returns the record of the changed words: of returned buffers those of the slabs with a bit in `back`, or
    /// all words if they must be sent again.
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
    fn changed_words_are_sent() {
        let mut told = SentHeader::default();
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
        let mut told = SentHeader::default();
        let now = Words { taken: 3, accepted: 1, wants_room: false };
        told.show(now, 1, |_| 1);
        told.again();
        assert!(told.is_stale());
        // The buffer was lent and returned again, so its word has the first value.
        let progress = told.show(now, 0, |_| 0);
        assert_eq!((progress.taken, progress.accepted), (Some(3), Some(1)));
        assert!(progress.returned().eq((0..SLABS_MAX).map(|slab| (slab, 0))));
        assert!(!told.is_stale());
        assert_eq!(told.show(now, 0, |_| 0), Progress::default());
        told.again();
        assert!(told.show(Words { wants_room: true, ..now }, 0, |_| 0).wants_room);
    }
}
