//! Kept memory in which futures run one after another, each in place.
//!
//! While a future is polled for the first time, the type of its owner, [`EmptySlot`] or [`FilledSlot`], tells whether
//! there is a future, so nothing is written or checked for it. A future that has to wait stays in place, and from
//! then on its [`FutureSlot`] records whether there is a future. Invariant: a future that may have been polled is not
//! moved until it is dropped in place, and its memory is not used for another future before.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomPinned;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::ptr;

/// Memory for a future of type `F`, with a value beside it that stays.
pub struct FutureSlot<F, X> {
    /// The future, in a cell, because the future may refer to itself, and a shared reference to the slot must not
    /// exclude that.
    future: UnsafeCell<MaybeUninit<F>>,
    /// Whether the slot itself owns a future and has to drop it.
    holds: bool,
    beside: X,
    _pinned: PhantomPinned,
}

/// A slot without a future.
///
/// ```
/// use std::future::Future;
/// use std::task::{Context, Poll, Waker};
/// use upbeat_memory::future_slot::EmptySlot;
///
/// let answer = |n| async move { 6 * n };
/// let mut slot = EmptySlot::new("beside it");
/// let mut context = Context::from_waker(Waker::noop());
/// for n in [7, 8] {
///     let mut taken = slot.take(answer(n));
///     assert_eq!(taken.parts().0.poll(&mut context), Poll::Ready(6 * n));
///     slot = taken.vacate();
/// }
/// ```
pub struct EmptySlot<F, X>(Pin<Box<FutureSlot<F, X>>>);

/// A slot with a future, which is dropped with this owner. The slot itself does not record the future.
pub struct FilledSlot<F, X>(Pin<Box<FutureSlot<F, X>>>);

impl<F, X> EmptySlot<F, X> {
    /// Creates a slot in new memory.
    pub fn new(beside: X) -> EmptySlot<F, X> {
        let future = UnsafeCell::new(MaybeUninit::uninit());
        EmptySlot(Box::pin(FutureSlot { future, holds: false, beside, _pinned: PhantomPinned }))
    }

    /// Puts a future into the slot.
    #[inline(always)]
    pub fn take(mut self, future: F) -> FilledSlot<F, X> {
        // SAFETY: a vacant slot has no future, so the write neither moves nor overwrites one.
        unsafe { self.0.as_mut().get_unchecked_mut() }.future.get_mut().write(future);
        FilledSlot(self.0)
    }

    /// Returns the value beside the future.
    pub fn beside(&mut self) -> &mut X {
        self.0.as_mut().parts().1
    }
}

impl<F, X> FilledSlot<F, X> {
    /// Returns the future, to be polled, and the value beside it.
    #[inline(always)]
    pub fn parts(&mut self) -> (Pin<&mut F>, &mut X) {
        // SAFETY: nothing is moved: the future stays pinned in place, and is reached in no other way.
        let slot = unsafe { self.0.as_mut().get_unchecked_mut() };
        // SAFETY: `take` has written a future, and every method that drops it consumes `self`.
        let future = unsafe { slot.future.get_mut().assume_init_mut() };
        // SAFETY: as above. The value beside the future is never pinned.
        (unsafe { Pin::new_unchecked(future) }, &mut slot.beside)
    }

    /// Drops the future. The memory of the slot is used again, unless the drop panics.
    #[inline(always)]
    pub fn vacate(self) -> EmptySlot<F, X> {
        let mut slot = self.into_inner();
        // SAFETY: `take` has written a future, and `into_inner` has consumed `self`, which would drop it as well.
        unsafe { slot.as_mut().drop_future() };
        EmptySlot(slot)
    }

    /// Returns the slot, which owns the future from now on.
    pub fn into_slot(self) -> Pin<Box<FutureSlot<F, X>>> {
        let mut slot = self.into_inner();
        // SAFETY: nothing is moved.
        unsafe { slot.as_mut().get_unchecked_mut() }.holds = true;
        slot
    }

    /// Returns the slot with a future that has no owner.
    #[inline(always)]
    fn into_inner(self) -> Pin<Box<FutureSlot<F, X>>> {
        let taken = ManuallyDrop::new(self);
        // SAFETY: the original is neither used nor dropped after this read.
        unsafe { ptr::read(&raw const taken.0) }
    }
}

impl<F, X> Drop for FilledSlot<F, X> {
    fn drop(&mut self) {
        // SAFETY: `take` has written a future, and nothing uses it after this drop.
        unsafe { self.0.as_mut().drop_future() };
    }
}

impl<F, X> FutureSlot<F, X> {
    /// Returns the future, to be polled, if there is one, and the value beside it.
    #[inline]
    pub fn parts(self: Pin<&mut Self>) -> (Option<Pin<&mut F>>, &mut X) {
        // SAFETY: as in `FilledSlot::parts`.
        let slot = unsafe { self.get_unchecked_mut() };
        // SAFETY: `holds` says that there is a future, which is pinned in place.
        let future = slot
            .holds
            .then(|| unsafe { Pin::new_unchecked(slot.future.get_mut().assume_init_mut()) });
        (future, &mut slot.beside)
    }

