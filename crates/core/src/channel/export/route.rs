//! Routes: paths whose next step depends on what the memory has.
//!
//! Fields and indexes of arrays are offsets, which a [`Part`](super::Part) adds up. The value of an option, an element of a
//! vector, an entry of a map, the target of a pointer and an element whose index lies in the export itself are found where
//! the memory is: by the owner of the export, or by a reader that maps it. Both run [`Route::follow`].
//!
//! A route leads to a value, and a part of that value is what is read. On the wire, a step has no layout: the owner takes
//! the layout from the type of its export ([`Route::decode`]), so a reader leads it nowhere else.
//!
//! Invariant: the words that a step reads, and those to which a route leads, are within the export.

use super::chunks;
use super::layout::{LENGTH_WORDS, WORD};
use super::map::Slots;
use super::shape::{Scalar, Shape};
use crate::fault::Rule;
use crate::limits::{EXPORT_KEY_WORDS_MAX, EXPORT_STEPS_MAX, IDENT_BYTES_MAX};
use crate::mutant::{Mutant, mutated};
use alloc::sync::Arc;
use alloc::vec::Vec;

const RULE: Rule = Rule::RecordField { field: "path through an export" };

/// A word with a version, relative to the value in which a step begins. `None` is the unit around that value.
pub type Around = Option<u32>;

/// A step of a route. Words are counted from the beginning of the value to which the step before has led, or of the whole
/// value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To a struct to which a pointer leads that the reader knows.
    Begin {
        /// The pointer: one more than the first word of the struct.
        pointer: u32,
        /// The name of the struct.
        name: Arc<str>,
        /// The words of the struct.
        words: u32,
    },
    /// To the value of an option.
    Some {
        /// The word of the option.
        at: u32,
    },
    /// To an element of a vector of fixed capacity.
    Element {
        /// The word of the vector.
        at: u32,
        /// The index of the element.
        index: u32,
        /// The bytes of an element.
        each: u32,
        /// The most elements.
        len: u32,
    },
    /// To an element of a vector that grows.
    Chunk {
        /// The word of the vector.
        at: u32,
        /// The index of the element.
        index: u32,
        /// The bytes of an element.
        each: u32,
    },
    /// To an element of an array whose index is another number of the same value.
    Index {
        /// The first byte of the array's elements.
        first: u32,
        /// The bytes of an element.
        each: u32,
        /// The number of elements.
        len: u32,
        /// The version of the unit around the elements.
        to: Around,
        /// The first byte of the index.
        from: u32,
        /// The type of the index.
        of: Scalar,
        /// The version of the unit around the index.
        around: Around,
    },
    /// To the value of a map's entry.
    Entry {
        /// The word of the map.
        at: u32,
        /// The number of slots.
        len: u32,
        /// The words of a value.
        value: u32,
        /// The words of the key.
        key: Arc<[u64]>,
    },
    /// To the target of a pointer.
    Target {
        /// The word of the pointer.
        at: u32,
        /// The words of the target.
        words: u32,
        /// The version of the unit around the pointer.
        around: Around,
    },
}

/// The steps from the beginning of an exported value to a value inside of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Most routes have one step, which takes no memory of its own.
    first: Option<Step>,
    further: Vec<Step>,
}

/// Where a route has led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The first word of the value, from the beginning of the exported one.
    pub at: usize,
    /// The first bit of a scalar of a vector in its word.
    pub shift: u8,
    /// The word with the version of the unit around the value. `None` is the version of the export.
    pub around: Option<usize>,
}

/// The reason why a route leads to no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// An index is not below the length of its vector or array.
    Index {
        /// The index.
        index: u64,
    },
    /// An option has no value, a map has no entry for the key, or a pointer leads nowhere.
    Nothing,
    /// The words are none that an owner writes.
    Broken,
}

/// The memory of an exported value, for a route through it. Words are counted from the beginning of the value.
pub trait Load {
    /// Looks at a version before the words of its unit are loaded. `None` is the version of the export.
    fn look(&mut self, version: Option<usize>);
    /// Loads a word of the value.
    fn load(&mut self, at: usize) -> u64;
}

impl Route {
    /// Returns whether there are no steps, so that the route leads to the whole value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds a step. An owner refuses a route of more than [`EXPORT_STEPS_MAX`] of them.
    #[inline]
    pub fn push(&mut self, step: Step) {
        match self.first {
            None => self.first = Some(step),
            Some(_) => self.further.push(step),
        }
    }

