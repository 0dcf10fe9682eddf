//! Bounds the memory that the values of a message take.
//!
//! A byte of a message may stand for much more memory: an empty text, a vector without elements, an absent value of a
//! large type. A sender could have a short message become any number of gigabytes. So each element of a sequence or a map
//! is charged its size before it is made, the first entry of a map or a set the size of a node of a tree, each value behind a pointer as well, and texts are charged their bytes. A
//! value that lies within one that was charged is charged no more. As the charges grow, memory for the next of them is
//! asked for, because most types allocate theirs without a check.
//!
//! Serde buffers what it reads for an enum that is `untagged` or has a `tag`, and for a field that is `flatten`: only the
//! buffers are charged. Invariant: the charges of one message end at a limit, and so does the time in which elements
//! without any size are read.

use super::{WireError, reserved};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use std::cell::Cell;
use std::fmt;
use upbeat_core::limits::{VALUES_BYTES_ALWAYS, VALUES_BYTES_MAX, VALUES_PER_BYTE_MAX};

/// The charge for an element without any size: a message may count any number of them.
const EMPTY: usize = 8;
/// The charge for a value behind a pointer, besides its size.
pub(super) const ALLOCATED: usize = 16;
/// The charges up to which no memory is asked for.
const UNASKED: usize = 1 << 20;
/// The memory that is asked for, as a multiple of the charges: they may double before it is asked for again, a vector
/// that grows has its elements twice for a moment, and the nodes of a tree are half full.
const ASKED: usize = 5;
/// The charge for the first entry of a map or a set, as a multiple of its size: a tree has room for so many entries once it
/// has one, and a table for fewer.
const FIRST: usize = 11;
/// Elements of this size are charged like entries, if serde reads them: it does not tell sets from other sequences.
const LARGE: usize = 64;
/// A long message may take so many times its bytes, whatever the limit.
const LONG: usize = 8;

/// The memory that JSON within the values that are read may still take beyond the multiple of its own bytes, and the
/// charges for it.
#[cfg(feature = "json")]
#[derive(Clone, Copy)]
struct Inside {
    beyond: usize,
    charged: usize,
}

#[cfg(feature = "json")]
thread_local! {
    static INSIDE: Cell<Inside> = const { Cell::new(Inside { beyond: 0, charged: 0 }) };
}

/// Reads the values of a meter, after values of the same message for which so much was charged. JSON within those of serde
/// has no meter of theirs, and shares what is left of the memory that a message may always take. Returns the charges
/// for such JSON, too.
pub(super) fn values_of_one<T>(charged: usize, read: impl FnOnce() -> T) -> (T, usize) {
    #[cfg(feature = "json")]
    {
        let beyond = VALUES_BYTES_ALWAYS.saturating_sub(charged);
        let around = INSIDE.replace(Inside { beyond, charged: 0 });
        let value = read();
        (value, INSIDE.replace(around).charged)
    }
    #[cfg(not(feature = "json"))]
    {
        let _ = charged;
        (read(), 0)
    }
}

/// Returns the charge for an entry of so many bytes, which may be the first one of its map or set.
#[inline]
pub(super) fn charge_for_entry(bytes: usize, is_first: bool) -> usize {
    if is_first { bytes * FIRST } else { bytes }
}

/// The charges for the values of one message.
pub(super) struct Meter {
    most: usize,
    /// The charges at which memory is asked for, and what is left until then.
    asks_at: Cell<usize>,
    left: Cell<usize>,
    /// The reason why serde was stopped.
    stopped: Cell<Option<WireError>>,
}

impl Meter {
    /// Continues to charge for the values of a message of so many bytes. For those before the next, so much was charged.
    pub(super) fn of(bytes: usize, charged: usize) -> Meter {
        let most = VALUES_BYTES_ALWAYS.max(bytes.saturating_mul(VALUES_PER_BYTE_MAX));
        Meter {
            asks_at: Cell::new(charged.max(UNASKED)),
            left: Cell::new(UNASKED.saturating_sub(charged)),
            ..Meter::up_to(bytes, most)
        }
    }

    fn up_to(bytes: usize, most: usize) -> Meter {
        Meter {
            most: most.min(VALUES_BYTES_MAX.max(bytes.saturating_mul(LONG))),
            asks_at: Cell::new(UNASKED),
            left: Cell::new(UNASKED),
            stopped: Cell::new(None),
        }
    }

