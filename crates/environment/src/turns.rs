//! Turns that change between two accesses to memory, stores that others see late, and mutexes that know of both.
//!
//! A thread of a world runs until it waits. In a build with `--cfg upbeat_mutants` its turn may also end at accesses to the
//! atomics of memory that threads or processes share, so that others see its work half done, and it may die there. Its
//! stores may then be late, as those of a processor are. Invariants: a turn does not end while the thread holds
//! one of these [mutexes](Mutex), so nobody ever blocks on it; whoever takes the mutex next sees all that the thread has
//! stored before; other builds have none of this.

#[cfg(upbeat_mutants)]
mod late;

#[cfg(not(upbeat_mutants))]
mod never {
    pub use std::sync::{Mutex, MutexGuard};

    /// Marks an access to memory that threads or processes share. Does nothing, since turns end at waits alone.
    #[inline(always)]
    pub const fn access() {}

    /// Begins a turn of the thread. Does nothing, since turns end at waits alone.
    #[inline(always)]
    pub const fn begin(_: Option<crate::Turn>) {}

    /// Has others see all that the thread has stored. Does nothing, since they see it at once.
    #[inline(always)]
    pub const fn settle() {}

    /// Has others see all that the threads of a process have stored. Does nothing, since they see it at once.
    #[inline(always)]
    pub const fn settle_process(_: u32) {}

    #[inline(always)]
    pub(crate) const fn of_system<T>(guard: MutexGuard<'_, T>) -> MutexGuard<'_, T> {
        guard
    }

    #[inline(always)]
    pub(crate) const fn of_turns<T>(guard: MutexGuard<'_, T>) -> MutexGuard<'_, T> {
        guard
    }
}

#[cfg(not(upbeat_mutants))]
pub use never::*;

#[cfg(upbeat_mutants)]
mod at_accesses {
    use super::late::{be_late, settle};
    use crate::world::{Turn, current};
    use std::cell::Cell;
    use std::ops::{Deref, DerefMut};
    use std::sync::{LockResult, PoisonError};

    thread_local! {
        /// The accesses that the thread makes before its turn ends.
        static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
        /// The mutexes that the thread holds.
        static HELD: Cell<u32> = const { Cell::new(0) };
    }

    /// Marks an access to memory that threads or processes share, before which the turn of the thread may end.
    #[inline]
    pub fn access() {
        let left = LEFT.get();
        if left > 0 {
            LEFT.set(left - 1);
        } else if HELD.get() == 0 && !std::thread::panicking() {
            // The accesses of the world itself do not count.
            LEFT.set(u64::MAX);
            begin(current().and_then(|world| world.end_turn()));
        }
    }

    /// Begins a turn of the thread. Without one, the turn ends when the thread waits, and others see its stores at once.
    pub fn begin(turn: Option<Turn>) {
        LEFT.set(turn.map_or(u64::MAX, |turn| turn.accesses));
        be_late(turn.map_or(0, |turn| turn.stores));
    }

    /// A mutex whose holder keeps its turn until it waits.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(std::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// Makes a mutex that nobody holds.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex(std::sync::Mutex::new(value))
        }

        /// Locks the mutex.
        ///
        /// # Errors
        /// The guard, if a holder has panicked.
        pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            match self.0.lock() {
                Ok(guard) => Ok(of_turns(guard)),
                Err(poisoned) => Err(PoisonError::new(of_turns(poisoned.into_inner()))),
            }
        }

        /// Returns the value, for its only owner.
        ///
        /// # Errors
        /// The value, if a holder has panicked.
        pub fn get_mut(&mut self) -> LockResult<&mut T> {
            self.0.get_mut()
        }

        /// Returns the value.
        ///
        /// # Errors
        /// The value, if a holder has panicked.
        pub fn into_inner(self) -> LockResult<T> {
            self.0.into_inner()
        }
    }

    /// The right to the value of a mutex.
    #[derive(Debug)]
    pub struct MutexGuard<'m, T> {
        /// Dropped first, so that the mutex is free behind it.
        held: Held,
        guard: std::sync::MutexGuard<'m, T>,
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.guard
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.guard
        }
    }

    /// Counts among the mutexes that the thread holds. The stores of the holder are not late for the next one.
    #[derive(Debug)]
    struct Held;

    impl Drop for Held {
        fn drop(&mut self) {
            settle();
            HELD.set(HELD.get() - 1);
        }
    }

    pub(crate) fn of_system<T>(guard: MutexGuard<'_, T>) -> std::sync::MutexGuard<'_, T> {
        let MutexGuard { held, guard } = guard;
        drop(held);
        guard
    }

    pub(crate) fn of_turns<T>(guard: std::sync::MutexGuard<'_, T>) -> MutexGuard<'_, T> {
        HELD.set(HELD.get() + 1);
        MutexGuard { held: Held, guard }
    }
}

#[cfg(upbeat_mutants)]
pub use at_accesses::*;

#[cfg(upbeat_mutants)]
pub use late::*;
