//! The last steps of a thread that leaves work for another one, and of the other one before it sleeps.
//!
//! A thread adds its work to a list, and then raises the signal to the work's level; the owner of the list lowers the
//! signal before it empties the list. The thread wakes the owner if it finds it asleep. Either the thread finds that the
//! owner is about to sleep, or the owner finds the signal raised: each writes, executes a fence, and reads what the other
//! one writes. Other modules keep the list and wake the owner.

use crate::sync::{AtomicBool, AtomicU8, Ordering, fence_full};

/// How far other threads have raised the need for an owner, and whether the owner sleeps.
#[derive(Default)]
pub struct WakeSignal {
    /// 0, or the highest level since the owner lowered the signal.
    level: AtomicU8,
    asleep: AtomicBool,
}

impl WakeSignal {
    /// Raises the signal to a level above 0, after work was added. Returns whether the owner sleeps or is about to; the
    /// caller must then wake it.
    #[must_use]
    pub fn raise(&self, level: u8) -> bool {
        self.level.fetch_max(level, Ordering::Relaxed);
        let _ = fence_full();
        self.is_asleep()
    }

    /// Returns the level. The owner calls this while it is awake.
    #[inline]
    pub fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    /// Returns whether the owner will lower the signal before it looks at anything else that it reads in the order of all
    /// threads, as this does.
    pub fn is_raised(&self) -> bool {
        self.level.load(Ordering::SeqCst) != 0
    }

    /// Lowers the signal, before the owner takes the work: a thread that adds work afterwards raises it again.
    pub fn lower(&self) {
        self.level.store(0, Ordering::SeqCst);
    }

    /// Announces that the owner is about to sleep, and returns whether it may.
    #[must_use]
    pub fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        let _ = fence_full();
        self.level() == 0
    }

    /// Announces that the owner is awake.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Returns whether the owner sleeps or is about to.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod model;