    /// Reads JSON of so many bytes within a value that serde reads.
    #[cfg(feature = "json")]
    pub(super) fn inside<T>(bytes: usize, read: impl FnOnce(&Meter) -> T) -> T {
        let own = bytes.saturating_mul(VALUES_PER_BYTE_MAX);
        let meter = Meter::up_to(bytes, own.saturating_add(INSIDE.get().beyond));
        let value = read(&meter);
        let Inside { beyond, charged } = INSIDE.get();
        INSIDE.set(Inside {
            beyond: beyond.saturating_sub(meter.charged().saturating_sub(own)),
            charged: charged.saturating_add(meter.charged()),
        });
        value
    }

    /// Returns what was charged.
    pub(super) fn charged(&self) -> usize {
        self.asks_at.get() - self.left.get()
    }

    /// Charges for a value that is made next.
    #[inline]
    pub(super) fn charge(&self, bytes: usize) -> Result<(), WireError> {
        let bytes = if bytes == 0 { EMPTY } else { bytes };
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => self.ask(bytes),
        }
    }

    #[cold]
    fn ask(&self, bytes: usize) -> Result<(), WireError> {
        let charged = self.charged().saturating_add(bytes);
        if charged > self.most {
            return Err(WireError::MemoryLimit { most: self.most });
        }
        reserved::<u8>(charged.saturating_mul(ASKED))?;
        let next = charged.saturating_mul(2).min(self.most);
        self.asks_at.set(next);
        self.left.set(next - charged);
        Ok(())
    }

    /// Charges for a value that serde makes next.
    #[inline]
    fn charge_serde<E: Error>(&self, bytes: usize) -> Result<(), E> {
        self.charge(bytes).map_err(|why| {
            let error = E::custom(&why);
            self.stopped.set(Some(why));
            error
        })
    }

    /// Returns the reason why serde was stopped, if it was, in place of this one.
    pub(super) fn reason(&self, other: impl FnOnce() -> WireError) -> WireError {
        self.stopped.take().unwrap_or_else(other)
    }
}

/// A part of serde whose values are charged for.
pub(super) struct Metered<'m, P> {
    part: P,
    meter: &'m Meter,
    /// The bytes of the value that were charged already.
    paid: usize,
    /// Whether the values that this part leads to lie within one that was charged.
    within: bool,
    /// Whether no element was read of the sequence or map that this part is.
    is_first: bool,
}

impl<'m, P> Metered<'m, P> {
    /// Reads from `part` a value of so many bytes, which were charged, or lie on the stack.
    pub(super) fn new(part: P, meter: &'m Meter, paid: usize) -> Metered<'m, P> {
        Metered { part, meter, paid, within: false, is_first: true }
    }

    /// Returns another part of the same value.
    fn to<Q>(&self, part: Q) -> Metered<'m, Q> {
        Metered { part, meter: self.meter, paid: self.paid, within: self.within, is_first: true }
    }

    /// Charges for the next element, and returns the part that reads it.
    #[inline]
    fn element<S, E: Error>(&self, part: S, bytes: usize) -> Result<Metered<'m, S>, E> {
        if !self.within {
            self.meter.charge_serde(charge_for_entry(bytes, self.is_first))?;
        }
        Ok(Metered::new(part, self.meter, bytes))
    }

    /// Charges for a value that is larger than the one in whose place it is read: it is behind a pointer there.
    #[inline]
    fn charge_value<T, E: Error>(&self) -> Result<(), E> {
        let excess = size_of::<T>().saturating_sub(self.paid);
        if excess == 0 { Ok(()) } else { self.meter.charge_serde(excess + ALLOCATED) }
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.charge_value::<V::Value, D::Error>()?;
            self.part.$method(visitor)
        }
    )*};
}

