//! Where a value is written: the slots that were claimed for it, or a buffer.

use super::WireError;
use serde::Serialize;
use upbeat_memory::probe;
use upbeat_memory::ring::Claim;

const WORD: usize = 8;

/// A message being written. What does not fit is counted and not written, so that one pass
/// either writes the message or says how long it is.
pub struct Output<'a> {
    to: To<'a>,
    at: usize,
    room: usize,
}

enum To<'a> {
    Lane(Claim<'a>),
    Buffer(Vec<u8>),
}

impl<'a> Output<'a> {
    /// Writes into claimed slots.
    #[inline(always)]
    pub(crate) fn lane(claim: Claim<'a>) -> Output<'a> {
        let room = claim.room();
        Output { to: To::Lane(claim), at: 0, room }
    }

    /// Writes into a buffer, of at most `room` bytes.
    pub(crate) fn buffer(room: usize) -> Output<'static> {
        Output { to: To::Buffer(Vec::new()), at: 0, room }
    }

    /// Bytes written or counted so far.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.at
    }

    /// Whether everything fitted.
    #[inline(always)]
    pub(crate) fn fits(&self) -> bool {
        self.at <= self.room
    }

    /// Publishes the frame in the slots that were claimed for it.
    #[inline(always)]
    pub(crate) fn commit(self, head: [u64; 3], payload: usize) {
        if let To::Lane(claim) = self.to {
            claim.commit(head, payload);
        }
    }

    /// What was written into the buffer.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self.to {
            To::Lane(_) => Vec::new(),
            To::Buffer(bytes) => bytes,
        }
    }

    /// Goes on at the next whole word.
    #[inline(always)]
    pub fn align(&mut self) {
        let at = self.at.next_multiple_of(WORD);
        if at != self.at {
            let gap = at - self.at;
            self.bytes(&[0; WORD][..gap]);
        }
    }

    /// Writes bytes as they are.
    #[inline(always)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        if end <= self.room {
            match &mut self.to {
                To::Lane(claim) => claim.write(self.at, bytes),
                To::Buffer(buffer) => {
                    probe::copied_apart(self.at, bytes.len());
                    buffer.extend_from_slice(bytes);
                }
            }
        }
        self.at = end;
    }

    /// Writes a value as postcard.
    pub fn serde<T: Serialize>(&mut self, value: &T) -> Result<(), WireError> {
        self.align();
        postcard::serialize_with_flavor(value, Flavor(self))
            .map_err(|error| WireError::Serde { text: error.to_string() })
    }
}

/// Postcard writing straight into the message.
struct Flavor<'o, 'a>(&'o mut Output<'a>);

impl postcard::ser_flavors::Flavor for Flavor<'_, '_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.bytes(&[byte]);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.bytes(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
