//! An arena: values in one vector, each found by the index that its owner keeps.
//!
//! To insert, to find and to remove takes constant time. An index is used by one owner, who gives it up
//! when it removes the value; so an index needs no generation.

/// Where a value lies in an [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u32);

/// Values, and the places of those that were removed, which are taken again first.
pub(crate) struct Arena<T> {
    slots: Vec<Slot<T>>,
    free: Option<Key>,
    len: usize,
}

enum Slot<T> {
    Free { next: Option<Key> },
    Taken(T),
}

impl<T> Arena<T> {
    pub(crate) const fn new() -> Arena<T> {
        Arena { slots: Vec::new(), free: None, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.len += 1;
        let Some(key) = self.free else {
            let Ok(index) = u32::try_from(self.slots.len()) else {
                unreachable!("memory ends before there are 2^32 values");
            };
            self.slots.push(Slot::Taken(value));
            return Key(index);
        };
        let slot = &mut self.slots[key.0 as usize];
        if let Slot::Free { next } = slot {
            self.free = *next;
        }
        *slot = Slot::Taken(value);
        key
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slots.get_mut(key.0 as usize)? {
            Slot::Taken(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.0 as usize)?;
        if let Slot::Free { .. } = slot {
            return None;
        }
        let next = self.free.replace(key);
        self.len -= 1;
        match std::mem::replace(slot, Slot::Free { next }) {
            Slot::Taken(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Taken(value) => Some(value),
            Slot::Free { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_value_makes_room_for_the_next() {
        let mut arena = Arena::new();
        let keys = [1, 2, 3].map(|value| arena.insert(value));
        assert_eq!((arena.remove(keys[1]), arena.remove(keys[0])), (Some(2), Some(1)));
        assert_eq!((arena.remove(keys[0]), arena.len()), (None, 1));
        assert_eq!(arena.get_mut(keys[1]), None);
        let again = [4, 5, 6].map(|value| arena.insert(value));
        assert_eq!(again[..2], keys[..2]);
        assert_eq!(arena.iter().copied().collect::<Vec<_>>(), [4, 5, 3, 6]);
        assert_eq!((arena.len(), arena.is_empty()), (4, false));
        assert_eq!(arena.get_mut(keys[2]), Some(&mut 3));
    }
}
