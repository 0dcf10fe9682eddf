//! The words of an exported value.

use super::bets::Bets;
use std::cell::Cell;
use upbeat_core::channel::export::chunks;
use upbeat_memory::copies::Look;
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::unit::{self, UnitReader};

/// The most units that a reader of shared memory reads as one value. Values with more of them are read by a call.
const UNITS_MAX: usize = 16;

/// The attempts of a reader before it gives its bet up.
pub(super) const ATTEMPTS: usize = 4;

/// Attempts to read until a value is found, or the bet is given up. Each attempt that finds none has met an update.
#[inline(always)]
pub(super) fn attempts<T>(bets: &Bets, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..ATTEMPTS {
        let found = attempt();
        if found.is_some() {
            return found;
        }
        bets.lose();
    }
    None
}

/// Memory with an exported value, for generated code.
#[doc(hidden)]
#[derive(Clone)]
pub struct Memory(
    pub(super) Region,
    /// The number of the export whose value lies there. Pointers that are taken from there lead into that export.
    u32,
);

impl Memory {
    pub(super) const fn new(region: Region, export: u32) -> Memory {
        Memory(region, export)
    }

    pub(super) const fn export(&self) -> u32 {
        self.1
    }

    /// Loads a word.
    #[inline(always)]
    pub(super) fn load(&self, at: usize) -> u64 {
        self.0.load(at)
    }

    /// Returns the number of words.
    pub(super) fn words(&self) -> usize {
        self.0.words()
    }

    /// Returns memory of this process with these words of an export.
    pub(super) fn of(words: &[u64], export: u32) -> Memory {
        let memory = Memory(Region::heap(words.len()), export);
        words.iter().enumerate().for_each(|(at, word)| memory.store(at, *word));
        memory
    }

    /// Stores a word, of a unit that is being updated.
    #[inline(always)]
    pub(super) fn store(&self, at: usize, word: u64) {
        self.0.store(at, word);
    }

    /// Reads a value whose words are each of their own moment. Later reads see no older state.
    #[inline(always)]
    pub(super) fn read_parts<T>(&self, take: impl FnOnce() -> T) -> T {
        unit::apart(take)
    }

    /// Reads the value of `units` units whose versions `versions` shows, as the owner left it after one update. Returns
    /// `None` after some attempts that met updates.
    #[inline(always)]
    pub(super) fn read_whole<T>(
        &self,
        units: usize,
        versions: impl Fn(&mut dyn FnMut(usize)),
        take: impl FnMut() -> T,
        bets: &Bets,
    ) -> Option<T> {
        match units {
            0 | 1 => self.attempt::<1, T>(versions, take, bets),
            2..=UNITS_MAX => self.attempt::<UNITS_MAX, T>(versions, take, bets),
            _ => None,
        }
    }

    #[inline(always)]
    fn attempt<const UNITS: usize, T>(
        &self,
        versions: impl Fn(&mut dyn FnMut(usize)),
        mut take: impl FnMut() -> T,
        bets: &Bets,
    ) -> Option<T> {
        attempts(bets, || {
            let mut reader = UnitReader::<UNITS>::new(&self.0);
            versions(&mut |at| reader.look(at));
            reader.read(|_| take())
        })
    }

    /// Reads a part of the last of two copies, of `words` words each, whose version is at word `version`. Returns `None`
    /// after some attempts in each of which the owner ended an update and began the next.
    #[inline]
    pub(super) fn read_copy<T>(
        &self,
        version: usize,
        words: usize,
        mut take: impl FnMut(usize) -> T,
        bets: &Bets,
    ) -> Option<T> {
        attempts(bets, || {
            let look = Look::at(&self.0, version);
            let found = take(look.copy() * words);
            look.stands(&self.0, version).then_some(found)
        })
    }
}

/// The owner's memory with an exported value, for generated code.
#[doc(hidden)]
pub struct Writer<'w> {
    memory: &'w Memory,
    /// The first word of the value.
    value: usize,
    /// The first word that no vector has, from the beginning of the value.
    heap: &'w Cell<usize>,
}

impl<'w> Writer<'w> {
    #[inline(always)]
    pub(super) fn new(memory: &'w Memory, value: usize, heap: &'w Cell<usize>) -> Writer<'w> {
        Writer { memory, value, heap }
    }

    #[inline(always)]
    pub(super) fn load(&self, at: usize) -> u64 {
        self.memory.load(at)
    }

    /// Stores a word, of a unit that is being updated.
    #[inline(always)]
    pub(super) fn store(&self, at: usize, word: u64) {
        self.memory.store(at, word);
    }

    /// Stores bytes from word `at` on.
    #[inline(always)]
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        self.memory.0.write(at * WORD, bytes);
    }

    /// Returns the first word of a chunk of the vector at word `at`, if the vector has it.
    pub(super) fn chunk(&self, at: usize, chunk: usize) -> Option<usize> {
        match self.load(at + chunks::pointer(chunk)) {
            0 => None,
            first => Some(self.value + first as usize),
        }
    }

    /// Returns the first word of a chunk of the vector at word `at`. The owner has reserved words for it if it is new.
    pub(super) fn make_chunk(&self, at: usize, chunk: usize, words: usize) -> usize {
        self.chunk(at, chunk).unwrap_or_else(|| {
            let first = self.heap.get();
            self.heap.set(first + words);
            self.store(at + chunks::pointer(chunk), first as u64);
            self.value + first
        })
    }
}
