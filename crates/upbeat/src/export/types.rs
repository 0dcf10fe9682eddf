//! The types of the values of exports: numbers, arrays and texts here, and each further one in a file of its own.

mod option;
mod fixed_vec;
mod fixed_map;
mod growing;
mod reference;

pub use fixed_map::{FixedMap, FixedMapFields, Key, MapFull};
pub use fixed_vec::{FixedVec, FixedVecFields};
pub(super) use fixed_vec::{LENGTH, each};
pub use growing::VecFields;
pub use option::OptionFields;
pub use reference::{Ref, RefFields};

use super::memory::{Memory, Writer};
use super::path::{ArrayFields, Path, ScalarFields, TextFields};
use super::shared::{Access, NOWHERE, Navigate, Readable, Shared};
use upbeat_core::channel::export::{Scalar, Shape, Step, packed_words, text_words};
use upbeat_memory::region::WORD;
use zerocopy::{FromBytes, Immutable, IntoBytes};

macro_rules! scalar {
    ($($type:ty, $take_into:ident, $scalar:ident, |$value:ident| $to:expr, |$word:ident| $of:expr;)*) => {$(
        impl Shared for $type {
            const WORDS: usize = 1;
            const UNITS: usize = 0;
            const IS_UNIT: bool = false;
            const PACKED: usize = size_of::<$type>();

            type Fields<A: Access> = ScalarFields<A>;

            fn shape() -> Shape {
                Shape::Scalar(Scalar::$scalar)
            }

            #[inline(always)]
            fn put(&self, to: &Writer<'_>, at: usize) {
                to.store(at, self.to_word());
            }

            #[inline(always)]
            fn take(from: &Memory, at: usize) -> Option<Self> {
                Self::of_word(from.load(at))
            }

            #[inline(always)]
            fn versions(_at: usize, _show: &mut dyn FnMut(usize)) {}

            #[inline]
            fn put_packed(items: &[Self], to: &Writer<'_>, at: usize) {
                put_bytes(items, to, at);
            }

            #[inline]
            fn take_packed<const N: usize>(from: &Memory, at: usize) -> Option<[Self; N]> {
                let mut items = [Self::default(); N];
                $take_into(&mut items, from, at).then_some(items)
            }

            #[inline]
            fn take_packed_into(items: &mut [Self], from: &Memory, at: usize) -> bool {
                $take_into(items, from, at)
            }

            #[inline(always)]
            fn of_word($word: u64) -> Option<Self> {
                $of
            }

            #[inline(always)]
            fn to_word(&self) -> u64 {
                let $value = *self;
                $to
            }
        }
    )*};
}

