//! Locks, monitors, conditions, semaphores and signals that the tasks of one thread share
//! across awaits.
//!
//! The tasks of a thread exclude each other between awaits. These types protect data that must stay
//! consistent across an await. They belong to one thread and have no atomics. All are fair: waiters
//! are served in the order of arrival, and a waiter of a [`Signal`] or of a condition of a
//! [`Monitor`] may have a priority. A waiter may be dropped at any moment: if it was notified, the
//! notification goes to the next waiter.
//!
//! This crate knows no node and no executor. The thread's runtime can ask to be told what a future
//! waits for, and which waiter waits too long for something that another task holds: see
//! [`runtime`].
//!
//! Invariant: a permit is held by one guard, or was given to one waiter that has not run yet, or is
//! free. A waiter waits for free permits only behind another waiter that wants more of them.
#![forbid(unsafe_code)]

pub mod runtime;

mod waiters;

mod wait;

mod batch_semaphore;

mod mutex;

mod need;

mod rwlock;

mod condvar;

mod semaphore;

mod oneshot;

mod signal;

mod monitor;

pub use condvar::{Condvar, Notified};
pub use monitor::{Enter, Monitor, MonitorGuard, Signalled};
pub use mutex::{Lock, Mutex, MutexGuard};
pub use need::{Need, UnmetNeed};
pub use oneshot::{NeverSent, Receiver, Sender, oneshot, oneshot_named};
pub use runtime::Awaited;
pub use rwlock::{Read, ReadGuard, RwLock, Write, WriteGuard};
pub use semaphore::{Acquire, Permit, Semaphore};
pub use signal::{Signal, WaitSignal};

#[cfg(test)]
mod tests;
