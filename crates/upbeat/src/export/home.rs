//! The memory in which an export lives, and to which it moves when it grows or when few exports are left around it.
//!
//! Paths keep the words of the first memory. The words of a value never change their places in it, so the places elsewhere
//! differ by one number.

use super::location::{Location, MOVED};
use super::memory::Memory;
use super::segments::Lodging;
use std::cell::{Ref, RefCell};
use upbeat_memory::fork::Process;

/// The memory of an export of this node.
pub(super) struct Home {
    /// Where paths have the export.
    first: Location,
    now: RefCell<Here>,
    /// The process that has the memory. A child that was forked there has not.
    made: Process,
}

/// Where an export is.
pub(super) struct Here {
    pub(super) memory: Memory,
    pub(super) location: Location,
    pub(super) lodging: Lodging,
}

impl Here {
    pub(super) fn new((lodging, location): (Lodging, Location), export: u32) -> Here {
        Here { memory: Memory::new(lodging.region().clone(), export), location, lodging }
    }
}

impl Home {
    pub(super) fn new(here: Here) -> Home {
        Home { first: here.location, now: RefCell::new(here), made: Process::this() }
    }

    /// Returns whether this process has the memory. A forked child of the owner's process has not.
    #[inline(always)]
    pub(super) fn is_here(&self) -> bool {
        self.made.is_this()
    }

    /// Returns where paths have the export.
    #[inline(always)]
    pub(super) fn first(&self) -> &Location {
        &self.first
    }

    /// Returns where the export is now. It does not move while this is kept.
    #[inline(always)]
    pub(super) fn now(&self) -> Ref<'_, Here> {
        self.now.borrow()
    }

    /// Returns the words from a place of a path to the place at `to`.
    #[inline(always)]
    pub(super) fn distance(&self, to: &Here) -> usize {
        to.location.value().wrapping_sub(self.first.value())
    }

    /// Moves the export, all words of which are in `next` already. The memory before is given back.
    pub(super) fn move_to(&self, next: Here) {
        let last = self.now.replace(next);
        last.memory.0.publish(last.location.head, MOVED);
    }
}
