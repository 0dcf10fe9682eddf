//! The last records of one writer, of which any number of readers get whole ones or none.
//!
//! A ring of records of the same length. Before each stands a sequence word: 0 at first, odd
//! while record `n` is written (`2n + 1`), even once it stands (`2n + 2`). So the word also says
//! which record it is, and a reader that finds the same word before and after has read that one.
//! The writer never waits and does not know of its readers; a reader never waits for the writer.
//! What a record means is said elsewhere.
//!
//! Invariant: whatever the writer's side holds, a reader touches only its region, and of an honest
//! writer it gets no record that was not written so.

use crate::region::Region;
use crate::sync::{Ordering, fence};
use std::cell::Cell;

/// Words before the first record, of two lines: the number of records written so far.
const HEAD: usize = 16;
const WRITTEN_AT: usize = 0;

/// Records that can be told from each other. No writer comes this far.
const NUMBERS: u64 = u64::MAX / 2;

/// The words that `records` records of `words` words each need, with all that stands between them.
#[must_use]
pub const fn words_of(records: usize, words: usize) -> usize {
    HEAD + records * (words + 1)
}

/// The writer of records of `WORDS` words each. One thread owns it.
pub struct Recorder<const WORDS: usize> {
    region: Region,
    mask: u64,
    /// The number of the next record.
    next: Cell<u64>,
}

impl<const WORDS: usize> Recorder<WORDS> {
    /// A writer to a zeroed region that keeps the last `records` records.
    ///
    /// # Panics
    /// When `records` is no power of two, or the region is smaller than [`words_of`] says.
    #[must_use]
    pub fn new(region: Region, records: usize) -> Recorder<WORDS> {
        let mask = mask_of::<WORDS>(&region, records);
        Recorder { region, mask, next: Cell::new(0) }
    }

    /// Writes the next record, over the oldest one.
    #[inline]
    pub fn write(&self, record: &[u64; WORDS]) {
        let number = self.next.get();
        let at = place::<WORDS>(number, self.mask);
        self.region.store(at, writing(number));
        // Whoever reads a word of this record, and fences, finds the odd sequence or a later one.
        fence(Ordering::Release);
        for (i, &word) in record.iter().enumerate() {
            self.region.store(at + 1 + i, word);
        }
        self.region.publish(at, stands(number));
        self.next.set(number + 1);
        self.region.publish(WRITTEN_AT, number + 1);
    }

    /// The number of records written so far.
    pub fn written(&self) -> u64 {
        self.next.get()
    }
}

/// A reader of records of `WORDS` words each, which somebody else writes.
#[derive(Clone)]
pub struct Recent<const WORDS: usize> {
    region: Region,
    mask: u64,
}

impl<const WORDS: usize> Recent<WORDS> {
    /// A reader of a region in which the last `records` records are kept.
    ///
    /// # Panics
    /// When `records` is no power of two, or the region is smaller than [`words_of`] says.
    #[must_use]
    pub fn new(region: Region, records: usize) -> Recent<WORDS> {
        let mask = mask_of::<WORDS>(&region, records);
        Recent { region, mask }
    }

    /// The number of records written so far, as the writer says. All below it stand, or are
    /// overwritten. It is at most `u64::MAX / 2`, so that a reader may count on from it.
    pub fn written(&self) -> u64 {
        let written = self.region.load(WRITTEN_AT).min(NUMBERS);
        fence(Ordering::Acquire);
        written
    }

    /// The number of the oldest record that may still be there.
    pub fn oldest(&self) -> u64 {
        self.written().saturating_sub(self.mask + 1)
    }

    /// A record by its number, from 0. None when it is not yet written, is being written, or is
    /// overwritten.
    pub fn read(&self, number: u64) -> Option<[u64; WORDS]> {
        // The sequence of a higher number would be another's.
        if number >= NUMBERS {
            return None;
        }
        let at = place::<WORDS>(number, self.mask);
        if self.region.load(at) != stands(number) {
            return None;
        }
        fence(Ordering::Acquire);
        let record = std::array::from_fn(|i| self.region.load(at + 1 + i));
        fence(Ordering::Acquire);
        (self.region.load(at) == stands(number)).then_some(record)
    }
}

/// Where the sequence word of a record stands. It is inside of a region that [`mask_of`] let pass.
fn place<const WORDS: usize>(number: u64, mask: u64) -> usize {
    HEAD + (number & mask) as usize * (WORDS + 1)
}

/// What stands in the sequence word while the record is written.
const fn writing(number: u64) -> u64 {
    2 * number + 1
}

/// What stands in the sequence word once the record is whole.
const fn stands(number: u64) -> u64 {
    2 * number + 2
}

fn mask_of<const WORDS: usize>(region: &Region, records: usize) -> u64 {
    assert!(records.is_power_of_two(), "{records} records are no power of two");
    assert!(words_of(records, WORDS) <= region.words(), "no room for {records} records");
    records as u64 - 1
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
