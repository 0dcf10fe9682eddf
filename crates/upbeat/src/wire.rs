//! The form of a value in a message, and how a type defines its form.
//!
//! There are three forms, chosen by the type. Plain data (numbers, arrays of them, `#[wire(plain)]` structs)
//! is moved as it lies in memory. Text, sequences, options, results and tuples are a length or a
//! tag and then their elements. All other types go through serde, as postcard. Each argument
//! begins at a whole word, so a plain argument takes one load a word.
//!
//! # Types
//!
//! These types are arguments, results, items of streams and fields without extra code. Types in one line look the
//! same in a message and in a schema, so that the two sides may choose different ones:
//!
//! - `u8` … `u128`, `i8` … `i128`, `f32`, `f64`, `bool`, `char`, `()`;
//! - `u64` and `usize`; `i64` and `isize`;
//! - `NonZero` of every width;
//! - `T`, `Box<T>`, `Arc<T>`, `Rc<T>`, `Wrapping<T>`, `Saturating<T>`, `Reverse<T>`, and `&T` as an argument;
//! - `String`, `Box<str>`, `Arc<str>`, `Rc<str>`, `Cow<'static, str>`, and `&str` as an argument;
//! - `Vec<T>`, `VecDeque<T>`, `LinkedList<T>`, `BinaryHeap<T>`, `Box<[T]>`, `Arc<[T]>`, `Rc<[T]>`, `Cow<'static, [T]>`,
//!   `InPlace<T>` of plain data, `Bytes` and `BytesMut` (feature `bytes`) for `u8`, and `&[T]` as an argument;
//! - `[T; N]`; serde carries up to 32 elements in a field;
//! - `HashMap<K, V>`, `BTreeMap<K, V>`; `HashSet<T>`, `BTreeSet<T>`;
//! - `Option<T>`, `Result<T, E>`, `Bound<T>`, tuples of up to twelve;
//! - `Range<T>`, `RangeInclusive<T>`, `RangeFrom<T>`, `RangeTo<T>`;
//! - `PathBuf` and `&Path` as an argument; `OsString` and `&OsStr` as an argument; `CString`;
//! - `Duration`, `SystemTime`;
//! - `IpAddr`, `Ipv4Addr`, `Ipv6Addr`, `SocketAddr`, `SocketAddrV4`, `SocketAddrV6`;
//! - `PhantomData<T>`;
//! - `Uuid` (feature `uuid`);
//! - `DateTime<Utc>`, `DateTime<FixedOffset>`, `NaiveDate`, `NaiveTime`, `NaiveDateTime`, `TimeDelta` (feature
//!   `chrono`);
//! - `Stream<T>` and `ServiceRef<…>`, in arguments and results.
//!
//! Your own types derive [`Wire`](macro@crate::Wire). [`Serde`] carries types of other crates, and `Json` (feature
//! `json`) values that describe themselves, such as `serde_json::Value`.
//!
//! Invariant: `take` accepts any bytes and returns a value or an error; it never reads beyond the
//! message. It allocates no memory because of an announced length alone, and returns an error if memory that a
//! message needs is missing.

mod carried;
mod context;
mod content;
mod built;
mod describe;
mod forms;
mod arrays;
mod by_reference;
mod metered;
mod shallow;
mod in_place;
mod output;
mod input;
mod look;
mod fills;
mod std_types;
mod containers;
mod wrapped;
mod outside;

use arrays::Alone;
#[doc(hidden)]
pub use arrays::{Around, PlainReads};
#[doc(hidden)]
pub use built::Built;
pub(crate) use built::{Lender, Reserved};
#[doc(hidden)]
pub use by_reference::{ByRef, ByReference, Incoming, Passed, Received};
#[doc(hidden)]
pub use carried::{Arguments, CalledMethod, Carried};
#[doc(hidden)]
pub use content::Content;
pub(crate) use content::{AnyContent, Payload};
#[doc(hidden)]
pub use context::MessageContext;
pub(crate) use context::{Attaching, CallSide};
pub use describe::{Describe, signature, signature_text};
pub use fills::Fills;
pub(crate) use fills::try_fill;
#[doc(hidden)]
pub use forms::Fallible;
pub use forms::Plain;
#[cfg(feature = "bytes")]
pub use in_place::InPlaceBuf;
pub(crate) use in_place::{Hold, Unread};
pub use in_place::{InPlace, InPlaceReader};
pub use input::Input;
#[doc(hidden)]
pub use look::{Look, NoStreams};
pub use output::Output;
#[doc(hidden)]
pub use upbeat_core::method::Signature;
#[cfg(feature = "json")]
pub use wrapped::Json;
pub use wrapped::Serde;

