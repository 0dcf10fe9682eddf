//! A thread that wakes futures again whose node nobody drives, so that they can report it.
//!
//! A future that is polled outside of its node's drives registers its waker here. The thread wakes it
//! after the node's period, unless the node was driven in between: then it forgets the waker. The thread
//! starts on first need, sleeps while it has nothing to do, and ends after a while. Whether a node is
//! misused is decided elsewhere.
//!
//! Invariant: a wake changes nothing for a program that drives its node; no lock is held while a waker
//! of the application's is woken or dropped.

use crate::contain::{contain, panics};
use crate::wake::WakeQueue;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;
use upbeat_environment::thread::{Condvar, spawn};
use upbeat_environment::time::Instant;
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_memory::fork::PerProcess;

/// How long the thread waits for something to do before it ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most wakers that are kept for a node: one suffices to report the misuse, but its future may have
/// been dropped meanwhile.
const WAKERS_MAX: usize = 16;

/// The watchdog of a process.
pub(crate) struct Watchdog {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    nodes: Vec<Watched>,
    runs: bool,
}

/// The futures of a node that were polled while nobody drove it.
struct Watched {
    due: Instant,
    /// Changes whenever the node is driven.
    drives: Arc<AtomicU64>,
    /// The node's wake queue, which counts the panics of the wakers.
    roster: Arc<WakeQueue>,
    seen: u64,
    wakers: Vec<Waker>,
}

impl Watched {
    fn is_driven(&self) -> bool {
        self.drives.load(Ordering::Relaxed) != self.seen
    }
}

impl Watchdog {
    /// Returns the watchdog of the process that runs.
    pub(crate) fn of_process() -> &'static Watchdog {
        static WATCHDOG: PerProcess<Watchdog> = PerProcess::new();
        WATCHDOG.get(Watchdog::new)
    }

    fn new() -> Watchdog {
        Watchdog { state: Mutex::default(), more: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes `waker` after `period`, unless `drives` is another than `seen` by then. Where no thread can
    /// be started, nothing is woken.
    pub(crate) fn watch(
        &'static self,
        drives: &Arc<AtomicU64>,
        roster: &Arc<WakeQueue>,
        seen: u64,
        period: Duration,
        waker: &Waker,
    ) {
        let due = Instant::now() + period;
        // No code of a waker runs under the lock.
        let waker = waker.clone();
        let mut state = self.state();
        if !state.runs {
            let started = spawn("upbeat-watchdog", || self.run());
            if started.is_err() {
                return;
            }
            state.runs = true;
        }
        let known = state.nodes.iter_mut().find(|node| Arc::ptr_eq(&node.drives, drives));
        let Some(node) = known else {
            let (drives, roster) = (Arc::clone(drives), Arc::clone(roster));
            state.nodes.push(Watched { due, drives, roster, seen, wakers: vec![waker] });
            drop(state);
            return self.more.notify_one();
        };
        let mut old = Vec::new();
        if node.seen != seen {
            (node.seen, node.due) = (seen, due);
            old = std::mem::take(&mut node.wakers);
        }
        if node.wakers.iter().any(|known| known.will_wake(&waker)) {
            old.push(waker);
        } else {
            if node.wakers.len() == WAKERS_MAX {
                old.push(node.wakers.remove(0));
            }
            node.wakers.push(waker);
        }
        drop(state);
        old.into_iter().for_each(|waker| contain(|| drop(waker)));
    }

    /// Wakes what is due, until there has been nothing to do for a while.
    fn run(&self) {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            if let Some(at) = state.nodes.iter().position(|node| node.due <= now) {
                let node = state.nodes.swap_remove(at);
                drop(state);
                let is_driven = node.is_driven();
                for waker in node.wakers {
                    let ends = || if is_driven { drop(waker) } else { waker.wake() };
                    if panics(ends) {
                        node.roster.contained();
                    }
                }
                state = self.state();
                continue;
            }
            let next = state.nodes.iter().map(|node| node.due).min();
            let patience = next.map_or(PATIENCE, |due| due - now);
            let is_late;
            (state, is_late) = self.more.wait_timeout(&self.state, state, patience);
            if next.is_none() && is_late && state.nodes.is_empty() {
                state.runs = false;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
    use std::task::Wake;

    /// So long that no busy machine takes it.
    const SOON: Duration = Duration::from_secs(20);

    struct Says(Sender<()>);

    impl Wake for Says {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("this waker panics");
        }
    }

    fn says() -> (Waker, Receiver<()>) {
        let (say, said) = channel();
        (Waker::from(Arc::new(Says(say))), said)
    }

    fn watchdog() -> &'static Watchdog {
        Box::leak(Box::new(Watchdog::new()))
    }

    #[test]
    fn the_waker_of_a_node_that_was_driven_is_dropped_and_others_are_woken() {
        let (watchdog, period) = (watchdog(), Duration::from_millis(1));
        let (undriven, driven) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let ((waker, said), (other, not_said)) = (says(), says());
        let roster = WakeQueue::new().unwrap();
        watchdog.watch(&driven, &roster, 2, period, &other);
        drop(other);
        watchdog.watch(&undriven, &roster, 0, period, &Waker::from(Arc::new(Panics)));
        watchdog.watch(&undriven, &roster, 0, period, &waker);
        assert_eq!(said.recv_timeout(SOON), Ok(()));
        // Dropped without a word, it has hung up.
        assert_eq!(not_said.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
        assert_eq!(watchdog.state().nodes.len(), 0);
        assert_eq!(roster.take_contained(), 1);
    }

    #[test]
    fn a_node_keeps_few_wakers_and_none_from_before_its_last_drive() {
        let (watchdog, drives) = (watchdog(), Arc::<AtomicU64>::default());
        let roster = WakeQueue::new().unwrap();
        let all: Vec<_> = (0..2 * WAKERS_MAX).map(|_| says()).collect();
        for (waker, _) in all.iter().chain(&all) {
            watchdog.watch(&drives, &roster, 0, SOON, waker);
        }
        assert_eq!(watchdog.state().nodes[0].wakers.len(), WAKERS_MAX);
        drives.store(2, Ordering::Relaxed);
        for _ in 0..2 {
            watchdog.watch(&drives, &roster, 2, SOON, &all[0].0);
        }
        let state = watchdog.state();
        assert_eq!((state.nodes.len(), state.nodes[0].wakers.len()), (1, 1));
    }
}
