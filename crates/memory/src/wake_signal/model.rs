//! Models of two threads that leave work for an owner which falls asleep, in every order that the memory model allows.

use super::*;
use loom::sync::{Arc, Mutex};
use loom::thread;

/// The step that a thread or the owner leaves out, or takes at the wrong time.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    ThreadsFence,
    OwnersFence,
    /// The owner lowers the signal after it has emptied the list.
    Order,
}

#[derive(Default)]
struct Shared {
    list: Mutex<Vec<u8>>,
    signal: WakeSignal,
}

/// Adds work. Returns whether the owner must be woken.
fn add(shared: &Shared, level: u8, without: Without) -> bool {
    shared.list.lock().unwrap().push(level);
    if without == Without::ThreadsFence {
        shared.signal.level.fetch_max(level, Ordering::Relaxed);
        return shared.signal.is_asleep();
    }
    shared.signal.raise(level)
}

/// Takes the work, and returns its amount.
fn take(shared: &Shared, without: Without) -> usize {
    if shared.signal.level() == 0 {
        return 0;
    }
    if without != Without::Order {
        let mut list = shared.list.lock().unwrap();
        shared.signal.lower();
        return list.drain(..).count();
    }
    let taken = shared.list.lock().unwrap().drain(..).count();
    shared.signal.lower();
    taken
}

/// Models an owner that takes work and falls asleep beside two threads. Panics if the owner sleeps, work is left, and no
/// thread wakes it.
fn work_against_sleep(without: Without) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Arc::new(Shared::default());
        let threads = [1, 2].map(|level| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || add(&shared, level, without))
        });
        let mut taken = take(&shared, without);
        let sleeps = if without == Without::OwnersFence {
            shared.signal.asleep.store(true, Ordering::Relaxed);
            shared.signal.level() == 0
        } else {
            shared.signal.may_sleep()
        };
        let woken = threads.map(|thread| thread.join().unwrap()).contains(&true);
        assert!(!sleeps || woken || taken == 2, "the owner missed work");
        shared.signal.awake();
        taken += take(&shared, without);
        assert_eq!(taken, 2, "work was lost");
    });
}

#[test]
fn a_sleeping_owner_misses_no_work() {
    work_against_sleep(Without::Nothing);
}

#[test]
#[should_panic(expected = "the owner missed work")]
fn without_the_fence_of_a_thread_the_owner_misses_work() {
    work_against_sleep(Without::ThreadsFence);
}

#[test]
#[should_panic(expected = "the owner missed work")]
fn without_the_owners_fence_it_misses_work() {
    work_against_sleep(Without::OwnersFence);
}

#[test]
#[should_panic(expected = "the owner missed work")]
fn an_owner_that_lowers_the_signal_late_misses_work() {
    work_against_sleep(Without::Order);
}
