//! A ring of 128-byte slots with one writer and one reader, over a [`Region`](crate::region::Region).
//!
//! The writer claims consecutive slots, writes in place and commits, or drops the claim; nothing
//! is seen before the commit, which stores the first word last. The reader looks at one word: the
//! very line that brings the message. The ring owns two fields of that word, the lap in byte 0 and
//! the span in bytes 2 and 3; kind 0 in byte 1 marks padding up to the end of the ring. The rest
//! belongs to the frame.
//!
//! What the ring leaves to others: where the reader's progress travels. The writer is told it when
//! it runs low, and checks that it is monotone and not ahead of what was written.
//!
//! Invariant: a reader never takes stale bytes for a head. Laps run from 1 to 255, so zeroed memory
//! matches none; and before a head is published the writer wipes the word in which the next head
//! will stand, if payload has lain there. It knows that from notes of its own: to read the next
//! slot's line at this moment doubles the round trip.

mod words;

mod cursor;

mod writer;

mod reader;

use crate::region::WORD;

pub use reader::{Look, Reader, RingFault};
pub use writer::{Claim, Refused, Writer};

/// Bytes in a slot: two cache lines. Processors fetch lines in pairs, so with slots of one line
/// the reader that waits for the next message steals part of this one's (120 to 148 ns a round trip
/// where two lines take 61 to 66). A short frame is in the first line alone.
pub const SLOT: usize = 128;
/// Bytes of a frame's head.
pub const HEAD: usize = 24;
/// The most slots a ring may have: a span must fit 16 bits.
pub const SLOTS_MAX: u32 = u16::MAX as u32;

const SLOT_WORDS: usize = SLOT / WORD;
const LAP: u64 = 0xff;
const KIND: u64 = 0xff00;
const KIND_SHIFT: u32 = 8;
/// The half of a first word in which lap, kind and span stand.
const LOW: u64 = 0xffff_ffff;
const SPAN_SHIFT: u32 = 16;
const OWNED: u64 = LAP | 0xffff << SPAN_SHIFT;
/// Bytes of payload that fit one slot.
pub const SHORT: usize = SLOT - HEAD;

/// The number of slots that a frame with `payload` bytes takes.
#[inline]
#[must_use]
pub const fn span_of(payload: usize) -> u32 {
    (HEAD + payload).div_ceil(SLOT) as u32
}

/// Whether so many bytes of payload, from byte `at`, lie in the first slot of a frame.
const fn fits_a_slot(at: usize, bytes: usize) -> bool {
    at <= SHORT && bytes <= SHORT - at
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
