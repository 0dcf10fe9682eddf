//! What wakers point to, counted in four bytes.
//!
//! A node has one for each of its tasks, so each byte counts, and it lends their wakers to futures for
//! every poll, which is to cost no atomic operation. What happens when something is woken is left to
//! others. Invariant: what is pointed to lives as long as anybody who can reach it: each owner, and each
//! waker that is not lent, is counted once.

use crate::sync::{AtomicU32, Ordering, fence};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// What can be woken, from any thread.
pub trait Rouse: Send + Sync + 'static {
    /// It is woken.
    fn rouse(&self);
}

/// An owner of something that can be woken, of which there may be others, and wakers.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use upbeat_memory::waker::{Counted, Rouse};
///
/// struct Count(AtomicU32);
///
/// impl Rouse for Count {
///     fn rouse(&self) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let count = Counted::new(Count(AtomicU32::new(0)));
/// let kept = count.lend(|waker| {
///     waker.wake_by_ref();
///     waker.clone()
/// });
/// kept.wake();
/// assert_eq!(count.0.load(Ordering::Relaxed), 2);
/// ```
pub struct Counted<T: Rouse> {
    at: NonNull<Inner<T>>,
}

struct Inner<T> {
    /// Owners and wakers.
    count: AtomicU32,
    value: T,
}

/// Beyond this somebody has forgotten wakers without end.
const COUNT_MAX: u32 = u32::MAX / 2;

// SAFETY: what is shared is a `T`, which may be shared and sent, for `Rouse` says so, and an atomic.
unsafe impl<T: Rouse> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Rouse> Sync for Counted<T> {}

impl<T: Rouse> Counted<T> {
    const VTABLE: &'static RawWakerVTable = &RawWakerVTable::new(
        |data| {
            // SAFETY: `data` is of a waker of ours, which stands for an owner as long as it lives.
            let waker = unsafe { Counted::<T>::borrowed(data) };
            ManuallyDrop::new((*waker).clone()).raw()
        },
        // SAFETY: as above; a waker that wakes by value ends, and its owner with it.
        |data| ManuallyDrop::into_inner(unsafe { Counted::<T>::borrowed(data) }).rouse(),
        // SAFETY: as above.
        |data| unsafe { Counted::<T>::borrowed(data) }.rouse(),
        // SAFETY: as above; a waker that is dropped ends, and its owner with it.
        |data| drop(ManuallyDrop::into_inner(unsafe { Counted::<T>::borrowed(data) })),
    );

    /// The first owner of a value.
    pub fn new(value: T) -> Counted<T> {
        let inner = Box::new(Inner { count: AtomicU32::new(1), value });
        Counted { at: NonNull::from(Box::leak(inner)) }
    }

    /// A waker of it.
    pub fn waker(&self) -> Waker {
        let owner = ManuallyDrop::new(self.clone());
        // SAFETY: the table keeps what `RawWaker` asks for, and the waker stands for the new owner.
        unsafe { Waker::from_raw(owner.raw()) }
    }

    /// Shows its waker to a closure. That counts nothing; whoever keeps the waker clones it.
    #[inline]
    pub fn lend<R>(&self, with: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: the table keeps what `RawWaker` asks for. The waker stands for this owner, which is
        // borrowed as long as it is used, and it is never dropped.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(self.raw()) });
        with(&waker)
    }

    /// Where it is, as its wakers say it.
    #[inline]
    pub fn data(&self) -> *const () {
        self.at.as_ptr().cast_const().cast()
    }

    #[inline]
    fn raw(&self) -> RawWaker {
        RawWaker::new(self.data(), Counted::<T>::VTABLE)
    }

    /// The owner that a waker stands for.
    ///
    /// # Safety
    /// `data` is of such a waker, which has not ended.
    #[inline]
    unsafe fn borrowed(data: *const ()) -> ManuallyDrop<Counted<T>> {
        // SAFETY: it came out of `raw`, so it is not null.
        let at = unsafe { NonNull::new_unchecked(data.cast_mut().cast()) };
        ManuallyDrop::new(Counted { at })
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: it is counted, so it is there, and nobody has it to change.
        unsafe { self.at.as_ref() }
    }
}

impl<T: Rouse> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: Rouse> Clone for Counted<T> {
    #[inline]
    fn clone(&self) -> Counted<T> {
        if self.inner().count.fetch_add(1, Ordering::Relaxed) > COUNT_MAX {
            // Before it comes round to where it would be given back under somebody's hands.
            abort();
        }
        Counted { at: self.at }
    }
}

impl<T: Rouse> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        if self.inner().count.fetch_sub(1, Ordering::Release) == 1 {
            // What the others did with it comes before its end.
            fence(Ordering::Acquire);
            // SAFETY: it was made of a box, and the last one who was counted gives it back.
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

    impl Rouse for Count {
        fn rouse(&self) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn count() -> (Counted<Count>, Arc<()>) {
        let held = Arc::new(());
        let count = Count { woken: AtomicU64::new(0), _held: Arc::clone(&held) };
        (Counted::new(count), held)
    }

    #[test]
    fn it_lives_as_long_as_an_owner_or_a_waker() {
        let (count, held) = count();
        let (waker, other) = (count.waker(), count.clone());
        let cloned = waker.clone();
        assert!(cloned.will_wake(&waker) && waker.data() == count.data());
        cloned.wake();
        waker.wake_by_ref();
        assert_eq!(count.woken.load(Ordering::Relaxed), 2);
        drop(count);
        drop(other);
        assert_eq!(Arc::strong_count(&held), 2, "there is a waker");
        waker.wake();
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn what_is_lent_counts_for_nobody_also_where_it_panics() {
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
    fn wakers_go_anywhere() {
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
    fn it_takes_four_bytes_beside_its_value() {
        assert_eq!(size_of::<Inner<Pair>>(), 24);

        struct Pair {
            _roll: Arc<()>,
            _word: AtomicU64,
        }
    }
}
