//! A pool of places with generations: what a node has many of and names by number.
//!
//! A [`Key`] names a place and the value that stands there; once the value is removed the key is
//! stale and finds nothing, also when the place has been taken again. All operations but the
//! iterations take constant time. Places are made as they are first needed, up to the capacity;
//! after that, or after [`Pool::grown`], nothing is allocated.
//!
//! Invariant: a key finds the value that it was given for or nothing, until one place has been
//! taken 2^32 - 1 times while somebody held on to the key.

use std::fmt;
use std::iter::FusedIterator;

/// Ends the list of free places.
const NONE: u32 = u32::MAX;

/// The name of a value in a [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The place, counted from 0.
    pub index: u32,
    /// Which of the values that stood there; never 0.
    pub generation: u32,
}

impl Key {
    /// The key as one word: the generation above, the index below. Never 0.
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

    /// The key that [`Key::word`] gave. Any word will do: what names nothing finds nothing.
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
    places: Vec<Place<T>>,
    capacity: u32,
    /// The place that was freed last: the one most likely to be in the cache.
    free: u32,
    taken: u32,
}

struct Place<T> {
    /// That of the value that stands here or, in a free place, of the next one.
    generation: u32,
    content: Content<T>,
}

enum Content<T> {
    Free { next: u32 },
    Taken(T),
}

impl<T> Place<T> {
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
    /// An empty pool for at most `capacity` values. It allocates as it is filled.
    #[must_use]
    pub const fn new(capacity: u32) -> Pool<T> {
        // The index `NONE` is never a place.
        let capacity = if capacity == NONE { NONE - 1 } else { capacity };
        Pool { places: Vec::new(), capacity, free: NONE, taken: 0 }
    }

    /// An empty pool that allocates all its places now and never again.
    #[must_use]
    pub fn grown(capacity: u32) -> Pool<T> {
        let mut pool = Pool::new(capacity);
        pool.places.reserve_exact(pool.capacity as usize);
        pool
    }

    /// The most values that the pool holds.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// The number of values in the pool.
    #[inline]
    pub fn len(&self) -> usize {
        self.taken as usize
    }

    /// Whether the pool holds no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Whether the pool has no room.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.taken == self.capacity
    }

    /// The key that the next [`Pool::insert`] gives, for a value that must know its own name.
    /// None when the pool is full.
    #[inline]
    pub fn next_key(&self) -> Option<Key> {
        if let Some(place) = self.places.get(self.free as usize) {
            return Some(Key { index: self.free, generation: place.generation });
        }
        let index = self.places.len() as u32;
        (index < self.capacity).then_some(Key { index, generation: 1 })
    }

    /// Puts a value in, or gives it back when the pool is full.
    #[inline]
    pub fn insert(&mut self, value: T) -> Result<Key, Full<T>> {
        let Some(key) = self.next_key() else { return Err(Full(value)) };
        match self.places.get_mut(key.index as usize) {
            Some(place) => {
                if let Content::Free { next } = place.content {
                    self.free = next;
                }
                place.content = Content::Taken(value);
            }
            None => {
                let content = Content::Taken(value);
                self.places.push(Place { generation: key.generation, content });
            }
        }
        self.taken += 1;
        Ok(key)
    }

    /// The value of this key.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        if place.generation == key.generation { place.value() } else { None }
    }

    /// The value of this key, to change.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation == key.generation { place.value_mut() } else { None }
    }

    /// Whether the key names a value.
    #[inline]
    pub fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    /// The key of the value that stands at a place, for a caller that has the index alone.
    #[inline]
    pub fn key_at(&self, index: u32) -> Option<Key> {
        let place = self.places.get(index as usize)?;
        place.value().map(|_| Key { index, generation: place.generation })
    }

    /// Takes the value out. Its key is stale from now on.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation || place.value().is_none() {
            return None;
        }
        let content = std::mem::replace(&mut place.content, Content::Free { next: self.free });
        place.generation = place.generation.checked_add(1).unwrap_or(1);
        self.free = key.index;
        self.taken -= 1;
        match content {
            Content::Taken(value) => Some(value),
            Content::Free { .. } => None,
        }
    }

    /// Takes every value out. All keys are stale from now on.
    pub fn clear(&mut self) {
        for index in 0..self.places.len() as u32 {
            if let Some(key) = self.key_at(index) {
                self.remove(key);
            }
        }
    }

    /// The values with their keys, by place. Takes a step for each place that was ever taken.
    pub fn iter(&self) -> impl FusedIterator<Item = (Key, &T)> {
        self.places.iter().zip(0..).filter_map(|(place, index)| {
            let key = Key { index, generation: place.generation };
            place.value().map(|value| (key, value))
        })
    }

    /// The values with their keys, to change.
    pub fn iter_mut(&mut self) -> impl FusedIterator<Item = (Key, &mut T)> {
        self.places.iter_mut().zip(0..).filter_map(|(place, index)| {
            let key = Key { index, generation: place.generation };
            place.value_mut().map(|value| (key, value))
        })
    }
}

impl<T: fmt::Debug> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The pool has no room; here is the value back.
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
