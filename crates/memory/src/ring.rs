//! A ring of 128-byte slots with one writer and one reader, over a [`Region`](crate::region::Region).
//!
//! The writer claims consecutive slots, writes into them and commits, or drops the claim. The commit stores the
//! first word last, and the reader sees nothing before it. The reader polls that one word, which lies in the line
//! that brings the message. The ring owns two fields of the word, the lap in byte 0 and the span in bytes 2 and 3.
//! Kind 0 in byte 1 marks padding up to the end of the ring. The rest of the word belongs to the frame.
//!
//! The lane decides where the reader's progress is published. The writer asks for the progress when free slots run
//! low, and checks that it is monotone and not ahead of what was written.
//!
//! Invariant: a reader never takes stale bytes for a head. Laps run from 1 to 255, so zeroed memory matches no
//! lap. Before the writer publishes a head it wipes the word of the next head, if payload may lie there. The
//! writer knows from its own notes where payload may lie: reading the line of the next slot at this moment would
//! double the round trip.

mod words;

mod cursor;

mod writer;

mod reader;

#[cfg(not(loom))]
mod payload;

use crate::region::WORD;

#[cfg(not(loom))]
pub use payload::Payload;
pub use reader::{Look, Reader, RingFault};
pub use writer::{Claim, Refused, Writer};

/// The bytes of a slot: two cache lines. Processors fetch lines in pairs. With slots of one line, a reader that
/// polls the next slot steals half of the pair that the writer is writing: a round trip takes 120 to 148 ns, and
/// with two lines 61 to 66. A short frame uses only the first line.
pub const SLOT: usize = 128;
/// The bytes of a frame's head.
pub const HEAD: usize = 24;
/// The largest number of slots of a ring, since a span must fit 16 bits.
pub const SLOTS_MAX: u32 = u16::MAX as u32;

const SLOT_WORDS: usize = SLOT / WORD;
const LAP: u64 = 0xff;
const KIND: u64 = 0xff00;
const KIND_SHIFT: u32 = 8;
/// The half of a head's first word that holds lap, kind and span.
const LOW: u64 = 0xffff_ffff;
const SPAN_SHIFT: u32 = 16;
const OWNED: u64 = LAP | 0xffff << SPAN_SHIFT;
/// The bytes of payload that fit one slot.
pub const SHORT: usize = SLOT - HEAD;

/// Returns the number of slots of a frame with `payload` bytes of payload.
#[inline]
#[must_use]
pub const fn span_of(payload: usize) -> u32 {
    (HEAD + payload).div_ceil(SLOT) as u32
}

/// Returns whether `bytes` bytes of payload, from byte `at`, lie in the first slot of a frame.
const fn fits_a_slot(at: usize, bytes: usize) -> bool {
    at <= SHORT && bytes <= SHORT - at
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
