//! The front of a message: its head and its extensions, before the payload.

use upbeat_core::context::Context;
use upbeat_core::frame::{Flags, Head, Placed};
use upbeat_core::limits::EXTENSION_BYTES;
use upbeat_memory::ring::Claim;
use upbeat_memory::ticks::ticks;

/// The words of a head.
pub(super) type Words = [u64; 3];

/// The extensions of a message, before its payload.
#[derive(Clone, Copy)]
pub(crate) struct Extensions {
    /// The microseconds until the deadline.
    pub(crate) deadline: Option<u64>,
    /// The number of the request, if the peer granted room for it.
    pub(crate) granted: Option<u64>,
    /// The number of times that the call was refused, if it may be refused.
    pub(crate) refusals: Option<u64>,
    /// The microseconds that the call may last in all, if its callee may ask for more.
    pub(crate) extendable: Option<u64>,
    /// The bytes of the context in front of the arguments, if there is one.
    pub(crate) context: Option<u64>,
}

impl Extensions {
    pub(crate) const NONE: Extensions = Extensions {
        deadline: None,
        granted: None,
        refusals: None,
        extendable: None,
        context: None,
    };

    /// Writes the extensions in the order of their flags. Returns the head with the flags, and the bytes written.
    #[inline(always)]
    pub(super) fn write(
        self,
        head: Words,
        placed: Option<Placed>,
        claim: &mut Claim<'_>,
    ) -> (Words, usize) {
        let (mut head, mut at) = (head, 0);
        let mut write = |word: Option<u64>, flag| {
            if let Some(word) = word {
                claim.write_word(at, word);
                head = Head::flagged(head, flag);
                at += EXTENSION_BYTES;
            }
        };
        write(self.deadline, Flags::DEADLINE);
        write(placed.map(Placed::as_u64), Flags::PLACED);
        write(self.granted, Flags::GRANTED);
        write(self.refusals, Flags::REFUSABLE);
        write(self.extendable, Flags::EXTENDABLE);
        // The written time counts from this stamp on.
        write(self.deadline.map(|_| ticks()), Flags::MADE);
        write(self.context, Flags::CONTEXT);
        (head, at)
    }

    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        let count = |word: Option<u64>| usize::from(word.is_some());
        let rare = count(self.refusals) + count(self.extendable) + count(self.context);
        (2 * count(self.deadline) + count(self.granted) + rare) * EXTENSION_BYTES
    }
}

/// The extensions and the context of a request. The type tells the compiler where a request has none.
pub(crate) trait Front: Copy {
    fn extensions(&self) -> Extensions;

    fn context(&self) -> Option<&Context>;
}

/// The front of a request without extensions and context. This type has no bytes, so the common path passes none.
#[derive(Clone, Copy)]
pub(crate) struct Plain;

impl Front for Plain {
    #[inline(always)]
    fn extensions(&self) -> Extensions {
        Extensions::NONE
    }

    #[inline(always)]
    fn context(&self) -> Option<&Context> {
        None
    }
}

impl Front for (Extensions, Option<&Context>) {
    #[inline(always)]
    fn extensions(&self) -> Extensions {
        self.0
    }

    #[inline(always)]
    fn context(&self) -> Option<&Context> {
        self.1
    }
}

/// The head and the extensions of a message.
#[derive(Clone, Copy)]
pub(super) struct Header {
    /// The words of the head.
    pub(super) head: Words,
    pub(super) extensions: Extensions,
}

impl Header {
    /// Returns a front without extensions.
    #[inline(always)]
    pub(super) const fn plain(head: Words) -> Header {
        Header { head, extensions: Extensions::NONE }
    }
}
