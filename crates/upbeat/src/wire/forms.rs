//! The forms of the most common types.

use super::{
    Around, ByReference, Carried, Describe, Input, Output, PlainReads, Wire, WireError,
    checked_count, exact_behind,
};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Plain data: any bytes are a value, and the value is nothing but its bytes.
///
/// ```
/// use upbeat::wire::Plain;
///
/// fn is_plain<T: Plain>() {}
/// is_plain::<[f64; 3]>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain data",
    label = "it is not `Plain`",
    note = "numbers and arrays of them are plain data: for a sequence of other elements write a `Vec`",
    note = "over a type of your own write `#[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes, \
            zerocopy::Immutable, upbeat::Wire)]`, `#[wire(plain)]` and `#[repr(C)]`"
)]
pub trait Plain: Wire + FromBytes + IntoBytes + Immutable + Copy {}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Plain for $type {}

        impl Wire for $type {
            const PLAIN: bool = true;
            const BYTES_LIKELY: usize = size_of::<$type>();

            fn describe(out: &mut Describe) {
                out.text(stringify!($type));
            }

            #[inline(always)]
            fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
                out.align();
                out.bytes(self.as_bytes());
                Ok(())
            }

            #[inline(always)]
            fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
                input.plain()
            }

            #[inline(always)]
            fn put_all(items: &[Self], out: &mut Output<'_>) -> Result<(), WireError> {
                out.align();
                out.bytes(items.as_bytes());
                Ok(())
            }

            fn take_all(count: usize, input: &mut Input<'_>) -> Result<Vec<Self>, WireError> {
                input.items(checked(count, size_of::<Self>(), input)?)
            }

            #[inline(always)]
            fn plain_reads<A: Around>() -> Option<PlainReads<A::Of<Self>>> {
                Some(A::reads::<Self>())
            }
        }
    )*};
}

plain!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

/// Returns the count, if so many elements of that size can follow.
fn checked(count: usize, bytes_each: usize, input: &Input<'_>) -> Result<usize, WireError> {
    let left = input.remaining();
    match count.checked_mul(bytes_each) {
        Some(bytes) if bytes <= left => Ok(count),
        _ => Err(WireError::Count { count: count as u64, left }),
    }
}

impl Wire for bool {
    const TOLERANT: bool = false;

    fn describe(out: &mut Describe) {
        out.text("bool");
    }

    #[inline]
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        u8::from(*self).put(out)
    }

    #[inline]
    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match u8::take(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Invalid { what: "bool" }),
        }
    }
}

impl Wire for char {
    const TOLERANT: bool = false;

    fn describe(out: &mut Describe) {
        out.text("char");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        u32::from(*self).put(out)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        char::from_u32(u32::take(input)?).ok_or(WireError::Invalid { what: "char" })
    }
}

impl Wire for String {
    const TOLERANT: bool = false;
    const BYTES_LIKELY: usize = 8;

    #[inline]
    fn bytes_likely(&self) -> usize {
        ByReference::likely(self.as_str())
    }

    fn describe(out: &mut Describe) {
        out.text("String");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        ByReference::write(self.as_str(), out)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let count = input.count(1)?;
        String::from_utf8(input.items(count)?)
            .map_err(|_| WireError::Invalid { what: "UTF-8 text" })
    }
}

impl<T: Wire> Wire for Vec<T> {
    const TOLERANT: bool = T::TOLERANT;
    const STREAMS: bool = T::STREAMS;
    const BYTES_LIKELY: usize = 8;

    #[inline]
    fn bytes_likely(&self) -> usize {
        ByReference::likely(self.as_slice())
    }

    fn describe(out: &mut Describe) {
        out.text("Vec<");
        out.elements::<T>();
        out.text(">");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        ByReference::write(self.as_slice(), out)
    }

    fn streams(&self, show: &mut dyn FnMut(&Rc<dyn Carried>)) {
        self.iter().for_each(|item| item.streams(show));
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let count = checked_count(input)?;
        T::take_all(count, input)
    }
}

impl<T: Wire> Wire for Option<T> {
    const TOLERANT: bool = T::TOLERANT;
    const IN_PLACE: bool = T::IN_PLACE;
    const STREAMS: bool = T::STREAMS;
    const BYTES_LIKELY: usize = 8 + T::BYTES_LIKELY;

    #[inline]
    fn bytes_likely(&self) -> usize {
        8 + self.as_ref().map_or(0, Wire::bytes_likely)
    }

    fn describe(out: &mut Describe) {
        out.text("Option<");
        out.of::<T>();
        out.text(">");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        match self {
            None => 0u8.put(out),
            Some(value) => {
                1u8.put(out)?;
                value.put(out)
            }
        }
    }

    fn streams(&self, show: &mut dyn FnMut(&Rc<dyn Carried>)) {
        self.iter().for_each(|value| value.streams(show));
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match u8::take(input)? {
            0 => Ok(None),
            1 => T::take(input).map(Some),
            _ => Err(WireError::Invalid { what: "Option" }),
        }
    }
}

