//! Panics of values that the runtime drops: kept where they happen, and counted.
//!
//! A handler, a task, a service or a result may hold a value whose `Drop` panics. The runtime drops
//! such values where no call can answer for it: at a deadline, at a caller's death, behind a reply
//! that was sent. The panic hook has printed the message; what is left is to count the panic and to
//! go on. Invariant: nothing that is dropped here unwinds into its caller, also while the thread
//! panics already, which would abort the process.

use std::any::Any;
use std::cell::Cell;
use std::mem::{forget, needs_drop};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Panics that were contained on this thread and not counted by a node yet.
    static CONTAINED: Cell<u64> = const { Cell::new(0) };
}

/// Runs an act that drops values of the application. Returns whether it panicked.
pub(crate) fn panics(act: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(()) => false,
        Err(panic) => {
            drop_payload(panic);
            true
        }
    }
}

/// Runs an act that drops values of the application. Its panic is counted by the node that this
/// thread drives.
pub(crate) fn contain(act: impl FnOnce()) {
    if panics(act) {
        CONTAINED.set(CONTAINED.get() + 1);
    }
}

/// Drops the items that are left one by one: where all of them panic, no panic meets another.
pub(crate) fn drop_each<T>(mut items: impl Iterator<Item = T>) {
    let mut left = needs_drop::<T>();
    while left {
        contain(|| {
            items.by_ref().for_each(drop);
            left = false;
        });
    }
}

/// Drops what a panic carries, which may panic itself.
pub(crate) fn drop_payload(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // A third one would not be better.
        forget(again);
    }
}

/// Takes the number of panics that were contained on this thread since this was last asked.
pub(crate) fn take_contained() -> u64 {
    CONTAINED.take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    struct Panics(u32);

    impl Drop for Panics {
        fn drop(&mut self) {
            if let Some(left) = self.0.checked_sub(1) {
                panic_any(Panics(left));
            }
        }
    }

    #[test]
    fn a_panic_that_carries_a_panic_goes_nowhere() {
        for depth in 0..4 {
            assert_eq!(panics(|| drop(Panics(depth))), depth != 0);
        }
        contain(|| drop(Panics(1)));
        contain(|| drop(Panics(0)));
        assert_eq!((take_contained(), take_contained()), (1, 0));
        drop_each([1, 0, 1, 1].map(Panics).into_iter());
        assert_eq!(take_contained(), 3);
    }

    #[test]
    fn a_panic_while_the_thread_panics_does_not_abort() {
        struct Outer;
        impl Drop for Outer {
            fn drop(&mut self) {
                contain(|| drop(Panics(1)));
            }
        }
        let outer = catch_unwind(|| {
            let _outer = Outer;
            panic!("the first");
        });
        assert_eq!(outer.unwrap_err().downcast_ref(), Some(&"the first"));
        assert_eq!(take_contained(), 1);
    }
}
