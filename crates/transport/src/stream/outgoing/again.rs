//! What is shipped again when the session goes on over another connection.
//!
//! Frames lie in our ring and payloads in our buffers until the peer has read them; segments are kept until the
//! peer has read the frame that names them. What is said of our progress are words as they stand.
//! Invariant: the first bytes over a connection begin a record.

use super::unsent::Unsent;
use super::{Outgoing, Pushed};
use upbeat_core::fault::Rule;
use upbeat_core::hello::Segment;
use upbeat_core::stream;
use upbeat_memory::lane::{AgainFault, Mirror};
use upbeat_memory::region::{Region, WORD};

impl Outgoing {
    /// A segment that a frame will name.
    pub(in super::super) fn segment(&mut self, generation: u32, region: Region) {
        let bytes = (region.words() * WORD) as u32;
        self.asking.announced();
        self.segments.push_back((Segment { generation, bytes }, Some(region)));
    }

    /// The segment that the next frame names: its record goes right before that.
    pub(super) fn named(&mut self, generation: u32, mirror: &Mirror) -> Option<Region> {
        let is_named = |(segment, _): &(Segment, _)| segment.generation == generation;
        let at = self.segments.iter().position(is_named)?;
        let (segment, region) = self.segments.remove(at)?;
        stream::write_segment(segment, &mut self.unsent.encoded);
        self.ledger.announced(mirror.shipped(), segment, region.clone());
        region
    }

    /// The slab of this number is given up: its memory is not needed, for all its buffers have come back.
    pub(super) fn retired(&mut self, number: usize) {
        let Some(slab) = self.slabs.get_mut(number).and_then(Option::take) else { return };
        if let Some(kept) = self.ledger.kept(slab.generation) {
            *kept = None;
        }
    }

    /// The connection is gone, and what was encoded for it. A question about room need not be asked again: what
    /// the peer shows first over another connection answers it.
    pub(in super::super) fn forget(&mut self) {
        self.unsent = Unsent::default();
        self.lent = None;
        self.pushed = Pushed::default();
        self.backlog.again();
        self.owes.answer = None;
        self.asking.again();
    }

    /// Goes on over another connection, behind so many slots of our lane, which the peer has received.
    pub(in super::super) fn again(&mut self, position: u64, mirror: &Mirror) -> Result<(), Rule> {
        mirror.again(position).map_err(|fault| match fault {
            AgainFault::Ahead { shipped } => Rule::ResumeAhead { seen: position, shipped },
            AgainFault::Behind { taken } => {
                Rule::ResumeBehind { seen: position, acknowledged: taken }
            }
            AgainFault::Within => Rule::ResumeWithin { seen: position },
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