    /// Returns the number of steps.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.further.len()
    }

    #[inline]
    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.first.iter().chain(&self.further)
    }

    /// Follows the steps through a value of so many words.
    #[inline]
    pub fn follow(&self, words: usize, memory: &mut impl Load) -> Result<Found, Missing> {
        let mut found = Found { at: 0, shift: 0, around: None };
        for step in self.steps() {
            found = step.follow(found, words, memory)?;
        }
        Ok(found)
    }

    /// Returns the route on the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u64> {
        let mut out = Vec::with_capacity(2 * self.len());
        self.steps().for_each(|step| step.encode(&mut out));
        out
    }

    /// Returns the route of words on the wire through a value of this shape, and the shape of the value to which it leads.
    pub fn decode<'s>(words: &[u64], shape: &'s Shape) -> Result<(Route, &'s Shape), Rule> {
        let (mut rest, mut route, mut end) = (words, Route::default(), shape);
        while !rest.is_empty() {
            if route.len() == EXPORT_STEPS_MAX {
                return Err(RULE);
            }
            let (step, to) = Step::decode(&mut rest, end, shape)?;
            route.push(step);
            end = to;
        }
        Ok((route, end))
    }
}

const BEGIN: u64 = 1;
const ELEMENT: u64 = 2;
const INDEX: u64 = 3;
const ENTRY: u64 = 4;
const TARGET: u64 = 5;

impl Step {
    #[inline]
    fn follow(&self, from: Found, words: usize, memory: &mut impl Load) -> Result<Found, Missing> {
        let begin = from.at;
        let inside = |around: Around| around.map_or(from.around, |at| Some(begin + at as usize));
        match *self {
            Step::Begin { pointer, words: target, .. } => {
                target_of(pointer.into(), target, words, None)
            }
            Step::Some { at } => {
                let at = begin + at as usize;
                match has_element(at, 0, memory) {
                    true => Ok(element(at + LENGTH_WORDS, 0, Some(at))),
                    false => Err(Missing::Nothing),
                }
            }
            Step::Element { at, index, each, len } => {
                let at = begin + at as usize;
                if !has_element(at, index, memory) || index >= len {
                    return Err(missing(index.into()));
                }
                let byte = index as usize * each as usize;
                Ok(element(at + LENGTH_WORDS, byte, Some(at)))
            }
            Step::Chunk { at, index, each } => {
                let at = begin + at as usize;
                memory.look(Some(at));
                if u64::from(index) >= memory.load(at + 1) {
                    return Err(missing(index.into()));
                }
                let place = chunks::find(index as usize).ok_or(missing(index.into()))?;
                let chunk = memory.load(at + chunks::pointer(place.chunk));
                let first = usize::try_from(chunk).map_err(|_| Missing::Broken)?;
                let end = first.checked_add(chunks::words(place.chunk, each as usize));
                if first == 0 || end.is_none_or(|end| end > words) {
                    return Err(Missing::Broken);
                }
                Ok(element(first, place.index * each as usize, Some(at)))
            }
            Step::Index { first, each, len, to, from, of, around } => {
                let around = inside(around);
                memory.look(around);
                let word =
                    memory.load(begin + from as usize / WORD) >> (8 * (from as usize % WORD));
                let index = word & u64::MAX >> (64 - 8 * of.bytes());
                if index >= len.into() {
                    return Err(missing(index));
                }
                let byte = first as usize + index as usize * each as usize;
                Ok(element(begin, byte, inside(to)))
            }
            Step::Entry { at, len, value, ref key } => {
                let at = begin + at as usize;
                if !mutated(Mutant::EntryUnlooked) {
                    memory.look(Some(at));
                }
                let slots = Slots { at, len: len as usize, key: key.len(), value: value as usize };
                let slot = slots.find(key, &mut |at| memory.load(at)).ok_or(Missing::Nothing)?;
                Ok(Found { at: slots.value_of(slot), shift: 0, around: Some(at) })
            }
            Step::Target { at, words: target, around } => {
                let around = inside(around);
                if !mutated(Mutant::PointerUnlooked) {
                    memory.look(around);
                }
                target_of(memory.load(begin + at as usize), target, words, around)
            }
        }
    }

