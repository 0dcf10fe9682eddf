//! Tests of monitors and condition variables.

use super::{PolledFuture, Step, choose, steps};
use crate::{Condvar, Monitor, MonitorGuard, Mutex, MutexGuard};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// The model of a monitor: the task inside, and the waiters.
#[derive(Default)]
struct Model {
    taken: bool,
    door: VecDeque<usize>,
    /// The signalled tasks, and whether each was signalled alone.
    again: VecDeque<(usize, bool)>,
    /// The waiters of each condition: priority, arrival, number.
    waiting: [Vec<(u32, usize, usize)>; 2],
    /// The task that was notified, and the condition if it was signalled alone.
    notified: Option<(usize, Option<usize>)>,
    /// The condition for which each task waits or waited.
    conditions: Vec<(usize, usize)>,
}

impl Model {
    fn leave(&mut self) {
        let again = self.again.pop_front().map(|(who, alone)| {
            let of = self.conditions.iter().find(|one| one.0 == who);
            (who, of.map(|one| one.1).filter(|_| alone))
        });
        self.notified = again.or_else(|| self.door.pop_front().map(|who| (who, None)));
        self.taken = self.notified.is_some();
    }

    fn signal(&mut self, condition: usize, alone: bool) -> bool {
        let waiting = &mut self.waiting[condition];
        let first = waiting.iter().enumerate().max_by_key(|(_, one)| (one.0, Reverse(one.1)));
        let Some((at, _)) = first else { return false };
        self.again.push_back((waiting.remove(at).2, alone));
        true
    }

    /// Returns whether the task is inside now.
    fn is_in(&mut self, who: usize) -> bool {
        let is_in = self.notified.is_some_and(|one| one.0 == who);
        if is_in {
            self.notified = None;
        }
        is_in
    }

    fn drop(&mut self, who: usize) {
        self.door.retain(|one| *one != who);
        self.waiting.iter_mut().for_each(|all| all.retain(|one| one.2 != who));
        let mut signalled = None;
        if let Some(at) = self.again.iter().position(|one| one.0 == who) {
            let alone = self.again.remove(at).is_some_and(|one| one.1);
            let of = self.conditions.iter().find(|one| one.0 == who).map(|one| one.1);
            signalled = of.filter(|_| alone);
        }
        let was_notified = self.notified.filter(|one| one.0 == who);
        if let Some(condition) = was_notified.and_then(|one| one.1).or(signalled) {
            self.signal(condition, true);
        }
        if was_notified.is_some() {
            self.leave();
        }
    }
}

type Inside<'a> = MonitorGuard<'a, (), 2>;

fn check(steps: &[Step]) {
    let (monitor, mut model) = (Monitor::new((), ["even", "odd"]), Model::default());
    let mut waiting: Vec<(usize, PolledFuture<'_, Inside<'_>>)> = Vec::new();
    let mut begun = Vec::new();
    let mut inside: Option<Inside<'_>> = None;
    for (turn, Step { act, at, size }) in steps.iter().copied().enumerate() {
        let condition = at % 2;
        match act {
            0 => waiting.push((turn, PolledFuture::new(monitor.enter()))),
            1..=3 => {
                let Some(at) = choose(at, waiting.len()) else { continue };
                let (who, future) = &mut waiting[at];
                let expected = if begun.contains(who) {
                    model.is_in(*who)
                } else {
                    begun.push(*who);
                    if model.taken {
                        model.door.push_back(*who);
                    }
                    !std::mem::replace(&mut model.taken, true)
                };
                let entered = future.poll();
                assert_eq!(entered.is_some(), expected);
                if entered.is_some() {
                    assert!(inside.is_none());
                    (inside, _) = (entered, waiting.remove(at));
                }
            }
            4 => {
                let Some(at) = choose(at, waiting.len()) else { continue };
                model.drop(waiting.remove(at).0);
            }
            5 => {
                if inside.take().is_some() {
                    model.leave();
                }
            }
            6 | 7 => {
                // The future is polled once, so that its task is outside.
                let Some(guard) = inside.take() else { continue };
                let mut future = PolledFuture::new(guard.wait_with(condition, size));
                assert!(future.poll().is_none());
                waiting.push((turn, future));
                begun.push(turn);
                model.waiting[condition].push((size, turn, turn));
                model.conditions.push((turn, condition));
                model.leave();
            }
            8 => {
                let Some(guard) = &inside else { continue };
                assert_eq!(guard.signal(condition), model.signal(condition, true));
            }
            9 => {
                let Some(guard) = &inside else { continue };
                guard.signal_all(condition);
                while model.signal(condition, false) {}
            }
            _ => {
                let entered = monitor.try_enter();
                assert_eq!(entered.is_some(), !std::mem::replace(&mut model.taken, true));
                inside = entered.or(inside);
            }
        }
        if let Some(guard) = &inside {
            let awaited = [0, 1].map(|condition| guard.has_waiters(condition));
            assert_eq!(awaited, [0, 1].map(|condition| !model.waiting[condition].is_empty()));
        }
        for (who, future) in &waiting {
            let notified = model.notified.is_some_and(|one| one.0 == *who);
            assert_eq!(
                future.woken(),
                u32::from(notified),
                "a waiter whose turn has come is woken once"
            );
        }
    }
    drop((inside, waiting));
    assert!(monitor.try_enter().is_some(), "no task is inside");
}

