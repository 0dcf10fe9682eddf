//! The records of a byte stream, which carries a session where no memory is shared.
//!
//! A stream mirrors the lanes. Each side has its own lane and a replica of its peer's, and ships what it writes:
//! frames in the order of their ring, the padding between them, the changed words of the lane's header, and the
//! bytes of buffers before the frames that name them. A frame that lets others overtake it leaves padding behind,
//! and is written into the ring again ([`Backlog`]). The slots of both rings therefore have the same numbers, and
//! the count of slots that a side has read is that of the real reader. A sender keeps each frame in its ring until
//! that count has passed it, which is all that another connection needs to continue from there. A [`Ledger`] knows
//! the segments that must then be announced again.
//!
//! ```text
//! frame      its head in three words, the lap 0, then its payload
//! padding    word 0   byte 1  0         bytes 2-3  slots that hold nothing, within the ring
//! progress   word 0   byte 1  0x80      byte 2     bit 0 slots read, bit 1 requests accepted follow;
//!                                                  bit 2 the sender waits for room
//!                                                  bit 3 it asks to be shown what there is
//!                                                  bit 4 a wish follows, bit 5 a wish of the other
//!                                                  side's is granted, bit 6 it is declined
//!                                       bytes 4-7  a bit for each slab whose word of returns follows
//!            then a word for each of those bits; of a wish: bytes 0-3 of a buffer, or of the ring,
//!                                       bytes 4-7 buffers, 0 of a ring
//! segment    word 0   byte 1  0x81      bytes 4-7  generation
//!            word 1   its bytes
//! buffer     word 0   byte 1  0x82      bytes 2-3  slab      bytes 4-7  bytes that follow
//!            word 1   bytes 0-3  buffer of the slab          bytes 4-7  the first byte in it
//!            word 2   bytes of the whole payload, of which these are a part
//!            then these bytes
//! refusal    word 0   byte 1  0x83      bytes 4-7  bytes that follow: a refusal's record
//! end        word 0   byte 1  0x84
//! clock      word 0   byte 1  0x85      byte 2     bit 0 the sender asks for one in return
//!            words 1 to 3  its time stamps: sent, echo, heard
//! ```
//!
//! All bytes that are not named are 0, and words are little-endian. Other modules read and write sockets, and know
//! the meaning of frames. Invariant: for any bytes, [`parse`] returns a record within its bounds or the [`Rule`]
//! that they break, and never waits for more than the head of one record.

mod backlog;

mod ledger;

mod sent_header;

mod permission;

pub use self::backlog::{Backlog, RewrittenFrame, ShipTime, StreamLoad, given_up};
pub use self::ledger::Ledger;
pub use self::permission::{Asking, Granting, NoRoom, Permission, SegmentRequest};
pub use self::sent_header::{SentHeader, Words};

use crate::bill::clock::Timestamps;
use crate::fault::Rule;
use crate::frame::{Kind, Placed};
use crate::hello::{Parsed, Record, Refusal, Segment};
use crate::limits::{
    CHUNK_BYTES_MAX, HEAD_BYTES, HELLO_BYTES_MAX, IN_RING_BYTES_MAX, MESSAGE_BYTES_MAX, SLABS_MAX,
    SLOT_BYTES,
};
use alloc::vec::Vec;

const KIND_SHIFT: u32 = 8;
const SPAN_SHIFT: u32 = 16;
const LEN_SHIFT: u32 = 32;

const PADDING: u8 = 0;
const PROGRESS: u8 = 0x80;
const SEGMENT: u8 = 0x81;
const BUFFER: u8 = 0x82;
const REFUSAL: u8 = 0x83;
const END: u8 = 0x84;
const CLOCK: u8 = 0x85;

const TAKEN: u64 = 1 << SPAN_SHIFT;
const ACCEPTED: u64 = 2 << SPAN_SHIFT;
const WANTS_ROOM: u64 = 4 << SPAN_SHIFT;
const ASKS: u64 = 8 << SPAN_SHIFT;
const WISH: u64 = 16 << SPAN_SHIFT;
const GRANTED: u64 = 32 << SPAN_SHIFT;
const DECLINED: u64 = 64 << SPAN_SHIFT;

const WORD: usize = 8;

// A progress record has one bit for each slab.
const _: () = assert!(SLABS_MAX <= u32::BITS as usize);

/// The bytes of the longest progress record.
pub const PROGRESS_BYTES_MAX: usize = (4 + SLABS_MAX) * WORD;

