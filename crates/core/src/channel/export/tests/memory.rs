//! Memory of invented values, as an owner leaves it.

use crate::channel::export::map::{Slots, tag};
use crate::channel::export::{Field, Scalar, Shape, Value, chunks};
use std::string::String;
use std::vec;
use std::vec::Vec;

/// The words of an export: those of the value, and behind them the chunks of its vectors.
pub(super) struct Memory {
    pub(super) words: Vec<u64>,
    seed: u64,
}

impl Memory {
    /// Invents a value of a shape, and the memory that has it. Words that say nothing have any content.
    pub(super) fn invent(shape: &Shape, seed: u64) -> (Memory, Value<'_>) {
        let mut memory = Memory { words: Vec::new(), seed };
        let at = memory.reserve(shape.words());
        let value = memory.value(shape, at);
        (memory, value)
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        self.seed ^ self.seed >> 29
    }

    fn below(&mut self, most: usize) -> usize {
        (self.draw() >> 8) as usize % most
    }

    fn reserve(&mut self, words: usize) -> usize {
        let at = self.words.len();
        for _ in 0..words {
            let word = self.draw();
            self.words.push(word);
        }
        at
    }

    /// Puts a value at a word.
    fn value<'s>(&mut self, shape: &'s Shape, at: usize) -> Value<'s> {
        match shape {
            Shape::Scalar(of) => {
                let (word, value) = scalar(*of, self.draw());
                // The bits above a scalar say nothing.
                let bits = 8 * of.bytes();
                self.words[at] = if bits == 64 { word } else { word | self.draw() << bits };
                value
            }
            Shape::Packed { of, len } => {
                self.scalars(*of, at + usize::from(shape.is_unit()), *len as usize)
            }
            Shape::Array { of, len } => self.elements(of, at, *len as usize),
            Shape::Text { bytes } => self.text(at + 1, *bytes as usize, 0xff),
            Shape::Option { of } => {
                let is_some = self.below(2) == 1;
                self.words[at + 1] = is_some.into();
                Value::Option(is_some.then(|| self.value(of, at + 2).into()))
            }
            Shape::FixedVec { of, len } => {
                let len = self.below(*len as usize + 1);
                self.words[at + 1] = len as u64;
                self.vec(of, at + 2, len)
            }
            Shape::Vec { of } => self.chunks(of, at),
            Shape::FixedMap { key, value, len } => self.map((key, value), at, *len as usize),
            Shape::Ref { .. } => {
                let pointer = if self.below(4) == 0 { 0 } else { self.draw() };
                self.words[at] = pointer;
                Value::Ref(pointer.checked_sub(1))
            }
            Shape::Struct { name, fields } => {
                let mut at = at + 1;
                let mut values = Vec::new();
                for Field { name, shape } in fields {
                    values.push((&**name, self.value(shape, at)));
                    at += shape.words();
                }
                Value::Struct(name, values)
            }
        }
    }

    fn elements<'s>(&mut self, of: &'s Shape, at: usize, len: usize) -> Value<'s> {
        Value::Array((0..len).map(|index| self.value(of, at + index * of.words())).collect())
    }

    fn scalars<'s>(&mut self, of: Scalar, at: usize, len: usize) -> Value<'s> {
        let mut bytes = Vec::new();
        let items = (0..len).map(|_| {
            let (word, value) = scalar(of, self.draw());
            bytes.extend_from_slice(&word.to_le_bytes()[..of.bytes()]);
            value
        });
        let items = items.collect();
        self.put(at, &bytes);
        Value::Array(items)
    }

    fn vec<'s>(&mut self, of: &'s Shape, at: usize, len: usize) -> Value<'s> {
        match of {
            Shape::Scalar(of) => self.scalars(*of, at, len),
            of => self.elements(of, at, len),
        }
    }

    /// Puts a vector that grows, with chunks that lie anywhere, and perhaps one too many.
    fn chunks<'s>(&mut self, of: &'s Shape, head: usize) -> Value<'s> {
        let len = [0, 1, 7, 8, 9, 23, 24, 25][self.below(8)];
        let len = if of.grows() || of.words() > 20 { len % 10 } else { len };
        self.words[head + 1] = len as u64;
        let mut items = Vec::new();
        let many = chunks::count(len) + self.below(2);
        for chunk in 0..many {
            let between = self.below(3);
            self.reserve(between);
            let at = self.reserve(chunks::words(chunk, of.bytes_in_vec()));
            self.words[head + chunks::pointer(chunk)] = at as u64;
            let here = (len - items.len()).min(chunks::len(chunk));
            match self.vec(of, at, here) {
                Value::Array(more) => items.extend(more),
                other => unreachable!("{other} is no vector"),
            }
        }
        Value::Array(items)
    }

    fn map<'s>(
        &mut self,
        (key, value): (&'s Shape, &'s Shape),
        at: usize,
        len: usize,
    ) -> Value<'s> {
        let slots = Slots { at, len, key: key.key_words(), value: value.words() };
        (0..len).for_each(|slot| self.words[slots.slot(slot)] = self.draw() & 1);
        let mut entries = vec![None; len];
        for _ in 0..self.below(len + 1) {
            // The key takes its words from memory of its own.
            let mut inner = Memory { words: Vec::new(), seed: self.draw() };
            inner.words.resize(slots.key, 0);
            let known = match key {
                Shape::Text { bytes } => inner.text(0, *bytes as usize, 0),
                Shape::Scalar(of) => {
                    let (word, value) = scalar(*of, inner.draw());
                    inner.words[0] = word;
                    value
                }
                other => unreachable!("{other} is no key"),
            };
            let load = &mut |at: usize| self.words[at];
            if slots.find(&inner.words, load).is_some() {
                continue;
            }
            let slot = slots.room(&inner.words, load).unwrap();
            self.words[slots.slot(slot)] = tag(&inner.words);
            let first = slots.key_of(slot);
            self.words[first..first + slots.key].copy_from_slice(&inner.words);
            entries[slot] = Some((known, self.value(value, slots.value_of(slot))));
        }
        Value::Map(entries.into_iter().flatten().collect())
    }

    /// Puts a text whose length is at a word. The bytes behind it are `pad`.
    fn text<'s>(&mut self, at: usize, most: usize, pad: u8) -> Value<'s> {
        let text: String = "aé\"😀b".repeat(9);
        let most_here = self.below(most + 1);
        let text =
            &text[..(0..=most_here).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)];
        let mut padded = text.as_bytes().to_vec();
        padded.resize(most, pad);
        self.put(at + 1, &padded);
        self.words[at] = text.len() as u64;
        Value::Text(text.into())
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (to, piece) in self.words[at..].iter_mut().zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            *to = u64::from_le_bytes(word);
        }
    }
}

/// Invents a scalar, and returns its bits and its value.
fn scalar<'s>(scalar: Scalar, seed: u64) -> (u64, Value<'s>) {
    let bits = 8 * scalar.bytes() as u32;
    let word = seed & u64::MAX >> (64 - bits);
    match scalar {
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => (word, Value::Unsigned(word)),
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
            (word, Value::Signed((word << (64 - bits)).cast_signed() >> (64 - bits)))
        }
        Scalar::F32 => (u64::from((seed as f32).to_bits()), Value::F32(seed as f32)),
        Scalar::F64 => ((seed as f64).to_bits(), Value::F64(seed as f64)),
        Scalar::Bool => (seed & 1, Value::Bool(seed & 1 == 1)),
        Scalar::Char => {
            let one = ['a', 'é', '\n', '😀'][seed as usize % 4];
            (u64::from(u32::from(one)), Value::Char(one))
        }
    }
}
