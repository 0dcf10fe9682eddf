//! The head of a frame: three words that say what a message is, in a lane and on a socket.
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
//!          byte 7     1 if the payload lies in a buffer, which an extension names; else 0
//! ```
//!
//! In a message whose manner is not 0 a stamp stands where it has nothing else: in a one-way
//! message's call number, and in the lower six bytes of a reply's word 2.
//!
//! Words are little-endian on the wire; whoever stores them converts. A kind has a shape: what
//! does not belong to it is zero. Where a frame lies, its lap and its span are the ring's, payloads
//! the runtime's. The invariant: `parse` is the inverse of `words`, and any three words give a
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
use crate::bill::way::Manner;
use crate::fault::Rule;
use crate::limits::{HEAD_BYTES, SLOT_BYTES};
use crate::mutant::{Mutant, mutated};

const _: () = assert!(failure::KIND == Kind::Failed as u8);

const KIND_SHIFT: u32 = 8;
const LEN_SHIFT: u32 = 32;
const FLAGS_SHIFT: u32 = 16;
const SPARE_SHIFT: u32 = 32;
const MANNER_SHIFT: u32 = 48;
const PLACED_SHIFT: u32 = 56;
/// What a stamped reply has of its stamp, in word 2.
const STAMP_MASK: u64 = (1 << MANNER_SHIFT) - 1;

/// The number of a call: a place in the caller's table and which use of that place it is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CallNumber(u64);

impl CallNumber {
    /// The number of frames that belong to no call.
    pub const NONE: CallNumber = CallNumber(0);

    /// Returns the number of a place in the caller's table, and of which use of the place it is, from 1.
    #[inline(always)]
    pub const fn new(index: u32, generation: u32) -> CallNumber {
        CallNumber(index as u64 | (generation as u64) << 32)
    }

    /// Returns the place in the caller's table.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// Returns which use of the place it is, from 1.
    #[inline(always)]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The number as it stands in a head.
    #[inline(always)]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The number that stands in a head.
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
    /// Which extensions stand at the payload's start.
    pub flags: Flags,
    /// Payload bytes, extensions included.
    pub len: u32,
    /// The call that it belongs to.
    pub call: CallNumber,
    /// The method's number in this session.
    pub method: u16,
    /// How it is stamped for its bill, if it is.
    pub manner: Option<Manner>,
    /// The stamp that a one-way message or a reply carries if it is stamped; 0 otherwise.
    pub stamp: u64,
}

/// The kind of a frame without extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// It is a call or a one-way message.
    Request,
    /// It is a reply.
    Reply,
    /// It is something else, or has extensions.
    Not,
}

impl Head {
    /// A head whose fields are all empty, for constructors that set few of them.
    const BARE: Head = Head {
        kind: Kind::Goodbye,
        flags: Flags::NONE,
        len: 0,
        call: CallNumber::NONE,
        method: 0,
        manner: None,
        stamp: 0,
    };

    /// A call of `len` argument bytes.
    #[inline(always)]
    pub const fn call(method: u16, call: CallNumber, len: u32) -> Head {
        Head { kind: Kind::Call, len, call, method, ..Head::BARE }
    }

    /// A one-way message of `len` argument bytes.
    #[inline(always)]
    pub const fn oneway(method: u16, len: u32) -> Head {
        Head { kind: Kind::Oneway, len, method, ..Head::BARE }
    }

    /// The result of a call, of `len` bytes.
    #[inline(always)]
    pub const fn reply(call: CallNumber, len: u32) -> Head {
        Head { kind: Kind::Reply, len, call, ..Head::BARE }
    }

    /// A call without a result; `len` is [`Failure::len`].
    #[inline]
    pub const fn failed(call: CallNumber, len: u32) -> Head {
        Head { kind: Kind::Failed, len, call, ..Head::BARE }
    }

    /// The caller no longer wants the answer.
    #[inline]
    pub const fn cancel(call: CallNumber) -> Head {
        Head { kind: Kind::Cancel, call, ..Head::BARE }
    }

    /// An operation of a channel, of `len` bytes, which is answered under this number.
    #[inline(always)]
    pub const fn operation(code: u16, call: CallNumber, len: u32) -> Head {
        Head { kind: Kind::Operation, len, call, method: code, ..Head::BARE }
    }

    /// Control of a channel, about what has this number there.
    #[inline]
    pub const fn control(code: u16, number: u32) -> Head {
        let call = CallNumber::new(number, 0);
        Head { kind: Kind::Control, call, method: code, ..Head::BARE }
    }

    /// The lane goes on in the segment of this generation.
    #[inline]
    pub const fn switch(generation: u32) -> Head {
        let call = CallNumber::new(0, generation);
        Head { kind: Kind::Switch, call, ..Head::BARE }
    }

    /// There is no room for the request of this number.
    #[inline]
    pub const fn nack(number: u64) -> Head {
        Head { kind: Kind::Nack, call: CallNumber::from_u64(number), ..Head::BARE }
    }

    /// Asks for room for the next request.
    #[inline]
    pub const fn reserve() -> Head {
        Head { kind: Kind::Reserve, len: 8, ..Head::BARE }
    }