proptest! {
    #[test]
    fn a_monitor_admits_tasks_as_its_model_does(steps in steps(11)) {
        check(&steps);
    }
}

/// The model of a mutex with a condition variable.
#[derive(Default)]
struct Notifying {
    held: bool,
    /// The tasks that wait to be notified.
    waiting: VecDeque<usize>,
    /// The tasks that were notified and not polled since, and whether each was notified alone.
    notified: Vec<(usize, bool)>,
    /// The tasks that wait for the mutex, and whether each was notified alone.
    line: VecDeque<(usize, bool)>,
    /// The task that was given the mutex and has not run yet.
    turn: Option<(usize, bool)>,
}

impl Notifying {
    fn release(&mut self) {
        self.turn = self.line.pop_front();
        self.held = self.turn.is_some();
    }

    fn notify(&mut self, alone: bool) -> bool {
        let first = self.waiting.pop_front();
        self.notified.extend(first.map(|who| (who, alone)));
        first.is_some()
    }

    fn poll(&mut self, who: usize) -> bool {
        if let Some(at) = self.notified.iter().position(|one| one.0 == who) {
            let (_, alone) = self.notified.remove(at);
            if std::mem::replace(&mut self.held, true) {
                self.line.push_back((who, alone));
                return false;
            }
            return true;
        }
        self.turn.take_if(|one| one.0 == who).is_some()
    }

    fn drop(&mut self, who: usize) {
        self.waiting.retain(|one| *one != who);
        let take = |all: &mut VecDeque<(usize, bool)>| {
            all.iter().position(|one| one.0 == who).and_then(|at| all.remove(at))
        };
        let notified = self.notified.iter().position(|one| one.0 == who);
        let notified = notified.map(|at| self.notified.remove(at));
        let turn = self.turn.take_if(|one| one.0 == who);
        let one = notified.or_else(|| take(&mut self.line)).or(turn);
        if one.is_some_and(|(_, alone)| alone) {
            self.notify(true);
        }
        if turn.is_some() {
            self.release();
        }
    }
}

fn check_condvar_against_model(steps: &[Step]) {
    let (mutex, condvar, mut model) = (Mutex::new(()), Condvar::new(), Notifying::default());
    let mut waiting: Vec<(usize, PolledFuture<'_, MutexGuard<'_, ()>>)> = Vec::new();
    let mut held: Option<MutexGuard<'_, ()>> = None;
    for (turn, Step { act, at, .. }) in steps.iter().copied().enumerate() {
        match act {
            0 | 1 => {
                let locked = mutex.try_lock();
                assert_eq!(locked.is_some(), !std::mem::replace(&mut model.held, true));
                held = locked.or(held);
            }
            2 | 3 => {
                let Some(guard) = held.take() else { continue };
                let mut future = PolledFuture::new(condvar.wait(guard));
                assert!(future.poll().is_none());
                waiting.push((turn, future));
                model.waiting.push_back(turn);
                model.release();
            }
            4 | 5 => {
                let Some(at) = choose(at, waiting.len()) else { continue };
                let (who, future) = &mut waiting[at];
                let locked = future.poll();
                assert_eq!(locked.is_some(), model.poll(*who));
                if locked.is_some() {
                    (held, _) = (locked, waiting.remove(at));
                }
            }
            6 => {
                let Some(at) = choose(at, waiting.len()) else { continue };
                model.drop(waiting.remove(at).0);
            }
            7 => {
                if held.take().is_some() {
                    model.release();
                }
            }
            8 => assert_eq!(condvar.notify_one(), model.notify(true)),
            _ => {
                condvar.notify_all();
                while model.notify(false) {}
            }
        }
        assert_eq!(condvar.has_waiters(), !model.waiting.is_empty());
        for (who, future) in &waiting {
            let notified = model.notified.iter().chain(&model.turn).any(|one| one.0 == *who);
            assert_eq!(future.woken(), u32::from(notified));
        }
    }
    drop((held, waiting));
    assert!(mutex.try_lock().is_some() && !condvar.has_waiters());
}

proptest! {
    #[test]
    fn a_condvar_notifies_waiters_as_its_model_does(steps in steps(10)) {
        check_condvar_against_model(&steps);
    }
}

#[test]
fn a_signalled_task_enters_before_new_ones_and_finds_the_data_unchanged() {
    let monitor = Monitor::new(0, ["is one"]);
    let mut waits = PolledFuture::new(monitor.try_enter().unwrap().wait(0));
    assert!(waits.poll().is_none());
    let mut guard = monitor.try_enter().unwrap();
    let mut outside = PolledFuture::new(monitor.enter());
    assert!(outside.poll().is_none());
    *guard = 1;
    assert!(guard.has_waiters(0) && guard.signal(0) && !guard.has_waiters(0) && !guard.signal(0));
    assert!(waits.poll().is_none(), "the signalling task is still inside");
    drop(guard);
    assert!(outside.poll().is_none());
    let guard = waits.poll().unwrap();
    assert_eq!(*guard, 1);
    drop(guard);
    assert!(outside.poll().is_some());
}

#[test]
#[should_panic(expected = "the monitor has 1 conditions, and none of number 1")]
fn waiting_for_a_condition_out_of_range_panics() {
    let monitor = Monitor::new((), ["only"]);
    drop(monitor.try_enter().unwrap().wait(1));
}
