//! Two copies of some words, one of which always stands still.
//!
//! The owner writes the copy that is not the last one, and then makes it the last one. A version, in a word of its own,
//! tells readers which copy that is: after `k` updates it is `2 * k`, and the last copy is copy `k % 2`. The version is odd
//! while the owner writes. A reader has read whole words unless the owner has begun, since the reader looked, to write
//! the very copy that the reader reads, which is its second update from then on. Wherever a dying owner stops, the last
//! copy is whole.
//!
//! Invariant: from a correct owner, words for which [`Look::stands`] holds are those of one update.

use crate::region::Region;
use crate::sync::{Ordering, fence};

/// Begins an update. The owner may write the copy whose number is returned, from now on.
///
/// # Panics
/// Panics when the region is read-only, or `at` is outside.
#[inline]
pub fn begin(region: &Region, at: usize) -> usize {
    let version = region.load(at) & !1;
    // A reader that sees this version finds the words of the last copy.
    region.publish(at, version + 1);
    // A reader that sees a word of this update and then fences also sees this version, or a later one.
    fence(Ordering::Release);
    copy_of(version + 2)
}

/// Ends an update: the copy that [`begin`] returned is the last one.
///
/// # Panics
/// Panics when the region is read-only, or `at` is outside.
#[inline]
pub fn end(region: &Region, at: usize) {
    region.publish(at, (region.load(at) & !1).wrapping_add(2));
}

/// The last copy, as a reader has found it.
#[derive(Clone, Copy)]
pub struct Look {
    version: u64,
}

impl Look {
    /// Looks which copy is the last one. The version is at word `at`.
    ///
    /// # Panics
    /// Panics when `at` is outside of the region.
    #[inline]
    pub fn at(region: &Region, at: usize) -> Look {
        let version = region.load(at);
        fence(Ordering::Acquire);
        Look { version: version & !1 }
    }

    /// Returns the number of the copy to read: 0 or 1.
    #[inline]
    pub fn copy(self) -> usize {
        copy_of(self.version)
    }

    /// Returns the number of updates so far, times two.
    #[inline]
    pub fn version(self) -> u64 {
        self.version
    }

    /// Returns whether the words that were read since the look are those of one update.
    ///
    /// # Panics
    /// Panics when `at` is outside of the region.
    #[inline]
    pub fn stands(self, region: &Region, at: usize) -> bool {
        fence(Ordering::Acquire);
        region.load(at).wrapping_sub(self.version) <= 2
    }
}

const fn copy_of(version: u64) -> usize {
    (version >> 1 & 1) as usize
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