    /// There is room for the request of this number.
    #[inline]
    pub const fn grant(number: u64) -> Head {
        Head { kind: Kind::Grant, call: CallNumber::from_u64(number), ..Head::BARE }
    }

    /// Room is no longer wanted for the request of this number.
    #[inline]
    pub const fn withdraw(number: u64) -> Head {
        Head { kind: Kind::Withdraw, call: CallNumber::from_u64(number), ..Head::BARE }
    }

    /// The slab of this index stands ready.
    #[inline]
    pub const fn slab(index: u32) -> Head {
        let call = CallNumber::new(index, 0);
        Head { kind: Kind::Slab, len: 8, call, ..Head::BARE }
    }

    /// The slab of this index is not used any more.
    #[inline]
    pub const fn retire(index: u32) -> Head {
        let call = CallNumber::new(index, 0);
        Head { kind: Kind::Retire, call, ..Head::BARE }
    }

    /// Asks for more time for a call.
    #[inline]
    pub const fn extend(call: CallNumber) -> Head {
        Head { kind: Kind::Extend, len: 8, call, ..Head::BARE }
    }

    /// Says how much time a call has.
    #[inline]
    pub const fn extended(call: CallNumber) -> Head {
        Head { kind: Kind::Extended, len: 8, call, ..Head::BARE }
    }

    /// Stamps of a call, or of a one-way message if the number is none.
    #[inline]
    pub const fn stamps(call: CallNumber, len: u32) -> Head {
        Head { kind: Kind::Stamps, len, call, ..Head::BARE }
    }

    /// No more requests will come.
    #[inline]
    pub const fn goodbye() -> Head {
        Head { kind: Kind::Goodbye, ..Head::BARE }
    }

    /// The same head with flags added; its length must count their extensions already.
    #[inline(always)]
    #[must_use]
    pub const fn with_flags(mut self, flags: Flags) -> Head {
        self.flags = self.flags.with(flags);
        self
    }

    /// The same head of a message that is stamped in this manner.
    #[inline(always)]
    #[must_use]
    pub const fn with_manner(mut self, manner: Option<Manner>) -> Head {
        self.manner = manner;
        self
    }

    /// The words of a one-way message that is stamped, with a stamp.
    #[inline(always)]
    #[must_use]
    pub const fn stamped_oneway(words: [u64; 3], stamp: u64) -> [u64; 3] {
        [words[0], stamp, words[2]]
    }

    /// The words of a reply that is stamped, with a stamp, of which the lower 48 bits are carried.
    #[inline(always)]
    #[must_use]
    pub const fn stamped_reply(words: [u64; 3], stamp: u64) -> [u64; 3] {
        [words[0], words[1], words[2] | stamp & STAMP_MASK]
    }

    /// Bytes of payload behind the extensions.
    #[inline]
    pub const fn body_bytes(&self) -> u32 {
        self.len - self.flags.extension_bytes()
    }

    /// Slots that the frame takes in a ring.
    #[inline]
    pub const fn slots(&self) -> u32 {
        slots(self.len)
    }

    /// The three words of the head; lap and span, the ring's own, are zero.
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

    /// The head in three words, or the rule that they break. Lap and span are not looked at.
    ///
    /// Plain calls, replies and one-way messages (no extension) are recognised inline; the rest
    /// and everything that is wrong goes through a function of its own.
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

    /// Returns whether a head with these words is of a plain request or reply, as [`Head::plain`] does.
    #[inline]
    pub const fn plain_in(words: &[u64; 3]) -> Plain {
        Head::plain((words[0] >> KIND_SHIFT) as u8, words)
    }

    /// Returns whether a head of this kind and with these words is of a request or a reply without extensions.
    /// A one-way message has no number. The caller still compares the length with the frame's span, which is
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

    /// The words of the same frame with a flag.
    #[inline]
    #[must_use]
    pub const fn flagged(words: [u64; 3], flags: Flags) -> [u64; 3] {
        [words[0], words[1], words[2] | flags.in_head()]
    }

    /// Whether the payload of the frame of these words may lie in a buffer.
    #[inline]
    pub const fn may_be_placed(words: &[u64; 3]) -> bool {
        match Head::kind_in(words) {
            Some(kind) => kind.shape().flags.has(Flags::PLACED),
            None => false,
        }
    }

    /// In which manner the frame of these words is stamped, if it is.
    #[inline]
    pub const fn manner_in(words: &[u64; 3]) -> Option<Manner> {
        Manner::from_byte((words[2] >> MANNER_SHIFT) as u8)
    }

    /// The words of the same frame if it were not stamped, and the stamp that it carries.
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

    /// The kind that stands in a head's words, if there is one.
    #[inline]
    pub const fn kind_in(words: &[u64; 3]) -> Option<Kind> {
        Kind::from_byte((words[0] >> KIND_SHIFT) as u8)
    }

    /// The length that stands in a head's words.
    #[inline(always)]
    pub const fn len_in(words: &[u64; 3]) -> u32 {
        (words[0] >> LEN_SHIFT) as u32
    }
}

#[inline(always)]
const fn manner_byte(manner: Option<Manner>) -> u8 {
    match manner {
        Some(manner) => manner.byte(),
        None => 0,
    }
}

/// Slots that a frame of `len` payload bytes takes in a ring.
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
