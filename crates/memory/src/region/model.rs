//! A region for models, with one loom atomic per word, so that loom sees every access.

use super::{Arc, AtomicU64, Ordering, WORD};
// This atomic is no part of the model: it counts the stores of one side.
use std::sync::atomic::AtomicI64;

/// A range of words with checked access, for models: one loom atomic per word.
#[derive(Clone)]
pub struct Region {
    cells: Arc<Vec<AtomicU64>>,
    first: usize,
    words: usize,
    /// The number of stores that still take effect, for a side that stops for ever after some of
    /// them.
    life: Option<Arc<AtomicI64>>,
}

/// One word of a region.
pub struct Word(Region);

impl Word {
    /// Loads the word with relaxed ordering.
    pub fn load(&self) -> u64 {
        self.0.load(0)
    }
}

/// One word of a region that this side writes.
pub struct OwnWord(Region);

impl OwnWord {
    /// Stores the word with release ordering, after every earlier write.
    pub fn publish(&self, value: u64) {
        self.0.publish(0, value);
    }
}

/// Three consecutive words of a region.
#[derive(Clone, Copy)]
pub(crate) struct WordTriple<'r> {
    region: &'r Region,
    at: usize,
}

impl WordTriple<'_> {
    /// Loads the first word with relaxed ordering.
    pub(crate) fn first(self) -> u64 {
        self.region.load(self.at)
    }

    /// Loads the other two words with relaxed ordering.
    pub(crate) fn rest(self) -> (u64, u64) {
        (self.region.load(self.at + 1), self.region.load(self.at + 2))
    }
}

impl Region {
    /// Returns one word that this side writes.
    #[must_use]
    pub fn own_word_at(&self, at: usize) -> OwnWord {
        OwnWord(self.part(at, 1))
    }

    /// Returns one word.
    #[must_use]
    pub fn word_at(&self, at: usize) -> Word {
        Word(self.part(at, 1))
    }

    /// Creates a zeroed region of `words` words.
    pub fn heap(words: usize) -> Region {
        let cells = Arc::new((0..words).map(|_| AtomicU64::new(0)).collect());
        Region { cells, first: 0, words, life: None }
    }

    /// Returns the number of words.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Returns whether this side may store.
    pub fn is_writable(&self) -> bool {
        true
    }

    /// Returns the part of `words` words that starts at word `first`.
    #[must_use]
    pub fn part(&self, first: usize, words: usize) -> Region {
        assert!(first <= self.words && words <= self.words - first);
        Region { first: self.first + first, words, ..self.clone() }
    }

    /// Returns whether these words begin at word `first` of `whole`.
    pub(crate) fn is_part_of(&self, whole: &Region, first: usize) -> bool {
        self.first == whole.first + first
    }

    /// Returns the region without the right to store, which models do not check.
    #[must_use]
    pub fn read_only(&self) -> Region {
        self.clone()
    }

    /// Returns the region for a side that stops for ever after `stores` stores: its later stores
    /// have no effect.
    #[must_use]
    pub fn mortal(&self, stores: i64) -> Region {
        Region { life: Some(Arc::new(AtomicI64::new(stores))), ..self.clone() }
    }

    /// Returns whether every store so far took effect.
    pub fn is_alive(&self) -> bool {
        self.life.as_ref().is_none_or(|life| life.load(Ordering::Relaxed) >= 0)
    }

