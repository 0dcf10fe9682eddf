//! The owner's answers to the readers of an export.

use super::Owner;
use crate::export::home::Here;
use std::cell::Ref;
use std::hash::{DefaultHasher, Hasher};
use upbeat_core::channel::export::{
    Consistency, Expression, Found, Load, Missing, NotGathered, NotRead, Number, Overflow, Part,
    Route, Shape, gather,
};
use upbeat_memory::copies::Look;

/// The most units that a watch names. The owner looks at the part of another watch again after any change of the export.
const WATCHED_UNITS_MAX: usize = 32;

/// The version of a part of a value, and of what leads there.
pub(in crate::export) struct Version {
    /// A number that each change of one of the units changes.
    pub(in crate::export) number: u64,
    /// The words of the units, as [`Watchers`](crate::export::watchers::Watchers) know them. `None` is all units.
    pub(in crate::export) units: Option<Vec<usize>>,
}

impl Owner {
    /// Returns the last copy.
    fn last_copy(&self) -> LastCopy<'_> {
        let home = self.home.now();
        let copy = match home.location.consistency {
            Consistency::Guarded => {
                let look = Look::at(&home.memory.0, home.location.version());
                look.copy() * home.location.words
            }
            Consistency::Cell | Consistency::Raw => 0,
        };
        let first = home.location.value() + copy;
        LastCopy { home, first }
    }

    /// Follows a route in the copy that the owner uses.
    ///
    /// # Panics
    /// In a forked child.
    pub(in crate::export) fn follow(&self, route: &Route) -> Result<Found, Missing> {
        self.check_process();
        let (home, first) = (self.home.now(), self.written(self.home.first().value()));
        let words = home.location.words;
        route.follow(words, &mut LastCopy { home, first })
    }

    /// Returns the words of a part of the value of this shape to which a route leads. A number of a vector is in the low
    /// bits of its word.
    pub(in crate::export) fn words(
        &self,
        (route, shape): (&Route, &Shape),
        part: Part,
    ) -> Result<Vec<u64>, NotRead> {
        // The owner's thread, which this is, is between two updates, but for those of the other copy.
        let mut copy = self.last_copy();
        let found = route.follow(copy.home.location.words, &mut copy).map_err(NotRead::Missing)?;
        let at = found.at + part.at as usize;
        if let Some(growing) = part.shape(shape).filter(|shape| shape.grows()) {
            let words = copy.home.location.words;
            let gathered = gather(growing, at, words, &mut |at| copy.load(at));
            return gathered.map_err(|error| match error {
                NotGathered::Large => NotRead::Large,
                NotGathered::Outside => NotRead::Missing(Missing::Broken),
            });
        }
        Ok((at..at + part.words as usize).map(|at| copy.load(at) >> found.shift).collect())
    }

    /// Evaluates an expression, which the value has the elements of.
    pub(in crate::export) fn evaluate(
        &self,
        expression: &Expression,
    ) -> Result<Option<Number>, Overflow> {
        let mut copy = self.last_copy();
        expression.evaluate(|at| copy.load(at))
    }

    /// Returns the version of a part of the value of this shape to which a route leads.
    pub(in crate::export) fn version(
        &self,
        (route, shape): (&Route, &Shape),
        part: Part,
        is_unit: bool,
    ) -> Result<Version, NotRead> {
        let grows = part.shape(shape).is_some_and(Shape::grows);
        if self.consistency() != Consistency::Cell || grows {
            // No versions of its own tell of a change of the part alone, or they lie anywhere. Its words tell.
            let mut hasher = DefaultHasher::new();
            self.words((route, shape), part)?.iter().for_each(|word| hasher.write_u64(*word));
            return Ok(Version { number: hasher.finish(), units: None });
        }
        let version = Version { number: 0, units: Some(Vec::new()) };
        let mut units = Units { copy: self.last_copy(), version };
        let words = units.copy.home.location.words;
        let found = route.follow(words, &mut units).map_err(NotRead::Missing)?;
        part.versions(shape, is_unit, &mut |at| {
            units.look(at.map_or(found.around, |at| Some(found.at + at as usize)));
        });
        Ok(units.version)
    }
}

/// A copy of a value.
struct LastCopy<'o> {
    home: Ref<'o, Here>,
    /// The first word.
    first: usize,
}

impl Load for LastCopy<'_> {
    /// Does nothing: no unit changes while the owner looks.
    fn look(&mut self, _: Option<usize>) {}

    fn load(&mut self, at: usize) -> u64 {
        self.home.memory.load(self.first + at)
    }
}

/// A value, and the units that were looked at, with the last of their versions. All units take their versions from one
/// count, so any change raises it, also one that leads the route to other units.
struct Units<'o> {
    copy: LastCopy<'o>,
    version: Version,
}

impl Load for Units<'_> {
    fn look(&mut self, version: Option<usize>) {
        let LastCopy { home, first } = &self.copy;
        let at = version.map_or(home.location.version(), |at| first + at);
        self.version.number = self.version.number.max(home.memory.load(at));
        let unit = at.wrapping_sub(*first);
        self.version.units =
            self.version.units.take().filter(|units| units.len() < WATCHED_UNITS_MAX);
        self.version.units.iter_mut().for_each(|units| units.push(unit));
    }

    fn load(&mut self, at: usize) -> u64 {
        self.copy.load(at)
    }
}
