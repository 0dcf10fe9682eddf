//! Panics of values that the runtime drops and of wakers that it wakes: caught where they happen, and counted.
//!
//! A handler, a task, a service or a result may hold a value whose `Drop` panics. The runtime drops such values where
//! no call can report the panic: at a deadline, at a caller's death, after a reply was sent. The panic hook has
//! printed the message; the runtime counts the panic and goes on. Invariant: a drop in this module never unwinds into
//! its caller, even while the thread panics already, which would abort the process.

use std::any::Any;
use std::cell::Cell;
use std::mem::{forget, needs_drop};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;
use upbeat_environment::WorldIsOver;

thread_local! {
    /// The panics that were caught on this thread and that no node has counted yet.
    static CONTAINED: Cell<u64> = const { Cell::new(0) };
}

/// Returns the message of a panic; nothing if it has none.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Runs code of the application, and catches its panic. A simulated world that is over unwinds all of its threads, to
/// their ends.
pub(crate) fn caught<R>(act: impl FnOnce() -> R) -> std::thread::Result<R> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| match panic.is::<WorldIsOver>() {
        true => resume_unwind(panic),
        false => panic,
    })
}

/// Runs an act that drops values of the application. Returns whether it panicked.
pub(crate) fn panics(act: impl FnOnce()) -> bool {
    match caught(act) {
        Ok(()) => false,
        Err(panic) => {
            drop_payload(panic);
            true
        }
    }
}

/// Runs an act that drops values of the application. The node that this thread drives counts its panic.
pub(crate) fn contain(act: impl FnOnce()) {
    if panics(act) {
        CONTAINED.set(CONTAINED.get() + 1);
    }
}

/// Wakes a waker, which may be another executor's: its panic is no panic of the code that runs here.
pub(crate) fn wake(waker: Waker) {
    contain(|| waker.wake());
}

/// Drops the remaining items one by one, so that the panic of one does not meet the panic of another.
pub(crate) fn drop_each<T>(mut items: impl Iterator<Item = T>) {
    let mut left = needs_drop::<T>();
    while left {
        contain(|| {
            items.by_ref().for_each(drop);
            left = false;
        });
    }
}

/// Drops the payload of a panic, which may panic itself.
pub(crate) fn drop_payload(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // The payload of this second panic is leaked, because its drop could panic too.
        forget(again);
    }
}

/// Takes the number of panics that were caught on this thread since the last call.
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
    fn a_panic_whose_payload_panics_is_caught() {
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
