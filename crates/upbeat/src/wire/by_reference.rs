//! Arguments by reference: the caller writes its value, and the callee reads it into
//! memory that its method keeps from one call to the next.
//!
//! In a message, an argument by reference has the form of the type that owns the same value: `&str` that of
//! `String`, `&[T]` that of `Vec<T>`, `&T` that of `T`. The two sides may choose differently. Invariant: a
//! handler owns the memory that its references point to; the method gets the memory back when the
//! handler is done with it.

use super::{Content, Input, Output, Wire, WireError, checked_count, exact_behind};
use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use upbeat_core::limits::KEPT_ARGUMENT_BYTES_MAX;

/// A type that a method can take by reference: `str`, a slice, or a type that is [`Wire`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`&{Self}` cannot travel in a message",
    label = "`{Self}` is not `upbeat::Wire`",
    note = "for a type of your own, write `#[derive(serde::Serialize, serde::Deserialize, upbeat::Wire)]` over it",
    note = "for a type of another crate that serde carries, write `&upbeat::wire::Serde<{Self}>` instead",
    note = "for a type that describes itself, as `serde_json::Value` does, write \
            `&upbeat::wire::Json<{Self}>` instead (feature `json` of upbeat)"
)]
pub trait ByReference {
    /// The type that has the same form in a message and owns its parts.
    type Owned: Wire;

    /// The memory that a callee reads the value into.
    type Kept: Default + 'static;

    /// Returns an estimate of the value's bytes in a message.
    fn likely(&self) -> usize;

    /// Writes the value.
    fn write(&self, out: &mut Output<'_>) -> Result<(), WireError>;

    /// Reads a value into memory that may have been used before.
    fn read(kept: &mut Self::Kept, input: &mut Input<'_>) -> Result<(), WireError>;

    /// Returns the value that was read last.
    fn get(kept: &Self::Kept) -> &Self;

    /// Drops the values that the memory owns, and memory that is too large to be kept.
    fn clear(kept: &mut Self::Kept);
}

impl ByReference for str {
    type Owned = String;
    type Kept = String;

    #[inline]
    fn likely(&self) -> usize {
        8 + self.len()
    }

    #[inline]
    fn write(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        Wire::put(&(self.len() as u64), out)?;
        out.bytes(self.as_bytes());
        Ok(())
    }

    fn read(kept: &mut String, input: &mut Input<'_>) -> Result<(), WireError> {
        let count = input.count(1)?;
        let mut bytes = std::mem::take(kept).into_bytes();
        input.refill(&mut bytes, count)?;
        *kept = String::from_utf8(bytes).map_err(|_| WireError::Invalid { what: "UTF-8 text" })?;
        Ok(())
    }

    #[inline]
    fn get(kept: &String) -> &str {
        kept
    }

    #[inline]
    fn clear(kept: &mut String) {
        if kept.capacity() > KEPT_ARGUMENT_BYTES_MAX {
            *kept = String::new();
        }
    }
}

impl<T: Wire> ByReference for [T] {
    type Owned = Vec<T>;
    type Kept = Vec<T>;

    #[inline]
    fn likely(&self) -> usize {
        8 + self.len() * T::BYTES_LIKELY
    }

    #[inline]
    fn write(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        Wire::put(&(self.len() as u64), out)?;
        T::put_all(self, out)
    }

    #[inline]
    fn read(kept: &mut Vec<T>, input: &mut Input<'_>) -> Result<(), WireError> {
        let count = checked_count(input)?;
        T::take_again(kept, count, input)
    }

    #[inline]
    fn get(kept: &Vec<T>) -> &[T] {
        kept
    }

    #[inline]
    fn clear(kept: &mut Vec<T>) {
        if !T::PLAIN {
            kept.clear();
        }
        if kept.capacity().saturating_mul(size_of::<T>()) > KEPT_ARGUMENT_BYTES_MAX {
            *kept = Vec::new();
        }
    }
}

impl<T: Wire> ByReference for T {
    type Owned = T;
    type Kept = Option<T>;

    #[inline(always)]
    fn likely(&self) -> usize {
        Wire::bytes_likely(self)
    }

    #[inline(always)]
    fn write(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        Wire::put(self, out)
    }

    #[inline]
    fn read(kept: &mut Option<T>, input: &mut Input<'_>) -> Result<(), WireError> {
        T::take_over(kept, input)
    }

    #[inline]
    fn get(kept: &Option<T>) -> &T {
        kept.as_ref().expect("a value is read before anybody refers to it")
    }

    #[inline]
    fn clear(kept: &mut Option<T>) {
        if !T::PLAIN {
            *kept = None;
        }
    }
}

/// An argument that a caller passes by reference.
#[doc(hidden)]
pub struct ByRef<'a, T: ?Sized>(pub &'a T);

impl<T: ByReference + ?Sized> Content for ByRef<'_, T> {
    const IN_PLACE: bool = <T::Owned as Wire>::IN_PLACE;
    const TOLERANT: bool = <T::Owned as Wire>::TOLERANT;
    const EXACT: Option<usize> = <T::Owned as Wire>::EXACT;

