//! A page of counters that its owner bumps and anybody who may look at the process reads.
//!
//! The counters stand in a sealed segment with one writer, so a bump is a load and a store. How
//! observers find it is said in [`crate::observe`], and what a counter counts is said elsewhere;
//! here it is a number with an index.
//!
//! Invariant: a view is made only of a segment that is sealed, whole and of this version, and
//! whatever its owner writes later, it only gives other numbers.

use crate::observe::{HEADER, Header, Kind, ObserveError};
use crate::region::{Region, WORD};
use crate::segment::{Segment, SegmentError, Writers};
use std::cell::Cell;
use std::marker::PhantomData;

/// The name by which an observer knows the segment among a process's descriptors.
pub const LABEL: &str = "upbeat-counters";

/// The most counters that a page has: an observer maps no more, whatever a process offers.
pub const COUNTERS_MAX: usize = 1 << 16;

const KIND: Kind = Kind {
    label: LABEL,
    magic: u64::from_le_bytes(*b"upbeat#n"),
    version: 2,
    words_max: HEADER + COUNTERS_MAX,
};

/// The counters of one node, to write. One thread owns them.
pub struct Counters {
    header: Header,
    values: Region,
    /// Keeps the descriptor by which observers come; None on the heap.
    segment: Option<Segment>,
    /// A bump is no atomic step, so two threads must not share this.
    one_thread: PhantomData<Cell<()>>,
}

impl Counters {
    /// Makes `count` counters that start at 0, in a segment that observers can find.
    ///
    /// # Panics
    /// When `count` is more than [`COUNTERS_MAX`].
    pub fn create(count: usize, node: &str, incarnation: u64) -> Result<Counters, SegmentError> {
        let bytes = words_of(count) * WORD;
        let segment = Segment::create(LABEL, bytes, Writers::Owner)?.reserve()?;
        let page = segment.region().clone();
        Ok(Counters { segment: Some(segment), ..Counters::over(&page, count, node, incarnation) })
    }

    /// Makes `count` counters that start at 0, on the heap, where only this process sees them.
    ///
    /// # Panics
    /// When `count` is more than [`COUNTERS_MAX`].
    #[must_use]
    pub fn heap(count: usize, node: &str, incarnation: u64) -> Counters {
        Counters::over(&Region::heap(words_of(count)), count, node, incarnation)
    }

    fn over(page: &Region, count: usize, node: &str, incarnation: u64) -> Counters {
        let header = KIND.announce(page, node, incarnation, [count as u64, 0, 0]);
        let values = page.part(HEADER, count);
        Counters { header, values, segment: None, one_thread: PhantomData }
    }

    /// The number of counters.
    #[inline]
    pub fn count(&self) -> usize {
        self.values.words()
    }

    /// Adds to a counter, which wraps round.
    ///
    /// ```
    /// use upbeat_memory::counters::Counters;
    /// let counters = Counters::heap(2, "shop/1", 1);
    /// counters.add(1, 5);
    /// assert_eq!((counters.get(0), counters.get(1)), (0, 5));
    /// ```
    ///
    /// # Panics
    /// When there is no such counter.
    #[inline]
    pub fn add(&self, index: usize, n: u64) {
        self.values.store(index, self.values.load(index).wrapping_add(n));
    }

    /// Sets a counter, for one that tells how much there is and not how often.
    ///
    /// # Panics
    /// When there is no such counter.
    #[inline]
    pub fn set(&self, index: usize, value: u64) {
        self.values.store(index, value);
    }

    /// The value of a counter.
    ///
    /// # Panics
    /// When there is no such counter.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        self.values.load(index)
    }

    /// What an observer of this process sees, for other threads of it.
    #[must_use]
    pub fn view(&self) -> CountersView {
        CountersView { header: self.header.clone(), values: self.values.read_only() }
    }

    /// Whether other processes can find these counters.
    pub fn is_shared(&self) -> bool {
        self.segment.is_some()
    }
}

fn words_of(count: usize) -> usize {
    assert!(count <= COUNTERS_MAX, "{count} counters, the most are {COUNTERS_MAX}");
    HEADER + count
}

/// Somebody's counters, to read. Each is what its owner says.
#[derive(Clone)]
pub struct CountersView {
    header: Header,
    values: Region,
}

impl CountersView {
    /// A view of the counters in a region that somebody else writes.
    pub fn new(region: &Region) -> Result<CountersView, ObserveError> {
        let header = KIND.header(region)?;
        let (count, room) = (header.own[0], region.words() - HEADER);
        match usize::try_from(count) {
            Ok(count) if count <= room => {
                Ok(CountersView { header, values: region.part(HEADER, count) })
            }
            _ => Err(ObserveError::Count { count, room }),
        }
    }

    /// The name of the node.
    pub fn node(&self) -> String {
        self.header.node.to_string()
    }

    /// The number of counters.
    pub fn count(&self) -> usize {
        self.values.words()
    }

    /// The process as it numbers itself: in a container this is not the number seen from outside.
    pub fn pid(&self) -> u64 {
        self.header.pid
    }

    /// The incarnation of the node that counts.
    pub fn incarnation(&self) -> u64 {
        self.header.incarnation
    }

    /// The value of a counter, None when the owner has no such counter (it may be of an older
    /// make than we are).
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        (index < self.values.words()).then(|| self.values.load(index))
    }

    /// All values, in the order of their indices. They are not of one moment.
    pub fn values(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.values.words()).map(|index| self.values.load(index))
    }
}

/// The counters of all nodes in a process, in the order of their descriptors. None at all is no
/// error: the process has no node. What is there and cannot be read is one only when nothing else
/// could be read.
pub fn observe(pid: u32) -> Result<Vec<CountersView>, ObserveError> {
    KIND.find(pid, CountersView::new)
}

#[cfg(test)]
mod tests;