use std::fmt;
use std::rc::Rc;
use upbeat_core::limits::EMPTY_ELEMENTS_MAX;

/// A value that can be an argument or a result of a method.
///
/// Derive it: `#[derive(Serialize, Deserialize, Wire)]` for a type that serde carries, or
/// `#[derive(FromBytes, IntoBytes, Immutable, Wire)] #[wire(plain)]` for plain data, which is
/// not encoded at all.
///
/// ```
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, upbeat::Wire)]
/// struct Description {
///     text: String,
///     seen: u64,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel in a message",
    label = "`{Self}` is not `upbeat::Wire`",
    note = "for a type of your own, write `#[derive(serde::Serialize, serde::Deserialize, upbeat::Wire)]` over it",
    note = "for a type of another crate that describes itself, as `serde_json::Value` does, write \
            `upbeat::wire::Json<{Self}>` instead (feature `json` of upbeat)",
    note = "for any other type of another crate that serde carries, write `upbeat::wire::Serde<{Self}>` instead; \
            over a field, `#[wire(opaque = \"name/version\")]` does as well"
)]
pub trait Wire: Sized + 'static {
    /// Whether the value is moved as it lies in memory, in `size_of::<Self>()` bytes.
    const PLAIN: bool = false;

    /// Whether the value is read in place, so that its message should lie in a buffer that can be held.
    const IN_PLACE: bool = false;

    /// Whether the value may contain streams, which are opened where it is sent and where it is received.
    const STREAMS: bool = false;

    /// Whether a value may contain a struct that has gained or lost fields on the other side.
    #[doc(hidden)]
    const TOLERANT: bool = !Self::PLAIN;

    /// The bytes of every value in a message, if all values have as many.
    #[doc(hidden)]
    const EXACT: Option<usize> = if Self::PLAIN { Some(size_of::<Self>()) } else { None };

    /// Whether the type has the schema of plain data and is none, so that there are gaps between such elements.
    #[doc(hidden)]
    const SPACED: bool = false;

    /// The estimated bytes of a value in a message: the room that is claimed first.
    const BYTES_LIKELY: usize = 0;

    /// Returns an estimate of this value's bytes, where the value knows better than its type.
    #[inline]
    fn bytes_likely(&self) -> usize {
        Self::BYTES_LIKELY
    }

    /// Writes the type's schema, which two sides compare before their first call.
    fn describe(out: &mut Describe);

    /// Writes the value, beginning at a whole word.
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError>;

    /// Reads a value, beginning at a whole word.
    fn take(input: &mut Input<'_>) -> Result<Self, WireError>;

    /// Passes the streams in the value to `show`.
    #[doc(hidden)]
    fn streams(&self, _show: &mut dyn FnMut(&Rc<dyn Carried>)) {}

    /// Returns whether the value is the error of a method.
    #[doc(hidden)]
    fn is_error(&self) -> bool {
        false
    }

    /// Writes many values, as the elements of a sequence.
    fn put_all(items: &[Self], out: &mut Output<'_>) -> Result<(), WireError> {
        items.iter().try_for_each(|item| item.put(out))
    }

    /// Reads many values, as the elements of a sequence.
    fn take_all(count: usize, input: &mut Input<'_>) -> Result<Vec<Self>, WireError> {
        let mut items = Vec::new();
        Self::take_again(&mut items, count, input)?;
        Ok(items)
    }

    /// Reads many values into a vector that may have been used before, in place of its items.
    #[doc(hidden)]
    #[inline]
    fn take_again(
        items: &mut Vec<Self>,
        count: usize,
        input: &mut Input<'_>,
    ) -> Result<(), WireError> {
        if let Some(reads) = Self::plain_reads::<Alone>() {
            // Elements without any size could be any number.
            if size_of::<Self>() == 0 {
                (0..count).try_for_each(|_| input.charge(0))?;
            }
            return (reads.again)(items, count, input);
        }
        items.clear();
        // An element may be empty, or much smaller in the message than here, so the count alone may
        // not reserve memory.
        reserve(items, count.min(input.remaining() / size_of::<Self>().max(1)))?;
        input.sequence(|input| {
            for _ in 0..count {
                input.charge(size_of::<Self>())?;
                let item = Self::take(input)?;
                reserve(items, 1)?;
                items.push(item);
            }
            Ok(())
        })
    }

    /// Reads a value in place of another.
    #[doc(hidden)]
    #[inline]
    fn take_over(place: &mut Option<Self>, input: &mut Input<'_>) -> Result<(), WireError> {
        if let Some(reads) = Self::plain_reads::<Alone>() {
            return (reads.over)(place, input);
        }
        *place = Some(Self::take(input)?);
        Ok(())
    }

    /// Returns the reads of this type in arrays, if it is plain data.
    #[doc(hidden)]
    #[inline(always)]
    fn plain_reads<A: Around>() -> Option<PlainReads<A::Of<Self>>> {
        None
    }
}

