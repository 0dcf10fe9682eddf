//! Reads of a reader in the owner's memory, by the rules of `upbeat_memory::unit` and `copies`.

use upbeat_core::channel::export::{Consistency, Load, Missing, Part, Route, Shape};

use super::memory::View;
use super::owner::{Exported, HEAD, STANDS, VALUE, VERSION, word_of};
use crate::random::Random;

/// The attempts of a reader before it asks the owner.
pub(super) const ATTEMPTS: u32 = 4;

/// The most units that are read as one value.
const UNITS_MAX: usize = 16;

/// A reader's attempt to read parts as of one moment.
pub(super) struct Attempt<'e> {
    exported: &'e Exported,
    view: &'e mut View,
    random: &'e mut Random,
    /// The versions of the units that were read.
    units: Vec<(usize, u64)>,
    /// The version of the whole when the attempt began, if the export has two copies.
    look: Option<u64>,
    is_busy: bool,
}

impl<'e> Attempt<'e> {
    /// Begins an attempt. Returns `None` if the export has ended.
    pub(super) fn begin(
        exported: &'e Exported,
        view: &'e mut View,
        is_late: bool,
        random: &'e mut Random,
    ) -> Option<Attempt<'e>> {
        view.draw_delay(&exported.memory, is_late, random);
        if view.load(&exported.memory, HEAD, random) != STANDS {
            return None;
        }
        let (units, is_busy) = (Vec::new(), false);
        let mut attempt = Attempt { exported, view, random, units, look: None, is_busy };
        if exported.consistency == Consistency::Guarded {
            attempt.look = Some(attempt.load(VERSION) & !1);
            attempt.view.acquire_fence();
        }
        Some(attempt)
    }

    /// Returns whether the export has no versions.
    pub(super) fn is_raw(&self) -> bool {
        self.exported.consistency == Consistency::Raw
    }

    /// Returns whether a value with these versions is read whole here.
    pub(super) fn may_read(&self, versions: &[Option<usize>]) -> bool {
        match self.exported.consistency {
            Consistency::Cell => versions.len() <= UNITS_MAX,
            Consistency::Guarded => true,
            Consistency::Raw => versions.is_empty(),
        }
    }

    /// Loads a word.
    fn load(&mut self, at: usize) -> u64 {
        self.view.load(&self.exported.memory, at, self.random)
    }

    /// Reads words of units with these versions. `take` gets the word of any number from the beginning of the value.
    pub(super) fn read<T>(
        &mut self,
        versions: &[Option<usize>],
        take: impl FnOnce(&mut dyn FnMut(usize) -> u64) -> T,
    ) -> Option<T> {
        if let Some(version) = self.look {
            let first = VALUE + (version >> 1 & 1) as usize * self.exported.of.form.words();
            return Some(take(&mut |at| self.load(first + at)));
        }
        for version in versions {
            let at = word_of(*version);
            let version = self.load(at);
            self.is_busy |= version % 2 == 1;
            self.units.push((at, version));
        }
        if self.is_busy {
            return None;
        }
        self.view.acquire_fence();
        let found = take(&mut |at| self.load(VALUE + at));
        self.stands().then_some(found)
    }

    /// Reads a part of the value to which a route leads, or finds that there is none. `is_unit` says whether the part is a
    /// unit.
    pub(super) fn follow(
        &mut self,
        (route, end): &(Route, &Shape),
        (part, is_unit): (Part, bool),
    ) -> Option<Result<(Vec<u64>, u8), Missing>> {
        let found = match route.follow(self.exported.of.form.words(), self) {
            Ok(found) => found,
            Err(missing) => return self.stands().then_some(Err(missing)),
        };
        part.versions(end, is_unit, &mut |version| {
            let inside = version.map(|at| found.at + at as usize);
            Load::look(self, inside.or(found.around));
        });
        let first = found.at + part.at as usize;
        let words = (first..first + part.words as usize).map(|at| Load::load(self, at)).collect();
        self.stands().then_some(Ok((words, found.shift)))
    }

    /// Returns whether all that was read is of one moment.
    pub(super) fn stands(&mut self) -> bool {
        self.view.acquire_fence();
        if let Some(version) = self.look {
            return self.load(VERSION).wrapping_sub(version) <= 2;
        }
        let units = std::mem::take(&mut self.units);
        let stand = units.iter().all(|(at, version)| self.load(*at) == *version);
        self.units = units;
        stand && !self.is_busy
    }
}

impl Load for Attempt<'_> {
    fn look(&mut self, version: Option<usize>) {
        if self.look.is_some() {
            return;
        }
        let at = word_of(version);
        let version = Attempt::load(self, at);
        self.is_busy |= version % 2 == 1;
        self.units.push((at, version));
        self.view.acquire_fence();
    }

    fn load(&mut self, at: usize) -> u64 {
        let words = self.exported.of.form.words();
        assert!(at < words, "a route leads to word {at} of {words}");
        let copy = self.look.map_or(0, |version| (version >> 1 & 1) as usize);
        Attempt::load(self, VALUE + copy * words + at)
    }
}