scalar! {
    u8, take_bytes, U8, |value| value.into(), |word| Some(word as u8);
    u16, take_bytes, U16, |value| value.into(), |word| Some(word as u16);
    u32, take_bytes, U32, |value| value.into(), |word| Some(word as u32);
    u64, take_bytes, U64, |value| value, |word| Some(word);
    i8, take_bytes, I8, |value| value as u8 as u64, |word| Some(word as i8);
    i16, take_bytes, I16, |value| value as u16 as u64, |word| Some(word as i16);
    i32, take_bytes, I32, |value| value as u32 as u64, |word| Some(word as i32);
    i64, take_bytes, I64, |value| value as u64, |word| Some(word as i64);
    f32, take_bytes, F32, |value| value.to_bits().into(), |word| Some(f32::from_bits(word as u32));
    f64, take_bytes, F64, |value| value.to_bits(), |word| Some(f64::from_bits(word));
    bool, take_words, Bool, |value| value.into(), |word| match word as u8 {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    char, take_words, Char, |value| u32::from(value).into(), |word| char::from_u32(word as u32);
}

macro_rules! readable {
    ($($type:ty)*) => {$(
        impl Readable for $type {}
    )*};
}

readable! { u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool char }

/// A type of numbers that are indexes of an array.
pub trait Index: Shared {
    #[doc(hidden)]
    const SCALAR: Scalar;
}

macro_rules! indexes {
    ($($type:ty, $scalar:ident;)*) => {$(
        impl Index for $type {
            const SCALAR: Scalar = Scalar::$scalar;
        }
    )*};
}

indexes! { u8, U8; u16, U16; u32, U32; u64, U64; }

/// Stores scalars. The last word is stored whole: a reader takes an array of one word without a look at versions.
fn put_bytes<T: IntoBytes + Immutable>(items: &[T], to: &Writer<'_>, at: usize) {
    let bytes = items.as_bytes();
    let (words, rest) = bytes.split_at(bytes.len() / WORD * WORD);
    to.write(at, words);
    if !rest.is_empty() {
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        to.store(at + words.len() / WORD, u64::from_ne_bytes(last));
    }
}

/// Loads scalars that any bytes are.
#[inline]
fn take_bytes<T: FromBytes + IntoBytes>(items: &mut [T], from: &Memory, at: usize) -> bool {
    from.0.read(at * WORD, items.as_mut_bytes());
    true
}

/// Loads scalars that some words are not. Each word is loaded once.
fn take_words<T: Shared>(items: &mut [T], from: &Memory, at: usize) -> bool {
    items.chunks_mut(WORD / T::PACKED).enumerate().all(|(index, items)| {
        let word = from.load(at + index);
        items.iter_mut().enumerate().all(|(index, item)| {
            let part = word >> (8 * index * T::PACKED);
            T::of_word(part).map(|value| *item = value).is_some()
        })
    })
}

/// The bytes of an array whose elements are collected on the stack. A program without optimisation has a dozen copies of them
/// there.
const ON_STACK: usize = 4096;

impl<T: Shared, const N: usize> Shared for [T; N] {
    const WORDS: usize = match T::PACKED {
        0 => T::WORDS * N,
        each => packed_words(each, N),
    };
    const UNITS: usize = match T::PACKED {
        0 => T::UNITS * N,
        _ => Self::IS_UNIT as usize,
    };
    const IS_UNIT: bool = T::PACKED * N > WORD;
    const GROWS: bool = T::GROWS;

    type Fields<A: Access> = ArrayFields<A, T, N>;

    fn shape() -> Shape {
        const { assert!(N <= u32::MAX as usize, "an exported array has less than 2^32 elements") }
        Shape::array(T::shape(), N as u32)
    }

    #[inline]
    fn put(&self, to: &Writer<'_>, at: usize) {
        if T::PACKED != 0 {
            return T::put_packed(self, to, at + usize::from(Self::IS_UNIT));
        }
        for (index, item) in self.iter().enumerate() {
            item.put(to, at + index * T::WORDS);
        }
    }

    fn room(&self, replaced: Option<(&Writer<'_>, usize)>) -> usize {
        let room = |(index, item): (usize, &T)| {
            item.room(replaced.map(|(writer, at)| (writer, at + index * T::WORDS)))
        };
        self.iter().enumerate().map(room).sum()
    }

    fn is_within(&self, export: u32) -> bool {
        self.iter().all(|item| item.is_within(export))
    }

    #[inline]
    fn take(from: &Memory, at: usize) -> Option<Self> {
        if T::PACKED != 0 {
            return T::take_packed(from, at + usize::from(Self::IS_UNIT));
        }
        if size_of::<Self>() > ON_STACK {
            let items = (0..N).map(|index| T::take(from, at + index * T::WORDS));
            let items: Box<[T; N]> = items.collect::<Option<Box<[T]>>>()?.try_into().ok()?;
            return Some(*items);
        }
        let items: [Option<T>; N] =
            std::array::from_fn(|index| T::take(from, at + index * T::WORDS));
        let all = items.iter().all(Option::is_some);
        all.then(|| items.map(|item| item.unwrap_or_else(|| unreachable!("it was looked at"))))
    }

    #[inline]
    fn take_into(&mut self, from: &Memory, at: usize) -> bool {
        if T::PACKED != 0 {
            return T::take_packed_into(self, from, at + usize::from(Self::IS_UNIT));
        }
        let mut items = self.iter_mut().enumerate();
        items.all(|(index, item)| item.take_into(from, at + index * T::WORDS))
    }

    #[inline]
    fn versions(at: usize, show: &mut dyn FnMut(usize)) {
        if Self::IS_UNIT {
            return show(at);
        }
        if T::UNITS > 0 {
            (0..N).for_each(|index| T::versions(at + index * T::WORDS, show));
        }
    }

    fn versions_now(memory: &Memory, (value, at): (usize, usize), show: &mut dyn FnMut(usize)) {
        if T::PACKED != 0 {
            return Self::versions(at, show);
        }
        (0..N).for_each(|index| T::versions_now(memory, (value, at + index * T::WORDS), show));
    }
}

impl<T: Shared, const N: usize> Readable for [T; N] {}

impl<A: Access, T: Shared, const N: usize> ArrayFields<A, T, N> {
    /// Returns the path to the element whose index another path of this export has at the moment. Reading an element that is
    /// not there is an error, and writing it panics.
    ///
    /// ```no_run
    /// # #[derive(upbeat::Shared)]
    /// # struct Quotes {
    /// #     best: u32,
    /// #     bids: [f64; 100],
    /// # }
    /// # async fn show(quotes: upbeat::Import<Quotes>) -> Result<(), upbeat::export::ReadError> {
    /// // The index is looked up where the array is, and only the bid travels.
    /// println!("{}", quotes.bids().index_at(&quotes.best()).read().await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// If the index is in another export, or behind another option, vector or map than the array. A path of a reader panics
    /// also if the index is behind another pointer.
    pub fn index_at<'p, U: Index>(
        &'p self,
        index: &Path<A::Borrowed<'p>, U>,
    ) -> Path<<A::Borrowed<'p> as Navigate>::There, T>
    where
        A::Borrowed<'p>: Navigate,
    {
        let (place, from) = (self.0.borrowed(), index.place());
        assert!(place.access.is_same(&from.access), "an index lies in the export of its array");
        if from.at == NOWHERE {
            return Path::new(Navigate::nowhere(place, from.version));
        }
        let is_within = place.at == NOWHERE || place.steps == from.steps;
        assert!(is_within, "an index lies behind the same option, vector or map as its array");
        let (from_at, around) = Navigate::from_step(from);
        let from_byte = from_at * WORD as u32 + u32::from(from.shift.unwrap_or(0)) / 8;
        Path::step(place, |at, to| Step::Index {
            first: (at + u32::from(<[T; N]>::IS_UNIT)) * WORD as u32,
            each: each::<T>() as u32,
            len: N as u32,
            to,
            from: from_byte,
            of: U::SCALAR,
            around,
        })
    }
}

impl<const N: usize> Readable for Text<N> {}

/// A text of at most `N` bytes, in an export.
///
/// ```
/// use upbeat::export::Text;
///
/// let name: Text<8> = Text::new("EURUSD").unwrap();
/// assert_eq!(name.as_str(), "EURUSD");
/// assert!(Text::<4>::new("EURUSD").is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize> {
    len: usize,
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    /// Returns a text, or `None` if it has more than `N` bytes.
    #[must_use]
    pub fn new(text: &str) -> Option<Text<N>> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Text { len: text.len(), bytes })
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Text<N> {
        Text { len: 0, bytes: [0; N] }
    }
}

impl<const N: usize> std::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<const N: usize> std::fmt::Display for Text<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self.as_str(), f)
    }
}

impl<const N: usize> Shared for Text<N> {
    const WORDS: usize = text_words(N);
    const UNITS: usize = 1;
    const IS_UNIT: bool = true;

    type Fields<A: Access> = TextFields<A>;

    fn shape() -> Shape {
        const { assert!(N <= u32::MAX as usize, "an exported text has less than 2^32 bytes") }
        Shape::Text { bytes: N as u32 }
    }

    fn put(&self, to: &Writer<'_>, at: usize) {
        to.store(at + 1, self.len as u64);
        put_bytes(&self.bytes, to, at + 2);
    }

    fn take(from: &Memory, at: usize) -> Option<Self> {
        let len = usize::try_from(from.load(at + 1)).ok()?;
        let bytes: [u8; N] = from.0.read_value((at + 2) * WORD);
        str::from_utf8(bytes.get(..len)?).ok()?;
        Some(Text { len, bytes })
    }

    fn versions(at: usize, show: &mut dyn FnMut(usize)) {
        show(at);
    }
}
