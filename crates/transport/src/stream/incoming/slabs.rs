//! The peer's slabs, into whose replicas the bytes of its buffers are received.
//!
//! Where there is no memory for a slab, or the node has no room, its payloads are lost, and no others. Memory is looked
//! for again when the next buffer begins. Invariant: a buffer that has lost bytes [says so](Segment::lost) until its
//! next payload begins.

use super::{Filling, Incoming};
use crate::events::{Replica, Segment};
use std::sync::Arc;
use upbeat_core::fault::Rule;
use upbeat_core::limits::{SLAB_GENERATION, SLABS_MAX};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::quota::Charge;
use upbeat_core::stream::{Chunk, NoRoom, SegmentRequest};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::slab::is_slab;

/// The peer's slabs, by their numbers.
#[derive(Default)]
pub(in super::super) struct PeerSlabs(Vec<Option<PeerSlab>>);

struct PeerSlab {
    replica: Arc<Replica>,
    each: usize,
    count: u32,
    /// The slab's share of the bytes that slabs may take, once there is memory for it.
    weight: usize,
}

impl PeerSlabs {
    /// Returns the number of each slab, and the number of its buffers.
    pub(in super::super) fn buffers(&self) -> impl Iterator<Item = (usize, u32)> {
        let slabs = self.0.iter().enumerate();
        slabs.filter_map(|(number, slab)| Some((number, slab.as_ref()?.count)))
    }

    /// Returns the slab of a buffer in which these bytes lie.
    fn of(&mut self, chunk: &Chunk) -> Result<&mut PeerSlab, Rule> {
        let Chunk { slab: number, index, at, bytes, .. } = *chunk;
        let slab = self.0.get_mut(usize::from(number)).and_then(Option::as_mut);
        let lies_in = |slab: &PeerSlab| {
            let (at, bytes) = (at as usize, bytes as usize);
            index < slab.count && at <= slab.each && bytes <= slab.each - at
        };
        slab.filter(|slab| lies_in(slab)).ok_or(Rule::StrayBuffer { slab: number, index })
    }
}

impl Incoming {
    /// Prepares the replica of a slab of this number and shape.
    pub(super) fn slab(&mut self, number: u32, shape: u64) -> Result<(), Rule> {
        let generation = SLAB_GENERATION.wrapping_add(self.announced);
        let bytes = self.find(generation)?.bytes;
        let (each, count) = (shape as u32 as usize, (shape >> 32) as u32);
        let number = number as usize;
        let known = self.slabs.0.get(number).is_some_and(Option::is_some);
        if number >= SLABS_MAX || known || !is_slab(bytes as usize, each, count) {
            return Err(Rule::StraySegment { generation });
        }
        self.announced = self.announced.wrapping_add(1);
        let wish = SegmentRequest { each: each as u32, count };
        let charge = self.granting.announced(wish, self.weight(each, count) as u64);
        let mut slab = PeerSlab { replica: Arc::default(), each, count, weight: 0 };
        slab.weight = self.supply(&slab, charge);
        self.named.push(Segment::heap(generation, bytes, &slab.replica));
        let slots = self.slabs.0.len().max(number + 1);
        self.slabs.0.resize_with(slots, || None);
        self.slabs.0[number] = Some(slab);
        Ok(())
    }

    /// Forgets a slab that the peer has given up.
    pub(super) fn retire(&mut self, number: u32) {
        let place = self.slabs.0.get_mut(number as usize);
        if let Some(slab) = place.and_then(Option::take) {
            self.taken.slabs -= slab.weight;
        }
    }

    /// Allocates the memory of a slab, if there is any for this charge. Returns the slab's share then, and else 0.
    fn supply(&mut self, slab: &PeerSlab, charge: Result<Option<Charge>, NoRoom>) -> usize {
        let weight = self.weight(slab.each, slab.count);
        let Some(charge) = charge.ok().filter(|_| self.may_take(weight)) else { return 0 };
        let region = Region::try_heap(slab.each * slab.count as usize / WORD);
        let Some(region) = region else { return 0 };
        let uncharged = mutated(Mutant::SlabUncharged);
        slab.replica.supply(if uncharged { region } else { region.keeping(charge) });
        self.taken.slabs += weight;
        weight
    }

    /// Looks again for the memory of a slab for which there was none.
    #[cold]
    fn supply_late(&mut self, number: usize) {
        let Some(mut slab) = self.slabs.0[number].take() else { return };
        let charge = self.granting.take(self.weight(slab.each, slab.count) as u64);
        slab.weight = self.supply(&slab, charge);
        self.slabs.0[number] = Some(slab);
    }

    /// Prepares to receive bytes of a buffer, which follow.
    pub(super) fn chunk(&mut self, chunk: Chunk) -> Result<(), Rule> {
        let Chunk { slab: number, index, at, bytes, whole } = chunk;
        let (begins, is_read) = (at == 0, whole as usize <= self.longest);
        let is_lacking = self.slabs.of(&chunk)?.replica.region().is_none();
        if is_lacking && begins && is_read {
            self.supply_late(usize::from(number));
        }
        let slab = self.slabs.of(&chunk)?;
        let region = slab.replica.region();
        if begins {
            slab.replica.note(index, region.is_none());
        }
        // A payload that is longer than the owner reads is not kept.
        let region = region.filter(|_| is_read).cloned();
        let at = index as usize * slab.each + at as usize;
        self.filling = Some(Filling { frame: None, region, at, left: bytes as usize });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use upbeat_core::hello;
    use upbeat_core::quota::Quota;

    const EACH: usize = 4096;

    /// A payload that began while the node had no room stays lost, also if a later one brings the slab its memory.
    #[test]
    fn a_payload_that_has_lost_bytes_is_lost() {
        let quota = Quota::new(20 << 10);
        let other = quota.share().take(10 << 10).unwrap();
        let mut incoming = Incoming::default();
        incoming.charge_to(&quota);
        let bytes = 2 * EACH as u32;
        incoming.announce(hello::Segment { generation: SLAB_GENERATION, bytes }).unwrap();
        incoming.slab(0, EACH as u64 | 2 << 32).unwrap();
        let segment = incoming.named.pop().unwrap();
        let mut chunk = |index, at| {
            let chunk = Chunk { slab: 0, index, at, bytes: 8, whole: 16 };
            incoming.chunk(chunk).unwrap();
            incoming.filling.as_ref().is_some_and(|filling| filling.region.is_some())
        };
        assert!(!chunk(0, 0) && segment.lost() == 1 && segment.open().is_err());
        drop(other);
        assert!(!chunk(0, 8), "its beginning is lost");
        assert!(chunk(1, 0) && segment.lost() == 1 && segment.open().is_ok());
        assert!(chunk(0, 8) && segment.lost() == 1);
        assert!(chunk(0, 0) && segment.lost() == 0);
        assert_eq!(incoming.taken.slabs, 2 * EACH);
        incoming.retire(0);
        assert_eq!(incoming.taken.slabs, 0);
    }
}
