//! Wakers of other executors, which a session keeps.
//!
//! Waking or dropping such a waker runs code of the application: it may poll a task in place, or drop a task and with
//! it a call of the same session, and it may panic. Invariant: that code runs only where the thread holds no lock and
//! no borrow of a session, and its panic ends nothing but itself.

use crate::contain::contain;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, forget, replace, take};
use std::task::Waker;

/// The part of [`HOLDS`] that tells whether wakers wait for the end of the last hold.
const WAITING: u32 = 1;
/// One hold in [`HOLDS`].
const HOLD: u32 = 2;
/// The room for the wakers that wait besides the first: a hold rarely has more.
const LATER_LIKELY: usize = 16;

thread_local! {
    static HOLDS: Cell<u32> = const { Cell::new(0) };
    /// The wakers that wait. The last hold leaves nothing here to be dropped, so that the list needs no drop, and is
    /// there as long as its thread.
    static LATER: ManuallyDrop<RefCell<Later>> =
        const { ManuallyDrop::new(RefCell::new(Later { first: None, rest: Vec::new() })) };
}

/// The last act of a waker.
enum Last {
    Wake(Waker),
    Drop(Waker),
}

impl Last {
    /// Runs the act, or has it wait for the end of the thread's last hold.
    #[inline]
    fn run(self) {
        match HOLDS.get() {
            0 => self.run_now(),
            _ => self.run_later(),
        }
    }

    fn run_now(self) {
        contain(|| match self {
            Last::Wake(waker) => waker.wake(),
            Last::Drop(waker) => drop(waker),
        });
    }

    #[cold]
    fn run_later(self) {
        HOLDS.set(HOLDS.get() | WAITING);
        LATER.with(|later| {
            let Later { first, rest } = &mut *later.borrow_mut();
            match first {
                None => *first = Some(self),
                Some(_) => {
                    if rest.capacity() == 0 {
                        rest.reserve(LATER_LIKELY);
                    }
                    rest.push(self);
                }
            }
        });
    }
}

/// The acts that wait, in their order. One alone needs no allocation.
#[derive(Default)]
struct Later {
    first: Option<Last>,
    rest: Vec<Last>,
}

/// A time in which this thread holds a lock or a borrow of a session: wakers that are woken or dropped meanwhile wait
/// for its end. The hold must end after the lock.
pub(crate) struct HoldWakers(PhantomData<*const ()>);

impl HoldWakers {
    #[inline]
    pub(crate) fn begin() -> HoldWakers {
        HOLDS.set(HOLDS.get() + HOLD);
        HoldWakers(PhantomData)
    }
}

impl Drop for HoldWakers {
    #[inline]
    fn drop(&mut self) {
        let left = HOLDS.get() - HOLD;
        HOLDS.set(left);
        if left == WAITING {
            release();
        }
    }
}

/// Runs the acts that have waited. The code behind them may begin other holds.
#[cold]
#[inline(never)]
fn release() {
    HOLDS.set(0);
    let Later { first, rest } = LATER.with(|later| take(&mut *later.borrow_mut()));
    first.into_iter().chain(rest).for_each(Last::run_now);
}

/// A waker that a session keeps. After its last act it is one that does nothing.
pub(crate) struct ForeignWaker(Waker);

impl ForeignWaker {
    /// Wakes the task.
    pub(crate) fn wake(self) {
        Last::Wake(self.into_inner()).run();
    }

    fn take(&mut self) -> Waker {
        replace(&mut self.0, Waker::noop().clone())
    }

    fn into_inner(mut self) -> Waker {
        let waker = self.take();
        // The rest owns nothing.
        forget(self);
        waker
    }

    /// Wakes the task, and keeps the waker.
    pub(crate) fn wake_by_ref(&self) {
        self.clone().wake();
    }

    /// Returns whether this waker and the other wake the same task.
    pub(crate) fn will_wake(&self, other: &Waker) -> bool {
        self.0.will_wake(other)
    }

    /// Drops the other waker at once if both wake the same task, which lives as long as this waker. Else returns it.
    pub(crate) fn replaces(&self, other: ForeignWaker) -> Result<(), ForeignWaker> {
        if !self.will_wake(&other.0) {
            return Err(other);
        }
        drop(other.into_inner());
        Ok(())
    }
}

impl From<&Waker> for ForeignWaker {
    fn from(waker: &Waker) -> ForeignWaker {
        ForeignWaker(waker.clone())
    }
}

impl Clone for ForeignWaker {
    fn clone(&self) -> ForeignWaker {
        ForeignWaker(self.0.clone())
    }

    fn clone_from(&mut self, other: &ForeignWaker) {
        if !self.will_wake(&other.0) {
            *self = other.clone();
        }
    }
}

impl Drop for ForeignWaker {
    #[inline]
    fn drop(&mut self) {
        Last::Drop(self.take()).run();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    /// Counts its wakes in tens, and its drop as one. It panics after each.
    struct Counts(Arc<AtomicU32>);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(10, Ordering::Relaxed);
            panic!("a waker panics");
        }
    }

    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            if !std::thread::panicking() {
                panic!("the drop of a waker panics");
            }
        }
    }

    fn counted(count: &Arc<AtomicU32>) -> ForeignWaker {
        ForeignWaker(Waker::from(Arc::new(Counts(Arc::clone(count)))))
    }

    #[test]
    fn wakers_wait_for_the_end_of_the_last_hold() {
        let count = Arc::new(AtomicU32::new(0));
        let now = || count.load(Ordering::Relaxed);
        counted(&count).wake();
        drop(counted(&count));
        assert_eq!(now(), 12);
        let outer = HoldWakers::begin();
        counted(&count).wake();
        let inner = HoldWakers::begin();
        (0..40).for_each(|_| counted(&count).wake());
        drop(counted(&count));
        drop(inner);
        assert_eq!(now(), 12);
        drop(outer);
        assert_eq!(now(), 12 + 41 * 11 + 1);
        drop(HoldWakers::begin());
        counted(&count).wake();
        assert_eq!(now(), 12 + 42 * 11 + 1);
    }

    struct Idle;

    impl Wake for Idle {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_waker_of_the_same_task_replaces_another() {
        let [task, other] = [Idle, Idle].map(Arc::new);
        let waker = |task| ForeignWaker(Waker::from(Arc::clone(task)));
        let (kept, _hold) = (waker(&task), HoldWakers::begin());
        assert!(kept.replaces(waker(&task)).is_ok());
        assert_eq!(Arc::strong_count(&task), 2, "it was dropped at once");
        assert!(kept.replaces(waker(&other)).is_err());
        assert_eq!(Arc::strong_count(&other), 2, "its drop waits");
    }
}
