//! What tasks and handlers of one node share across their awaits, and how they wait for each other.
//!
//! Tasks exclude each other between awaits, so these are for what must stay whole over one. They
//! are for one thread and have no atomics. All are fair: who waits is served in the order of
//! arrival, which [`Signal`]s and conditions of [`Monitor`]s let a priority precede. Who waits may
//! be dropped at any moment: a turn that had come to it goes to the next.
//!
//! A handler that finds something held loses its bet, goes on as a task when it is its turn, and
//! the bill says which lock or condition it was, if that was given a name. So the application's tasks
//! and the handlers share data under the same types: a handler that needs what a task is in waits,
//! the processor goes back to the task, and the handler goes on when that has left.
//!
//! A wait that lasts too long is reported, with who holds what it is for, in debug builds and where
//! [`Builder::stuck_after`](crate::Builder::stuck_after) asks for it: see [`Stuck`].
//!
//! Invariant: what is taken is held by one guard, or is on its way to one waiter, or is free; and
//! nobody waits for what is free, but behind somebody who wants more.

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

pub use crate::stuck::{Awaited, Holder, Stuck, Who};
pub use condvar::{Condvar, Notified};
pub use monitor::{Enter, Monitor, MonitorGuard, Signalled};
pub use mutex::{Lock, Mutex, MutexGuard};
pub use need::{Lack, Need};
pub use oneshot::{NeverSent, Receiver, Sender, oneshot, oneshot_named};
pub use rwlock::{Read, ReadGuard, RwLock, Write, WriteGuard};
pub use semaphore::{Acquire, Permit, Semaphore};
pub use signal::{Signal, WaitSignal};

#[cfg(test)]
mod tests;
