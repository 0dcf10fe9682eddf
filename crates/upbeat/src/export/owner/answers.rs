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
        LastCopy { home, first, last_version: 0 }
    }

    /// Follows a route in the copy that the owner uses.
    ///
    /// # Panics
    /// In a forked child.
    pub(in crate::export) fn follow(&self, route: &Route) -> Result<Found, Missing> {
        self.check_process();
        let (home, first) = (self.home.now(), self.written(self.home.first().value()));
        let words = home.location.words;
        route.follow(words, &mut LastCopy { home, first, last_version: 0 })
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

    /// Returns a number that tells whether a part has changed of the value of this shape to which a route leads, or
    /// something on the way there.
    pub(in crate::export) fn version(
        &self,
        (route, shape): (&Route, &Shape),
        part: Part,
        is_unit: bool,
    ) -> Result<u64, NotRead> {
        let grows = part.shape(shape).is_some_and(Shape::grows);
        if self.consistency() != Consistency::Cell || grows {
            // No versions of its own tell of a change of the part alone, or they lie anywhere. Its words tell.
            let mut hasher = DefaultHasher::new();
            self.words((route, shape), part)?.iter().for_each(|word| hasher.write_u64(*word));
            return Ok(hasher.finish());
        }
        let mut copy = self.last_copy();
        let words = copy.home.location.words;
        let found = route.follow(words, &mut copy).map_err(NotRead::Missing)?;
        part.versions(shape, is_unit, &mut |at| {
            copy.look(at.map_or(found.around, |at| Some(found.at + at as usize)));
        });
        Ok(copy.last_version)
    }
}

/// A copy of a value, and the last of the versions that were looked at. All units take their versions from one count, so
/// any change raises it, also one that leads the route to other units.
struct LastCopy<'o> {
    home: Ref<'o, Here>,
    /// The first word.
    first: usize,
    last_version: u64,
}

impl Load for LastCopy<'_> {
    fn look(&mut self, version: Option<usize>) {
        let at = version.map_or(self.home.location.version(), |at| self.first + at);
        self.last_version = self.last_version.max(self.home.memory.load(at));
    }

    fn load(&mut self, at: usize) -> u64 {
        self.home.memory.load(self.first + at)
    }
}