/// The head of the record at the front of the bytes. The caller reads the bytes that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "the caller matches the value at once")]
pub enum Head {
    /// A frame with this head, whose payload follows.
    Frame {
        /// The words of the frame's head, with lap 0.
        words: [u64; 3],
        /// The bytes of payload.
        payload: u32,
    },
    /// Slots that hold nothing: the rest of the ring, or the slots of a frame that comes later.
    Padding {
        /// The number of slots.
        span: u16,
    },
    /// Words of the lane's header.
    Progress(Progress),
    /// A segment in which the sender's lane continues, or that holds buffers.
    Segment(Segment),
    /// Bytes of a buffer, which follow.
    Buffer(Chunk),
    /// A refusal, which follows.
    Refusal {
        /// The bytes of the refusal's record.
        bytes: u32,
    },
    /// The sender ends the session. A connection that ends without this record is broken.
    End,
    /// The sender's time stamps.
    Clock {
        /// Whether the receiver must send its own time stamps with its next record.
        asks: bool,
        /// The time stamps.
        stamps: Timestamps,
    },
}

/// Bytes of a buffer of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The slab.
    pub slab: u16,
    /// The index of the buffer in the slab.
    pub index: u32,
    /// The offset of the first byte.
    pub at: u32,
    /// The number of bytes.
    pub bytes: u32,
    /// The bytes of the whole payload.
    pub whole: u32,
}

impl Chunk {
    /// Returns the next chunk of a payload of which `done` bytes were shipped, or none if that was all of it.
    pub fn next(placed: Placed, done: u32) -> Option<Chunk> {
        let Placed { slab, index, len } = placed;
        let left = len.saturating_sub(done);
        let bytes = left.min(CHUNK_BYTES_MAX as u32);
        let chunk = Chunk { slab, index: index.into(), at: done, bytes, whole: len };
        (left != 0).then_some(chunk)
    }
}

/// The changed words of a lane's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of slots of the other lane that the sender has read.
    pub taken: Option<u64>,
    /// The number of requests of the other side that the sender has accepted.
    pub accepted: Option<u64>,
    /// Whether the sender waits for room in its lane.
    pub wants_room: bool,
    /// Whether the sender found no room, and asks for a progress record in return.
    pub asks: bool,
    /// The segment that the sender wishes to announce.
    pub wish: Option<SegmentRequest>,
    /// Whether the other side's wish is granted, if it is answered.
    pub answer: Option<bool>,
    /// One bit for each slab with returned buffers.
    slabs: u32,
    returned: [u64; SLABS_MAX],
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            taken: None,
            accepted: None,
            wants_room: false,
            asks: false,
            wish: None,
            answer: None,
            slabs: 0,
            returned: [0; SLABS_MAX],
        }
    }
}

impl Progress {
    /// Adds the word of returns of a slab.
    ///
    /// # Panics
    /// Panics when `slab` is not below [`SLABS_MAX`].
    pub fn give_back(&mut self, slab: usize, returned: u64) {
        assert!(slab < SLABS_MAX);
        self.slabs |= 1 << slab;
        self.returned[slab] = returned;
    }

    /// Returns the words of returns and their slabs.
    pub fn returned(&self) -> impl Iterator<Item = (usize, u64)> {
        let is_there = |slab: &usize| self.slabs >> slab & 1 == 1;
        (0..SLABS_MAX).filter(is_there).map(|slab| (slab, self.returned[slab]))
    }

    /// Appends the record to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        let first = u64::from(PROGRESS) << KIND_SHIFT
            | bit(self.taken.is_some(), TAKEN)
            | bit(self.accepted.is_some(), ACCEPTED)
            | bit(self.wants_room, WANTS_ROOM)
            | bit(self.asks, ASKS)
            | bit(self.wish.is_some(), WISH)
            | bit(self.answer == Some(true), GRANTED)
            | bit(self.answer == Some(false), DECLINED)
            | u64::from(self.slabs) << LEN_SHIFT;
        push(out, first);
        self.taken.into_iter().for_each(|word| push(out, word));
        self.accepted.into_iter().for_each(|word| push(out, word));
        self.wish.into_iter().for_each(|wish| push(out, wish.as_u64()));
        self.returned().for_each(|(_, word)| push(out, word));
    }

    fn parse(first: u64, bytes: &[u8]) -> Result<Parsed<Head>, Rule> {
        let flags = TAKEN | ACCEPTED | WANTS_ROOM | ASKS | WISH | GRANTED | DECLINED;
        let both = GRANTED | DECLINED;
        zero(if first & both == both { both } else { 0 })?;
        zero(first & !(0xffff_ffff << LEN_SHIFT | 0xff << KIND_SHIFT | flags))?;
        let slabs = (first >> LEN_SHIFT) as u32;
        let words = (first & (TAKEN | ACCEPTED | WISH)).count_ones();
        let len = (1 + words + slabs.count_ones()) as usize * WORD;
        if bytes.len() < len {
            return Ok(Parsed::NeedMore(len - bytes.len()));
        }
        let mut words = (WORD..len).step_by(WORD).map(|at| word(bytes, at));
        let mut next = |set: bool| if set { words.next() } else { None };
        let mut progress = Progress {
            taken: next(first & TAKEN != 0),
            accepted: next(first & ACCEPTED != 0),
            wants_room: first & WANTS_ROOM != 0,
            asks: first & ASKS != 0,
            wish: next(first & WISH != 0).map(SegmentRequest::from_u64),
            answer: (first & both != 0).then_some(first & GRANTED != 0),
            ..Progress::default()
        };
        for slab in (0..SLABS_MAX).filter(|slab| slabs >> slab & 1 == 1) {
            if let Some(returned) = next(true) {
                progress.give_back(slab, returned);
            }
        }
        Ok(Parsed::Complete(Head::Progress(progress), len))
    }
}