    /// Appends the step on the wire.
    pub(super) fn encode(&self, out: &mut Vec<u64>) {
        let head =
            |kind: u64, count: usize, at: u32| kind | (count as u64) << 8 | u64::from(at) << 32;
        match self {
            Step::Begin { pointer, name, .. } => {
                let words = name.as_bytes().chunks(WORD).map(|piece| {
                    let mut word = [0; WORD];
                    word[..piece.len()].copy_from_slice(piece);
                    u64::from_le_bytes(word)
                });
                out.push(head(BEGIN, words.len(), *pointer));
                out.extend(words);
            }
            Step::Some { at } => out.extend([head(ELEMENT, 1, *at), 0]),
            Step::Element { at, index, .. } | Step::Chunk { at, index, .. } => {
                out.extend([head(ELEMENT, 1, *at), u64::from(*index)]);
            }
            Step::Index { first, each, from, .. } => {
                out.extend([head(INDEX, 1, *first), u64::from(*from) | u64::from(*each) << 32]);
            }
            Step::Entry { at, key, .. } => {
                out.push(head(ENTRY, key.len(), *at));
                out.extend(key.iter());
            }
            Step::Target { at, .. } => out.push(head(TARGET, 0, *at)),
        }
    }

    /// Takes a step from words on the wire. It begins in a value of shape `from`, which lies in one of shape `whole`.
    fn decode<'s>(
        words: &mut &[u64],
        from: &'s Shape,
        whole: &'s Shape,
    ) -> Result<(Step, &'s Shape), Rule> {
        let (head, rest) = words.split_first().ok_or(RULE)?;
        let (arguments, rest) =
            rest.split_at_checked((head >> 8 & 0xff_ffff) as usize).ok_or(RULE)?;
        *words = rest;
        let at = (head >> 32) as u32;
        let word = |number: usize| u32::try_from(number).map_err(|_| RULE);
        match (head & 0xff, arguments) {
            (BEGIN, name) => {
                let name = name_of(name)?;
                let target = whole.named(&name).ok_or(RULE)?;
                Ok((Step::Begin { pointer: at, words: word(target.words())?, name }, target))
            }
            (ELEMENT, [index]) => {
                let index = u32::try_from(*index).map_err(|_| RULE)?;
                match from.find(at, |shape| {
                    matches!(
                        shape,
                        Shape::Option { .. } | Shape::FixedVec { .. } | Shape::Vec { .. }
                    )
                }) {
                    Some((Shape::Option { of }, _)) if index == 0 => Ok((Step::Some { at }, of)),
                    Some((Shape::FixedVec { of, len }, _)) => {
                        let each = word(of.bytes_in_vec())?;
                        Ok((Step::Element { at, index, each, len: *len }, of))
                    }
                    Some((Shape::Vec { of }, _)) => {
                        let each = word(of.bytes_in_vec())?;
                        Ok((Step::Chunk { at, index, each }, of))
                    }
                    _ => Err(RULE),
                }
            }
            (INDEX, [operand]) => {
                let (from_byte, each) = (*operand as u32, (operand >> 32) as u32);
                let (of, around) = from.number_at(from_byte).ok_or(RULE)?;
                let (element, len, to) = from.array_at(at, each).ok_or(RULE)?;
                let step = Step::Index { first: at, each, len, to, from: from_byte, of, around };
                if of.is_index() { Ok((step, element)) } else { Err(RULE) }
            }
            (ENTRY, key) if key.len() <= EXPORT_KEY_WORDS_MAX => {
                match from.find(at, |shape| matches!(shape, Shape::FixedMap { .. })) {
                    Some((Shape::FixedMap { key: of, value, len }, _))
                        if of.key_words() == key.len() =>
                    {
                        let words = word(value.words())?;
                        Ok((Step::Entry { at, len: *len, value: words, key: key.into() }, value))
                    }
                    _ => Err(RULE),
                }
            }
            (TARGET, []) => match from.find(at, |shape| matches!(shape, Shape::Ref { .. })) {
                Some((Shape::Ref { to }, around)) => {
                    let target = whole.named(to).ok_or(RULE)?;
                    Ok((Step::Target { at, words: word(target.words())?, around }, target))
                }
                _ => Err(RULE),
            },
            _ => Err(RULE),
        }
    }
}

