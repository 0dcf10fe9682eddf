//! The source of a value that is read: the open frame of a lane, a buffer of the peer, or private bytes.

use super::in_place::{Hold, Lease, Unread};
use super::metered::{Meter, Metered, charge_for_entry, values_of_one};
use super::output::postcard_error;
use super::shallow::{STACK_BYTES_MAX, Shallow, here};
use super::{MessageContext, WireError, reserve};
use serde::de::DeserializeOwned;
use std::cell::{Cell, OnceCell};
use std::num::NonZeroUsize;
use std::sync::Arc;
use upbeat_memory::ring::Payload;
use upbeat_memory::{fresh, probe};
use zerocopy::{FromBytes, IntoBytes};

const WORD: usize = 8;

/// A message being read.
///
/// The peer can change its memory during the read, so each byte is copied once and checked only in the copy:
/// plain values are copied straight to their place, text and sequences into their final memory,
/// and values that serde reads into a buffer first.
#[doc(hidden)]
pub struct Input<'a> {
    from: From<'a>,
    at: usize,
    end: usize,
    context: Option<&'a MessageContext<'a>>,
    /// Where a message in the tolerant form began to be read, and where it ends.
    tolerant: Option<Tolerant>,
    /// The copy that the elements of a sequence share, if one is being read.
    shared: Option<&'a Shared>,
    /// The memory that the values take which were read before, as far as it was counted.
    charged: usize,
}

/// A message in the tolerant form. The input may be the whole message or a value inside it.
#[derive(Clone, Copy)]
struct Tolerant {
    /// The place on the stack where reading the message began.
    top: NonZeroUsize,
    end: usize,
}

/// One copy of the message up to the end of a sequence's input, for the values that serde reads from the sequence. Each of
/// them would copy all that is left otherwise, and the time of a sequence would grow with the square of its length.
struct Shared {
    end: usize,
    /// The byte at which the copy begins, and the copy.
    copy: OnceCell<(usize, Vec<u8>)>,
    meter: Meter,
}

