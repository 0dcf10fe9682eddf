//! A page of counters that its owner increments and that observers of the process read.
//!
//! The counters lie in a sealed segment with one writer, so an increment is a load and a store. [`crate::observe`]
//! describes how observers find the page. Here a counter is a number with an index; other modules define its
//! meaning.
//!
//! Invariant: a view exists only of a segment that is sealed, complete and of this version. Whatever the owner
//! writes later, the view only returns other numbers.

use crate::observe::{HEADER, Header, Kind, OWN_AT, ObserveError};
use crate::region::{Region, WORD};
use crate::segment::{Segment, SegmentError, Writers};
use std::cell::Cell;
use std::marker::PhantomData;

/// The label by which an observer finds the segment among the descriptors of a process.
pub const LABEL: &str = "upbeat-counters";

/// The largest number of counters of a page: an observer maps no more, whatever a process offers.
pub const COUNTERS_MAX: usize = 1 << 16;

const KIND: Kind = Kind {
    label: LABEL,
    magic: u64::from_le_bytes(*b"upbeat#n"),
    version: 3,
    words_max: HEADER + COUNTERS_MAX,
};

/// The hash of the counters' names, behind their number.
const NAMES_AT: usize = OWN_AT + 1;

/// The writing side of one node's counters, which one thread owns.
pub struct Counters {
    header: Header,
    page: Region,
    values: Region,
    /// The segment with the descriptor that observers open, or none on the heap.
    segment: Option<Segment>,
    /// An increment is not atomic, so two threads must not share the counters.
    one_thread: PhantomData<Cell<()>>,
}

impl Counters {
    /// Creates `count` counters that start at 0, in a segment that observers can find.
    ///
    /// # Panics
    /// Panics when `count` is more than [`COUNTERS_MAX`].
    pub fn create(count: usize, node: &str, incarnation: u64) -> Result<Counters, SegmentError> {
        let bytes = words_of(count) * WORD;
        let segment = Segment::create(LABEL, bytes, Writers::Owner)?.reserve()?;
        let page = segment.region().clone();
        Ok(Counters { segment: Some(segment), ..Counters::over(&page, count, node, incarnation) })
    }

    /// Creates `count` counters that start at 0, on the heap, where only this process sees them.
    ///
    /// # Panics
    /// Panics when `count` is more than [`COUNTERS_MAX`].
    #[must_use]
    pub fn heap(count: usize, node: &str, incarnation: u64) -> Counters {
        Counters::over(&Region::heap(words_of(count)), count, node, incarnation)
    }

    fn over(page: &Region, count: usize, node: &str, incarnation: u64) -> Counters {
        let header = KIND.announce(page, node, incarnation, [count as u64, 0, 0]);
        let values = page.part(HEADER, count);
        Counters { header, page: page.clone(), values, segment: None, one_thread: PhantomData }
    }

    /// Says which counters these are: a hash of their names, by which observers know whether their own list of names
    /// applies. The hash is 0 before.
    #[must_use]
    pub fn named(self, names: u64) -> Counters {
        self.page.store(NAMES_AT, names);
        self
    }

    /// Returns the number of counters.
    #[inline]
    pub fn count(&self) -> usize {
        self.values.words()
    }

    /// Adds to a counter, which wraps around.
    ///
    /// ```
    /// use upbeat_memory::counters::Counters;
    /// let counters = Counters::heap(2, "shop/1", 1);
    /// counters.add(1, 5);
    /// assert_eq!((counters.get(0), counters.get(1)), (0, 5));
    /// ```
    ///
    /// # Panics
    /// Panics when there is no counter of this index.
    #[inline]
    pub fn add(&self, index: usize, n: u64) {
        self.values.store(index, self.values.load(index).wrapping_add(n));
    }

    /// Sets a counter that gives an amount and not a number of events.
    ///
    /// # Panics
    /// Panics when there is no counter of this index.
    #[inline]
    pub fn set(&self, index: usize, value: u64) {
        self.values.store(index, value);
    }

    /// Returns the value of a counter.
    ///
    /// # Panics
    /// Panics when there is no counter of this index.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        self.values.load(index)
    }

    /// Returns the view of an observer, for other threads of this process.
    #[must_use]
    pub fn view(&self) -> CountersView {
        let (page, values) = (self.page.read_only(), self.values.read_only());
        CountersView { header: self.header.clone(), page, values }
    }

    /// Returns whether other processes can find these counters.
    pub fn is_shared(&self) -> bool {
        self.segment.is_some()
    }
}

fn words_of(count: usize) -> usize {
    assert!(count <= COUNTERS_MAX, "{count} counters, the most are {COUNTERS_MAX}");
    HEADER + count
}

/// The reading side of a node's counters, whose values the owner controls.
#[derive(Clone)]
pub struct CountersView {
    header: Header,
    page: Region,
    values: Region,
}

impl CountersView {
    /// Creates a view of the counters in a region that another process writes.
    pub fn new(region: &Region) -> Result<CountersView, ObserveError> {
        let header = KIND.header(region)?;
        let (count, room) = (header.own[0], region.words() - HEADER);
        match usize::try_from(count) {
            Ok(count) if count <= room => {
                let (page, values) = (region.clone(), region.part(HEADER, count));
                Ok(CountersView { header, page, values })
            }
            _ => Err(ObserveError::Count { count, room }),
        }
    }

    /// Returns the name of the node.
    pub fn node(&self) -> String {
        self.header.node.to_string()
    }

    /// Returns the name of the node's program; empty if the page names none.
    pub fn program(&self) -> String {
        self.header.program.to_string()
    }

    /// Returns the hash of the counters' names, or 0 if the owner gave none.
    pub fn names(&self) -> u64 {
        self.page.load(NAMES_AT)
    }

    /// Returns the number of counters.
    pub fn count(&self) -> usize {
        self.values.words()
    }

    /// Returns the process number as the process sees it, which in a container differs from the number outside.
    pub fn pid(&self) -> u64 {
        self.header.pid
    }

    /// Returns the incarnation of the node.
    pub fn incarnation(&self) -> u64 {
        self.header.incarnation
    }

    /// Returns the value of a counter, or none when the owner has no such counter because it is of an older
    /// version.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        (index < self.values.words()).then(|| self.values.load(index))
    }

    /// Returns all values in the order of their indices. The values are not of one moment.
    pub fn values(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.values.words()).map(|index| self.values.load(index))
    }
}

/// Returns the counters of all nodes in a process, in the order of their descriptors. A process without a node has
/// none, which is no error. A page that cannot be read is an error only if no other page can be read.
pub fn observe(pid: u32) -> Result<Vec<CountersView>, ObserveError> {
    KIND.find(pid, CountersView::new)
}

#[cfg(test)]
mod tests;
