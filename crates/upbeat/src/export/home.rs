//! The memory in which an export lives, and to which it has moved when it had to grow.
//!
//! Paths keep the words of the first memory. The words of a value never change their places in it, so the places elsewhere
//! differ by one number.

use super::location::{Location, MOVED};
use super::memory::Memory;
use std::cell::OnceCell;
use std::sync::Arc;
use upbeat_transport::carrier::OwnSegment;

/// The memory of an export of this node.
pub(super) struct Home {
    pub(super) memory: Memory,
    pub(super) location: Location,
    pub(super) segment: Arc<OwnSegment>,
    /// The memory to which the export has moved.
    next: OnceCell<Box<Home>>,
}

impl Home {
    pub(super) fn new(segment: Arc<OwnSegment>, location: Location) -> Home {
        let memory = Memory(segment.region().clone());
        Home { memory, location, segment, next: OnceCell::new() }
    }

    /// Returns the memory in which the export is now.
    #[inline(always)]
    pub(super) fn now(&self) -> &Home {
        match self.next.get() {
            None => self,
            Some(next) => next.last(),
        }
    }

    #[cold]
    fn last(&self) -> &Home {
        let mut home = self;
        while let Some(next) = home.next.get() {
            home = next;
        }
        home
    }

    /// Returns the words from a place of a path, which is in this memory, to the place in the memory `now`.
    #[inline(always)]
    pub(super) fn distance(&self, now: &Home) -> usize {
        now.location.value().wrapping_sub(self.location.value())
    }

    /// Moves the export, all words of which are in `next` already.
    pub(super) fn move_to(&self, next: Home) {
        let last = self.last();
        if last.next.set(Box::new(next)).is_ok() {
            last.memory.0.publish(last.location.head, MOVED);
        }
    }
}