/// The two types of a `Result`, for generated code that sees an alias of it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the standard library's `Result`",
    label = "a `Result` of a method gives its caller a value, or an error beside the runtime's",
    note = "for a type of your own that is called `Result`, write an alias of another name, such as \
            `type Outcome = Result;`"
)]
#[doc(hidden)]
pub trait Fallible {
    type Value;
    type Error;

    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

impl<T, E> Fallible for Result<T, E> {
    type Value = T;
    type Error = E;

    #[inline(always)]
    fn into_result(self) -> Result<T, E> {
        self
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    fn is_error(&self) -> bool {
        self.is_err()
    }

    const IN_PLACE: bool = T::IN_PLACE;
    const STREAMS: bool = T::STREAMS || E::STREAMS;
    const TOLERANT: bool = T::TOLERANT || E::TOLERANT;
    const BYTES_LIKELY: usize = 8 + T::BYTES_LIKELY;

    #[inline]
    fn bytes_likely(&self) -> usize {
        let inner = match self {
            Ok(value) => value.bytes_likely(),
            Err(error) => error.bytes_likely(),
        };
        8 + inner
    }

    fn describe(out: &mut Describe) {
        out.text("Result<");
        out.of::<T>();
        out.text(", ");
        out.of::<E>();
        out.text(">");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        match self {
            Ok(value) => {
                0u8.put(out)?;
                value.put(out)
            }
            Err(error) => {
                1u8.put(out)?;
                error.put(out)
            }
        }
    }

    fn streams(&self, show: &mut dyn FnMut(&Rc<dyn Carried>)) {
        match self {
            Ok(value) => value.streams(show),
            Err(error) => error.streams(show),
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match u8::take(input)? {
            0 => T::take(input).map(Ok),
            1 => E::take(input).map(Err),
            _ => Err(WireError::Invalid { what: "Result" }),
        }
    }
}

macro_rules! tuple {
    ($($name:ident $at:tt),*) => {
        impl<$($name: Wire),*> Wire for ($($name,)*) {
            const IN_PLACE: bool = false $(|| $name::IN_PLACE)*;
            const STREAMS: bool = false $(|| $name::STREAMS)*;
            const TOLERANT: bool = false $(|| $name::TOLERANT)*;
            const EXACT: Option<usize> = {
                let exact = Some(0);
                $(let exact = exact_behind(exact, $name::EXACT);)*
                exact
            };
            const BYTES_LIKELY: usize = 0 $(+ $name::BYTES_LIKELY.next_multiple_of(8))*;

            #[inline]
            fn bytes_likely(&self) -> usize {
                0 $(+ self.$at.bytes_likely().next_multiple_of(8))*
            }

            fn describe(out: &mut Describe) {
                out.text("(");
                $(
                    if $at != 0 {
                        out.text(", ");
                    }
                    out.of::<$name>();
                )*
                out.text(")");
            }

            #[inline(always)]
            fn put(&self, _out: &mut Output<'_>) -> Result<(), WireError> {
                $(self.$at.put(_out)?;)*
                Ok(())
            }

            fn streams(&self, _show: &mut dyn FnMut(&Rc<dyn Carried>)) {
                $(self.$at.streams(_show);)*
            }

            #[inline(always)]
            fn take(_input: &mut Input<'_>) -> Result<Self, WireError> {
                Ok(($($name::take(_input)?,)*))
            }
        }
    };
}

tuple!();
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

/// Carries a map or a set as postcard, and in the tolerant form as the count and then the entries.
macro_rules! entries {
    ($([$($bounds:tt)*] $type:ty, $name:literal, $($part:ident)*, $entry:pat, $value:expr;)*) => {$(
        impl<$($bounds)*> Wire for $type
        where
            $type: Serialize + DeserializeOwned,
        {
            // The tolerant form is another one than postcard, whatever the entries are.
            const TOLERANT: bool = true;

            fn describe(out: &mut Describe) {
                out.text($name);
                $(
                    out.text(" ");
                    out.of::<$part>();
                )*
            }

            fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
                if !out.is_tolerant() {
                    return out.serde(self);
                }
                (self.len() as u64).put(out)?;
                #[allow(non_snake_case)]
                self.iter().try_for_each(|$entry| {
                    $($part.put(out)?;)*
                    Ok(())
                })
            }

            fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
                if !input.is_tolerant() {
                    return input.serde();
                }
                let (count, mut all) = (checked_count(input)?, Self::default());
                input.sequence(|input| {
                    for number in 0..count {
                        input.charge_entry(size_of::<($($part,)*)>(), number == 0)?;
                        #[allow(non_snake_case)]
                        let ($($part,)*) = ($($part::take(input)?,)*);
                        all.extend([$value]);
                    }
                    Ok(all)
                })
            }
        }
    )*};
}

entries! {
    [K: Wire + Eq + Hash, V: Wire, S: BuildHasher + Default + 'static] HashMap<K, V, S>, "map", K V, (K, V), (K, V);
    [K: Wire + Ord, V: Wire] BTreeMap<K, V>, "map", K V, (K, V), (K, V);
    [T: Wire + Eq + Hash, S: BuildHasher + Default + 'static] HashSet<T, S>, "set", T, T, T;
    [T: Wire + Ord] BTreeSet<T>, "set", T, T, T;
}

impl Wire for std::time::Duration {
    const TOLERANT: bool = false;

    fn describe(out: &mut Describe) {
        out.text("Duration");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        out.serde(self)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        input.serde()
    }
}
