//! Tests of mutexes, read-write locks and semaphores: permits in the order of arrival.

use super::{PolledFuture, Step, choose, steps};
use crate::{Mutex, RwLock, Semaphore};
use proptest::prelude::*;
use std::collections::VecDeque;

/// A guard of any type.
trait Held {}

impl<T> Held for T {}

type Guard<'a> = Box<dyn Held + 'a>;

/// A type under test, with its possible requests.
trait Lockable {
    /// Returns the number of all permits.
    fn permits(&self) -> u32;

    /// Returns the number of permits that a request of this size takes.
    fn permits_of(&self, size: u32) -> u32;

    fn take(&self, size: u32) -> PolledFuture<'_, Guard<'_>>;

    fn try_take(&self, size: u32) -> Option<Guard<'_>>;
}

impl Lockable for Mutex<()> {
    fn permits(&self) -> u32 {
        1
    }

    fn permits_of(&self, _: u32) -> u32 {
        1
    }

    fn take(&self, _: u32) -> PolledFuture<'_, Guard<'_>> {
        PolledFuture::new(async { Box::new(self.lock().await) as Guard<'_> })
    }

    fn try_take(&self, _: u32) -> Option<Guard<'_>> {
        self.try_lock().map(|guard| Box::new(guard) as Guard<'_>)
    }
}

/// The sizes are 1 to 3, and size 3 is a writer.
impl Lockable for RwLock<()> {
    fn permits(&self) -> u32 {
        1_000_000
    }

    fn permits_of(&self, size: u32) -> u32 {
        if size == 3 { 1_000_000 } else { 1 }
    }

    fn take(&self, size: u32) -> PolledFuture<'_, Guard<'_>> {
        match size {
            3 => PolledFuture::new(async { Box::new(self.write().await) as Guard<'_> }),
            _ => PolledFuture::new(async { Box::new(self.read().await) as Guard<'_> }),
        }
    }

    fn try_take(&self, size: u32) -> Option<Guard<'_>> {
        match size {
            3 => self.try_write().map(|guard| Box::new(guard) as Guard<'_>),
            _ => self.try_read().map(|guard| Box::new(guard) as Guard<'_>),
        }
    }
}

/// A semaphore with four permits.
impl Lockable for Semaphore {
    fn permits(&self) -> u32 {
        4
    }

    fn permits_of(&self, size: u32) -> u32 {
        size
    }

    fn take(&self, size: u32) -> PolledFuture<'_, Guard<'_>> {
        PolledFuture::new(async move { Box::new(self.acquire(size).await) as Guard<'_> })
    }

    fn try_take(&self, size: u32) -> Option<Guard<'_>> {
        self.try_acquire(size).map(|guard| Box::new(guard) as Guard<'_>)
    }
}

/// The model: permits, a queue of requests, and the notified waiters.
struct Model {
    free: u32,
    line: VecDeque<(usize, u32)>,
    notified: Vec<(usize, u32)>,
}

impl Model {
    fn try_take(&mut self, wanted: u32) -> bool {
        let sits = self.line.is_empty() && self.free >= wanted;
        self.free -= if sits { wanted } else { 0 };
        sits
    }

    fn give(&mut self, permits: u32) {
        self.free += permits;
        while let Some(&(who, wanted)) = self.line.front()
            && wanted <= self.free
        {
            self.free -= wanted;
            self.notified.extend(self.line.pop_front().map(|_| (who, wanted)));
        }
    }

    /// Returns whether the waiter has its permits now.
    fn poll(&mut self, who: usize, wanted: u32) -> bool {
        if let Some(at) = self.notified.iter().position(|one| one.0 == who) {
            self.notified.remove(at);
            return true;
        }
        if self.line.iter().any(|one| one.0 == who) {
            return false;
        }
        let sits = self.try_take(wanted);
        if !sits {
            self.line.push_back((who, wanted));
        }
        sits
    }

    fn drop(&mut self, who: usize) {
        let notified = self.notified.iter().position(|one| one.0 == who);
        let permits = notified.map_or(0, |at| self.notified.remove(at).1);
        self.line.retain(|one| one.0 != who);
        self.give(permits);
    }
}

fn check(lockable: &dyn Lockable, steps: &[Step]) {
    let mut model = Model { free: lockable.permits(), line: VecDeque::new(), notified: Vec::new() };
    let mut waiting: Vec<(usize, u32, PolledFuture<'_, Guard<'_>>)> = Vec::new();
    let mut held: Vec<(u32, Guard<'_>)> = Vec::new();
    for (who, Step { act, at, size }) in steps.iter().copied().enumerate() {
        match act {
            0 => waiting.push((who, size, lockable.take(size))),
            1 | 2 => {
                let Some(at) = choose(at, waiting.len()) else { continue };
                let (who, size, future) = &mut waiting[at];
                let taken = future.poll();
                assert_eq!(taken.is_some(), model.poll(*who, lockable.permits_of(*size)));
                if let Some(guard) = taken {
                    held.push((*size, guard));
                    waiting.remove(at);
                }
            }
            3 => {
                let Some(at) = choose(at, waiting.len()) else { continue };
                model.drop(waiting.remove(at).0);
            }
            4 => {
                let Some(at) = choose(at, held.len()) else { continue };
                let (size, guard) = held.swap_remove(at);
                drop(guard);
                model.give(lockable.permits_of(size));
            }
            _ => {
                let taken = lockable.try_take(size);
                assert_eq!(taken.is_some(), model.try_take(lockable.permits_of(size)));
                held.extend(taken.map(|guard| (size, guard)));
            }
        }
        for (who, _, future) in &waiting {
            let notified = model.notified.iter().any(|one| one.0 == *who);
            assert_eq!(
                future.woken(),
                u32::from(notified),
                "a waiter whose turn has come is woken once"
            );
        }
    }
    drop((waiting, held));
    assert!(lockable.try_take(3).is_some(), "all permits are free and no waiter is queued");
}

proptest! {
    #[test]
    fn a_mutex_grants_locks_as_its_model_does(steps in steps(6)) {
        check(&Mutex::new(()), &steps);
    }

    #[test]
    fn a_read_write_lock_grants_locks_as_its_model_does(steps in steps(6)) {
        check(&RwLock::new(()), &steps);
    }

    #[test]
    fn a_semaphore_grants_permits_as_its_model_does(steps in steps(6)) {
        check(&Semaphore::new(4), &steps);
    }
}

#[test]
fn waiters_are_served_in_order_and_none_overtakes() {
    let mutex = Mutex::new(0);
    let (mut one, mut two) = (PolledFuture::new(mutex.lock()), PolledFuture::new(mutex.lock()));
    let held = mutex.try_lock().unwrap();
    assert!(one.poll().is_none() && two.poll().is_none());
    drop(held);
    assert!(mutex.try_lock().is_none(), "the mutex was given to the first waiter");
    assert!(PolledFuture::new(mutex.lock()).poll().is_none() && two.poll().is_none());
    *one.poll().unwrap() += 1;
    *two.poll().unwrap() += 1;
    assert_eq!(mutex.try_lock().map(|value| *value), Some(2));
}

#[test]
fn a_waiting_writer_holds_back_later_readers_until_it_is_dropped() {
    let lock = RwLock::new(());
    let first = lock.try_read().unwrap();
    let (mut writes, mut reads) = (PolledFuture::new(lock.write()), PolledFuture::new(lock.read()));
    assert!(writes.poll().is_none() && reads.poll().is_none());
    assert!(lock.try_read().is_none(), "a writer waits");
    drop(writes);
    assert_eq!(reads.woken(), 1, "the writer is gone");
    assert!(reads.poll().is_some() && lock.try_read().is_some());
    drop(first);
}

#[test]
fn added_permits_go_to_waiters() {
    let permits = Semaphore::new(0);
    let (mut three, mut one) =
        (PolledFuture::new(permits.acquire(3)), PolledFuture::new(permits.acquire(1)));
    assert!(three.poll().is_none() && one.poll().is_none());
    permits.add(2);
    assert!(one.poll().is_none(), "the later request waits");
    permits.add(2);
    let (three, one) = (three.poll().unwrap(), one.poll().unwrap());
    assert_eq!((three.count(), one.count(), permits.free()), (3, 1, 0));
    three.forget();
    drop(one);
    assert_eq!(permits.free(), 1);
}

/// A crowd leaves from the middle of the queue. The test would take minutes if removing a waiter
/// walked the queue.
#[test]
fn removing_a_waiter_takes_constant_time() {
    let mutex = Mutex::new(());
    let held = mutex.try_lock().unwrap();
    let crowd = |count: usize| {
        let begun = std::time::Instant::now();
        let mut futures: Vec<_> = (0..count).map(|_| PolledFuture::new(mutex.lock())).collect();
        futures.iter_mut().for_each(|future| assert!(future.poll().is_none()));
        // Every other future is dropped first, from the last to the first, and then the rest.
        let mut index = 0;
        let (odd, even): (Vec<_>, Vec<_>) = futures.into_iter().rev().partition(|_| {
            index += 1;
            index % 2 == 1
        });
        drop((odd, even));
        begun.elapsed()
    };
    crowd(1_000);
    let (few, many) = (crowd(1_000), crowd(100_000));
    assert!(many < few * 2_000, "{few:?} for a thousand, {many:?} for a hundred thousand");
    drop(held);
    assert!(mutex.try_lock().is_some());
}
