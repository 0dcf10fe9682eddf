//! Sending again when the session is resumed over another connection.
//!
//! Frames lie in our ring and payloads in our buffers until the peer has read them. Segments are kept until the peer
//! has read the frame that names them. Reports of our progress are repeated with the current values. Invariant: the
//! first bytes over a connection begin a record.

use super::unsent::Unsent;
use super::{Outgoing, Pushed};
use upbeat_core::fault::Rule;
use upbeat_core::hello::Segment;
use upbeat_core::stream;
use upbeat_memory::lane::{Mirror, RewindError};
use upbeat_memory::region::Region;

impl Outgoing {
    /// Stores a segment that a frame will name.
    pub(in super::super) fn segment(&mut self, announced: Segment, region: Region) {
        self.asking.announced();
        self.segments.push_back((announced, Some(region)));
    }

    /// Encodes the record of the segment that the next frame names, right before that frame.
    pub(super) fn named(&mut self, generation: u32, mirror: &Mirror) -> Option<Region> {
        let is_named = |(segment, _): &(Segment, _)| segment.generation == generation;
        let at = self.segments.iter().position(is_named)?;
        let (segment, region) = self.segments.remove(at)?;
        stream::write_segment(segment, &mut self.unsent.encoded);
        self.ledger.announced(mirror.shipped(), segment, region.clone());
        region
    }

    /// Drops the memory of a retired slab, all of whose buffers have come back.
    pub(super) fn retired(&mut self, number: usize) {
        let Some(slab) = self.slabs.get_mut(number).and_then(Option::take) else { return };
        if let Some(kept) = self.ledger.kept(slab.generation) {
            *kept = None;
        }
    }

    /// Forgets the records that were encoded for a lost connection. A question about room need not be asked again,
    /// because the peer's first report over another connection answers it.
    pub(in super::super) fn forget(&mut self) {
        self.unsent = Unsent::default();
        self.lent = None;
        self.pushed = Pushed::default();
        self.backlog.again();
        self.owes.answer = None;
        self.asking.again();
    }

    /// Resumes over another connection, behind `position` slots of our lane, which the peer has received.
    pub(in super::super) fn again(&mut self, position: u64, mirror: &Mirror) -> Result<(), Rule> {
        mirror.rewind(position).map_err(|fault| match fault {
            RewindError::Ahead { shipped } => Rule::ResumeAhead { seen: position, shipped },
            RewindError::Behind { taken } => {
                Rule::ResumeBehind { seen: position, acknowledged: taken }
            }
            RewindError::Within => Rule::ResumeWithin { seen: position },
        })?;
        for (segment, region) in self.ledger.again(position).into_iter().rev() {
            for slab in &mut self.slabs {
                slab.take_if(|slab| slab.generation == segment.generation);
            }
            self.segments.push_front((segment, region));
        }
        self.told.again();
        Ok(())
    }
}
