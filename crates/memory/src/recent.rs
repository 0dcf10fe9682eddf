//! The last records of one writer, for any number of readers, which get whole records or none.
//!
//! The records have one length and lie in a ring. A sequence word precedes each record: 0 at first, odd while
//! record `n` is written (`2n + 1`), even once it is complete (`2n + 2`). The word thus identifies the record, and
//! a reader that finds the same even word before and after its read has read that record. The writer never waits
//! and does not know its readers; a reader never waits for the writer. Other modules define the meaning of
//! records.
//!
//! Invariant: a reader touches only its region, whatever the writer's memory holds. From a correct writer it gets
//! only records that the writer has written.

use crate::region::Region;
use crate::sync::{Ordering, fence};
use std::cell::Cell;

/// The words before the first record, in two lines: the number of records written so far.
const HEAD: usize = 16;
const WRITTEN_AT: usize = 0;

/// The number of records that sequence words can distinguish. No writer gets that far.
const NUMBERS: u64 = u64::MAX / 2;

/// Returns the words of a region with `records` records of `words` words each.
#[must_use]
pub const fn words_of(records: usize, words: usize) -> usize {
    HEAD + records * (words + 1)
}

/// The writer of records of `WORDS` words each, which one thread owns.
pub struct Recorder<const WORDS: usize> {
    region: Region,
    mask: u64,
    /// The number of the next record.
    next: Cell<u64>,
}

impl<const WORDS: usize> Recorder<WORDS> {
    /// Creates a writer to a zeroed region that keeps the last `records` records.
    ///
    /// # Panics
    /// Panics when `records` is no power of two, or the region is smaller than [`words_of`] returns.
    #[must_use]
    pub fn new(region: Region, records: usize) -> Recorder<WORDS> {
        let mask = mask_of::<WORDS>(&region, records);
        Recorder { region, mask, next: Cell::new(0) }
    }

    /// Writes the next record over the oldest one.
    #[inline]
    pub fn write(&self, record: &[u64; WORDS]) {
        let number = self.next.get();
        let at = slot_of::<WORDS>(number, self.mask);
        self.region.store(at, writing_sequence(number));
        // A reader that sees a word of this record and then fences also sees the odd sequence word, or a later
        // one.
        fence(Ordering::Release);
        for (i, &word) in record.iter().enumerate() {
            self.region.store(at + 1 + i, word);
        }
        self.region.publish(at, complete_sequence(number));
        self.next.set(number + 1);
        self.region.publish(WRITTEN_AT, number + 1);
    }

    /// Returns the number of records written so far.
    pub fn written(&self) -> u64 {
        self.next.get()
    }
}

/// A reader of records of `WORDS` words each, which another thread or process writes.
#[derive(Clone)]
pub struct RecentReader<const WORDS: usize> {
    region: Region,
    mask: u64,
}

impl<const WORDS: usize> RecentReader<WORDS> {
    /// Creates a reader of a region that keeps the last `records` records.
    ///
    /// # Panics
    /// Panics when `records` is no power of two, or the region is smaller than [`words_of`] returns.
    #[must_use]
    pub fn new(region: Region, records: usize) -> RecentReader<WORDS> {
        let mask = mask_of::<WORDS>(&region, records);
        RecentReader { region, mask }
    }

    /// Returns the number of records written so far, as the writer reports it. All records below it are complete
    /// or overwritten. The number is at most `u64::MAX / 2`, so that a reader may count on from it.
    pub fn written(&self) -> u64 {
        let written = self.region.load(WRITTEN_AT).min(NUMBERS);
        fence(Ordering::Acquire);
        written
    }

    /// Returns the number of the oldest record that may still be there.
    pub fn oldest(&self) -> u64 {
        self.written().saturating_sub(self.mask + 1)
    }

    /// Returns the record of this number, from 0, or none when it is not yet written, is being written, or is
    /// overwritten.
    pub fn read(&self, number: u64) -> Option<[u64; WORDS]> {
        // The sequence word of a higher number would belong to another record.
        if number >= NUMBERS {
            return None;
        }
        let at = slot_of::<WORDS>(number, self.mask);
        if self.region.load(at) != complete_sequence(number) {
            return None;
        }
        fence(Ordering::Acquire);
        let record = std::array::from_fn(|i| self.region.load(at + 1 + i));
        fence(Ordering::Acquire);
        (self.region.load(at) == complete_sequence(number)).then_some(record)
    }
}

/// Returns the word with the sequence of a record. The word is inside each region that [`mask_of`] accepts.
fn slot_of<const WORDS: usize>(number: u64, mask: u64) -> usize {
    HEAD + (number & mask) as usize * (WORDS + 1)
}

/// Returns the sequence word of a record that is being written.
const fn writing_sequence(number: u64) -> u64 {
    2 * number + 1
}

/// Returns the sequence word of a complete record.
const fn complete_sequence(number: u64) -> u64 {
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
