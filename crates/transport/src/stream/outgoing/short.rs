//! Frames of one slot, which have an encoder of their own because most messages are so short.
//!
//! Invariant: the records are the same that [`Outgoing::frame`] would encode.

use super::Outgoing;
use upbeat_core::frame::Kind;
use upbeat_core::limits::{HEAD_BYTES, SLOT_BYTES, STREAM_OUT_BYTES};
use upbeat_core::stream;
use upbeat_memory::lane::Mirror;
use upbeat_memory::ring::Look;

impl Outgoing {
    /// Encodes frames of one slot, up to the first frame that needs a decision.
    pub(super) fn short_frames(&mut self, mirror: &Mirror) {
        while self.unsent.encoded.len() < STREAM_OUT_BYTES
            && let Look::Short { kind, head } = mirror.look_short()
            && is_plain(kind, head)
            && self.backlog.ships_short(mirror.shipped())
        {
            stream::write_short(head, |at| mirror.copy_word(at), &mut self.unsent.encoded);
            mirror.pass_short();
        }
    }
}

/// Returns whether a frame of one slot says nothing about the lane and names no buffer.
#[inline(always)]
fn is_plain(kind: u8, head: [u64; 3]) -> bool {
    let about_lane = const { bit(Kind::Switch) | bit(Kind::Slab) | bit(Kind::Retire) };
    let fits = stream::payload_of(&head) as usize <= SLOT_BYTES - HEAD_BYTES;
    about_lane >> (kind % 64) & 1 == 0 && head[2] >> 16 == 0 && fits
}

const fn bit(kind: Kind) -> u64 {
    1 << kind as u8
}
