//! The memory that the peer has this side hold: its slabs and rings, and bytes that came at once.
//!
//! What may be held is granted and charged by [`Granting`](upbeat_core::stream::Granting), within what one session may have; the memory
//! keeps its charge. Invariant: nothing beyond what every session has is held without a charge.

use super::{Incoming, READ_BYTES};
use upbeat_core::limits::{LONG_BYTES_MAX, PAGE_BYTES};
use upbeat_core::quota::{Charge, Quota};
use upbeat_core::stream::{NoRoom, Wish};
use upbeat_memory::lane::GROWN_BYTES;

/// Uses that slabs have: each may take so many bytes.
const USES: usize = 3;

/// The memory that this side holds for the peer's slabs and bytes.
#[derive(Default)]
pub(super) struct Taken {
    /// Bytes of slabs.
    pub(super) slabs: usize,
    /// What the buffer is charged with, where it is longer than most sessions need.
    pub(super) buffer: Option<Charge>,
}

impl Incoming {
    /// Has memory whose size the peer chooses charged to a quota.
    pub(in super::super) fn charge_to(&mut self, quota: &Quota) {
        self.granting.set_quota(quota);
    }

    /// Lengthens the buffer to so many bytes. Where the node has no room for that, it has what every session has.
    pub(super) fn lengthen(&mut self, bytes: usize) {
        let mut length = bytes;
        if bytes > READ_BYTES {
            match self.granting.take(bytes as u64) {
                Ok(charge) => self.taken.buffer = charge,
                Err(NoRoom) => length = self.buffer.len().max(READ_BYTES),
            }
        }
        self.buffer.resize(length, 0);
        self.at_once = self.at_once.min(length);
    }

    /// What a slab takes of the bytes that slabs may take: no more of a buffer is kept than the owner reads.
    /// No page is taken before its bytes come.
    pub(super) fn weight(&self, each: usize, count: u32) -> usize {
        (count as usize).saturating_mul(each.min(self.longest)).next_multiple_of(PAGE_BYTES)
    }

    /// Whether slabs may take so many bytes more of those of the session.
    pub(super) fn may_take(&self, weight: usize) -> bool {
        let most = USES * (LONG_BYTES_MAX + 2 * self.longest);
        weight <= most - self.taken.slabs.min(most)
    }

    /// The peer wishes to announce a segment.
    pub(super) fn wished(&mut self, wish: Wish) {
        let Wish { each, count } = wish;
        let bytes = if count == 0 {
            // A ring that is none of those in which lanes go on is told when it comes.
            GROWN_BYTES.get(self.grown).map(|bytes| *bytes as u64)
        } else {
            let weight = self.weight(each as usize, count);
            self.may_take(weight).then_some(weight as u64)
        };
        self.granting.asked(wish, bytes);
    }
}
