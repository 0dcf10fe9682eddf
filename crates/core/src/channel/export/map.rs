//! Hash maps of a fixed capacity: where their entries lie.
//!
//! A map has a version, a length, and slots. A slot has a word that says what is in it, a key, and a value. An entry lies in
//! the slot that its key's hash gives, or in the next ones; a search ends at the first slot that was never used. It looks
//! at each slot once at most, whatever lies in them.
//!
//! A key is compared word by word. The words of a text are its length and its bytes, with zeros behind them.

use super::layout::LENGTH_WORDS;

/// The word of a slot that was never used.
const FREE: u64 = 0;

/// The word of a slot whose entry was removed, and that searches for other entries pass.
const REMOVED: u64 = 1;

/// The words of a slot in front of its key.
const SLOT_HEAD: usize = 1;

/// Where the slots of a map lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The word of the map.
    pub at: usize,
    /// The number of slots.
    pub len: usize,
    /// The words of a key.
    pub key: usize,
    /// The words of a value.
    pub value: usize,
}

/// Returns the words of a slot.
#[must_use]
pub const fn slot_words(key: usize, value: usize) -> usize {
    key.saturating_add(value).saturating_add(SLOT_HEAD)
}

/// Returns the word of a slot with this key. It is neither that of a free slot nor that of a removed entry.
#[must_use]
pub fn tag(key: &[u64]) -> u64 {
    let mix = |hash: u64, word: &u64| {
        let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 32
    };
    key.iter().fold(0, mix) | 2
}

impl Slots {
    /// Returns the word of a slot.
    #[must_use]
    pub const fn slot(&self, slot: usize) -> usize {
        self.at + LENGTH_WORDS + slot * slot_words(self.key, self.value)
    }

    /// Returns the first word of the key in a slot.
    #[must_use]
    pub const fn key_of(&self, slot: usize) -> usize {
        self.slot(slot) + SLOT_HEAD
    }

    /// Returns the first word of the value in a slot.
    #[must_use]
    pub const fn value_of(&self, slot: usize) -> usize {
        self.key_of(slot) + self.key
    }

    /// Returns whether a slot with this word has an entry.
    #[must_use]
    pub const fn is_entry(word: u64) -> bool {
        word != FREE && word != REMOVED
    }

    /// Returns the slot in which a search for a key begins.
    fn first(self, tag: u64) -> usize {
        // The low bits of a tag say less.
        ((u128::from(tag) * self.len as u128) >> 64) as usize
    }

    /// Returns the slots in the order in which a key is looked for.
    fn order(self, tag: u64) -> impl Iterator<Item = usize> {
        let first = self.first(tag);
        (0..self.len).map(move |step| (first + step) % self.len)
    }

    /// Returns the slot of a key, if the map has an entry for it.
    #[must_use]
    pub fn find(self, key: &[u64], load: &mut impl FnMut(usize) -> u64) -> Option<usize> {
        let tag = tag(key);
        for slot in self.order(tag) {
            match load(self.slot(slot)) {
                FREE => return None,
                word if word == tag => {
                    let first = self.key_of(slot);
                    let mut words = key.iter().enumerate();
                    if words.all(|(at, word)| load(first + at) == *word) {
                        return Some(slot);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Returns a slot for an entry of a key that has none, if there is one.
    #[must_use]
    pub fn room(self, key: &[u64], load: &mut impl FnMut(usize) -> u64) -> Option<usize> {
        self.order(tag(key)).find(|slot| !Slots::is_entry(load(self.slot(*slot))))
    }

    /// Removes the entry of a slot: gives `put` the words that slots get. A slot without an entry becomes free unless another
    /// entry lies behind it that is looked for there first. So the searches in a map are as short as its entries let them
    /// be, however many it has had.
    pub fn remove(
        self,
        slot: usize,
        load: &mut impl FnMut(usize) -> u64,
        put: &mut impl FnMut(usize, u64),
    ) {
        let back = self.distance(load(self.slot(slot)), slot);
        // The slots in front of this one, counted from it, as far as entries behind them need them. 0 is this one.
        let mut needed = 0;
        for step in 1..self.len {
            let at = (slot + step) % self.len;
            match load(self.slot(at)) {
                FREE => break,
                REMOVED => {}
                word => needed = needed.max((self.distance(word, at) + 1).saturating_sub(step)),
            }
            if needed > back {
                break;
            }
        }
        put(self.slot(slot), if needed > 0 { REMOVED } else { FREE });
        // The searches for other entries do not begin to need the slots further in front, or cease to.
        for step in 1..=back {
            let at = (slot + self.len - step) % self.len;
            match load(self.slot(at)) {
                REMOVED if step >= needed => put(self.slot(at), FREE),
                FREE | REMOVED => {}
                word => needed = needed.max(step + self.distance(word, at) + 1),
            }
        }
    }

    /// Returns the slots from that in which a search for an entry begins to that in which the entry lies, without the last.
    fn distance(self, tag: u64, slot: usize) -> usize {
        (slot + self.len - self.first(tag)) % self.len
    }
}
