//! Hash maps of a fixed capacity, as values of exports.

use super::fixed_vec::LENGTH;
use crate::export::memory::{Memory, Writer};
use crate::export::path::{Path, fields};
use crate::export::shared::{Access, Navigate, Place, Readable, Shared};
use crate::export::types::Text;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use upbeat_core::channel::export::map::{Slots, slot_words, tag};
use upbeat_core::channel::export::{Shape, Step, vec_words};
use upbeat_core::limits::EXPORT_KEY_WORDS_MAX;
use upbeat_memory::region::WORD;

/// A type of the keys of an exported map: an integer, `bool`, `char` or [`Text`].
pub trait Key: Shared + Clone + PartialEq {
    /// Returns the words of the key in a map, which are compared.
    #[doc(hidden)]
    fn words(&self) -> Arc<[u64]>;
}

macro_rules! keys {
    ($($type:ty)*) => {$(
        impl Key for $type {
            fn words(&self) -> Arc<[u64]> {
                [self.to_word()].into()
            }
        }
    )*};
}

keys! { u8 u16 u32 u64 i8 i16 i32 i64 bool char }

impl<const N: usize> Key for Text<N> {
    fn words(&self) -> Arc<[u64]> {
        let piece = |piece: &[u8]| {
            let mut word = [0; WORD];
            word[..piece.len()].copy_from_slice(piece);
            u64::from_le_bytes(word)
        };
        let text = self.as_str();
        let bytes = text.as_bytes().chunks(WORD).map(piece);
        let mut words = vec![text.len() as u64];
        words.extend(bytes);
        words.resize(key_words::<Self>(), 0);
        words.into()
    }
}

/// Returns the words of a key, which has no version in a map.
const fn key_words<K: Shared>() -> usize {
    K::WORDS - K::IS_UNIT as usize
}

/// A hash map of at most `N` entries, in an export.
///
/// ```
/// use upbeat::export::FixedMap;
///
/// let mut bids: FixedMap<u32, f64, 2> = FixedMap::new();
/// bids.insert(7, 1.05).unwrap();
/// assert_eq!(bids.get(&7), Some(&1.05));
/// ```
#[derive(Clone)]
pub struct FixedMap<K, V, const N: usize>(Vec<(K, V)>);

/// The map has as many entries as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapFull;

impl fmt::Display for MapFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the map has as many entries as its type allows: remove one first")
    }
}

impl std::error::Error for MapFull {}

impl<K: Key, V, const N: usize> FixedMap<K, V, N> {
    /// Creates a map without entries.
    #[must_use]
    pub const fn new() -> FixedMap<K, V, N> {
        FixedMap(Vec::new())
    }

    /// Inserts an entry, or replaces the value of the key.
    ///
    /// # Errors
    /// If the map is full.
    pub fn insert(&mut self, key: K, value: V) -> Result<(), MapFull> {
        if let Some(entry) = self.0.iter_mut().find(|(other, _)| *other == key) {
            entry.1 = value;
            return Ok(());
        }
        if self.0.len() == N {
            return Err(MapFull);
        }
        self.0.push((key, value));
        Ok(())
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.iter().find(|(other, _)| other == key).map(|(_, value)| value)
    }

    /// Returns the keys and values, in no particular order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(K, V)> {
        self.0.iter()
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Maps with the same entries are equal, in whatever order they lie.
impl<K: Key, V: PartialEq, const N: usize> PartialEq for FixedMap<K, V, N> {
    fn eq(&self, other: &FixedMap<K, V, N>) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: fmt::Debug, V: fmt::Debug, const N: usize> fmt::Debug for FixedMap<K, V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(key, value)| (key, value))).finish()
    }
}

impl<K: Key, V, const N: usize> Default for FixedMap<K, V, N> {
    fn default() -> FixedMap<K, V, N> {
        FixedMap::new()
    }
}

/// Returns the slots of a map at word `at`.
const fn slots<K: Key, V: Shared>(at: usize, len: usize) -> Slots {
    Slots { at, len, key: key_words::<K>(), value: V::WORDS }
}

impl<K: Key, V: Shared, const N: usize> Shared for FixedMap<K, V, N> {
    const WORDS: usize = vec_words(slot_words(key_words::<K>(), V::WORDS) * WORD, N);
    const UNITS: usize = 1 + N * V::UNITS;
    const IS_UNIT: bool = true;
    const GROWS: bool = V::GROWS;

    type Fields<A: Access> = FixedMapFields<A, K, V, N>;

    fn shape() -> Shape {
        const {
            assert!(N <= u32::MAX as usize, "an exported map has less than 2^32 entries");
            assert!(
                key_words::<K>() <= EXPORT_KEY_WORDS_MAX,
                "a key of an exported map is a text of 248 bytes at most"
            );
        }
        Shape::FixedMap { key: K::shape().into(), value: V::shape().into(), len: N as u32 }
    }