/// Looks at an option or a vector of fixed capacity at word `at`. Returns whether it has so many elements, or a value.
fn has_element(at: usize, index: u32, memory: &mut impl Load) -> bool {
    if !mutated(Mutant::LengthUnlooked) {
        memory.look(Some(at));
    }
    u64::from(index) < memory.load(at + 1) || mutated(Mutant::LengthUnread)
}

fn missing(index: u64) -> Missing {
    Missing::Index { index }
}

/// Returns the element that begins `byte` bytes behind the word `first`.
fn element(first: usize, byte: usize, around: Option<usize>) -> Found {
    Found { at: first + byte / WORD, shift: (8 * (byte % WORD)) as u8, around }
}

/// Returns the target of a pointer that has these words, in a value of `words` words.
fn target_of(
    pointer: u64,
    target: u32,
    words: usize,
    around: Option<usize>,
) -> Result<Found, Missing> {
    let at = pointer.checked_sub(1).ok_or(Missing::Nothing)?;
    let end = at.checked_add(target.into()).ok_or(Missing::Broken)?;
    match end <= words as u64 || mutated(Mutant::PointerUnchecked) {
        true => Ok(Found { at: at as usize, shift: 0, around }),
        false => Err(Missing::Broken),
    }
}

fn name_of(words: &[u64]) -> Result<Arc<str>, Rule> {
    if words.len() > IDENT_BYTES_MAX.div_ceil(WORD) {
        return Err(RULE);
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if len.div_ceil(WORD) != words.len() {
        return Err(RULE);
    }
    core::str::from_utf8(&bytes[..len]).map(Arc::from).map_err(|_| RULE)
}

impl Scalar {
    /// Returns whether a number of this type is an index.
    #[must_use]
    pub const fn is_index(self) -> bool {
        matches!(self, Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64)
    }
}

impl Shape {
    /// Returns the value at word `at` that is one of those wanted, and the version of the unit around it.
    fn find(&self, at: u32, is_wanted: impl Fn(&Shape) -> bool) -> Option<(&Shape, Around)> {
        let (mut shape, mut begin, mut around) = (self, 0, None);
        loop {
            if begin == at as usize && is_wanted(shape) {
                return Some((shape, around));
            }
            if shape.is_unit() {
                around = u32::try_from(begin).ok();
            }
            let (of, offset) = shape.inside((at as usize).checked_sub(begin)?)?;
            (shape, begin) = (of, begin + offset);
        }
    }

    /// Returns the type of the number that begins at byte `at`, and the version of the unit around it.
    fn number_at(&self, at: u32) -> Option<(Scalar, Around)> {
        let (mut shape, mut begin, mut around) = (self, 0, None);
        let (word, byte) = (at as usize / WORD, at as usize % WORD);
        loop {
            if shape.is_unit() {
                around = u32::try_from(begin).ok();
            }
            match shape {
                Shape::Scalar(scalar) => return (byte == 0).then_some((*scalar, around)),
                Shape::Packed { of, len } => {
                    let first = begin + usize::from(shape.is_unit());
                    let at = word.checked_sub(first)? * WORD + byte;
                    let is_one = at.is_multiple_of(of.bytes()) && at / of.bytes() < *len as usize;
                    return is_one.then_some((*of, around));
                }
                _ => {}
            }
            let (of, offset) = shape.inside(word.checked_sub(begin)?)?;
            (shape, begin) = (of, begin + offset);
        }
    }

    /// Returns the type and the number of the elements, of `each` bytes, of the array whose first element begins at byte
    /// `first`, and the version of the unit around them.
    fn array_at(&self, first: u32, each: u32) -> Option<(&Shape, u32, Around)> {
        if !first.is_multiple_of(WORD as u32) {
            return None;
        }
        let (mut shape, mut begin, mut around) = (self, 0, None);
        let word = first as usize / WORD;
        loop {
            if shape.is_unit() {
                around = u32::try_from(begin).ok();
            }
            match shape {
                Shape::Packed { of, len } => {
                    let is_it =
                        begin + usize::from(shape.is_unit()) == word && each as usize == of.bytes();
                    return is_it.then_some((of.shape(), *len, around));
                }
                Shape::Array { of, len } if begin == word && each as usize == of.words() * WORD => {
                    return Some((of, *len, around));
                }
                _ => {}
            }
            let (of, offset) = shape.inside(word.checked_sub(begin)?)?;
            (shape, begin) = (of, begin + offset);
        }
    }
}
