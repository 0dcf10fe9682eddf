//! The sides of a session on one host: passed segments, or the number of a byte stream's session.
//!
//! Invariant: a parsed record has sizes and indexes within their bounds.

use super::Listening;
use crate::fault::Rule;
use crate::limits::{
    LANE_BYTES_FIRST, LANE_BYTES_MAX, LONG_STEP_BYTES, MESSAGE_BYTES_MAX, PAGE_BYTES,
    SESSIONS_PER_NODE_MAX, SLAB_GENERATION,
};
use crate::record::Fields;
use alloc::vec::Vec;

/// The sender's side of a session, with the descriptors of [`Passed`](super::Passed) beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// The bytes of the sender's lane.
    pub lane_bytes: u32,
    /// The receiver's index on the sender's board.
    pub board_slot: u32,
    /// The sender's number of the session.
    pub session: u64,
    /// The address at which the sender listens for other hosts, if it does.
    pub listening: Option<Listening>,
}

impl Segments {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lane_bytes.to_le_bytes());
        out.extend_from_slice(&self.board_slot.to_le_bytes());
        out.extend_from_slice(&self.session.to_le_bytes());
        Listening::write(self.listening.as_ref(), out);
    }

    pub(super) fn parse(mut fields: Fields<'_>) -> Result<Segments, Rule> {
        let lane_bytes = fields.u32("bytes of the lane")?;
        check_lane_bytes(u64::from(lane_bytes))?;
        let field = "place on the board";
        let board_slot = fields.u32(field)?;
        if board_slot as usize >= SESSIONS_PER_NODE_MAX {
            return Err(Rule::RecordField { field });
        }
        let session = fields.u64("number of the session")?;
        let listening = Listening::parse(&mut fields)?;
        fields.end()?;
        Ok(Segments { lane_bytes, board_slot, session, listening })
    }
}

/// The sender's side of a session over a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streamed {
    /// The sender's number of the session.
    pub session: u64,
}

impl Streamed {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.session.to_le_bytes());
    }

    pub(super) fn parse(mut fields: Fields<'_>) -> Result<Streamed, Rule> {
        let session = fields.u64("number of the session")?;
        fields.end()?;
        Ok(Streamed { session })
    }
}

/// A larger segment for the sender's lane, or a slab of the sender, with its descriptor beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of the segment in the lane, where the first one, of the handshake, is 0. Slabs count from
    /// [`SLAB_GENERATION`].
    pub generation: u32,
    /// The bytes of the segment.
    pub bytes: u32,
}

impl Segment {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
    }

    pub(super) fn parse(mut fields: Fields<'_>) -> Result<Segment, Rule> {
        let generation = fields.u32("generation")?;
        let bytes = fields.u32("bytes of the segment")?;
        fields.end()?;
        Segment::checked(generation, u64::from(bytes))
    }

    /// Returns the segment of this generation, if it may have this many bytes.
    pub fn checked(generation: u32, bytes: u64) -> Result<Segment, Rule> {
        let most = match generation < SLAB_GENERATION {
            true => LANE_BYTES_MAX,
            false => MESSAGE_BYTES_MAX + LONG_STEP_BYTES,
        };
        check_bytes(bytes, PAGE_BYTES, most)?;
        Ok(Segment { generation, bytes: bytes as u32 })
    }
}

/// Checks that a segment of this size may be a lane: the announced size as well as the size of the file.
pub fn check_lane_bytes(bytes: u64) -> Result<(), Rule> {
    check_bytes(bytes, LANE_BYTES_FIRST, LANE_BYTES_MAX)
}

fn check_bytes(bytes: u64, min: usize, max: usize) -> Result<(), Rule> {
    let (min, max) = (min as u32, max as u32);
    let fits = bytes >= u64::from(min) && bytes <= u64::from(max);
    if fits && bytes.is_multiple_of(PAGE_BYTES as u64) {
        return Ok(());
    }
    Err(Rule::SegmentSize { bytes, min, max })
}
