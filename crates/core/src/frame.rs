//! The head of a frame: three words that describe a message, in a lane and on a socket.
//!
//! ```text
//! word 0   byte 0     lap      belongs to the ring; 0 here, ignored when parsing
//!          byte 1     kind     Kind
//!          bytes 2-3  span     belongs to the ring: slots taken; 0 here, ignored when parsing
//!          bytes 4-7  len      payload bytes, extensions included
//! word 1   bytes 0-3  index    call number: place in the caller's table
//!          bytes 4-7  gener.   call number: which use of that place
//! word 2   bytes 0-1  method   number agreed on in bind; of operations and control, their code
//!          bytes 2-3  flags    Flags: which extensions stand at the payload's start
//!          bytes 4-5  zero     but in stamped frames, where a part of the stamp is
//!          byte 6     manner   how the message is stamped for its bill; 0 if it is not
//!          byte 7     bit 0 if the payload lies in a buffer, which an extension names; bit 1 if a reply is tolerant
//! ```
//!
//! If the manner is not 0, a one-way message and a reply carry a stamp in fields that they do not use otherwise:
//! the one-way message in the place of the call number, and the reply in the lower six bytes of word 2.
//!
//! Words are little-endian on the wire; the code that stores them converts them. Each kind has a shape: fields
//! that do not belong to it are zero. The ring has the frame's position, its lap and its span, and the runtime has
//! the payloads. Invariant: `parse` is the inverse of `words`, and any three words give a [`Head`] that keeps its
//! shape, or the [`Rule`] that they break.
//! [`Head`] that keeps its shape or the [`Rule`] that they break.

mod flags;
mod kind;
mod failure;
mod rules;

use core::fmt;

pub use self::failure::{FailCode, Failure};
pub use self::flags::{Flags, Placed};
pub use self::kind::Kind;
use self::kind::LEN_MAX;
use crate::bill::way::StampMode;
use crate::fault::Rule;
use crate::limits::{HEAD_BYTES, SLOT_BYTES};
use crate::method::TOLERANT;
use crate::mutant::{Mutant, mutated};

const _: () = assert!(failure::KIND == Kind::Failed as u8);

const KIND_SHIFT: u32 = 8;
const LEN_SHIFT: u32 = 32;
const FLAGS_SHIFT: u32 = 16;
const SPARE_SHIFT: u32 = 32;
const MANNER_SHIFT: u32 = 48;
const PLACED_SHIFT: u32 = 56;
/// The bits of word 2 in which a reply carries its stamp.
const STAMP_MASK: u64 = (1 << MANNER_SHIFT) - 1;

/// The number of a call: an index in the caller's table, and a generation that counts the uses of that index.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CallNumber(u64);

impl CallNumber {
    /// The number of frames that belong to no call.
    pub const NONE: CallNumber = CallNumber(0);

    /// Creates the number of an index in the caller's table and a generation, from 1.
    #[inline(always)]
    pub const fn new(index: u32, generation: u32) -> CallNumber {
        CallNumber(index as u64 | (generation as u64) << 32)
    }

    /// Returns the index in the caller's table.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// Returns the generation, from 1.
    #[inline(always)]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the number as a word of a head.
    #[inline(always)]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the number of a word of a head.
    #[inline(always)]
    pub const fn from_u64(word: u64) -> CallNumber {
        CallNumber(word)
    }
}

impl fmt::Debug for CallNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallNumber({self})")
    }
}

impl fmt::Display for CallNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index(), self.generation())
    }
}

/// The head of a frame.
///
/// ```
/// use upbeat_core::frame::{CallNumber, Head};
///
/// let number = CallNumber::new(3, 1);
/// let head = Head::call(7, number, 16);
/// assert_eq!(Head::parse(head.words()), Ok(head));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind of the frame.
    pub kind: Kind,
    /// The extensions at the payload's start.
    pub flags: Flags,
    /// Payload bytes, extensions included.
    pub len: u32,
    /// The call that the frame belongs to.
    pub call: CallNumber,
    /// The method's number in this session.
    pub method: u16,
    /// The manner in which the message is stamped for its bill, if it is.
    pub manner: Option<StampMode>,
    /// The stamp that a one-way message or a reply carries if it is stamped; 0 otherwise.
    pub stamp: u64,
}

