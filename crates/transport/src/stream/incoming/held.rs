//! The memory that this side holds for the peer: its slabs and rings, and the receive buffer.
//!
//! [`Granting`](upbeat_core::stream::Granting) grants and charges the memory, within the limit of one session. The
//! memory keeps its charge. Invariant: memory beyond the minimum of every session is never held without a charge.

use super::{Incoming, READ_BYTES};
use upbeat_core::limits::{LONG_BYTES_MAX, PAGE_BYTES};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::quota::{Charge, Quota};
use upbeat_core::stream::{NoRoom, SegmentRequest};
use upbeat_memory::lane::GROWN_BYTES;

/// The number of uses of slabs, each of which has this limit of bytes.
const USES: usize = 3;

/// The memory that this side holds for the peer's slabs and for received bytes.
#[derive(Default)]
pub(super) struct HeldMemory {
    /// The bytes of slabs.
    pub(super) slabs: usize,
    /// The charge of the receive buffer, if that is longer than most sessions need.
    pub(super) buffer: Option<Charge>,
}

impl Incoming {
    /// Charges the memory whose size the peer chooses to a quota.
    pub(in super::super) fn charge_to(&mut self, quota: &Quota) {
        self.granting.set_quota(quota);
    }

    /// Lengthens the receive buffer. If the node has no room for that, the buffer gets the minimum of every session.
    pub(super) fn lengthen(&mut self, bytes: usize) {
        let mut length = bytes;
        if bytes > READ_BYTES {
            match self.granting.take(bytes as u64) {
                Ok(_) if mutated(Mutant::ReceiveUncharged) => {}
                Ok(charge) => self.taken.buffer = charge,
                Err(NoRoom) => length = self.buffer.len().max(READ_BYTES),
            }
        }
        self.buffer.resize(length, 0);
        self.at_once = self.at_once.min(length);
    }

    /// Returns a slab's share of the bytes that slabs may take: of a buffer, no more is kept than the owner reads. No
    /// page is used before its bytes come.
    pub(super) fn weight(&self, each: usize, count: u32) -> usize {
        (count as usize).saturating_mul(each.min(self.longest)).next_multiple_of(PAGE_BYTES)
    }

    /// Returns whether slabs of the session may take this many bytes more.
    pub(super) fn may_take(&self, weight: usize) -> bool {
        let most = USES * (LONG_BYTES_MAX + 2 * self.longest);
        weight <= most - self.taken.slabs.min(most)
    }

    /// Takes the peer's wish to announce a segment.
    pub(super) fn wished(&mut self, wish: SegmentRequest) {
        let SegmentRequest { each, count } = wish;
        let bytes = if count == 0 {
            // A ring of a size that lanes do not use gets its answer when it comes.
            GROWN_BYTES.get(self.grown).map(|bytes| *bytes as u64)
        } else {
            let weight = self.weight(each as usize, count);
            self.may_take(weight).then_some(weight as u64)
        };
        self.granting.asked(wish, bytes);
    }
}
