//! The target of wakers, with a reference count of four bytes.
//!
//! A node has one target for each of its tasks, so every byte counts. The node lends the task's waker to its
//! future at every poll without an atomic operation. Other modules decide what a wake does. Invariant: the target
//! lives as long as each owner and each waker that can reach it: each owner, and each waker that is not lent, is
//! counted once.

use crate::sync::{AtomicU32, Ordering, fence};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// A target that any thread can wake.
pub trait Wakeable: Send + Sync + 'static {
    /// Handles one wake.
    fn on_wake(&self);
}

/// A counted owner of a target, beside other owners and wakers.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use upbeat_memory::waker::{WakeTarget, Wakeable};
///
/// struct Count(AtomicU32);
///
/// impl Wakeable for Count {
///     fn on_wake(&self) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let count = WakeTarget::new(Count(AtomicU32::new(0)));
/// let kept = count.lend(|waker| {
///     waker.wake_by_ref();
///     waker.clone()
/// });
/// kept.wake();
/// assert_eq!(count.0.load(Ordering::Relaxed), 2);
/// ```
pub struct WakeTarget<T: Wakeable> {
    at: NonNull<Inner<T>>,
}

struct Inner<T> {
    /// The number of owners and wakers.
    count: AtomicU32,
    value: T,
}

/// The count beyond which a program has leaked wakers without end.
const COUNT_MAX: u32 = u32::MAX / 2;

// SAFETY: the shared data is a `T`, which is `Send` and `Sync` because `Wakeable` requires that, and an atomic.
unsafe impl<T: Wakeable> Send for WakeTarget<T> {}
// SAFETY: as above.
unsafe impl<T: Wakeable> Sync for WakeTarget<T> {}

impl<T: Wakeable> WakeTarget<T> {
    const VTABLE: &'static RawWakerVTable = &RawWakerVTable::new(
        |data| {
            // SAFETY: `data` belongs to a waker of this table, which counts as an owner as long as it lives.
            let waker = unsafe { WakeTarget::<T>::borrowed(data) };
            ManuallyDrop::new((*waker).clone()).raw()
        },
        // SAFETY: as above; a waker that wakes by value ends, and its count with it.
        |data| ManuallyDrop::into_inner(unsafe { WakeTarget::<T>::borrowed(data) }).on_wake(),
        // SAFETY: as above.
        |data| unsafe { WakeTarget::<T>::borrowed(data) }.on_wake(),
        // SAFETY: as above; a waker that is dropped ends, and its count with it.
        |data| drop(ManuallyDrop::into_inner(unsafe { WakeTarget::<T>::borrowed(data) })),
    );

    /// Creates the first owner of a target.
    pub fn new(value: T) -> WakeTarget<T> {
        let inner = Box::new(Inner { count: AtomicU32::new(1), value });
        WakeTarget { at: NonNull::from(Box::leak(inner)) }
    }

    /// Returns a new waker of the target.
    pub fn waker(&self) -> Waker {
        let owner = ManuallyDrop::new(self.clone());
        // SAFETY: the table keeps the contract of `RawWaker`, and the waker takes over the count of the new owner.
        unsafe { Waker::from_raw(owner.raw()) }
    }

    /// Lends the target's waker to a closure without counting it. A closure that keeps the waker clones it.
    #[inline]
    pub fn lend<R>(&self, with: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: the table keeps the contract of `RawWaker`. The waker uses the count of this owner, which is
        // borrowed for as long as the waker is used, and the waker is never dropped.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(self.raw()) });
        with(&waker)
    }

    /// Returns the address that the target's wakers have as their data.
    #[inline]
    pub fn data(&self) -> *const () {
        self.at.as_ptr().cast_const().cast()
    }

    #[inline]
    fn raw(&self) -> RawWaker {
        RawWaker::new(self.data(), WakeTarget::<T>::VTABLE)
    }

    /// Returns the owner that a waker stands for.
    ///
    /// # Safety
    /// `data` belongs to a waker of this table that has not ended.
    #[inline]
    unsafe fn borrowed(data: *const ()) -> ManuallyDrop<WakeTarget<T>> {
        // SAFETY: the pointer came from `raw`, so it is not null.
        let at = unsafe { NonNull::new_unchecked(data.cast_mut().cast()) };
        ManuallyDrop::new(WakeTarget { at })
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: this owner is counted, so the target lives, and no code has a mutable reference to it.
        unsafe { self.at.as_ref() }
    }
}

impl<T: Wakeable> Deref for WakeTarget<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: Wakeable> Clone for WakeTarget<T> {
    #[inline]
    fn clone(&self) -> WakeTarget<T> {
        if self.inner().count.fetch_add(1, Ordering::Relaxed) > COUNT_MAX {
            // The process ends before the count could wrap around and free a target that is in use.
            abort();
        }
        WakeTarget { at: self.at }
    }
}

impl<T: Wakeable> Drop for WakeTarget<T> {
    #[inline]
    fn drop(&mut self) {
        if self.inner().count.fetch_sub(1, Ordering::Release) == 1 {
            // The accesses of all other owners come before the end of the target.
            fence(Ordering::Acquire);
            // SAFETY: the target was allocated as a box, and the last counted owner frees it.
            drop(unsafe { Box::from_raw(self.at.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    struct Count {
        woken: AtomicU64,
        _held: Arc<()>,
    }

    impl Wakeable for Count {
        fn on_wake(&self) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn count() -> (WakeTarget<Count>, Arc<()>) {
        let held = Arc::new(());
        let count = Count { woken: AtomicU64::new(0), _held: Arc::clone(&held) };
        (WakeTarget::new(count), held)
    }

    #[test]
    fn a_target_lives_as_long_as_an_owner_or_a_waker() {
        let (count, held) = count();
        let (waker, other) = (count.waker(), count.clone());
        let cloned = waker.clone();
        assert!(cloned.will_wake(&waker) && waker.data() == count.data());
        cloned.wake();
        waker.wake_by_ref();
        assert_eq!(count.woken.load(Ordering::Relaxed), 2);
        drop(count);
        drop(other);
        assert_eq!(Arc::strong_count(&held), 2, "a waker keeps the target");
        waker.wake();
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_lent_waker_is_not_counted_even_if_the_closure_panics() {
        let (count, held) = count();
        let kept = count.lend(|waker| (waker.clone(), waker.data()));
        assert_eq!((count.inner().count.load(Ordering::Relaxed), kept.1), (2, count.data()));
        let panics = || count.lend(|_| panic!("in the closure"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        drop(kept);
        assert_eq!(count.inner().count.load(Ordering::Relaxed), 1);
        drop(count);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn wakers_wake_from_any_thread() {
        const WAKES: u64 = if cfg!(miri) { 20 } else { 10_000 };
        let (count, held) = count();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let waker = count.waker();
                std::thread::spawn(move || {
                    let clones = (0..WAKES).map(|_| waker.clone());
                    clones.for_each(Waker::wake);
                })
            })
            .collect();
        let last = count.waker();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(count.woken.load(Ordering::Relaxed), 3 * WAKES);
        drop(count);
        std::thread::spawn(move || drop(last)).join().unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_target_takes_four_bytes_beside_its_value() {
        assert_eq!(size_of::<Inner<Pair>>(), 24);

        struct Pair {
            _roll: Arc<()>,
            _word: AtomicU64,
        }
    }
}