    /// Counts one store. Returns false if no store is left.
    fn spend(&self) -> bool {
        self.life.as_ref().is_none_or(|life| life.fetch_sub(1, Ordering::Relaxed) > 0)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.words);
        &self.cells[self.first + at]
    }

    /// Loads a word with relaxed ordering.
    pub fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    /// Stores a word with relaxed ordering.
    pub fn store(&self, at: usize, value: u64) {
        if self.spend() {
            self.word(at).store(value, Ordering::Relaxed);
        }
    }

    /// Stores a word with release ordering, after every earlier write.
    pub fn publish(&self, at: usize, value: u64) {
        if self.spend() {
            self.word(at).store(value, Ordering::Release);
        }
    }

    /// # Safety
    /// The bounds are those of the real region; the model checks them.
    pub(crate) unsafe fn load_unchecked(&self, at: usize) -> u64 {
        self.load(at)
    }

    /// # Safety
    /// The bounds are those of the real region; the model checks them.
    pub(crate) unsafe fn store_unchecked(&self, at: usize, value: u64) {
        self.store(at, value);
    }

    /// # Safety
    /// The bounds are those of the real region; the model checks them.
    pub(crate) unsafe fn triple_unchecked(&self, at: usize) -> WordTriple<'_> {
        WordTriple { region: self, at }
    }

    /// # Safety
    /// The bounds are those of the real region; the model checks them.
    pub(crate) unsafe fn publish_triple_unchecked(&self, at: usize, words: [u64; 3]) {
        self.store(at + 1, words[1]);
        self.store(at + 2, words[2]);
        self.publish(at, words[0]);
    }

    /// Does nothing, since a model has no cache lines.
    pub(crate) fn prefetch_for_store(&self, _: usize) {}

    /// Sets the bits of `mask` in a word in one step, with release ordering.
    pub fn set_bits(&self, at: usize, mask: u64) {
        self.word(at).fetch_or(mask, Ordering::Release);
    }

    /// Stores one byte.
    pub fn store_byte(&self, at: usize, value: u8) {
        self.change_byte(at, value, Ordering::Relaxed);
    }

    /// Exchanges a byte with 0 in one step, with acquire and release ordering, and returns the old
    /// byte.
    pub fn take_byte(&self, at: usize) -> u8 {
        self.change_byte(at, 0, Ordering::AcqRel)
    }

    fn change_byte(&self, at: usize, value: u8, order: Ordering) -> u8 {
        let changed = |word: u64| {
            let mut bytes = word.to_ne_bytes();
            bytes[at % WORD] = value;
            Some(u64::from_ne_bytes(bytes))
        };
        let (Ok(before) | Err(before)) =
            self.word(at / WORD).fetch_update(order, Ordering::Relaxed, changed);
        before.to_ne_bytes()[at % WORD]
    }

    /// Exchanges a word with 0 in one step, with acquire and release ordering, and returns the old
    /// word.
    pub fn take(&self, at: usize) -> u64 {
        self.word(at).swap(0, Ordering::AcqRel)
    }

    /// Flips the bits of `mask` in a word in one step, with release ordering.
    pub fn toggle(&self, at: usize, mask: u64) {
        if self.spend() {
            self.word(at).fetch_xor(mask, Ordering::Release);
        }
    }

    /// Loads the eight bytes of a word that others store byte by byte.
    pub fn load_bytes(&self, at: usize) -> [u8; WORD] {
        self.load(at).to_ne_bytes()
    }

    /// Copies `bytes` to byte `at`, word by word. In a model only one side writes to a word at a
    /// time.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (word, skip) = ((at + done) / WORD, (at + done) % WORD);
            let fit = (WORD - skip).min(bytes.len() - done);
            let mut cell = if fit == WORD { [0; WORD] } else { self.load_bytes(word) };
            cell[skip..skip + fit].copy_from_slice(&bytes[done..done + fit]);
            self.store(word, u64::from_ne_bytes(cell));
            done += fit;
        }
    }

    /// # Safety
    /// No condition: the model checks the bounds.
    pub(crate) unsafe fn write_unchecked(&self, at: usize, bytes: &[u8]) {
        self.write(at, bytes);
    }

    /// Copies bytes out of the region, from byte `at`, which must begin a word.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        assert!(at.is_multiple_of(WORD));
        for (i, chunk) in to.chunks_mut(WORD).enumerate() {
            chunk.copy_from_slice(&self.load_bytes(at / WORD + i)[..chunk.len()]);
        }
    }
}
