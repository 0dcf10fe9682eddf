//! Sequences of plain data that go straight to where their receiver wants them.

use super::{InPlace, Input, Plain, Wire, WireError};
use zerocopy::IntoBytes;

/// A sequence of plain data: as a result, it can be received into a buffer of the caller's, by
/// [`Call::into`](crate::call::Call::into).
///
/// ```
/// use upbeat::InPlace;
/// use upbeat::wire::Sequence;
///
/// fn is_sequence<S: Sequence<Item = f32>>() {}
/// is_sequence::<Vec<f32>>();
/// is_sequence::<InPlace<f32>>();
/// ```
pub trait Sequence: Wire {
    /// What it is a sequence of.
    type Item: Plain;
}

impl<T: Plain> Sequence for Vec<T> {
    type Item = T;
}

impl<T: Plain + Default> Sequence for InPlace<T> {
    type Item = T;
}

/// A [`Sequence`] of these items, as every sequence is of its own.
///
/// ```
/// use upbeat::wire::SequenceOf;
///
/// fn is_sequence_of<T, S: SequenceOf<T>>() {}
/// is_sequence_of::<f32, Vec<f32>>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not go into a buffer of `{T}`",
    note = "a `Vec` or an `InPlace` of plain data goes into a buffer of the same"
)]
pub trait SequenceOf<T> {}

impl<S: Sequence> SequenceOf<S::Item> for S {}

/// Reads a sequence into `to`, and gives how many items it has. If there is no room for all, none is
/// written.
#[inline]
pub(crate) fn fill<T: Plain>(input: &mut Input<'_>, to: &mut [T]) -> Result<usize, WireError> {
    let items = input.count(size_of::<T>())?;
    let room = to.len();
    let to = to.get_mut(..items).ok_or(WireError::NoRoom { items, room })?;
    input.bytes(to.as_mut_bytes())?;
    Ok(items)
}

/// The same of a sequence in a `Result`.
#[inline]
pub(crate) fn try_fill<T: Plain, E: Wire>(
    input: &mut Input<'_>,
    to: &mut [T],
) -> Result<Result<usize, E>, WireError> {
    match u8::take(input)? {
        0 => fill(input, to).map(Ok),
        1 => E::take(input).map(Err),
        _ => Err(WireError::Invalid { what: "Result" }),
    }
}