    #[inline(always)]
    fn bytes_likely(&self) -> usize {
        self.0.likely()
    }

    #[inline(always)]
    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        self.0.write(out)
    }
}

/// The memory for one argument of a method, while no handler uses it.
#[doc(hidden)]
pub struct Spare<T: ByReference + ?Sized>(Cell<Option<Box<T::Kept>>>);

impl<T: ByReference + ?Sized> Default for Spare<T> {
    fn default() -> Self {
        Spare(Cell::new(None))
    }
}

/// An argument by reference at its callee, in memory that returns to the method.
#[doc(hidden)]
pub struct Received<T: ByReference + ?Sized> {
    kept: Option<Box<T::Kept>>,
    home: Rc<Spare<T>>,
}

impl<T: Wire> Received<T> {
    /// Returns the value, which leaves the memory.
    #[inline]
    pub fn into_inner(mut self) -> T {
        let value = self.kept.as_mut().and_then(|kept| kept.take());
        value.expect("the memory goes back when this is dropped")
    }
}

impl<T: ByReference + ?Sized> Deref for Received<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        T::get(self.kept.as_ref().expect("the memory goes back when this is dropped"))
    }
}

impl<T: ByReference + ?Sized> Drop for Received<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(mut kept) = self.kept.take() {
            T::clear(&mut kept);
            self.home.0.set(Some(kept));
        }
    }
}

/// The type into which a callee reads the arguments of a method: a [`Wire`] value, or arguments of which some
/// are references.
#[doc(hidden)]
pub trait Incoming: Sized + 'static {
    /// The type of the arguments in a message.
    type Owned: Wire;

    /// The memory that a method keeps for the arguments.
    type Kept: Default + 'static;

    /// Whether the arguments may contain streams.
    const STREAMS: bool;

    /// Reads the arguments.
    fn receive(input: &mut Input<'_>, kept: &Self::Kept) -> Result<Self, WireError>;
}

impl<T: Wire> Incoming for T {
    type Owned = T;
    type Kept = ();
    const STREAMS: bool = T::STREAMS;

    #[inline(always)]
    fn receive(input: &mut Input<'_>, (): &()) -> Result<Self, WireError> {
        Wire::take(input)
    }
}

impl<T: ByReference + ?Sized + 'static> Incoming for Received<T> {
    type Owned = T::Owned;
    type Kept = Rc<Spare<T>>;
    const STREAMS: bool = <T::Owned as Wire>::STREAMS;

    #[inline]
    fn receive(input: &mut Input<'_>, home: &Rc<Spare<T>>) -> Result<Self, WireError> {
        let mut kept = home.0.take().unwrap_or_default();
        T::read(&mut kept, input)?;
        Ok(Received { kept: Some(kept), home: Rc::clone(home) })
    }
}

/// The arguments of a method of which some are references, at the caller or the callee.
#[doc(hidden)]
pub struct Passed<T>(pub T);

macro_rules! passed {
    ($($name:ident $at:tt),*) => {
        impl<$($name: Content),*> Content for Passed<($($name,)*)> {
            const IN_PLACE: bool = false $(|| $name::IN_PLACE)*;
            const STREAMS: bool = false $(|| $name::STREAMS)*;
            const TOLERANT: bool = false $(|| $name::TOLERANT)*;
            const EXACT: Option<usize> = {
                let exact = Some(0);
                $(let exact = exact_behind(exact, $name::EXACT);)*
                exact
            };

            #[inline(always)]
            fn bytes_likely(&self) -> usize {
                0 $(+ self.0.$at.bytes_likely().next_multiple_of(8))*
            }

            #[inline(always)]
            fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
                $(self.0.$at.put(out)?;)*
                Ok(())
            }

            fn streams(&self, show: &mut dyn FnMut(&Rc<dyn super::Carried>)) {
                $(self.0.$at.streams(show);)*
            }
        }

        impl<$($name: Incoming),*> Incoming for Passed<($($name,)*)> {
            type Owned = ($($name::Owned,)*);
            type Kept = ($($name::Kept,)*);
            const STREAMS: bool = false $(|| $name::STREAMS)*;

            #[inline(always)]
            fn receive(input: &mut Input<'_>, kept: &Self::Kept) -> Result<Self, WireError> {
                Ok(Passed(($($name::receive(input, &kept.$at)?,)*)))
            }
        }
    };
}

passed!(A 0);
passed!(A 0, B 1);
passed!(A 0, B 1, C 2);
passed!(A 0, B 1, C 2, D 3);
passed!(A 0, B 1, C 2, D 3, E 4);
passed!(A 0, B 1, C 2, D 3, E 4, F 5);
passed!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
passed!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
passed!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
passed!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
passed!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
passed!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
