//! What tasks of one thread share across their awaits, and how they wait for each other.
//!
//! Tasks exclude each other between awaits, so these types are for what must stay whole over one.
//! They are for one thread and have no atomics. All are fair: waiters are served in the order of
//! arrival, which [`Signal`]s and conditions of [`Monitor`]s let a priority precede. A waiter may
//! be dropped at any moment: a turn that had come to it goes to the next.
//!
//! This crate knows no node and no executor. The thread's runtime may have itself told what a future
//! waits for, and who waits too long for what somebody else holds: see [`runtime`].
//!
//! Invariant: what is taken is held by one guard, or is on its way to one waiter, or is free; and
//! nobody waits for what is free, but behind somebody who wants more.
#![forbid(unsafe_code)]

pub mod runtime;

mod line;

mod wait;

mod room;

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
pub use need::{Lack, Need};
pub use oneshot::{NeverSent, Receiver, Sender, oneshot, oneshot_named};
pub use runtime::Awaited;
pub use rwlock::{Read, ReadGuard, RwLock, Write, WriteGuard};
pub use semaphore::{Acquire, Permit, Semaphore};
pub use signal::{Signal, WaitSignal};

#[cfg(test)]
mod tests;