/// The kind of a frame without extensions, as [`Head::plain`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// A call or a one-way message.
    Request,
    /// A reply.
    Reply,
    /// Another frame, or a frame with extensions.
    Not,
}

impl Head {
    /// A head whose fields are all empty, for constructors that set only some of them.
    const BARE: Head = Head {
        kind: Kind::Goodbye,
        flags: Flags::NONE,
        len: 0,
        call: CallNumber::NONE,
        method: 0,
        manner: None,
        stamp: 0,
    };

    /// Creates the head of a call with `len` bytes of arguments.
    #[inline(always)]
    pub const fn call(method: u16, call: CallNumber, len: u32) -> Head {
        Head { kind: Kind::Call, len, call, method, ..Head::BARE }
    }

    /// Creates the head of a one-way message with `len` bytes of arguments.
    #[inline(always)]
    pub const fn oneway(method: u16, len: u32) -> Head {
        Head { kind: Kind::Oneway, len, method, ..Head::BARE }
    }

    /// Creates the head of a reply with a result of `len` bytes.
    #[inline(always)]
    pub const fn reply(call: CallNumber, len: u32) -> Head {
        Head { kind: Kind::Reply, len, call, ..Head::BARE }
    }

    /// Creates the head of a failure; `len` is [`Failure::len`].
    #[inline]
    pub const fn failed(call: CallNumber, len: u32) -> Head {
        Head { kind: Kind::Failed, len, call, ..Head::BARE }
    }

    /// Creates the head of a cancel: the caller no longer wants the reply.
    #[inline]
    pub const fn cancel(call: CallNumber) -> Head {
        Head { kind: Kind::Cancel, call, ..Head::BARE }
    }

    /// Creates the head of an operation of a channel with `len` bytes, which is answered under this number.
    #[inline(always)]
    pub const fn operation(code: u16, call: CallNumber, len: u32) -> Head {
        Head { kind: Kind::Operation, len, call, method: code, ..Head::BARE }
    }

    /// Creates the head of a control message of a channel, about the object with this number.
    #[inline]
    pub const fn control(code: u16, number: u32) -> Head {
        let call = CallNumber::new(number, 0);
        Head { kind: Kind::Control, call, method: code, ..Head::BARE }
    }

    /// Creates the head of a switch: the lane continues in the segment of this generation.
    #[inline]
    pub const fn switch(generation: u32) -> Head {
        let call = CallNumber::new(0, generation);
        Head { kind: Kind::Switch, call, ..Head::BARE }
    }

    /// Creates the head of a refusal: there is no room for the request of this number.
    #[inline]
    pub const fn nack(number: u64) -> Head {
        Head { kind: Kind::Nack, call: CallNumber::from_u64(number), ..Head::BARE }
    }

    /// Creates the head of a question for room for the next request.
    #[inline]
    pub const fn reserve() -> Head {
        Head { kind: Kind::Reserve, len: 8, ..Head::BARE }
    }

    /// Creates the head of a grant: there is room for the request of this number.
    #[inline]
    pub const fn grant(number: u64) -> Head {
        Head { kind: Kind::Grant, call: CallNumber::from_u64(number), ..Head::BARE }
    }

    /// Creates the head of a withdrawal: the request of this number no longer needs room.
    #[inline]
    pub const fn withdraw(number: u64) -> Head {
        Head { kind: Kind::Withdraw, call: CallNumber::from_u64(number), ..Head::BARE }
    }

    /// Creates the head of the announcement that the slab of this index is ready.
    #[inline]
    pub const fn slab(index: u32) -> Head {
        let call = CallNumber::new(index, 0);
        Head { kind: Kind::Slab, len: 8, call, ..Head::BARE }
    }

