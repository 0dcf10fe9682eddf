//! A pool of numbered slots with generations.
//!
//! A [`Key`] names a slot and the value in it. Once the value is removed the key is stale and finds nothing, also
//! when the slot holds another value. All operations except the iterations take constant time. Slots are allocated
//! when they are first needed, up to the capacity; after that, or after [`Pool::grown`], nothing is allocated.
//!
//! Invariant: a key finds the value for which it was returned or nothing, unless one slot was filled 2^32 - 1
//! times while the key was kept.

use std::fmt;
use std::iter::FusedIterator;

/// Ends the list of free slots.
const NONE: u32 = u32::MAX;

/// The key of a value in a [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The index of the slot, from 0.
    pub index: u32,
    /// The number of the value among those that the slot has held; never 0.
    pub generation: u32,
}

impl Key {
    /// Returns the key as one word: the generation in the upper half, the index in the lower half. The word is
    /// never 0.
    ///
    /// ```
    /// use upbeat_memory::pool::Key;
    /// let key = Key { index: 3, generation: 1 };
    /// assert_eq!(Key::from_word(key.word()), key);
    /// ```
    #[inline]
    #[must_use]
    pub const fn word(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Returns the key of a word. Any word is allowed: an invalid key finds nothing.
    #[inline]
    #[must_use]
    pub const fn from_word(word: u64) -> Key {
        Key { index: word as u32, generation: (word >> 32) as u32 }
    }
}

/// A pool of at most a fixed number of values.
///
/// ```
/// use upbeat_memory::pool::Pool;
/// let mut pool = Pool::new(1);
/// let key = pool.insert("first").unwrap();
/// assert_eq!(pool.insert("second").unwrap_err().0, "second");
/// assert_eq!(pool.remove(key), Some("first"));
/// pool.insert("third").unwrap();
/// assert_eq!(pool.get(key), None);
/// ```
pub struct Pool<T> {
    slots: Vec<Slot<T>>,
    capacity: u32,
    /// The slot that was freed last, which is the most likely one to be in the cache.
    free: u32,
    taken: u32,
}

struct Slot<T> {
    /// The generation of the value in this slot or, in a free slot, of the next value.
    generation: u32,
    content: Content<T>,
}

enum Content<T> {
    Free { next: u32 },
    Taken(T),
}

impl<T> Slot<T> {
    fn value(&self) -> Option<&T> {
        match &self.content {
            Content::Taken(value) => Some(value),
            Content::Free { .. } => None,
        }
    }

    fn value_mut(&mut self) -> Option<&mut T> {
        match &mut self.content {
            Content::Taken(value) => Some(value),
            Content::Free { .. } => None,
        }
    }
}

impl<T> Pool<T> {
    /// Creates an empty pool for at most `capacity` values, which allocates while it is filled.
    #[must_use]
    pub const fn new(capacity: u32) -> Pool<T> {
        // The index `NONE` is never a slot.
        let capacity = if capacity == NONE { NONE - 1 } else { capacity };
        Pool { slots: Vec::new(), capacity, free: NONE, taken: 0 }
    }

    /// Creates an empty pool that allocates all its slots now.
    #[must_use]
    pub fn grown(capacity: u32) -> Pool<T> {
        let mut pool = Pool::new(capacity);
        pool.slots.reserve_exact(pool.capacity as usize);
        pool
    }

    /// Returns the largest number of values that the pool holds.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Returns the number of values in the pool.
    #[inline]
    pub fn len(&self) -> usize {
        self.taken as usize
    }

    /// Returns whether the pool holds no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Returns whether the pool has no room.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.taken == self.capacity
    }

    /// Returns the key of the next [`Pool::insert`], for a value that must know its own key, or none when the pool
    /// is full.
    #[inline]
    pub fn next_key(&self) -> Option<Key> {
        if let Some(slot) = self.slots.get(self.free as usize) {
            return Some(Key { index: self.free, generation: slot.generation });
        }
        let index = self.slots.len() as u32;
        (index < self.capacity).then_some(Key { index, generation: 1 })
    }

    /// Inserts a value, or returns it in the error when the pool is full.
    #[inline]
    pub fn insert(&mut self, value: T) -> Result<Key, Full<T>> {
        let Some(key) = self.next_key() else { return Err(Full(value)) };
        match self.slots.get_mut(key.index as usize) {
            Some(slot) => {
                if let Content::Free { next } = slot.content {
                    self.free = next;
                }
                slot.content = Content::Taken(value);
            }
            None => {
                let content = Content::Taken(value);
                self.slots.push(Slot { generation: key.generation, content });
            }
        }
        self.taken += 1;
        Ok(key)
    }

    /// Returns the value of this key.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        if slot.generation == key.generation { slot.value() } else { None }
    }

    /// Returns the value of this key for a change.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation == key.generation { slot.value_mut() } else { None }
    }

    /// Returns whether the key names a value.
    #[inline]
    pub fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    /// Returns the key of the value in a slot, for a caller that has only the index.
    #[inline]
    pub fn key_at(&self, index: u32) -> Option<Key> {
        let slot = self.slots.get(index as usize)?;
        slot.value().map(|_| Key { index, generation: slot.generation })
    }

    /// Removes the value and returns it. Its key is stale from now on.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation || slot.value().is_none() {
            return None;
        }
        let content = std::mem::replace(&mut slot.content, Content::Free { next: self.free });
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        self.free = key.index;
        self.taken -= 1;
        match content {
            Content::Taken(value) => Some(value),
            Content::Free { .. } => None,
        }
    }

    /// Removes every value. All keys are stale from now on.
    pub fn clear(&mut self) {
        for index in 0..self.slots.len() as u32 {
            if let Some(key) = self.key_at(index) {
                self.remove(key);
            }
        }
    }

    /// Iterates over the values and their keys by slot. The iteration visits each slot that was ever filled.
    pub fn iter(&self) -> impl FusedIterator<Item = (Key, &T)> {
        self.slots.iter().zip(0..).filter_map(|(slot, index)| {
            let key = Key { index, generation: slot.generation };
            slot.value().map(|value| (key, value))
        })
    }

    /// Iterates over the values and their keys for a change.
    pub fn iter_mut(&mut self) -> impl FusedIterator<Item = (Key, &mut T)> {
        self.slots.iter_mut().zip(0..).filter_map(|(slot, index)| {
            let key = Key { index, generation: slot.generation };
            slot.value_mut().map(|value| (key, value))
        })
    }
}

impl<T: fmt::Debug> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The error of a full pool, which returns the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pool is full")
    }
}

impl<T> std::error::Error for Full<T> {}

#[cfg(test)]
mod tests;
