//! Monitors, and conditions of a mutex.

use super::{Hand, Step, choose, steps};
use crate::{Condvar, Monitor, MonitorGuard, Mutex, MutexGuard};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Who is inside, and who waits for what.
#[derive(Default)]
struct Model {
    taken: bool,
    door: VecDeque<usize>,
    /// Who was signalled, and whether alone.
    again: VecDeque<(usize, bool)>,
    /// Who waits for which condition: priority, arrival, number.
    waiting: [Vec<(u32, usize, usize)>; 2],
    /// Who is on its way in; for whom a signal of its own, and of which condition.
    called: Option<(usize, Option<usize>)>,
    /// For which condition each waits or waited.
    conditions: Vec<(usize, usize)>,
}

impl Model {
    fn leave(&mut self) {
        let again = self.again.pop_front().map(|(who, alone)| {
            let of = self.conditions.iter().find(|one| one.0 == who);
            (who, of.map(|one| one.1).filter(|_| alone))
        });
        self.called = again.or_else(|| self.door.pop_front().map(|who| (who, None)));
        self.taken = self.called.is_some();
    }

    fn signal(&mut self, condition: usize, alone: bool) -> bool {
        let waiting = &mut self.waiting[condition];
        let first = waiting.iter().enumerate().max_by_key(|(_, one)| (one.0, Reverse(one.1)));
        let Some((at, _)) = first else { return false };
        self.again.push_back((waiting.remove(at).2, alone));
        true
    }

    /// Whether it is inside now.
    fn is_in(&mut self, who: usize) -> bool {
        let is_in = self.called.is_some_and(|one| one.0 == who);
        if is_in {
            self.called = None;
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
        let was_called = self.called.filter(|one| one.0 == who);
        if let Some(condition) = was_called.and_then(|one| one.1).or(signalled) {
            self.signal(condition, true);
        }
        if was_called.is_some() {
            self.leave();
        }
    }
}

type Inside<'a> = MonitorGuard<'a, (), 2>;

fn check(steps: &[Step]) {
    let (monitor, mut model) = (Monitor::new((), ["even", "odd"]), Model::default());
    let mut waiting: Vec<(usize, Hand<'_, Inside<'_>>)> = Vec::new();
    let mut begun = Vec::new();
    let mut inside: Option<Inside<'_>> = None;
    for (turn, Step { act, at, size }) in steps.iter().copied().enumerate() {
        let condition = at % 2;
        match act {
            0 => waiting.push((turn, Hand::new(monitor.enter()))),
            1..=3 => {
                let Some(at) = choose(at, waiting.len()) else { continue };
                let (who, hand) = &mut waiting[at];
                let expected = if begun.contains(who) {
                    model.is_in(*who)
                } else {
                    begun.push(*who);
                    if model.taken {
                        model.door.push_back(*who);
                    }
                    !std::mem::replace(&mut model.taken, true)
                };
                let entered = hand.poll();
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
                // Waits, and is polled once, so that it is outside.
                let Some(guard) = inside.take() else { continue };
                let mut hand = Hand::new(guard.wait_with(condition, size));
                assert!(hand.poll().is_none());
                waiting.push((turn, hand));
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
            let awaited = [0, 1].map(|condition| guard.awaited(condition));
            assert_eq!(awaited, [0, 1].map(|condition| !model.waiting[condition].is_empty()));
        }
        for (who, hand) in &waiting {
            let called = model.called.is_some_and(|one| one.0 == *who);
            assert_eq!(hand.woken(), u32::from(called), "who has its turn is woken once");
        }
    }
    drop((inside, waiting));
    assert!(monitor.try_enter().is_some(), "nobody is inside");
}

proptest! {
    #[test]
    fn a_monitor_is_entered_by_whom_the_model_says(steps in steps(11)) {
        check(&steps);
    }
}

/// A mutex whose waiters are those that were notified.
#[derive(Default)]
struct Notifying {
    held: bool,
    /// Who waits to be notified.
    waiting: VecDeque<usize>,
    /// Who was notified and not polled since, and whether alone.
    called: Vec<(usize, bool)>,
    /// Who stands at the mutex, and whether it was notified alone.
    line: VecDeque<(usize, bool)>,
    /// To whom the mutex is on its way.
    turn: Option<(usize, bool)>,
}

impl Notifying {
    fn release(&mut self) {
        self.turn = self.line.pop_front();
        self.held = self.turn.is_some();
    }

    fn notify(&mut self, alone: bool) -> bool {
        let first = self.waiting.pop_front();
        self.called.extend(first.map(|who| (who, alone)));
        first.is_some()
    }

    fn poll(&mut self, who: usize) -> bool {
        if let Some(at) = self.called.iter().position(|one| one.0 == who) {
            let (_, alone) = self.called.remove(at);
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
        let called = self.called.iter().position(|one| one.0 == who);
        let called = called.map(|at| self.called.remove(at));
        let turn = self.turn.take_if(|one| one.0 == who);
        let one = called.or_else(|| take(&mut self.line)).or(turn);
        if one.is_some_and(|(_, alone)| alone) {
            self.notify(true);
        }
        if turn.is_some() {
            self.release();
        }
    }
}

fn check_condvar(steps: &[Step]) {
    let (mutex, condvar, mut model) = (Mutex::new(()), Condvar::new(), Notifying::default());
    let mut waiting: Vec<(usize, Hand<'_, MutexGuard<'_, ()>>)> = Vec::new();
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
                let mut hand = Hand::new(condvar.wait(guard));
                assert!(hand.poll().is_none());
                waiting.push((turn, hand));
                model.waiting.push_back(turn);
                model.release();
            }
            4 | 5 => {
                let Some(at) = choose(at, waiting.len()) else { continue };
                let (who, hand) = &mut waiting[at];
                let locked = hand.poll();
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
        assert_eq!(condvar.awaited(), !model.waiting.is_empty());
        for (who, hand) in &waiting {
            let called = model.called.iter().chain(&model.turn).any(|one| one.0 == *who);
            assert_eq!(hand.woken(), u32::from(called));
        }
    }
    drop((held, waiting));
    assert!(mutex.try_lock().is_some() && !condvar.awaited());
}

proptest! {
    #[test]
    fn a_condition_notifies_whom_the_model_says(steps in steps(10)) {
        check_condvar(&steps);
    }
}

#[test]
fn who_was_signalled_finds_what_was_left_and_goes_before_those_at_the_door() {
    let monitor = Monitor::new(0, ["is one"]);
    let mut waits = Hand::new(monitor.try_enter().unwrap().wait(0));
    assert!(waits.poll().is_none());
    let mut guard = monitor.try_enter().unwrap();
    let mut outside = Hand::new(monitor.enter());
    assert!(outside.poll().is_none());
    *guard = 1;
    assert!(guard.awaited(0) && guard.signal(0) && !guard.awaited(0) && !guard.signal(0));
    assert!(waits.poll().is_none(), "the other is still inside");
    drop(guard);
    assert!(outside.poll().is_none());
    let guard = waits.poll().unwrap();
    assert_eq!(*guard, 1);
    drop(guard);
    assert!(outside.poll().is_some());
}

#[test]
#[should_panic(expected = "the monitor has 1 conditions, and none of number 1")]
fn a_condition_that_there_is_not_is_refused() {
    let monitor = Monitor::new((), ["only"]);
    drop(monitor.try_enter().unwrap().wait(1));
}