    /// Creates the head of the announcement that the slab of this index is no longer used.
    #[inline]
    pub const fn retire(index: u32) -> Head {
        let call = CallNumber::new(index, 0);
        Head { kind: Kind::Retire, call, ..Head::BARE }
    }

    /// Creates the head of a question for more time for a call.
    #[inline]
    pub const fn extend(call: CallNumber) -> Head {
        Head { kind: Kind::Extend, len: 8, call, ..Head::BARE }
    }

    /// Creates the head of the answer with the time of a call.
    #[inline]
    pub const fn extended(call: CallNumber) -> Head {
        Head { kind: Kind::Extended, len: 8, call, ..Head::BARE }
    }

    /// Creates the head of stamps of a call, or of a one-way message if the number is none.
    #[inline]
    pub const fn stamps(call: CallNumber, len: u32) -> Head {
        Head { kind: Kind::Stamps, len, call, ..Head::BARE }
    }

    /// Creates the head of a goodbye: no more requests will come.
    #[inline]
    pub const fn goodbye() -> Head {
        Head { kind: Kind::Goodbye, ..Head::BARE }
    }

    /// Returns the head with flags added. Its length must include their extensions already.
    #[inline(always)]
    #[must_use]
    pub const fn with_flags(mut self, flags: Flags) -> Head {
        self.flags = self.flags.with(flags);
        self
    }

    /// Returns the head for a message that is stamped in this manner.
    #[inline(always)]
    #[must_use]
    pub const fn with_manner(mut self, manner: Option<StampMode>) -> Head {
        self.manner = manner;
        self
    }

    /// Returns the words of a stamped one-way message with its stamp.
    #[inline(always)]
    #[must_use]
    pub const fn stamped_oneway(words: [u64; 3], stamp: u64) -> [u64; 3] {
        [words[0], stamp, words[2]]
    }

    /// Returns the words of a stamped reply with the lower 48 bits of its stamp.
    #[inline(always)]
    #[must_use]
    pub const fn stamped_reply(words: [u64; 3], stamp: u64) -> [u64; 3] {
        [words[0], words[1], words[2] | stamp & STAMP_MASK]
    }

    /// Returns the bytes of payload behind the extensions.
    #[inline]
    pub const fn body_bytes(&self) -> u32 {
        self.len - self.flags.extension_bytes()
    }

    /// Returns the number of slots of the frame in a ring.
    #[inline]
    pub const fn slots(&self) -> u32 {
        slots(self.len)
    }

    /// Returns the three words of the head. Lap and span, which belong to the ring, are zero.
    #[inline(always)]
    pub const fn words(&self) -> [u64; 3] {
        let words = [
            (self.kind as u64) << KIND_SHIFT | (self.len as u64) << LEN_SHIFT,
            self.call.as_u64(),
            self.method as u64
                | self.flags.in_head()
                | (manner_byte(self.manner) as u64) << MANNER_SHIFT,
        ];
        match (self.kind, self.manner) {
            (Kind::Oneway, Some(_)) => Head::stamped_oneway(words, self.stamp),
            (Kind::Reply, Some(_)) => Head::stamped_reply(words, self.stamp),
            _ => words,
        }
    }

    /// Parses the head in three words, or returns the rule that they break. Lap and span are ignored.
    ///
    /// Plain calls, replies and one-way messages, without extensions, are recognised inline. All other heads, and
    /// all faults, go through a separate function.
    #[inline]
    pub fn parse(words: [u64; 3]) -> Result<Head, Rule> {
        let kind = (words[0] >> KIND_SHIFT) as u8;
        let len = (words[0] >> LEN_SHIFT) as u32;
        if len <= LEN_MAX {
            let call = number_in(words[1]);
            let plain = words[2] >> FLAGS_SHIFT == 0 || mutated(Mutant::FlagsUnread);
            if kind == Kind::Call as u8 && plain {
                return Ok(Head::call(words[2] as u16, call, len));
            }
            if kind == Kind::Reply as u8 && words[2] == 0 {
                return Ok(Head::reply(call, len));
            }
            if kind == Kind::Oneway as u8 && words[2] >> FLAGS_SHIFT == 0 && words[1] == 0 {
                return Ok(Head::oneway(words[2] as u16, len));
            }
        }
        Head::parse_any(words)
    }

