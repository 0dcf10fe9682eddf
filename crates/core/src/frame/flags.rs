//! The extensions of a frame: fields that few messages have, in front of the payload.

use super::{FLAGS_SHIFT, PLACED_SHIFT};
use crate::limits::EXTENSION_BYTES;

/// The extensions at the start of a payload, eight bytes each, in the order of their bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub(super) u16);

impl Flags {
    /// No extension.
    pub const NONE: Flags = Flags(0);
    /// The microseconds that remained until the deadline when the frame was sent, as a `u64`.
    pub const DEADLINE: Flags = Flags(1);
    /// The payload behind the extensions is a [`Placed`], which names the buffer with the message's payload.
    pub const PLACED: Flags = Flags(2);
    /// The number of the request, as a `u64`, whose room was granted.
    pub const GRANTED: Flags = Flags(4);
    /// How often the call was refused because a precondition of its handler did not hold, as a `u64`: its caller
    /// has kept the arguments, and the call may be refused again.
    pub const REFUSABLE: Flags = Flags(8);
    /// The callee may ask for more time: the microseconds, as a `u64`, that the call may last in all according to
    /// its caller.
    pub const EXTENDABLE: Flags = Flags(16);
    /// The processor's counter when the deadline's microseconds were written, as a `u64`: a callee that was
    /// stopped meanwhile computes from it how many of them are left.
    pub const MADE: Flags = Flags(32);
    /// A context travels with the request: the bytes of it, as a `u64`, that stand at the payload's start
    /// behind the extensions. The arguments begin at the next whole word. See [`context`](crate::context).
    pub const CONTEXT: Flags = Flags(64);

    /// A reply is written in the tolerant form, as its call was. The flag has no extension.
    pub const TOLERANT: Flags = Flags(128);

    /// The flags that have a place of their own in the head, since a stamped reply has no room for flags.
    const APART: Flags = Flags::PLACED.with(Flags::TOLERANT);

    /// A bit that no kind has.
    const NOWHERE: u16 = 1 << 15;

    /// Returns the union of both sets.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns whether this set includes the other.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the bits.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns the flags as bits of a head's third word. [`Flags::PLACED`] and [`Flags::TOLERANT`] have a byte of
    /// their own, since a stamped reply has no room for flags.
    #[inline(always)]
    pub(super) const fn in_head(self) -> u64 {
        let placed = (self.0 & Flags::PLACED.0 != 0) as u64;
        let tolerant = (self.0 & Flags::TOLERANT.0 != 0) as u64;
        ((self.0 & !Flags::APART.0) as u64) << FLAGS_SHIFT
            | (placed | tolerant << 1) << PLACED_SHIFT
    }

    /// Returns the flags in a head's third word. A bit in the wrong place becomes one that no kind has.
    #[inline]
    pub(super) const fn from_head(word: u64) -> Flags {
        let flags = (word >> FLAGS_SHIFT) as u16;
        let stray = if flags & Flags::APART.0 != 0 { Flags::NOWHERE } else { 0 };
        let placed = if word >> PLACED_SHIFT & 1 == 0 { 0 } else { Flags::PLACED.0 };
        let tolerant = if word >> PLACED_SHIFT & 2 == 0 { 0 } else { Flags::TOLERANT.0 };
        Flags(flags & !Flags::APART.0 | stray | placed | tolerant)
    }

    /// Returns the bytes of the extensions at the payload's start.
    #[inline]
    pub const fn extension_bytes(self) -> u32 {
        (self.0 & !Flags::TOLERANT.0).count_ones() * EXTENSION_BYTES as u32
    }

    /// Returns the offset of one extension in the payload, if it is there.
    #[inline]
    pub const fn offset_of(self, extension: Flags) -> Option<u32> {
        let before = Flags(self.0 & (extension.0 - 1));
        if self.has(extension) { Some(before.extension_bytes()) } else { None }
    }
}

/// The place of a payload that is not in its frame but in a buffer of its sender's slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The slab.
    pub slab: u16,
    /// The index of the buffer in the slab.
    pub index: u16,
    /// The bytes of the payload.
    pub len: u32,
}

impl Placed {
    /// Returns the place as a word of a payload.
    #[inline(always)]
    pub const fn as_u64(self) -> u64 {
        self.slab as u64 | (self.index as u64) << 16 | (self.len as u64) << 32
    }

    /// Returns the place of a word in a payload.
    #[inline(always)]
    pub const fn from_u64(word: u64) -> Placed {
        Placed { slab: word as u16, index: (word >> 16) as u16, len: (word >> 32) as u32 }
    }
}