/// Returns the bytes of payload of a frame with this head.
#[inline]
pub const fn payload_of(words: &[u64; 3]) -> u64 {
    words[0] >> LEN_SHIFT
}

/// Returns the head of a frame, whose payload follows.
#[inline]
pub fn frame_head(words: [u64; 3]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&(words[0] & !0xff).to_le_bytes());
    head[8..16].copy_from_slice(&words[1].to_le_bytes());
    head[16..].copy_from_slice(&words[2].to_le_bytes());
    head
}

/// Appends the head of a frame, whose payload follows.
#[inline]
pub fn write_frame(words: [u64; 3], out: &mut Vec<u8>) {
    out.extend_from_slice(&frame_head(words));
}

/// Appends a frame of one slot, with its payload in words. Everything is written word by word, since the processor
/// stalls when it loads bytes in other pieces than they were stored.
#[inline(always)]
pub fn write_short(words: [u64; 3], payload: impl Fn(usize) -> u64, out: &mut Vec<u8>) {
    let bytes = payload_of(&words) as usize;
    push(out, words[0] & !0xff);
    push(out, words[1]);
    push(out, words[2]);
    (0..bytes).step_by(WORD).for_each(|at| push(out, payload(at)));
    out.truncate(out.len() - bytes.wrapping_neg() % WORD);
}

/// Appends padding of `span` slots.
pub fn write_padding(span: u16, out: &mut Vec<u8>) {
    push(out, u64::from(span) << SPAN_SHIFT);
}

/// Appends the announcement of a segment.
pub fn write_segment(segment: Segment, out: &mut Vec<u8>) {
    push(out, u64::from(SEGMENT) << KIND_SHIFT | u64::from(segment.generation) << LEN_SHIFT);
    push(out, u64::from(segment.bytes));
}

/// Appends the head of a chunk of a buffer, whose bytes follow.
pub fn write_chunk(chunk: Chunk, out: &mut Vec<u8>) {
    let Chunk { slab, index, at, bytes, whole } = chunk;
    let first = u64::from(BUFFER) << KIND_SHIFT | u64::from(slab) << SPAN_SHIFT;
    push(out, first | u64::from(bytes) << LEN_SHIFT);
    push(out, u64::from(index) | u64::from(at) << LEN_SHIFT);
    push(out, u64::from(whole));
}

/// Appends a refusal, which ends the session.
pub fn write_refusal(refusal: Refusal, out: &mut Vec<u8>) {
    let record = Record::Refusal(refusal).encode();
    write_refusal_head(record.len() as u32, out);
    out.extend_from_slice(&record);
}

/// Appends the head of a refusal, whose `bytes` bytes follow.
pub fn write_refusal_head(bytes: u32, out: &mut Vec<u8>) {
    push(out, u64::from(REFUSAL) << KIND_SHIFT | u64::from(bytes) << LEN_SHIFT);
}

/// Appends the end of the session.
pub fn write_end(out: &mut Vec<u8>) {
    push(out, u64::from(END) << KIND_SHIFT);
}

/// Appends the sender's time stamps, and whether it asks for those of the receiver.
pub fn write_clock(asks: bool, stamps: Timestamps, out: &mut Vec<u8>) {
    push(out, u64::from(CLOCK) << KIND_SHIFT | u64::from(asks) << SPAN_SHIFT);
    [stamps.sent, stamps.echo, stamps.heard].into_iter().for_each(|word| push(out, word));
}

/// Returns the head of the record at the front of the received bytes and its length, or the rule that the bytes
/// break.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Parsed<Head>, Rule> {
    if bytes.len() < WORD {
        return Ok(Parsed::NeedMore(WORD - bytes.len()));
    }
    let first = word(bytes, 0);
    match Kind::from_byte((first >> KIND_SHIFT) as u8) {
        Some(_) => parse_frame(first, bytes),
        None => parse_rare(first, bytes),
    }
}