    /// Returns whether these words are the head of a plain request or reply, as [`Head::plain`] does.
    #[inline]
    pub const fn plain_in(words: &[u64; 3]) -> Plain {
        Head::plain((words[0] >> KIND_SHIFT) as u8, words)
    }

    /// Returns whether a head of this kind and with these words is a request or a reply without extensions. A
    /// one-way message has no number. The caller must still compare the length with the frame's span, which is
    /// shorter than any limit.
    #[inline(always)]
    pub const fn plain(kind: u8, words: &[u64; 3]) -> Plain {
        if kind == Kind::Reply as u8 && words[2] == 0 {
            Plain::Reply
        } else if words[2] >> FLAGS_SHIFT == 0
            && (kind == Kind::Call as u8 || kind == Kind::Oneway as u8 && words[1] == 0)
        {
            Plain::Request
        } else {
            Plain::Not
        }
    }

    /// Returns the words of the frame with a flag added.
    #[inline]
    #[must_use]
    pub const fn flagged(words: [u64; 3], flags: Flags) -> [u64; 3] {
        [words[0], words[1], words[2] | flags.in_head()]
    }

    /// Returns whether the payload of the request or reply with these words is written in the tolerant form.
    #[inline(always)]
    pub const fn is_tolerant_in(words: &[u64; 3]) -> bool {
        match (words[0] >> KIND_SHIFT) as u8 == Kind::Reply as u8 {
            true => words[2] >> PLACED_SHIFT & 2 != 0,
            false => words[2] as u16 & TOLERANT != 0,
        }
    }

    /// Returns whether the payload of the frame with these words may lie in a buffer.
    #[inline]
    pub const fn may_be_placed(words: &[u64; 3]) -> bool {
        match Head::kind_in(words) {
            Some(kind) => kind.shape().flags.has(Flags::PLACED),
            None => false,
        }
    }

    /// Returns the manner in which the frame with these words is stamped, if it is.
    #[inline]
    pub const fn manner_in(words: &[u64; 3]) -> Option<StampMode> {
        StampMode::from_byte((words[2] >> MANNER_SHIFT) as u8)
    }

    /// Returns the words of the frame without its stamp, and the stamp.
    #[inline]
    pub const fn unstamped(words: &[u64; 3]) -> ([u64; 3], u64) {
        let kind = (words[0] >> KIND_SHIFT) as u8;
        let third = words[2] & !(0xff << MANNER_SHIFT);
        if kind == Kind::Reply as u8 {
            ([words[0], words[1], third & !STAMP_MASK], third & STAMP_MASK)
        } else if kind == Kind::Oneway as u8 {
            ([words[0], 0, third], words[1])
        } else {
            ([words[0], words[1], third], 0)
        }
    }

    /// Returns the kind in a head's words, if there is one.
    #[inline]
    pub const fn kind_in(words: &[u64; 3]) -> Option<Kind> {
        Kind::from_byte((words[0] >> KIND_SHIFT) as u8)
    }

    /// Returns the length in a head's words.
    #[inline(always)]
    pub const fn len_in(words: &[u64; 3]) -> u32 {
        (words[0] >> LEN_SHIFT) as u32
    }
}

#[inline(always)]
const fn manner_byte(manner: Option<StampMode>) -> u8 {
    match manner {
        Some(manner) => manner.byte(),
        None => 0,
    }
}

/// Returns the number of slots of a frame with `len` bytes of payload in a ring.
#[inline]
pub const fn slots(len: u32) -> u32 {
    (len as u64 + HEAD_BYTES as u64).div_ceil(SLOT_BYTES as u64) as u32
}

/// Returns the number of the call in a head's second word.
#[inline(always)]
fn number_in(word: u64) -> CallNumber {
    let call = CallNumber::from_u64(word);
    if mutated(Mutant::GenerationCut) { CallNumber::new(call.index(), 1) } else { call }
}

#[cfg(test)]
mod tests;