    /// Returns the value beside the future.
    pub const fn beside(&self) -> &X {
        &self.beside
    }

    /// Drops the future, if there is one.
    pub fn clear(mut self: Pin<&mut Self>) {
        // SAFETY: nothing is moved. The flag is cleared first, so a future whose drop panics is not dropped again.
        let holds = unsafe { &mut self.as_mut().get_unchecked_mut().holds };
        if std::mem::take(holds) {
            // SAFETY: the flag said that there is a future, and is cleared.
            unsafe { self.drop_future() };
        }
    }

    /// Drops the future, if there is one. The memory of the slot is used again, unless the drop panics.
    pub fn vacate(mut self: Pin<Box<Self>>) -> EmptySlot<F, X> {
        self.as_mut().clear();
        EmptySlot(self)
    }

    /// # Safety
    /// There is a future, and nothing uses or drops it after this call.
    #[inline(always)]
    unsafe fn drop_future(self: Pin<&mut Self>) {
        // SAFETY: the future is dropped in place and once, as the caller guarantees.
        unsafe { self.get_unchecked_mut().future.get_mut().assume_init_drop() };
    }
}

impl<F, X> Drop for FutureSlot<F, X> {
    fn drop(&mut self) {
        // SAFETY: slots are created pinned, and the future is dropped in place.
        unsafe { Pin::new_unchecked(self) }.clear();
    }
}

impl<F, X> fmt::Debug for FutureSlot<F, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutureSlot").field("holds", &self.holds).finish_non_exhaustive()
    }
}

impl<F, X> fmt::Debug for EmptySlot<F, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vacant")
    }
}

impl<F, X> fmt::Debug for FilledSlot<F, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::{Future, poll_fn};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// A value that counts its drops. The drop panics if the second field is true.
    struct Counts(Rc<Cell<u32>>, bool);

    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            assert!(!self.1, "the drop panics, as the test asks");
        }
    }

    /// Returns a future that refers to itself across a wait. It is ready at the second poll, or at the first.
    async fn refers(counts: Counts, first_is_ready: bool) -> u32 {
        let (words, mut waits) = ([1, 2, 3], !first_is_ready);
        let second = &words[1];
        poll_fn(|_| match std::mem::take(&mut waits) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
        let _counts = counts;
        *second
    }

    #[test]
    fn futures_run_one_after_another_and_are_dropped_once() {
        let dropped = Rc::new(Cell::new(0));
        let mut slot = EmptySlot::new(0);
        for n in 1..4 {
            let mut taken = slot.take(refers(Counts(Rc::clone(&dropped), false), true));
            let (future, beside) = taken.parts();
            *beside += 1;
            assert_eq!(poll(future), Poll::Ready(2));
            slot = taken.vacate();
            assert_eq!((*slot.beside(), dropped.get()), (n, n));
        }
        // A future that was never polled is dropped as well.
        drop(slot.take(refers(Counts(Rc::clone(&dropped), false), true)));
        assert_eq!(dropped.get(), 4);
    }

    #[test]
    fn a_future_that_waits_stays_where_it_is() {
        let dropped = Rc::new(Cell::new(0));
        let mut taken =
            EmptySlot::new("beside").take(refers(Counts(Rc::clone(&dropped), false), false));
        assert_eq!(poll(taken.parts().0), Poll::Pending);
        let mut slot = taken.into_slot();
        assert_eq!(*slot.beside(), "beside");
        assert_eq!(slot.as_mut().parts().0.map(poll), Some(Poll::Ready(2)));
        let vacant = slot.vacate();
        assert_eq!(dropped.get(), 1);
        let mut taken = vacant.take(refers(Counts(Rc::clone(&dropped), false), false));
        assert_eq!(poll(taken.parts().0), Poll::Pending);
        let mut slot = taken.into_slot();
        slot.as_mut().clear();
        assert_eq!((dropped.get(), slot.as_mut().parts().0.is_none()), (2, true));
        drop(slot);
        assert_eq!(dropped.get(), 2);
    }

    #[test]
    fn a_waiting_future_is_dropped_with_its_slot() {
        let dropped = Rc::new(Cell::new(0));
        let taken = EmptySlot::new(()).take(refers(Counts(Rc::clone(&dropped), false), false));
        drop(taken.into_slot());
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn a_future_whose_drop_panics_is_dropped_once_and_its_slot_is_freed() {
        let panics = |way: &dyn Fn(FilledSlot<Counts, Counts>)| {
            let (future, beside) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let taken = EmptySlot::new(Counts(Rc::clone(&beside), false))
                .take(Counts(Rc::clone(&future), true));
            assert!(catch_unwind(AssertUnwindSafe(|| way(taken))).is_err());
            assert_eq!((future.get(), beside.get()), (1, 1));
        };
        panics(&|taken| drop(taken.vacate()));
        panics(&drop);
        panics(&|taken| drop(taken.into_slot()));
        panics(&|taken| drop(taken.into_slot().vacate()));
    }
}
