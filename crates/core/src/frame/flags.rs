//! The extensions of a frame: fields that few messages have, in front of the payload.

use super::{FLAGS_SHIFT, PLACED_SHIFT};
use crate::limits::EXTENSION_BYTES;

/// Which extensions stand at the start of a payload, in the order of their bits, eight bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub(super) u16);

impl Flags {
    /// No extension.
    pub const NONE: Flags = Flags(0);
    /// The microseconds that remained until the deadline when the frame was sent, as a `u64`.
    pub const DEADLINE: Flags = Flags(1);
    /// The payload behind the extensions does not lie here but in a buffer: a [`Placed`].
    pub const PLACED: Flags = Flags(2);
    /// The number of the request, as a `u64`, whose place was kept and granted.
    pub const GRANTED: Flags = Flags(4);
    /// How often the call was refused for want of what its handler needs, as a `u64`: its caller has
    /// kept what it sends, and may be refused again.
    pub const REFUSABLE: Flags = Flags(8);
    /// The callee may ask to have the deadline extended: the microseconds, as a `u64`, that the call
    /// may last in all as far as its caller knows.
    pub const EXTENDABLE: Flags = Flags(16);
    /// The processor's counter when the deadline's microseconds were written, as a `u64`: a callee that
    /// was stopped meanwhile knows by it how much of them is left.
    pub const MADE: Flags = Flags(32);

    /// A bit that no kind has.
    const NOWHERE: u16 = 1 << 15;

    /// These flags and those.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of those are among these.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// As they stand in a head's third word: where a payload lies has a byte of its own, for a
    /// stamped reply has no room for flags.
    #[inline(always)]
    pub(super) const fn in_head(self) -> u64 {
        let placed = (self.0 & Flags::PLACED.0 != 0) as u64;
        ((self.0 & !Flags::PLACED.0) as u64) << FLAGS_SHIFT | placed << PLACED_SHIFT
    }

    /// What stands in a head's third word; a bit that may not stand there is none that exists.
    #[inline]
    pub(super) const fn from_head(word: u64) -> Flags {
        let flags = (word >> FLAGS_SHIFT) as u16;
        let stray = if flags & Flags::PLACED.0 != 0 { Flags::NOWHERE } else { 0 };
        let placed = if word >> PLACED_SHIFT & 1 == 0 { 0 } else { Flags::PLACED.0 };
        Flags(flags & !Flags::PLACED.0 | stray | placed)
    }

    /// Bytes that the extensions take at the payload's start.
    #[inline]
    pub const fn extension_bytes(self) -> u32 {
        self.0.count_ones() * EXTENSION_BYTES as u32
    }

    /// Where in the payload the one extension stands that this is, if it is there.
    #[inline]
    pub const fn offset_of(self, extension: Flags) -> Option<u32> {
        let before = Flags(self.0 & (extension.0 - 1));
        if self.has(extension) { Some(before.extension_bytes()) } else { None }
    }
}

/// Where a payload lies that is not in its frame: in a buffer of a slab of its sender's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The slab.
    pub slab: u16,
    /// The buffer in it.
    pub index: u16,
    /// Bytes of the payload.
    pub len: u32,
}

impl Placed {
    /// As it stands in the payload.
    #[inline(always)]
    pub const fn as_u64(self) -> u64 {
        self.slab as u64 | (self.index as u64) << 16 | (self.len as u64) << 32
    }

    /// What stands in a payload.
    #[inline(always)]
    pub const fn from_u64(word: u64) -> Placed {
        Placed { slab: word as u16, index: (word >> 16) as u16, len: (word >> 32) as u32 }
    }
}
