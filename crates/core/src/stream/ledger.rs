//! What a sender has announced in a byte stream, and announces again when the session goes on over another.
//!
//! A segment is announced right before the frame that names it, and a peer that has not got the frame has
//! forgotten the announcement with the connection. A [`Ledger`] keeps each one, with whatever its owner
//! keeps beside it, until the peer is known to have read that frame. Positions are counts of slots of the
//! sender's lane. The invariant: after [`Ledger::again`] the ledger is as it was when the sender stood at
//! that position for the first time.

use crate::hello::Segment;
use crate::limits::SLAB_GENERATION;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The announcements of one side of a session. Call [`Ledger::announced`] for each, in the order of the lane,
/// [`Ledger::acknowledged`] as the peer reads, and [`Ledger::again`] before frames are shipped again.
#[derive(Debug)]
pub struct Ledger<T> {
    announcements: VecDeque<Announcement<T>>,
    /// Slabs that were announced.
    slabs: u32,
}

#[derive(Debug)]
struct Announcement<T> {
    /// Where the frame begins that names the segment.
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

    /// Notes that a segment is announced, for the frame that begins at this position.
    pub fn announced(&mut self, position: u64, segment: Segment, kept: T) {
        if segment.generation >= SLAB_GENERATION {
            self.slabs = self.slabs.wrapping_add(1);
        }
        self.announcements.push_back(Announcement { position, segment, kept });
    }

    /// Returns what is kept beside the announcement of a segment that the peer may not have got yet.
    pub fn kept(&mut self, generation: u32) -> Option<&mut T> {
        let all = &mut self.announcements;
        all.iter_mut().find(|each| each.segment.generation == generation).map(|each| &mut each.kept)
    }

    /// Forgets what was announced for frames that the peer has read: so many slots.
    #[inline]
    pub fn acknowledged(&mut self, taken: u64) {
        while self.announcements.front().is_some_and(|first| first.position < taken) {
            self.announcements.pop_front();
        }
    }

    /// Takes back what was announced for frames from this position on, and returns it, in its order: it is
    /// announced again.
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
