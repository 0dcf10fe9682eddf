//! The announcements of a sender in a byte stream, which are repeated when the session continues over another.
//!
//! A segment is announced directly before the frame that names it. A peer that has not received the frame loses
//! the announcement with the connection. A [`Ledger`] keeps each announcement, and the value that its owner keeps
//! with it, until the peer is known to have read that frame. Positions are counts of slots of the sender's lane.
//! Invariant: after [`Ledger::again`] the ledger is in the state that it had when the sender was at that position
//! for the first time.

use crate::hello::Segment;
use crate::limits::SLAB_GENERATION;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The announcements of one side of a session. The owner calls [`Ledger::announced`] for each, in the order of the
/// lane, [`Ledger::acknowledged`] as the peer reads, and [`Ledger::again`] before frames are shipped again.
#[derive(Debug)]
pub struct Ledger<T> {
    announcements: VecDeque<Announcement<T>>,
    /// The number of slabs that were announced.
    slabs: u32,
}

#[derive(Debug)]
struct Announcement<T> {
    /// The position of the frame that names the segment.
    position: u64,
    segment: Segment,
    kept: T,
}

impl<T> Default for Ledger<T> {
    fn default() -> Ledger<T> {
        Ledger { announcements: VecDeque::new(), slabs: 0 }
    }
}

impl<T> Ledger<T> {
    /// Returns the generation of the slab that is announced next.
    pub const fn next_slab(&self) -> u32 {
        SLAB_GENERATION.wrapping_add(self.slabs)
    }

    /// Records the announcement of a segment for the frame at this position.
    pub fn announced(&mut self, position: u64, segment: Segment, kept: T) {
        if segment.generation >= SLAB_GENERATION {
            self.slabs = self.slabs.wrapping_add(1);
        }
        self.announcements.push_back(Announcement { position, segment, kept });
    }

    /// Returns the value kept with an announcement that the peer may not have received yet.
    pub fn kept(&mut self, generation: u32) -> Option<&mut T> {
        let all = &mut self.announcements;
        all.iter_mut().find(|each| each.segment.generation == generation).map(|each| &mut each.kept)
    }

    /// Removes the announcements for the first `taken` slots, which the peer has read.
    #[inline]
    pub fn acknowledged(&mut self, taken: u64) {
        while self.announcements.front().is_some_and(|first| first.position < taken) {
            self.announcements.pop_front();
        }
    }

    /// Removes the announcements for frames from this position on, and returns them in order, to be announced
    /// again.
    pub fn again(&mut self, position: u64) -> Vec<(Segment, T)> {
        let from = self.announcements.partition_point(|each| each.position < position);
        let behind = self.announcements.drain(from..);
        let again: Vec<(Segment, T)> = behind.map(|each| (each.segment, each.kept)).collect();
        let slabs = again.iter().filter(|(segment, _)| segment.generation >= SLAB_GENERATION);
        self.slabs = self.slabs.wrapping_sub(slabs.count() as u32);
        again
    }
}

#[cfg(test)]
mod tests;