    fn put(&self, to: &Writer<'_>, at: usize) {
        let slots = slots::<K, V>(at, N);
        to.store(at + LENGTH, self.0.len() as u64);
        (0..N).for_each(|slot| to.store(slots.slot(slot), 0));
        for (key, value) in &self.0 {
            value.put(to, Self::put_key(to, at, key));
        }
    }

    fn room(&self, _: Option<(&Writer<'_>, usize)>) -> usize {
        // The slots of the entries are not known yet.
        self.0.iter().map(|(_, value)| value.room(None)).sum()
    }

    fn is_within(&self, export: u32) -> bool {
        self.0.iter().all(|(_, value)| value.is_within(export))
    }

    fn take(from: &Memory, at: usize) -> Option<Self> {
        let slots = slots::<K, V>(at, N);
        let full = (0..N).filter(|slot| Slots::is_entry(from.load(slots.slot(*slot))));
        let entry = |slot| {
            let key = K::take(from, slots.key_of(slot) - usize::from(K::IS_UNIT))?;
            Some((key, V::take(from, slots.value_of(slot))?))
        };
        full.map(entry).collect::<Option<_>>().map(FixedMap)
    }

    fn versions(at: usize, show: &mut dyn FnMut(usize)) {
        show(at);
        if V::UNITS > 0 {
            let slots = slots::<K, V>(at, N);
            (0..N).for_each(|slot| V::versions(slots.value_of(slot), show));
        }
    }

    fn versions_now(memory: &Memory, (value, at): (usize, usize), show: &mut dyn FnMut(usize)) {
        show(at);
        let slots = slots::<K, V>(at, N);
        (0..N).for_each(|slot| V::versions_now(memory, (value, slots.value_of(slot)), show));
    }
}

impl<K: Key, V: Shared, const N: usize> Readable for FixedMap<K, V, N> {}

impl<K: Key, V: Shared, const N: usize> FixedMap<K, V, N> {
    /// Returns the slot in which the map at word `at` has room for a key that it does not have.
    fn slot_for(to: &Writer<'_>, at: usize, key: &[u64]) -> usize {
        let slot = slots::<K, V>(at, N).room(key, &mut |at| to.load(at));
        slot.unwrap_or_else(|| unreachable!("the map has less entries than slots"))
    }

    /// Returns the word that the value of a key gets which the map at word `at` does not have and has room for.
    pub(in crate::export) fn value_of(to: &Writer<'_>, at: usize, key: &K) -> usize {
        slots::<K, V>(at, N).value_of(Self::slot_for(to, at, &key.words()))
    }

    /// Stores the key of an entry that the map at word `at` does not have and has room for. Returns the word of the value,
    /// which is to be stored.
    pub(in crate::export) fn put_key(to: &Writer<'_>, at: usize, key: &K) -> usize {
        let (slots, key) = (slots::<K, V>(at, N), key.words());
        let slot = Self::slot_for(to, at, &key);
        let words = key.iter().enumerate();
        words.for_each(|(at, word)| to.store(slots.key_of(slot) + at, *word));
        to.store(slots.slot(slot), tag(&key));
        slots.value_of(slot)
    }

    /// Removes the entry of a key from the map at word `at`, which has one.
    pub(in crate::export) fn remove_entry(to: &Writer<'_>, at: usize, key: &K) {
        let slots = slots::<K, V>(at, N);
        let slot = slots.find(&key.words(), &mut |at| to.load(at));
        let slot = slot.unwrap_or_else(|| unreachable!("the map has the key"));
        slots.remove(slot, &mut |at| to.load(at), &mut |at, word| to.store(at, word));
    }
}

/// The path into a map.
pub struct FixedMapFields<A: Access, K, V, const N: usize>(
    pub(super) Place<A>,
    pub(super) PhantomData<fn() -> (K, V)>,
);

impl<A: Access, K: Key, V: Shared, const N: usize> FixedMapFields<A, K, V, N> {
    /// Returns the path to the value of a key. Reading it is
    /// [`ReadError::Nothing`](crate::export::ReadError::Nothing) while the map has no entry for the key, and writing it panics
    /// then.
    pub fn entry<'p>(&'p self, key: &K) -> Path<<A::Borrowed<'p> as Navigate>::There, V>
    where
        A::Borrowed<'p>: Navigate,
    {
        let (len, value, key) = (N as u32, V::WORDS as u32, key.words());
        Path::step(self.0.borrowed(), |at, _| Step::Entry { at, len, value, key })
    }

    /// Returns the path to the number of entries.
    pub fn length(&self) -> Path<A::Borrowed<'_>, u64> {
        self.0.field(LENGTH)
    }
}

fields! {
    [A: Access, K, V, const N: usize] FixedMapFields<A, K, V, N>, |place| FixedMapFields(place, PhantomData);
}
