//! Payloads that the session makes itself: bytes that are written already, and arguments behind a context.

use crate::wire::{Built, Content, MessageContext, Output, Payload, WireError};

/// Bytes that are written unchanged: a queued payload, the text of a failure.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl Content for Bytes<'_> {
    fn bytes_likely(&self) -> usize {
        self.0.len()
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        out.bytes(self.0);
        Ok(())
    }
}

/// A payload behind the context of its request.
pub(super) struct Behind<'a> {
    pub(super) block: &'a [u8],
    pub(super) payload: &'a dyn Payload,
}

impl Payload for Behind<'_> {
    fn bytes_likely(&self) -> usize {
        self.block.len().next_multiple_of(8) + self.payload.bytes_likely()
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        out.bytes(self.block);
        out.align();
        self.payload.put(out)
    }

    fn built(&self) -> Option<&Built> {
        None
    }

    fn context(&self) -> Option<&MessageContext<'_>> {
        self.payload.context()
    }

    fn is_tolerant(&self) -> bool {
        self.payload.is_tolerant()
    }
}
