//! Results that are read directly into their caller's buffer.

use super::{InPlace, Input, Plain, Wire, WireError};
use zerocopy::IntoBytes;

/// A result that can be read into a caller's `B`, by [`Call::into`](crate::call::Call::into).
///
/// A `Vec` or an [`InPlace`] of plain data goes into a slice, an array, a vector, or any other type that is a
/// slice of the same; plain data goes into a value of its own type.
///
/// ```
/// use upbeat::InPlace;
/// use upbeat::wire::Fills;
///
/// fn fills<R: Fills<B>, B: ?Sized>() {}
/// fills::<Vec<f32>, [f32]>();
/// fills::<InPlace<f32>, [f32; 4]>();
/// fills::<[u8; 32], [u8; 32]>();
/// ```
#[diagnostic::on_unimplemented(
    message = "a result of type `{Self}` cannot be received into a `{B}`",
    label = "`{Self}` is not received into a `{B}`",
    note = "a `Vec` or an `InPlace` of plain data is received into a slice, an array or a vector of the same \
            plain data, and plain data into a value of its own type",
    note = "for every other type, leave `.into(…)` and `.filling(…)` out and use the result that is returned"
)]
pub trait Fills<B: ?Sized>: Wire {
    /// The type that a call returns when the result itself is in the buffer: the number of items of a sequence.
    type Filled;

    /// Reads the result into `buffer`. If there is no room for all items of a sequence, nothing is written.
    #[doc(hidden)]
    fn fill(input: &mut Input<'_>, buffer: &mut B) -> Result<Self::Filled, WireError>;
}

impl<T: Plain, B: AsMut<[T]> + ?Sized> Fills<B> for Vec<T> {
    type Filled = usize;

    #[inline]
    fn fill(input: &mut Input<'_>, buffer: &mut B) -> Result<usize, WireError> {
        let (to, items) = (buffer.as_mut(), input.count(size_of::<T>())?);
        let room = to.len();
        let to = to.get_mut(..items).ok_or(WireError::NoRoom { items, room })?;
        input.bytes(to.as_mut_bytes())?;
        Ok(items)
    }
}

impl<T: Plain + Default, B: AsMut<[T]> + ?Sized> Fills<B> for InPlace<T> {
    type Filled = usize;

    #[inline]
    fn fill(input: &mut Input<'_>, buffer: &mut B) -> Result<usize, WireError> {
        <Vec<T> as Fills<B>>::fill(input, buffer)
    }
}

impl<T: Plain> Fills<T> for T {
    type Filled = ();

    #[inline]
    fn fill(input: &mut Input<'_>, buffer: &mut T) -> Result<(), WireError> {
        input.bytes(buffer.as_mut_bytes())
    }
}

/// Reads a result that is in a `Result`.
#[inline]
pub(crate) fn try_fill<R: Fills<B>, B: ?Sized, E: Wire>(
    input: &mut Input<'_>,
    buffer: &mut B,
) -> Result<Result<R::Filled, E>, WireError> {
    match u8::take(input)? {
        0 => R::fill(input, buffer).map(Ok),
        1 => E::take(input).map(Err),
        _ => Err(WireError::Invalid { what: "Result" }),
    }
}
