//! A value that is read in place, and replaced while it has no holder.
//!
//! Holders are counted, and counting up and down is the whole cost of holding: a holder checks nothing, since a
//! held value never changes. Invariant: while the value has a holder, it is neither changed nor moved.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::mem;
use std::ops::Deref;

/// A value that is replaced only while it has no holder.
///
/// ```
/// use upbeat_memory::held::Held;
///
/// let names = Held::new(vec!["ada"]);
/// let held = names.hold();
/// assert_eq!(names.replace(vec!["grace"]), Err(vec!["grace"]));
/// assert_eq!(*held, ["ada"]);
/// drop(held);
/// assert_eq!(names.replace(vec!["grace"]), Ok(vec!["ada"]));
/// assert_eq!(*names.hold(), ["grace"]);
/// ```
#[derive(Default)]
pub struct Held<T> {
    value: UnsafeCell<T>,
    /// The number of holders. A leaked holder counts for ever.
    holders: Cell<u64>,
}

impl<T> Held<T> {
    /// Creates a value without holders.
    pub const fn new(value: T) -> Held<T> {
        Held { value: UnsafeCell::new(value), holders: Cell::new(0) }
    }

    /// Returns a new holder of the value.
    #[inline(always)]
    pub fn hold(&self) -> Holding<'_, T> {
        // A count that grows by ones does not reach 2^64.
        self.holders.set(self.holders.get().wrapping_add(1));
        Holding(self)
    }

    /// Replaces the value and returns the old one. Returns `other` as the error while the value has a holder.
    pub fn replace(&self, other: T) -> Result<T, T> {
        if self.holders.get() != 0 {
            return Err(other);
        }
        // SAFETY: only holders give out references to the value, and there is no holder. Only this thread can
        // access the value, as `UnsafeCell` is not `Sync`, and moving values calls no other code.
        Ok(unsafe { mem::replace(&mut *self.value.get(), other) })
    }
}

impl<T> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("holders", &self.holders.get()).finish_non_exhaustive()
    }
}

/// A holder: while it lives, the value is not replaced.
#[derive(Debug)]
pub struct Holding<'h, T>(&'h Held<T>);

impl<T> Deref for Holding<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: only `replace` changes the value, and it refuses while this holder is counted.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for Holding<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.holders.set(self.0.holders.get().wrapping_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn a_value_is_replaced_when_its_last_holder_is_gone() {
        let held = Held::new(Rc::new(1));
        let (first, second) = (held.hold(), held.hold());
        assert_eq!(held.replace(Rc::new(2)), Err(Rc::new(2)));
        drop(first);
        assert_eq!(held.replace(Rc::new(2)), Err(Rc::new(2)));
        assert_eq!((**second, Rc::strong_count(&second)), (1, 1));
        drop(second);
        let old = held.replace(Rc::new(2)).unwrap();
        assert_eq!((*old, **held.hold(), Rc::strong_count(&old)), (1, 2, 1));
    }

    #[test]
    fn the_drop_of_an_old_value_may_hold_the_new_one() {
        struct Looks(Rc<Held<Option<Looks>>>, Rc<Cell<bool>>);
        impl Drop for Looks {
            fn drop(&mut self) {
                self.1.set(self.0.hold().is_none());
            }
        }
        let (held, seen) = (Rc::new(Held::new(None)), Rc::new(Cell::new(false)));
        let looks = Looks(Rc::clone(&held), Rc::clone(&seen));
        assert!(held.replace(Some(looks)).is_ok_and(|old| old.is_none()));
        drop(held.replace(None));
        assert!(seen.get());
    }

    #[test]
    fn a_leaked_holder_keeps_the_value() {
        let held = Held::new(1);
        mem::forget(held.hold());
        assert_eq!(held.replace(2), Err(2));
        assert_eq!(*held.hold(), 1);
    }
}
