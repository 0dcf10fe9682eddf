//! The destination of a value that is written: the slot claimed for it, a buffer that is lent to its reader,
//! or private memory.

use super::{MessageContext, WireError};
use serde::Serialize;
use upbeat_memory::probe;
use upbeat_memory::ring::Claim;
use upbeat_memory::slab::Buffer;

const WORD: usize = 8;

/// A message being written. Bytes that do not fit are counted and not written, so that one pass
/// either writes the message or tells its length.
#[doc(hidden)]
pub struct Output<'a> {
    to: To<'a>,
    at: usize,
    room: usize,
    context: Option<&'a MessageContext<'a>>,
    is_tolerant: bool,
}

enum To<'a> {
    Frame(Claim<'a>),
    Lent(Buffer<'a>),
    Own(Vec<u8>),
    /// No destination: the bytes are only counted.
    Counted,
    /// No destination: there is no memory for the bytes.
    Lacking,
}

impl<'a> Output<'a> {
    /// Writes into a claimed slot, behind so many bytes that are already there.
    #[inline(always)]
    pub(crate) fn frame(claim: Claim<'a>, at: usize) -> Output<'a> {
        let room = claim.room();
        Output { to: To::Frame(claim), at, room, context: None, is_tolerant: false }
    }

    /// Writes into a buffer that is to be lent.
    pub(crate) fn lent(buffer: Buffer<'a>) -> Output<'a> {
        let room = buffer.room();
        Output { to: To::Lent(buffer), at: 0, room, context: None, is_tolerant: false }
    }

    /// Writes into private memory, at most `room` bytes.
    pub(crate) fn own(room: usize) -> Output<'static> {
        Output { to: To::Own(Vec::new()), at: 0, room, context: None, is_tolerant: false }
    }

    /// Only counts the bytes.
    pub(crate) fn counted() -> Output<'static> {
        Output { to: To::Counted, at: 0, room: 0, context: None, is_tolerant: false }
    }

    /// Opens the attachments of the written values in this context.
    #[inline(always)]
    pub(crate) fn attaching(mut self, context: Option<&'a MessageContext<'a>>) -> Output<'a> {
        self.context = context;
        self
    }

    /// Writes in the tolerant form, or as usual.
    #[inline(always)]
    pub(crate) fn tolerating(mut self, is_tolerant: bool) -> Output<'a> {
        self.is_tolerant = is_tolerant;
        self
    }

    /// Returns whether the message is written in the tolerant form: structs field by field.
    #[doc(hidden)]
    #[inline]
    pub fn is_tolerant(&self) -> bool {
        self.is_tolerant
    }

    /// Writes a struct of so many fields in the tolerant form: the bytes that `put` writes, in front of them a word with
    /// their number and the number of fields.
    #[doc(hidden)]
    pub fn fields(
        &mut self,
        count: u32,
        put: impl FnOnce(&mut Output<'_>) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        self.align();
        let front = |bytes: usize| (bytes as u64 | u64::from(count) << 32).to_le_bytes();
        if matches!(self.to, To::Frame(_) | To::Lent(_)) {
            // Bytes that lie there already cannot be changed.
            let room = self.room.saturating_sub(self.at + WORD);
            let mut apart = Output { to: To::Own(Vec::new()), at: 0, room, ..*self };
            put(&mut apart)?;
            let bytes = apart.at;
            let fields = apart.into_bytes().ok_or(WireError::NoMemory { bytes })?;
            self.bytes(&front(bytes));
            self.bytes(&fields);
            // Fields for which there is no room are only counted.
            self.at += bytes - fields.len();
            return Ok(());
        }
        let at = self.at;
        self.bytes(&front(0));
        put(self)?;
        let bytes = self.at - at - WORD;
        if let To::Own(own) = &mut self.to
            && let Some(place) = own.get_mut(at..at + WORD)
        {
            place.copy_from_slice(&front(bytes));
        }
        Ok(())
    }

    /// Returns the context in which an attachment is opened, or `None` where messages have no attachments.
    pub(crate) fn context(&self) -> Option<&MessageContext<'a>> {
        self.context
    }

    /// Returns the bytes written or counted so far.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.at
    }

    /// Returns whether everything fitted.
    #[inline(always)]
    pub(crate) fn fits(&self) -> bool {
        self.at <= self.room
    }

    /// Publishes the frame in the slots that were claimed for it.
    #[inline(always)]
    pub(crate) fn commit(self, head: [u64; 3], payload: usize) {
        if let To::Frame(claim) = self.to {
            claim.commit(head, payload);
        }
    }

    /// Lends the buffer that was written. Returns its index in its slab.
    pub(crate) fn lend(self) -> u32 {
        match self.to {
            To::Lent(buffer) => buffer.lend(),
            _ => unreachable!("what is lent was written into a buffer"),
        }
    }

    /// Returns the bytes that were written into private memory, or `None` if there was not enough memory.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        match self.to {
            To::Own(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Continues at the next whole word.
    #[inline(always)]
    pub fn align(&mut self) {
        let at = self.at.next_multiple_of(WORD);
        if at != self.at {
            let gap = at - self.at;
            self.bytes(&[0; WORD][..gap]);
        }
    }

    /// Writes bytes unchanged.
    #[inline(always)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        if end <= self.room {
            match &mut self.to {
                To::Frame(claim) => claim.write(self.at, bytes),
                To::Lent(buffer) => buffer.write(self.at, bytes),
                To::Own(own) => {
                    probe::copied_apart(self.at, bytes.len());
                    match own.try_reserve(bytes.len()) {
                        Ok(()) => own.extend_from_slice(bytes),
                        Err(_) => self.to = To::Lacking,
                    }
                }
                To::Counted | To::Lacking => {}
            }
        }
        self.at = end;
    }

    /// Writes a value as postcard.
    pub fn serde<T: Serialize>(&mut self, value: &T) -> Result<(), WireError> {
        self.align();
        postcard::serialize_with_flavor(value, Flavor(self)).map_err(|error| postcard_error(&error))
    }
}

/// Returns why postcard does not carry a value.
#[cold]
pub(super) fn postcard_error(error: &postcard::Error) -> WireError {
    use postcard::Error::{SerializeSeqLengthUnknown, WontImplement};
    let text = match error {
        WontImplement | SerializeSeqLengthUnknown => {
            "the type describes itself, or its length is not known beforehand, which postcard does not carry: \
             carry the value as JSON, in an `upbeat::wire::Json<T>` (feature `json`)"
                .to_owned()
        }
        error => error.to_string(),
    };
    WireError::Serde { text }
}

/// A destination for postcard that writes straight into the message.
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
