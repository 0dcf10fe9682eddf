//! Values with vectors that grow, as they travel: all words in one piece.
//!
//! The words of such a value are those of its fixed part, and behind them the elements of its vectors, side by side. In the
//! head of a vector, the place of the first chunk is the place of the elements in the piece.

use super::layout::{LENGTH_WORDS, WORD};
use super::shape::Shape;
use super::{chunks, map};
use crate::limits::EXPORT_WORDS_MAX;
use alloc::vec::Vec;

/// The value has too many words to travel in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Returns the words of a value of this shape at word `at`, in one piece. `load` gives the words of the whole export by
/// their numbers.
pub fn gather(
    shape: &Shape,
    at: usize,
    load: &mut impl FnMut(usize) -> u64,
) -> Result<Vec<u64>, TooLarge> {
    let mut out = Vec::new();
    append(at, shape.words(), load, &mut out)?;
    if shape.grows() {
        elements(shape, at, 0, load, &mut out)?;
    }
    Ok(out)
}

fn append(
    at: usize,
    words: usize,
    load: &mut impl FnMut(usize) -> u64,
    out: &mut Vec<u64>,
) -> Result<(), TooLarge> {
    let end = at.checked_add(words).ok_or(TooLarge)?;
    if out.len().saturating_add(words) > EXPORT_WORDS_MAX {
        return Err(TooLarge);
    }
    out.extend((at..end).map(load));
    Ok(())
}

/// Appends the elements of all vectors of a value at word `at`, whose words are in `out` from word `to` on.
fn elements(
    shape: &Shape,
    at: usize,
    to: usize,
    load: &mut impl FnMut(usize) -> u64,
    out: &mut Vec<u64>,
) -> Result<(), TooLarge> {
    if !shape.grows() {
        return Ok(());
    }
    match shape {
        Shape::Scalar(_) | Shape::Packed { .. } | Shape::Text { .. } | Shape::Ref { .. } => Ok(()),
        Shape::Array { of, len } => (0..*len as usize)
            .map(|index| index * of.words())
            .try_for_each(|offset| elements(of, at + offset, to + offset, load, out)),
        Shape::Option { of } => match out[to + 1] {
            0 => Ok(()),
            _ => elements(of, at + LENGTH_WORDS, to + LENGTH_WORDS, load, out),
        },
        Shape::FixedVec { of, len } => {
            let len = out[to + 1].min(u64::from(*len)) as usize;
            (0..len)
                .map(|index| LENGTH_WORDS + index * of.words())
                .try_for_each(|offset| elements(of, at + offset, to + offset, load, out))
        }
        Shape::FixedMap { key, value, len } => {
            let slots = |at| map::Slots {
                at,
                len: *len as usize,
                key: key.key_words(),
                value: value.words(),
            };
            (0..*len as usize).try_for_each(|slot| {
                match map::Slots::is_entry(out[slots(to).slot(slot)]) {
                    true => {
                        let (at, to) = (slots(at).value_of(slot), slots(to).value_of(slot));
                        elements(value, at, to, load, out)
                    }
                    false => Ok(()),
                }
            })
        }
        Shape::Struct { fields, .. } => {
            let mut offset = 1;
            fields.iter().try_for_each(|field| {
                let begin = offset;
                offset += field.shape.words();
                elements(&field.shape, at + begin, to + begin, load, out)
            })
        }
        Shape::Vec { of } => vec(of, to, load, out),
    }
}

/// Appends the elements of a vector, whose head is in `out` at word `to`.
fn vec(
    of: &Shape,
    to: usize,
    load: &mut impl FnMut(usize) -> u64,
    out: &mut Vec<u64>,
) -> Result<(), TooLarge> {
    let len = usize::try_from(out[to + 1]).map_err(|_| TooLarge)?;
    if chunks::count(len) > chunks::CHUNKS {
        return Err(TooLarge);
    }
    let (each, first) = (of.bytes_in_vec(), out.len());
    let chunk_at = |out: &[u64], chunk| out[to + chunks::pointer(chunk)] as usize;
    let mut left = len;
    let heads: Vec<usize> = (0..chunks::count(len)).map(|chunk| chunk_at(out, chunk)).collect();
    for (chunk, at) in heads.iter().enumerate() {
        let here = left.min(chunks::len(chunk));
        append(*at, (here * each).div_ceil(WORD), load, out)?;
        left -= here;
    }
    out[to + chunks::pointer(0)] = first as u64;
    if of.grows() {
        for index in 0..len {
            let place = chunks::find(index).ok_or(TooLarge)?;
            let at = heads[place.chunk] + place.index * of.words();
            elements(of, at, first + index * of.words(), load, out)?;
        }
    }
    Ok(())
}
