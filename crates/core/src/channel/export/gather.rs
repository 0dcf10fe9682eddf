//! Values with vectors that grow, as they travel: all words in one piece.
//!
//! The words of such a value are those of its fixed part, and behind them the elements of its vectors, side by side. In the
//! head of a vector, the place of the first chunk is the place of the elements in the piece.

use super::layout::{LENGTH_WORDS, WORD};
use super::shape::Shape;
use super::{chunks, map};
use crate::limits::EXPORT_WORDS_MAX;
use alloc::vec::Vec;

/// The reason why a value cannot travel in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotGathered {
    /// The value has too many words.
    Large,
    /// The words are none of a value of the shape: a vector leads out of the export.
    Outside,
}

/// Returns the words of a value of this shape at word `at`, in one piece. `load` gives the words of the whole export,
/// which has `words` of them, by their numbers. A reader may have led to words that are of another shape.
pub fn gather(
    shape: &Shape,
    at: usize,
    words: usize,
    load: &mut impl FnMut(usize) -> u64,
) -> Result<Vec<u64>, NotGathered> {
    let (mut out, mut export) = (Vec::new(), Export { words, load });
    export.append(at, shape.words(), &mut out)?;
    if shape.grows() {
        elements(shape, at, 0, &mut export, &mut out)?;
    }
    Ok(out)
}

/// The words of an export.
struct Export<'l, L> {
    words: usize,
    load: &'l mut L,
}

impl<L: FnMut(usize) -> u64> Export<'_, L> {
    fn append(&mut self, at: usize, words: usize, out: &mut Vec<u64>) -> Result<(), NotGathered> {
        if out.len().saturating_add(words) > EXPORT_WORDS_MAX {
            return Err(NotGathered::Large);
        }
        let end = at.checked_add(words).filter(|end| *end <= self.words);
        out.extend((at..end.ok_or(NotGathered::Outside)?).map(&mut *self.load));
        Ok(())
    }
}

/// Appends the elements of all vectors of a value at word `at`, whose words are in `out` from word `to` on.
fn elements(
    shape: &Shape,
    at: usize,
    to: usize,
    export: &mut Export<'_, impl FnMut(usize) -> u64>,
    out: &mut Vec<u64>,
) -> Result<(), NotGathered> {
    if !shape.grows() {
        return Ok(());
    }
    match shape {
        Shape::Scalar(_) | Shape::Packed { .. } | Shape::Text { .. } | Shape::Ref { .. } => Ok(()),
        Shape::Array { of, len } => (0..*len as usize)
            .map(|index| index * of.words())
            .try_for_each(|offset| elements(of, at + offset, to + offset, export, out)),
        Shape::Option { of } => match out[to + 1] {
            0 => Ok(()),
            _ => elements(of, at + LENGTH_WORDS, to + LENGTH_WORDS, export, out),
        },
        Shape::FixedVec { of, len } => {
            let len = out[to + 1].min(u64::from(*len)) as usize;
            (0..len)
                .map(|index| LENGTH_WORDS + index * of.words())
                .try_for_each(|offset| elements(of, at + offset, to + offset, export, out))
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
                        elements(value, at, to, export, out)
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
                elements(&field.shape, at + begin, to + begin, export, out)
            })
        }
        Shape::Vec { of } => vec(of, to, export, out),
    }
}

/// Appends the elements of a vector, whose head is in `out` at word `to`.
fn vec(
    of: &Shape,
    to: usize,
    export: &mut Export<'_, impl FnMut(usize) -> u64>,
    out: &mut Vec<u64>,
) -> Result<(), NotGathered> {
    let len = usize::try_from(out[to + 1]).map_err(|_| NotGathered::Large)?;
    if chunks::count(len) > chunks::CHUNKS {
        return Err(NotGathered::Large);
    }
    let (each, first) = (of.bytes_in_vec(), out.len());
    let chunk_at = |out: &[u64], chunk| out[to + chunks::pointer(chunk)] as usize;
    let mut left = len;
    let heads: Vec<usize> = (0..chunks::count(len)).map(|chunk| chunk_at(out, chunk)).collect();
    for (chunk, at) in heads.iter().enumerate() {
        let here = left.min(chunks::len(chunk));
        export.append(*at, (here * each).div_ceil(WORD), out)?;
        left -= here;
    }
    out[to + chunks::pointer(0)] = first as u64;
    if of.grows() {
        for index in 0..len {
            let place = chunks::find(index).ok_or(NotGathered::Large)?;
            let at = heads[place.chunk] + place.index * of.words();
            elements(of, at, first + index * of.words(), export, out)?;
        }
    }
    Ok(())
}
