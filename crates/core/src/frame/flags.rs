//! The extensions of a frame: fields that few messages have, in front of the payload.

use crate::limits::EXTENSION_BYTES;

/// Which extensions stand at the start of a payload, in the order of their bits, eight bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub(super) u16);

impl Flags {
    /// No extension.
    pub const NONE: Flags = Flags(0);
    /// The microseconds that remained until the deadline when the frame was sent, as a `u64`.
    pub const DEADLINE: Flags = Flags(1);

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

    /// The bits, as they stand in the head.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Bytes that the extensions take at the payload's start.
    #[inline]
    pub const fn extension_bytes(self) -> u32 {
        self.0.count_ones() * EXTENSION_BYTES as u32
    }

    /// Where in the payload the deadline stands, if there is one.
    #[inline]
    pub const fn deadline_offset(self) -> Option<u32> {
        if self.has(Flags::DEADLINE) { Some(0) } else { None }
    }
}