#[inline]
fn parse_frame(first: u64, bytes: &[u8]) -> Result<Parsed<Head>, Rule> {
    if bytes.len() < HEAD_BYTES {
        return Ok(Parsed::NeedMore(HEAD_BYTES - bytes.len()));
    }
    let words = [first, word(bytes, WORD), word(bytes, 2 * WORD)];
    zero(first & 0xff)?;
    let payload = payload_of(&words);
    if payload > IN_RING_BYTES_MAX as u64 {
        let len = u32::try_from(payload).unwrap_or(u32::MAX);
        return Err(Rule::LengthBeyondMax { len, max: IN_RING_BYTES_MAX as u32 });
    }
    let span = (first >> SPAN_SHIFT) as u16 as u32;
    let slots = (HEAD_BYTES as u32 + payload as u32).div_ceil(SLOT_BYTES as u32);
    if span != slots {
        return Err(Rule::LengthBeyondSpan { len: payload as u32, span });
    }
    Ok(Parsed::Complete(Head::Frame { words, payload: payload as u32 }, HEAD_BYTES))
}

#[cold]
fn parse_rare(first: u64, bytes: &[u8]) -> Result<Parsed<Head>, Rule> {
    let kind = (first >> KIND_SHIFT) as u8;
    let whole = |len: usize| bytes.len() >= len;
    let more = |len: usize| Ok(Parsed::NeedMore(len - bytes.len()));
    match kind {
        PADDING => {
            zero(first & !(0xffff << SPAN_SHIFT))?;
            let span = (first >> SPAN_SHIFT) as u16;
            Ok(Parsed::Complete(Head::Padding { span }, WORD))
        }
        PROGRESS => Progress::parse(first, bytes),
        SEGMENT if !whole(2 * WORD) => more(2 * WORD),
        SEGMENT => {
            zero(first & 0xffff_00ff)?;
            let size = word(bytes, WORD);
            let segment = Segment::checked((first >> LEN_SHIFT) as u32, size)?;
            Ok(Parsed::Complete(Head::Segment(segment), 2 * WORD))
        }
        BUFFER if !whole(3 * WORD) => more(3 * WORD),
        BUFFER => {
            zero(first & 0xff)?;
            let (place, whole) = (word(bytes, WORD), word(bytes, 2 * WORD));
            let bytes = (first >> LEN_SHIFT) as u32;
            if bytes == 0 || bytes > CHUNK_BYTES_MAX as u32 {
                return Err(Rule::RecordTooLong { len: bytes, max: CHUNK_BYTES_MAX as u32 });
            }
            let slab = (first >> SPAN_SHIFT) as u16;
            let (index, at) = (place as u32, (place >> LEN_SHIFT) as u32);
            if whole > MESSAGE_BYTES_MAX as u64 || u64::from(at) + u64::from(bytes) > whole {
                return Err(Rule::StrayBuffer { slab, index });
            }
            let whole = whole as u32;
            Ok(Parsed::Complete(Head::Buffer(Chunk { slab, index, at, bytes, whole }), 3 * WORD))
        }
        REFUSAL => {
            zero(first & 0xffff_00ff)?;
            let bytes = (first >> LEN_SHIFT) as u32;
            if bytes as usize > HELLO_BYTES_MAX {
                return Err(Rule::RecordTooLong { len: bytes, max: HELLO_BYTES_MAX as u32 });
            }
            Ok(Parsed::Complete(Head::Refusal { bytes }, WORD))
        }
        END => {
            zero(first & !(0xff << KIND_SHIFT))?;
            Ok(Parsed::Complete(Head::End, WORD))
        }
        CLOCK if !whole(4 * WORD) => more(4 * WORD),
        CLOCK => {
            zero(first & !(1 << SPAN_SHIFT | 0xff << KIND_SHIFT))?;
            let [sent, echo, heard] = [1, 2, 3].map(|at| word(bytes, at * WORD));
            let (asks, stamps) = (first >> SPAN_SHIFT != 0, Timestamps { sent, echo, heard });
            Ok(Parsed::Complete(Head::Clock { asks, stamps }, 4 * WORD))
        }
        kind => Err(Rule::RecordKind { kind }),
    }
}

/// Returns a rule unless all these bits are 0.
#[inline]
fn zero(bits: u64) -> Result<(), Rule> {
    match bits {
        0 => Ok(()),
        bits => Err(Rule::ReservedBits { bits: (bits | bits >> 32) as u32 }),
    }
}

#[inline(always)]
fn push(out: &mut Vec<u8>, word: u64) {
    out.extend_from_slice(&word.to_le_bytes());
}

/// Returns the word at byte `at`, which must be inside `bytes`.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; WORD];
    word.copy_from_slice(&bytes[at..at + WORD]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests;
