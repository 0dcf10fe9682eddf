//! The words of an exported value.

use super::bets::Bets;
use upbeat_memory::copies::Look;
use upbeat_memory::region::Region;
use upbeat_memory::unit::UnitReader;

/// The most units that a reader of shared memory reads as one value. Values with more of them are read by a call.
const UNITS_MAX: usize = 16;

/// The attempts of a reader before it gives its bet up.
pub(super) const ATTEMPTS: usize = 4;

/// Attempts to read until a value is found, or the bet is given up. Each attempt that finds none has met an update.
#[inline(always)]
pub(super) fn attempts<T>(bets: &Bets, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    (0..ATTEMPTS).find_map(|_| {
        let found = attempt();
        if found.is_none() {
            bets.lose();
        }
        found
    })
}

/// Memory with an exported value, for generated code.
#[doc(hidden)]
#[derive(Clone)]
pub struct Memory(pub(super) Region);

impl Memory {
    /// Loads a word.
    #[inline(always)]
    pub(super) fn load(&self, at: usize) -> u64 {
        self.0.load(at)
    }

    /// Stores a word, of a unit that is being updated.
    #[inline(always)]
    pub(super) fn store(&self, at: usize, word: u64) {
        self.0.store(at, word);
    }

    /// Reads the value of `units` units whose versions `versions` shows, as the owner left it after one update. Returns
    /// `None` after some attempts that met updates.
    #[inline]
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
    /// after some attempts in each of which the owner made two updates.
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
