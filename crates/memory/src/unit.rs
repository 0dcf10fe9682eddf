//! Units: words that one thread writes together, and that any number of readers read whole or not at all.
//!
//! A unit has a version, in a word of its own. The version is odd while the owner writes. A reader loads the versions of
//! the units that it wants, then their words, and then the versions again. If each version is even and still the same,
//! the words are those of one moment: every unit stood still from the last of the first loads to the first of the last
//! ones. The owner never waits and does not know its readers; a reader never waits for the owner.
//!
//! Other modules decide which words belong to a unit. Invariant: from a correct owner, a reader whose versions
//! [stand] has read words that the owner wrote together.

use crate::region::Region;
use crate::sync::{Ordering, fence};

/// The owner's update of a unit, from [`begin`] until it is dropped.
pub struct Update<'r> {
    region: &'r Region,
    at: usize,
    /// The version afterwards.
    after: u64,
}

/// Begins to update the unit whose version is at word `at`. The words may be stored from now on.
///
/// `last` is even, and no version of the unit is later. The owner knows it without a load: the line of the version may be
/// with a reader's processor. The update takes the two versions behind `last`.
///
/// # Panics
/// Panics when the region is read-only, or `at` is outside.
#[inline]
pub fn begin(region: &Region, at: usize, last: u64) -> Update<'_> {
    let Opened { after } = open(region, at, last);
    Update { region, at, after }
}

/// An update of a unit that does not keep the region, from [`open`] until it is [ended](Opened::end).
#[must_use = "readers find the unit changing until its update is ended"]
pub struct Opened {
    /// The version afterwards.
    after: u64,
}

/// Begins an update as [`begin`] does, of a unit that may be copied to another region meanwhile.
///
/// # Panics
/// Panics when the region is read-only, or `at` is outside.
#[inline]
pub fn open(region: &Region, at: usize, last: u64) -> Opened {
    region.store(at, last.wrapping_add(1));
    // A reader that sees a word of this update and then fences also sees the odd version, or a later one.
    fence(Ordering::Release);
    Opened { after: last.wrapping_add(2) }
}

impl Opened {
    /// Ends the update, in the region in which the unit is now. If its words, with its version, were copied there, readers
    /// of the words that were copied find them changing for ever.
    ///
    /// # Panics
    /// Panics when the region is read-only, or `at` is outside.
    #[inline]
    pub fn end(self, region: &Region, at: usize) {
        region.publish(at, self.after);
    }
}

/// Returns whether the owner, who asks, is updating the unit whose version is at word `at`.
///
/// # Panics
/// Panics when `at` is outside.
#[inline]
#[must_use]
pub fn is_updated(region: &Region, at: usize) -> bool {
    region.load(at) % 2 == 1
}

impl Drop for Update<'_> {
    #[inline]
    fn drop(&mut self) {
        self.region.publish(self.at, self.after);
    }
}

/// Loads the version of a unit, some words of which are loaded before other versions are.
///
/// # Panics
/// Panics when `at` is outside of the region.
#[inline]
#[must_use]
pub fn look(region: &Region, at: usize) -> u64 {
    let version = region.load(at);
    fence(Ordering::Acquire);
    version
}

/// The versions of at most `N` units, which a reader found even.
pub struct UnitReader<'r, const N: usize> {
    region: &'r Region,
    units: [(usize, u64); N],
    len: usize,
    is_busy: bool,
}

impl<'r, const N: usize> UnitReader<'r, N> {
    /// Creates a reader that has looked at no unit yet.
    #[inline]
    pub fn new(region: &'r Region) -> UnitReader<'r, N> {
        UnitReader { region, units: [(0, 0); N], len: 0, is_busy: false }
    }

    /// Looks at the unit whose version is at word `at`. More than `N` units cannot be read whole.
    ///
    /// # Panics
    /// Panics when `at` is outside of the region.
    #[inline(always)]
    pub fn look(&mut self, at: usize) {
        self.note(at, self.region.load(at));
    }

    /// Looks at a unit, some words of which are loaded before the reader looks at others.
    ///
    /// # Panics
    /// Panics when `at` is outside of the region.
    #[inline]
    pub fn look_first(&mut self, at: usize) {
        self.note(at, look(self.region, at));
    }

    #[inline(always)]
    fn note(&mut self, at: usize, version: u64) {
        match self.units.get_mut(self.len) {
            Some(unit) if version.is_multiple_of(2) => {
                *unit = (at, version);
                self.len += 1;
            }
            _ => self.is_busy = true,
        }
    }

    /// Reads the words of the units, after every unit was looked at. Returns `None` if a unit has changed meanwhile.
    #[inline]
    pub fn read<T>(self, read: impl FnOnce(&Region) -> T) -> Option<T> {
        if self.is_busy {
            return None;
        }
        between(self.region, &self.units[..self.len], || read(self.region))
    }
}

/// Reads words of units whose versions, all of them even, were loaded before. Returns `None` if one of the units has
/// changed meanwhile.
#[inline]
pub fn between<T>(region: &Region, units: &[(usize, u64)], read: impl FnOnce() -> T) -> Option<T> {
    fence(Ordering::Acquire);
    let found = read();
    stand(region, units).then_some(found)
}

/// Reads words each of which is of its own moment, such as a value of one word. Later reads see no older state.
#[inline(always)]
pub fn apart<T>(read: impl FnOnce() -> T) -> T {
    let found = read();
    fence(Ordering::Acquire);
    found
}

/// Returns whether no unit has changed since its version was loaded.
#[inline]
pub fn stand(region: &Region, units: &[(usize, u64)]) -> bool {
    fence(Ordering::Acquire);
    units.iter().all(|(at, version)| region.load(*at) == *version)
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