#[derive(Clone, Copy)]
enum From<'a> {
    Frame(Payload<'a>),
    Lent(&'a Hold),
    Own(&'a [u8]),
    /// No source: the payload is not read.
    Unread(Unread),
}

impl<'a> Input<'a> {
    /// Reads the open frame's payload from byte `at` up to `end`. The end was checked against the
    /// frame's span.
    #[inline(always)]
    pub(crate) fn frame(payload: Payload<'a>, at: usize, end: usize) -> Input<'a> {
        Input::of(From::Frame(payload), at, end)
    }

    /// Reads a buffer of the peer.
    #[inline]
    pub(crate) fn lent(hold: &'a Hold) -> Input<'a> {
        Input::of(From::Lent(hold), 0, hold.len())
    }

    /// Reads private bytes.
    pub(crate) fn own(bytes: &'a [u8]) -> Input<'a> {
        Input::of(From::Own(bytes), 0, bytes.len())
    }

    /// Returns an input from which nothing can be read, for a payload of so many bytes.
    #[cold]
    pub(crate) fn unread(bytes: usize, why: Unread) -> Input<'a> {
        Input::of(From::Unread(why), 0, bytes)
    }

    #[inline(always)]
    fn of(from: From<'a>, at: usize, end: usize) -> Input<'a> {
        Input { from, at, end, context: None, tolerant: None, shared: None, charged: 0 }
    }

    /// Reads a value whose attachments are opened in this context.
    pub(crate) fn within<T>(
        &mut self,
        context: &MessageContext<'_>,
        read: impl FnOnce(&mut Input<'_>) -> T,
    ) -> T {
        let mut inner = Input { context: Some(context), ..*self };
        let value = read(&mut inner);
        (self.at, self.charged) = (inner.at, inner.charged);
        value
    }

    /// Reads a message in the tolerant form.
    #[cold]
    pub(crate) fn tolerating(self) -> Input<'a> {
        let tolerant = NonZeroUsize::new(here()).map(|top| Tolerant { top, end: self.end });
        Input { tolerant, ..self }
    }

    /// Returns whether the message is in the tolerant form: structs field by field.
    #[doc(hidden)]
    #[inline]
    pub fn is_tolerant(&self) -> bool {
        self.tolerant.is_some()
    }

    /// Returns an error if values stand in each other deeper than the stack endures.
    #[doc(hidden)]
    pub fn endurable(&self) -> Result<(), WireError> {
        match self.tolerant {
            Some(Tolerant { top, .. }) if top.get().abs_diff(here()) > STACK_BYTES_MAX => {
                Err(WireError::Invalid { what: "value of an endurable depth" })
            }
            _ => Ok(()),
        }
    }

    /// Reads a struct in the tolerant form: `read` is given the number of fields that the sender has written, of which
    /// there are at least `required`. Fields that it does not read are passed if there are more than `known`.
    #[doc(hidden)]
    pub fn fields<T>(
        &mut self,
        (required, known): (u32, u32),
        read: impl FnOnce(&mut Input<'_>, u32) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        self.endurable()?;
        let front = self.plain::<u64>()?;
        let (bytes, count) = (front as u32 as usize, (front >> 32) as u32);
        let left = self.remaining();
        if bytes > left {
            return Err(WireError::Short { wanted: bytes, left });
        }
        if count < required {
            return Err(WireError::Invalid { what: "struct with all fields that have no default" });
        }
        let end = self.at + bytes;
        let mut fields = Input { end, ..*self };
        let value = fields.sequence(|fields| read(fields, count))?;
        if count <= known {
            fields.finish()?;
        }
        (self.at, self.charged) = (end, fields.charged);
        Ok(value)
    }

    /// Passes the rest of a struct or variant that is read.
    #[doc(hidden)]
    pub fn pass_rest(&mut self) {
        self.at = self.end;
    }

    /// Reads the elements of a sequence, which share one copy of what is left if serde reads them.
    pub(super) fn sequence<T>(
        &mut self,
        read: impl FnOnce(&mut Input<'_>) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        if self.shared.is_some() {
            return read(self);
        }
        let end = self.tolerant.map_or(self.end, |message| message.end);
        let meter = Meter::of(end, self.charged);
        let shared = Shared { end: self.end, copy: OnceCell::new(), meter };
        let mut inner = Input { shared: Some(&shared), ..*self };
        let (value, inside) = values_of_one(self.charged, || read(&mut inner));
        self.at = inner.at;
        self.charged = shared.meter.charged().saturating_add(inside);
        value
    }

    /// Charges for an element of a sequence that is made next.
    #[inline]
    pub(super) fn charge(&self, bytes: usize) -> Result<(), WireError> {
        self.meter().map_or(Ok(()), |meter| meter.charge(bytes))
    }

    /// Charges for an entry of a map or a set that is made next.
    #[inline]
    pub(super) fn charge_entry(&self, bytes: usize, is_first: bool) -> Result<(), WireError> {
        self.charge(charge_for_entry(bytes, is_first))
    }

    /// Returns the meter of the sequence that is read, if one is.
    pub(super) fn meter(&self) -> Option<&'a Meter> {
        self.shared.map(|shared| &shared.meter)
    }

    /// Returns the memory that the values take which were read, as far as it was counted.
    #[inline(always)]
    pub(crate) fn charged(&self) -> usize {
        self.charged
    }

    /// Returns the context in which an attachment is opened, or `None` where messages have no attachments.
    pub(crate) fn context(&self) -> Option<&MessageContext<'a>> {
        self.context
    }

    /// Returns the bytes that are left.
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Checks that the last value has been read.
    #[inline(always)]
    pub(crate) fn finish(&self) -> Result<(), WireError> {
        // The gap up to a whole word after the last value belongs to that value.
        if self.remaining() < WORD {
            return Ok(());
        }
        Err(WireError::Surplus { bytes: self.remaining() })
    }

    /// Skips `bytes` bytes, at a whole word, and returns the place where they began.
    #[inline(always)]
    fn pass(&mut self, bytes: usize) -> Result<usize, WireError> {
        let at = self.at.next_multiple_of(WORD);
        let left = self.end.saturating_sub(at);
        // An empty value may begin beyond the end too, if the last gap is missing.
        if bytes > left || (bytes == 0 && at > self.end) {
            return Err(WireError::Short { wanted: bytes, left });
        }
        self.at = at + bytes;
        Ok(at)
    }

    /// Reads plain data.
    #[inline(always)]
    pub fn plain<T: FromBytes>(&mut self) -> Result<T, WireError> {
        let at = self.pass(size_of::<T>())?;
        match self.from {
            From::Frame(payload) => Ok(payload.read_value(at)),
            From::Lent(hold) => hold.with(|loan| loan.read_value(at)),
            From::Own(bytes) => {
                probe::copied_apart(at, size_of::<T>());
                T::read_from_prefix(&bytes[at..]).map(|(value, _)| value).map_err(|_| {
                    WireError::Short { wanted: size_of::<T>(), left: bytes.len() - at }
                })
            }
            From::Unread(why) => Err(why.error(self.end)),
        }
    }

    /// Reads bytes unchanged.
    #[inline]
    pub fn bytes(&mut self, to: &mut [u8]) -> Result<(), WireError> {
        let at = self.pass(to.len())?;
        match self.from {
            From::Frame(payload) => payload.read(at, to),
            From::Lent(hold) => hold.with(|loan| loan.read(at, to))?,
            From::Own(bytes) => {
                probe::copied_apart(at, to.len());
                to.copy_from_slice(&bytes[at..at + to.len()]);
            }
            From::Unread(why) => return Err(why.error(self.end)),
        }
        Ok(())
    }

    /// Skips bytes that stay in their buffer, if that can be kept. Returns the buffer,
    /// and the byte at which they begin.
    pub(super) fn lend(&mut self, bytes: usize) -> Result<Option<(Arc<Lease>, usize)>, WireError> {
        let From::Lent(hold) = self.from else { return Ok(None) };
        let Some(lease) = hold.share() else { return Ok(None) };
        Ok(Some((lease, self.pass(bytes)?)))
    }

    /// Reads the bytes in front of the first value, which begins at the next whole word. If they cannot be
    /// read, nothing was skipped, and the values cannot be read either.
    pub(crate) fn front(&mut self, bytes: usize) -> Result<Vec<u8>, WireError> {
        let before = self.at;
        let front = self.items(bytes);
        self.at = match front {
            Ok(_) => self.at.next_multiple_of(WORD).min(self.end),
            Err(_) => before,
        };
        front
    }

    /// Reads so many items of plain data.
    pub fn items<T: FromBytes>(&mut self, count: usize) -> Result<Vec<T>, WireError> {
        let bytes = count.saturating_mul(size_of::<T>());
        let at = self.pass(bytes)?;
        let items = match self.from {
            From::Frame(payload) => payload.read_items(at, count),
            From::Lent(hold) => hold.with(|loan| loan.read_items(at, count))?,
            From::Own(own) => {
                probe::copied_apart(at, bytes);
                fresh::copied(&own[at..at + bytes], count)
            }
            From::Unread(why) => return Err(why.error(self.end)),
        };
        items.ok_or(WireError::NoMemory { bytes })
    }

    /// Reads so many items of plain data in place of the items of a vector, whose memory is used again.
    pub fn refill<T>(&mut self, items: &mut Vec<T>, count: usize) -> Result<(), WireError>
    where
        T: FromBytes + IntoBytes + Copy,
    {
        let left = self.remaining();
        if count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > left) {
            return Err(WireError::Count { count: count as u64, left });
        }
        reserve(items, count.saturating_sub(items.len()))?;
        items.resize(count, T::new_zeroed());
        self.bytes(items.as_mut_bytes())
    }

    /// Reads plain data in place of a value of the same type.
    #[inline]
    pub fn replace<T>(&mut self, place: &mut Option<T>) -> Result<(), WireError>
    where
        T: FromBytes + IntoBytes,
    {
        // The value is read into its place, because returning it would copy it.
        self.bytes(place.get_or_insert_with(T::new_zeroed).as_mut_bytes())
    }

    /// Reads a length that is followed by so many bytes at least.
    #[inline(always)]
    pub fn count(&mut self, bytes_each: usize) -> Result<usize, WireError> {
        let count = self.plain::<u64>()?;
        let left = self.remaining();
        match usize::try_from(count) {
            Ok(number) if number.checked_mul(bytes_each).is_some_and(|bytes| bytes <= left) => {
                Ok(number)
            }
            _ => Err(WireError::Count { count, left }),
        }
    }

    /// Reads a value from postcard. One that stands alone is a sequence of one.
    pub fn serde<T: DeserializeOwned>(&mut self) -> Result<T, WireError> {
        let Some(shared) = self.shared else { return self.sequence(|input| input.serde()) };
        let (at, end) = (self.pass(0)?, self.end);
        let bytes = match self.from {
            From::Own(bytes) => &bytes[at..end],
            From::Frame(_) | From::Lent(_) | From::Unread(_) => {
                let (begin, copy) = match shared.copy.get() {
                    Some(copy) => copy,
                    None => {
                        let rest = Input { end: shared.end, ..*self }.items(shared.end - at)?;
                        shared.copy.get_or_init(|| (at, rest))
                    }
                };
                &copy[at - begin..end - begin]
            }
        };
        let (value, left) = from_postcard(bytes, &shared.meter)?;
        self.at = end - left;
        Ok(value)
    }
}

/// Reads a value from postcard, and returns it with the number of bytes that are left.
fn from_postcard<T: DeserializeOwned>(
    bytes: &[u8],
    meter: &Meter,
) -> Result<(T, usize), WireError> {
    let too_deep = Cell::new(false);
    let mut input = postcard::Deserializer::from_flavor(Shallow::new(bytes, &too_deep));
    let part = Metered::new(&mut input, meter, size_of::<T>());
    let value = T::deserialize(part).map_err(|error| {
        meter.reason(|| match too_deep.get() {
            true => WireError::Invalid { what: "value of an endurable depth" },
            false => postcard_error(&error),
        })
    })?;
    let rest = input.finalize().map_err(|error| postcard_error(&error))?;
    Ok((value, rest.len()))
}
