//! Memory that one thread writes and others see late: words become visible in any order that release and acquire permit.
//!
//! Stores are numbered in the order in which their thread made them. A load finds any store of its word that is not older
//! than one that the reader has found there, or must see. After an acquiring fence, a reader must see every store before a
//! release that it has found.

use crate::random::Random;

/// A store to a word.
#[derive(Clone, Copy, Debug)]
struct Store {
    word: u64,
    number: u64,
    /// The last store that is visible to a reader who has found this one, and then fences.
    shows: u64,
}

/// The words of an export.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    stores: Vec<Vec<Store>>,
    last: u64,
    /// The last store before the last releasing fence.
    fenced: u64,
    /// The stores that the thread still makes before it dies, if it does.
    left: Option<u64>,
}

impl Memory {
    /// Creates memory with these words, which all readers see.
    pub(super) fn new(words: &[u64]) -> Memory {
        let store = |word: &u64| vec![Store { word: *word, number: 0, shows: 0 }];
        Memory { stores: words.iter().map(store).collect(), last: 0, fenced: 0, left: None }
    }

    /// Lets the thread die after so many further stores.
    pub(super) fn die_after(&mut self, stores: u64) {
        self.left = Some(stores);
    }

    /// Returns the last store's number.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Loads a word in the thread that writes.
    pub(super) fn own(&self, at: usize) -> u64 {
        self.stores[at].last().expect("a word has a first value").word
    }

    /// Stores a word, relaxed.
    pub(super) fn store(&mut self, at: usize, word: u64) {
        self.put(at, word, self.fenced);
    }

    /// Stores a word with release.
    pub(super) fn publish(&mut self, at: usize, word: u64) {
        self.put(at, word, self.last + 1);
    }

    /// Makes a store, unless the thread is dead.
    fn put(&mut self, at: usize, word: u64, shows: u64) {
        if let Some(left) = &mut self.left {
            let Some(fewer) = left.checked_sub(1) else { return };
            *left = fewer;
        }
        self.last += 1;
        self.stores[at].push(Store { word, number: self.last, shows });
    }

    /// Makes all stores before the fence visible with each store behind it.
    pub(super) fn release_fence(&mut self) {
        self.fenced = self.last;
    }
}

/// The delays of a reader's loads.
#[derive(Clone, Copy, Debug)]
enum Delay {
    None,
    /// Most loads find the last store that is not younger than this one.
    Until(u64),
    /// Each load finds any store.
    Any,
}

/// A reader's view of a memory.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The last store that the reader must see.
    shown: u64,
    /// The last store that it must see after the next fence.
    pending: u64,
    /// The numbers of the stores that it has found at each word.
    found: Vec<u64>,
    delay: Delay,
}

impl View {
    /// Creates a view of a reader that must see all stores up to this one.
    pub(super) fn new(memory: &Memory, shown: u64) -> View {
        View { shown, pending: shown, found: vec![0; memory.stores.len()], delay: Delay::None }
    }

    /// Draws the delays of the next loads.
    pub(super) fn draw_delay(&mut self, memory: &Memory, is_late: bool, random: &mut Random) {
        self.delay = match random.below(3) {
            _ if !is_late => Delay::None,
            0 => Delay::None,
            1 => Delay::Until(random.within(self.shown.min(memory.last), memory.last)),
            _ => Delay::Any,
        };
    }

    /// Notes that a message has come that was sent behind this store.
    pub(super) fn join(&mut self, store: u64) {
        self.shown = self.shown.max(store);
        self.pending = self.pending.max(store);
    }

    /// Loads a word, relaxed.
    pub(super) fn load(&mut self, memory: &Memory, at: usize, random: &mut Random) -> u64 {
        let stores = &memory.stores[at];
        let until = |number: u64| stores.partition_point(|store| store.number <= number) - 1;
        let first = until(self.shown.max(self.found[at]));
        let last = stores.len() - 1;
        let which = match self.delay {
            Delay::None => last,
            Delay::Until(number) if random.permille(900) => until(number).max(first),
            Delay::Until(_) | Delay::Any => first + random.index(last - first + 1),
        };
        let store = stores[which];
        self.found[at] = store.number;
        self.pending = self.pending.max(store.shows);
        store.word
    }

    /// Has later loads see all stores before the releases that were found.
    pub(super) fn acquire_fence(&mut self) {
        self.shown = self.shown.max(self.pending);
    }
}

#[cfg(test)]
mod tests {
    //! A unit of two words, read and written by the rules of `upbeat_memory::unit`, and with a step of them left out.

    use super::*;

    /// A step of the rules.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Step {
        OwnersFence,
        OwnersRelease,
        FirstFence,
        LastFence,
    }

    /// Updates the unit, without a step of the rules.
    fn update(memory: &mut Memory, value: u64, without: Option<Step>) {
        let version = memory.own(0);
        memory.store(0, version + 1);
        if without != Some(Step::OwnersFence) {
            memory.release_fence();
        }
        memory.store(1, value);
        memory.store(2, value);
        match without {
            Some(Step::OwnersRelease) => memory.store(0, version + 2),
            _ => memory.publish(0, version + 2),
        }
    }

    /// Attempts to read the unit.
    fn read(memory: &Memory, without: Option<Step>, random: &mut Random) -> Option<[u64; 2]> {
        let mut view = View::new(memory, 0);
        view.draw_delay(memory, true, random);
        let version = view.load(memory, 0, random);
        if without != Some(Step::FirstFence) {
            view.acquire_fence();
        }
        let words = [1, 2].map(|at| view.load(memory, at, random));
        if without != Some(Step::LastFence) {
            view.acquire_fence();
        }
        let stands = view.load(memory, 0, random) == version;
        (version.is_multiple_of(2) && stands).then_some(words)
    }

    /// Returns whether a reader finds words of two updates.
    fn is_torn(without: Option<Step>) -> bool {
        let mut random = Random::new(7);
        (0..2_000).any(|_| {
            let mut memory = Memory::new(&[0; 3]);
            (1..4).for_each(|value| update(&mut memory, value, without));
            read(&memory, without, &mut random).is_some_and(|words| words[0] != words[1])
        })
    }

    #[test]
    fn a_unit_is_torn_only_where_a_step_is_left_out() {
        assert!(!is_torn(None));
        for step in [Step::OwnersFence, Step::OwnersRelease, Step::FirstFence, Step::LastFence] {
            assert!(is_torn(Some(step)), "{step:?}");
        }
    }

    #[test]
    fn a_reader_sees_what_it_must() {
        let mut memory = Memory::new(&[0]);
        let mut random = Random::new(7);
        (1..9).for_each(|value| memory.store(0, value));
        for known in 0..9 {
            let mut view = View::new(&memory, known);
            let mut last = known;
            for _ in 0..100 {
                view.draw_delay(&memory, true, &mut random);
                let found = view.load(&memory, 0, &mut random);
                assert!((last..9).contains(&found), "no older value than before");
                last = found;
            }
        }
    }
}
