//! Mutexes, locks and semaphores: seats in the order of arrival.

use super::{Hand, Step, choose, steps};
use crate::{Mutex, RwLock, Semaphore};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Anything that is held until it is dropped.
trait Held {}

impl<T> Held for T {}

type Guard<'a> = Box<dyn Held + 'a>;

/// What is tested, with what can be wanted of it.
trait Thing {
    /// All that can be taken at once.
    fn seats(&self) -> u32;

    /// The seats that a wish of this size takes.
    fn wish(&self, size: u32) -> u32;

    fn take(&self, size: u32) -> Hand<'_, Guard<'_>>;

    fn try_take(&self, size: u32) -> Option<Guard<'_>>;
}

impl Thing for Mutex<()> {
    fn seats(&self) -> u32 {
        1
    }

    fn wish(&self, _: u32) -> u32 {
        1
    }

    fn take(&self, _: u32) -> Hand<'_, Guard<'_>> {
        Hand::new(async { Box::new(self.lock().await) as Guard<'_> })
    }

    fn try_take(&self, _: u32) -> Option<Guard<'_>> {
        self.try_lock().map(|guard| Box::new(guard) as Guard<'_>)
    }
}

/// Of sizes from 1 to 3 the last one writes.
impl Thing for RwLock<()> {
    fn seats(&self) -> u32 {
        1_000_000
    }

    fn wish(&self, size: u32) -> u32 {
        if size == 3 { 1_000_000 } else { 1 }
    }

    fn take(&self, size: u32) -> Hand<'_, Guard<'_>> {
        match size {
            3 => Hand::new(async { Box::new(self.write().await) as Guard<'_> }),
            _ => Hand::new(async { Box::new(self.read().await) as Guard<'_> }),
        }
    }

    fn try_take(&self, size: u32) -> Option<Guard<'_>> {
        match size {
            3 => self.try_write().map(|guard| Box::new(guard) as Guard<'_>),
            _ => self.try_read().map(|guard| Box::new(guard) as Guard<'_>),
        }
    }
}

/// It has four permits.
impl Thing for Semaphore {
    fn seats(&self) -> u32 {
        4
    }

    fn wish(&self, size: u32) -> u32 {
        size
    }

    fn take(&self, size: u32) -> Hand<'_, Guard<'_>> {
        Hand::new(async move { Box::new(self.acquire(size).await) as Guard<'_> })
    }

    fn try_take(&self, size: u32) -> Option<Guard<'_>> {
        self.try_acquire(size).map(|guard| Box::new(guard) as Guard<'_>)
    }
}

/// The same with nothing but what is obvious.
struct Model {
    free: u32,
    line: VecDeque<(usize, u32)>,
    called: Vec<(usize, u32)>,
}

impl Model {
    fn sit(&mut self, wish: u32) -> bool {
        let sits = self.line.is_empty() && self.free >= wish;
        self.free -= if sits { wish } else { 0 };
        sits
    }

    fn give(&mut self, seats: u32) {
        self.free += seats;
        while let Some(&(who, wish)) = self.line.front()
            && wish <= self.free
        {
            self.free -= wish;
            self.called.extend(self.line.pop_front().map(|_| (who, wish)));
        }
    }

    /// Whether it has seats now.
    fn poll(&mut self, who: usize, wish: u32) -> bool {
        if let Some(at) = self.called.iter().position(|one| one.0 == who) {
            self.called.remove(at);
            return true;
        }
        if self.line.iter().any(|one| one.0 == who) {
            return false;
        }
        let sits = self.sit(wish);
        if !sits {
            self.line.push_back((who, wish));
        }
        sits
    }

    fn drop(&mut self, who: usize) {
        let called = self.called.iter().position(|one| one.0 == who);
        let seats = called.map_or(0, |at| self.called.remove(at).1);
        self.line.retain(|one| one.0 != who);
        self.give(seats);
    }
}

fn check(thing: &dyn Thing, steps: &[Step]) {
    let mut model = Model { free: thing.seats(), line: VecDeque::new(), called: Vec::new() };
    let mut waiting: Vec<(usize, u32, Hand<'_, Guard<'_>>)> = Vec::new();
    let mut held: Vec<(u32, Guard<'_>)> = Vec::new();
    for (who, Step { act, at, size }) in steps.iter().copied().enumerate() {
        match act {
            0 => waiting.push((who, size, thing.take(size))),
            1 | 2 => {
                let Some(at) = choose(at, waiting.len()) else { continue };
                let (who, size, hand) = &mut waiting[at];
                let taken = hand.poll();
                assert_eq!(taken.is_some(), model.poll(*who, thing.wish(*size)));
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
                model.give(thing.wish(size));
            }
            _ => {
                let taken = thing.try_take(size);
                assert_eq!(taken.is_some(), model.sit(thing.wish(size)));
                held.extend(taken.map(|guard| (size, guard)));
            }
        }
        for (who, _, hand) in &waiting {
            let called = model.called.iter().any(|one| one.0 == *who);
            assert_eq!(hand.woken(), u32::from(called), "who has its turn is woken once");
        }
    }
    drop((waiting, held));
    assert!(thing.try_take(3).is_some(), "nobody holds anything, and nobody waits");
}

proptest! {
    #[test]
    fn a_mutex_is_held_by_whom_the_model_says(steps in steps(6)) {
        check(&Mutex::new(()), &steps);
    }

    #[test]
    fn a_lock_is_held_by_whom_the_model_says(steps in steps(6)) {
        check(&RwLock::new(()), &steps);
    }

    #[test]
    fn permits_are_held_by_whom_the_model_says(steps in steps(6)) {
        check(&Semaphore::new(4), &steps);
    }
}

#[test]
fn those_who_wait_are_served_in_order_and_nobody_overtakes() {
    let mutex = Mutex::new(0);
    let (mut one, mut two) = (Hand::new(mutex.lock()), Hand::new(mutex.lock()));
    let held = mutex.try_lock().unwrap();
    assert!(one.poll().is_none() && two.poll().is_none());
    drop(held);
    assert!(mutex.try_lock().is_none(), "it is on its way");
    assert!(Hand::new(mutex.lock()).poll().is_none() && two.poll().is_none());
    *one.poll().unwrap() += 1;
    *two.poll().unwrap() += 1;
    assert_eq!(mutex.try_lock().map(|value| *value), Some(2));
}

#[test]
fn a_waiting_writer_holds_back_readers_that_come_later_and_no_longer() {
    let lock = RwLock::new(());
    let first = lock.try_read().unwrap();
    let (mut writes, mut reads) = (Hand::new(lock.write()), Hand::new(lock.read()));
    assert!(writes.poll().is_none() && reads.poll().is_none());
    assert!(lock.try_read().is_none(), "a writer waits");
    drop(writes);
    assert_eq!(reads.woken(), 1, "nobody writes any more");
    assert!(reads.poll().is_some() && lock.try_read().is_some());
    drop(first);
}

#[test]
fn permits_that_are_added_are_for_those_who_wait() {
    let permits = Semaphore::new(0);
    let (mut three, mut one) = (Hand::new(permits.acquire(3)), Hand::new(permits.acquire(1)));
    assert!(three.poll().is_none() && one.poll().is_none());
    permits.add(2);
    assert!(one.poll().is_none(), "it came later, and waits");
    permits.add(2);
    let (three, one) = (three.poll().unwrap(), one.poll().unwrap());
    assert_eq!((three.count(), one.count(), permits.free()), (3, 1, 0));
    three.forget();
    drop(one);
    assert_eq!(permits.free(), 1);
}

/// Ten thousand leave from the middle of a line; if each looked at all, that would take minutes.
#[test]
fn a_crowd_leaves_as_quickly_as_it_came() {
    let mutex = Mutex::new(());
    let held = mutex.try_lock().unwrap();
    let crowd = |count: usize| {
        let begun = std::time::Instant::now();
        let mut hands: Vec<_> = (0..count).map(|_| Hand::new(mutex.lock())).collect();
        hands.iter_mut().for_each(|hand| assert!(hand.poll().is_none()));
        // Every other one first, from behind; then the rest.
        let mut index = 0;
        let (odd, even): (Vec<_>, Vec<_>) = hands.into_iter().rev().partition(|_| {
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