macro_rules! values {
    ($within:literal: $($method:ident($($name:ident: $type:ty),*);)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(
            self,
            $($name: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.charge_value::<V::Value, D::Error>()?;
            let Metered { part, meter, paid, .. } = self;
            let paid = paid.max(size_of::<V::Value>());
            part.$method($($name,)* Metered { part: visitor, meter, paid, within: $within, is_first: true })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Metered<'_, D> {
    type Error = D::Error;

    numbers! {
        deserialize_bool
        deserialize_i8
        deserialize_i16
        deserialize_i32
        deserialize_i64
        deserialize_i128
        deserialize_u8
        deserialize_u16
        deserialize_u32
        deserialize_u64
        deserialize_u128
        deserialize_f32
        deserialize_f64
        deserialize_char
    }

    values! {
        false:
        deserialize_any();
        deserialize_seq();
        deserialize_map();
        deserialize_ignored_any();
    }

    values! {
        true:
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_identifier();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    fn is_human_readable(&self) -> bool {
        self.part.is_human_readable()
    }
}

macro_rules! visits {
    ({$($number:ident $type:ty,)*} {$($bytes:ident $of:ty,)*} {$($inner:ident $from:ident,)*}) => {
        $(
            #[inline]
            fn $number<E: Error>(self, value: $type) -> Result<V::Value, E> {
                self.part.$number(value)
            }
        )*
        $(
            #[inline]
            fn $bytes<E: Error>(self, value: $of) -> Result<V::Value, E> {
                self.meter.charge_serde(value.len())?;
                self.part.$bytes(value)
            }
        )*
        $(
            #[inline]
            fn $inner<A: $from<'de>>(self, part: A) -> Result<V::Value, A::Error> {
                let part = self.to(part);
                self.part.$inner(part)
            }
        )*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Metered<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.part.expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.part.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.part.visit_unit()
    }

    visits! {
        {
            visit_bool bool,
            visit_i8 i8,
            visit_i16 i16,
            visit_i32 i32,
            visit_i64 i64,
            visit_i128 i128,
            visit_u8 u8,
            visit_u16 u16,
            visit_u32 u32,
            visit_u64 u64,
            visit_u128 u128,
            visit_f32 f32,
            visit_f64 f64,
            visit_char char,
        }
        {
            visit_str &str,
            visit_borrowed_str &'de str,
            visit_string String,
            visit_bytes &[u8],
            visit_borrowed_bytes &'de [u8],
            visit_byte_buf Vec<u8>,
        }
        {
            visit_some Deserializer,
            visit_newtype_struct Deserializer,
            visit_seq SeqAccess,
            visit_map MapAccess,
            visit_enum EnumAccess,
        }
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Metered<'_, S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, part: D) -> Result<S::Value, D::Error> {
        let part = self.to(part);
        self.part.deserialize(part)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Metered<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        part: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.is_first &= size_of::<S::Value>() >= LARGE;
        let part = self.element(part, size_of::<S::Value>())?;
        self.is_first = false;
        self.part.next_element_seed(part)
    }

    fn size_hint(&self) -> Option<usize> {
        self.part.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Metered<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        part: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let part = self.element(part, size_of::<S::Value>())?;
        self.part.next_key_seed(part)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, part: S) -> Result<S::Value, A::Error> {
        let part = self.element(part, size_of::<S::Value>())?;
        self.is_first = false;
        self.part.next_value_seed(part)
    }

    fn size_hint(&self) -> Option<usize> {
        self.part.size_hint()
    }
}

impl<'de, 'm, A: EnumAccess<'de>> EnumAccess<'de> for Metered<'m, A> {
    type Error = A::Error;
    type Variant = Metered<'m, A::Variant>;

    #[inline]
    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        part: S,
    ) -> Result<(S::Value, Metered<'m, A::Variant>), A::Error> {
        let Metered { part: variants, meter, paid, within, .. } = self;
        let name = Metered::new(part, meter, size_of::<S::Value>());
        let (value, part) = variants.variant_seed(name)?;
        Ok((value, Metered { part, meter, paid, within, is_first: true }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Metered<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.part.unit_variant()
    }

    #[inline]
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, part: S) -> Result<S::Value, A::Error> {
        let part = Metered::new(part, self.meter, size_of::<S::Value>());
        self.part.newtype_variant_seed(part)
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, part: V) -> Result<V::Value, A::Error> {
        let part = self.to(part);
        self.part.tuple_variant(len, part)
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        part: V,
    ) -> Result<V::Value, A::Error> {
        let part = self.to(part);
        self.part.struct_variant(fields, part)
    }
}
