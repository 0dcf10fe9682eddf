//! How the owner changes vectors, maps and pointers.

use super::error::ExportError;
use super::owner::Owner;
use super::path::Path;
use super::shared::{NOWHERE, Named, Shared};
use super::types::{FixedMap, FixedVec, Key, LENGTH, MapFull, Ref, each};
use upbeat_core::channel::export::chunks;
use upbeat_memory::region::WORD;

impl<T: Shared, const N: usize> Path<&Owner, [T; N]> {
    /// Replaces the elements, one after the other, in one update. No array is on the stack.
    ///
    /// # Panics
    /// If the path leads to nothing, if an element has a pointer into another export, or if there is no memory for a vector
    /// in an element. The elements before it are replaced then.
    pub fn set_each(&self, mut item: impl FnMut(usize) -> T) {
        self.update(|items| (0..N).for_each(|index| items.index(index).set(item(index))));
    }
}

impl<T: Shared, const N: usize> Path<&Owner, FixedVec<T, N>> {
    /// Appends an element. A reader finds the vector without it or with it.
    ///
    /// # Errors
    /// Gives the element back if the vector is full.
    ///
    /// # Panics
    /// If the path leads to no vector, if the element has a pointer into another export, or if there is no memory for the
    /// elements of a vector that grows.
    pub fn push(&self, item: T) -> Result<(), T> {
        let len = self.length().get();
        if len == N as u64 {
            return Err(item);
        }
        self.make_room(&item, |writer, at| {
            item.room(Some((writer, FixedVec::<T, N>::item(at, len as usize))))
        });
        self.update(|_| {
            self.length().set(len + 1);
            self.index(len as usize).set(item);
        });
        Ok(())
    }

    /// Removes the last element and returns it.
    ///
    /// # Panics
    /// If the path leads to no vector.
    pub fn pop(&self) -> Option<T> {
        let last = self.length().get().checked_sub(1)?;
        let item = self.index(last as usize).get();
        self.length().set(last);
        Some(item)
    }

    /// Removes all elements.
    ///
    /// # Panics
    /// If the path leads to no vector.
    pub fn clear(&self) {
        self.length().set(0);
    }
}

impl<T: Shared> Path<&Owner, Vec<T>> {
    /// Appends an element. A reader finds the vector without it or with it. The export moves to a larger place where it has
    /// no room: readers go on in the place before until they learn of the new one.
    ///
    /// # Errors
    /// If there is no memory for the element, the export has as much as it may have, or the element has a pointer into another
    /// export.
    ///
    /// # Panics
    /// If the path leads to no vector.
    pub fn push(&self, item: T) -> Result<(), ExportError> {
        let len = self.length().get();
        let place = chunks::find(len as usize).ok_or(ExportError::Full)?;
        let chunk = chunks::words(place.chunk, each::<T>());
        self.reserve(&item, |writer, at| match writer.chunk(at, place.chunk) {
            Some(first) => item.room(Some((writer, first + place.index * each::<T>() / WORD))),
            None => chunk + item.room(None),
        })?;
        self.update(|_| {
            self.change_in_place(|writer, at| {
                writer.make_chunk(at, place.chunk, chunk);
                writer.store(at + LENGTH, len + 1);
            });
            self.index(len as usize).set(item);
        });
        Ok(())
    }

    /// Removes the last element and returns it.
    ///
    /// # Panics
    /// If the path leads to no vector.
    pub fn pop(&self) -> Option<T> {
        let last = self.length().get().checked_sub(1)?;
        let item = self.index(last as usize).get();
        self.length().set(last);
        Some(item)
    }

    /// Removes all elements. Their memory stays with the vector.
    ///
    /// # Panics
    /// If the path leads to no vector.
    pub fn clear(&self) {
        self.length().set(0);
    }
}

impl<K: Key, V: Shared, const N: usize> Path<&Owner, FixedMap<K, V, N>> {
    /// Inserts an entry, or replaces the value of the key. A reader finds the map before or after it.
    ///
    /// # Errors
    /// If the map is full.
    ///
    /// # Panics
    /// If the path leads to no map, if the value has a pointer into another export, or if there is no memory for the elements
    /// of a vector that grows.
    pub fn insert(&self, key: &K, value: V) -> Result<(), MapFull> {
        if self.has(key) {
            self.entry(key).set(value);
            return Ok(());
        }
        let len = self.length().get();
        if len == N as u64 {
            return Err(MapFull);
        }
        self.make_room(&value, |writer, at| {
            value.room(Some((writer, FixedMap::<K, V, N>::value_of(writer, at, key))))
        });
        self.update(|_| {
            self.change_in_place(|writer, at| {
                FixedMap::<K, V, N>::put_key(writer, at, key);
                writer.store(at + LENGTH, len + 1);
            });
            self.entry(key).set(value);
        });
        Ok(())
    }

    /// Removes the entry of a key. Returns whether there was one.
    ///
    /// # Panics
    /// If the path leads to no map.
    pub fn remove(&self, key: &K) -> bool {
        let len = self.length().get();
        if !self.has(key) {
            return false;
        }
        self.change_in_place(|writer, at| {
            FixedMap::<K, V, N>::remove_entry(writer, at, key);
            writer.store(at + LENGTH, len - 1);
        });
        true
    }

    /// Returns whether the map has an entry for a key.
    ///
    /// # Panics
    /// If the path leads to no map.
    pub fn has(&self, key: &K) -> bool {
        self.length().get();
        self.entry(key).place().now().at != NOWHERE
    }
}

impl<T: Named> Path<&Owner, Ref<T>> {
    /// Lets the pointer lead to a struct of the same export. It keeps leading to that place, whatever is there.
    ///
    /// # Panics
    /// If one of the paths leads to nothing, or `target` is a path of another export.
    pub fn point_to(&self, target: &Path<&Owner, T>) {
        self.set(self.pointer_to(target));
    }

    /// Lets the pointer lead to nothing.
    ///
    /// # Panics
    /// If the path leads to no pointer.
    pub fn clear(&self) {
        self.set(Ref::null());
    }

    fn pointer_to(&self, target: &Path<&Owner, T>) -> Ref<T> {
        let place = target.checked();
        assert!(
            std::ptr::eq(self.checked().access, place.access),
            "a pointer leads to a struct of its own export"
        );
        let at = place.at - place.access.location().value();
        Ref::to(at as u32, place.access.number())
    }
}