/// Returns the bytes of a value behind other values, beginning at a whole word, if both lengths are known.
const fn exact_behind(before: Option<usize>, next: Option<usize>) -> Option<usize> {
    match (before, next) {
        (Some(before), Some(next)) => Some(before.next_multiple_of(8) + next),
        _ => None,
    }
}

/// Reads the number of elements of a sequence. Each element takes a byte of the message at least, or is empty:
/// the number of empty elements has a limit of its own.
fn checked_count(input: &mut Input<'_>) -> Result<usize, WireError> {
    let count = input.count(0)?;
    if count > input.remaining() && count > EMPTY_ELEMENTS_MAX {
        return Err(WireError::Count { count: count as u64, left: input.remaining() });
    }
    Ok(count)
}

/// Returns an empty vector with room for so many items.
pub(crate) fn reserved<T>(items: usize) -> Result<Vec<T>, WireError> {
    let mut reserved = Vec::new();
    reserve(&mut reserved, items)?;
    Ok(reserved)
}

/// Makes room for so many more items.
fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<(), WireError> {
    items.try_reserve(more).map_err(|_| {
        let bytes = items.len().saturating_add(more).saturating_mul(size_of::<T>());
        WireError::NoMemory { bytes }
    })
}

/// The reason why a value cannot be written into a message, or read from one.
///
/// ```
/// use upbeat::wire::WireError;
///
/// let error = WireError::Short { wanted: 8, left: 3 };
/// assert_eq!(error.to_string(), "the message ends: 8 bytes are needed and 3 are left");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The message ends before the value does.
    Short {
        /// The bytes that the value needs next.
        wanted: usize,
        /// The bytes that are left.
        left: usize,
    },
    /// Bytes are left over after the last value.
    Surplus {
        /// The number of bytes.
        bytes: usize,
    },
    /// A tag, a character or a text that the type does not have.
    Invalid {
        /// The name of the part that was read.
        what: &'static str,
    },
    /// More elements are announced than the message can hold.
    Count {
        /// The number of announced elements.
        count: u64,
        /// The bytes that are left.
        left: usize,
    },
    /// More items have arrived than there is room for.
    NoRoom {
        /// The number of items that have arrived.
        items: usize,
        /// The number of items for which there is room.
        room: usize,
    },
    /// The message has more bytes than its receiver accepts, and was not read.
    TooLarge {
        /// The bytes of the message.
        bytes: usize,
        /// The most bytes that the receiver accepts.
        most: usize,
    },
    /// The values of the message would take more memory than a message of that length may become, and were not made.
    MemoryLimit {
        /// The most bytes that they may take.
        most: usize,
    },
    /// There is no memory for the value, or for its message.
    NoMemory {
        /// The bytes that were needed.
        bytes: usize,
    },
    /// A stream cannot be opened or continued.
    Stream {
        /// The reason.
        why: &'static str,
    },
    /// Serde or postcard reports an error.
    Serde {
        /// The text of the error.
        text: String,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Short { wanted, left } => {
                write!(f, "the message ends: {wanted} bytes are needed and {left} are left")
            }
            WireError::Surplus { bytes } => {
                write!(f, "{bytes} bytes are left over behind the last value")
            }
            WireError::Invalid { what } => write!(f, "that is no {what}"),
            WireError::Count { count, left } => {
                write!(f, "{count} elements are announced and {left} bytes are left")
            }
            WireError::NoRoom { items, room } => {
                write!(f, "{items} items have come and there is room for {room}")
            }
            WireError::TooLarge { bytes, most } => {
                write!(f, "the message has {bytes} bytes, and at most {most} are taken")
            }
            WireError::MemoryLimit { most } => {
                write!(f, "the values of the message would take more than {most} bytes of memory")
            }
            WireError::NoMemory { bytes } => write!(f, "there is no memory for {bytes} bytes"),
            WireError::Stream { why } => write!(f, "a stream: {why}"),
            WireError::Serde { text } => write!(f, "serde: {text}"),
        }
    }
}

impl std::error::Error for WireError {}

#[cfg(test)]
mod tests;
