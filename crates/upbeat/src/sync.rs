//! Types that tasks and handlers of one node share across their awaits, and with which they wait for each other.
//!
//! Tasks exclude each other between awaits; these types protect data over an await. They are for one thread and have
//! no atomics. All of them are fair: waiters are served in the order of arrival, which [`Signal`]s and conditions of
//! [`Monitor`]s let a priority precede. A waiter may be dropped at any moment: its turn goes to the next waiter.
//!
//! A handler that finds something locked loses its bet and goes on as a task when its turn comes; the bill names the
//! lock or condition, if it has a name. The application's tasks and the handlers thus share data under the same
//! types: a handler that needs data that a task has locked waits, the processor goes back to the task, and the
//! handler goes on when the task has unlocked the data.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::rc::Rc;
//! use std::time::Duration;
//! use upbeat::{Mutex, Node};
//!
//! let node = Node::builder("doc/sync").local_only().build()?;
//! let accounts = Rc::new(Mutex::named("accounts", vec![100, 0]));
//! let transfer = |sum: i32| {
//!     let accounts = Rc::clone(&accounts);
//!     async move {
//!         let mut accounts = accounts.lock().await;
//!         accounts[0] -= sum;
//!         // No other task sees the accounts meanwhile.
//!         upbeat::sleep(Duration::from_millis(1)).await;
//!         accounts[1] += sum;
//!     }
//! };
//! let (one, two) = (node.spawn(transfer(10)), node.spawn(transfer(20)));
//! node.block_on(async { one.await.and(two.await) })?;
//! assert_eq!(*accounts.try_lock().ok_or("the lock is held")?, [70, 30]);
//! # Ok(()) }
//! ```
//!
//! In debug builds, and if [`Builder::stuck_after`](crate::Builder::stuck_after) asks for it, a wait that lasts too
//! long is reported with the holders of what it waits for: see [`Stuck`].
//!
//! The types are those of the crate `upbeat-sync`, which knows no node. This module makes the node that a thread
//! drives their [`Runtime`]: it learns what a future waits for, and reports long waits.

use crate::dispatch::Dispatcher;
use crate::time::Sleep;
use std::any::Any;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;
use upbeat_sync::runtime::{self, Holding, LongWait, Runtime, Watch};

pub use crate::stuck::{Holder, Stuck, Who};
pub use upbeat_sync::{
    Acquire, Awaited, Condvar, Enter, Lock, Monitor, MonitorGuard, Mutex, MutexGuard, Need,
    NeverSent, Notified, Permit, Read, ReadGuard, Receiver, RwLock, Semaphore, Sender, Signal,
    Signalled, UnmetNeed, WaitSignal, Write, WriteGuard, oneshot, oneshot_named,
};

/// The node that the thread drives, if it drives one.
struct Driven;

/// Registers a node of this thread to be told of the waits of its tasks and handlers while it is driven.
pub(crate) fn attach(node: &Dispatcher) {
    runtime::attach(&Driven);
    if node.settings.stuck.after.is_some() {
        runtime::watch_long_waits();
    }
}

impl Runtime for Driven {
    fn waits(&self, what: Awaited, name: Option<&Arc<str>>) {
        Dispatcher::if_driving(|node| node.waits_for_named(what.into(), name));
    }

    fn who(&self) -> Option<Rc<dyn Any>> {
        let watching = |node: &Rc<Dispatcher>| node.settings.stuck.after.map(|_| node.who());
        let who = Dispatcher::if_driving(watching)??;
        Some(Rc::new(who))
    }

    fn watch(&self) -> Option<Box<dyn Watch>> {
        let node = Dispatcher::if_driving(Rc::clone)?;
        let after = node.settings.stuck.after?;
        let alarm = Sleep::new(&node, after);
        let began_ns = node.now_ns();
        Some(Box::new(Overdue { node, alarm, began_ns }))
    }
}

/// Reports a wait that has lasted too long, and again each time that it has lasted twice as long.
struct Overdue {
    node: Rc<Dispatcher>,
    alarm: Sleep,
    began_ns: u64,
}

impl Watch for Overdue {
    fn poll(&mut self, context: &mut Context<'_>, wait: &LongWait<'_>) {
        let Overdue { node, alarm, began_ns } = self;
        while Pin::new(&mut *alarm).poll_quietly(context).is_ready() {
            let waited = Duration::from_nanos(node.now_ns() - *began_ns);
            *alarm = Sleep::new(node, waited);
            node.settings.stuck.report(&Stuck {
                node: node.home.name().map(ToString::to_string).unwrap_or_default(),
                who: node.who(),
                what: wait.what,
                name: wait.name.cloned(),
                at: wait.at,
                waited,
                holders: wait.holders().into_iter().map(holder).collect(),
            });
        }
    }
}

fn holder(Holding { who, at }: Holding) -> Holder {
    let who = who.downcast_ref::<Who>().cloned().unwrap_or(Who::Other);
    Holder { who, at }
}
