//! Signals, and one-shots.

use super::{Hand, Step, choose, steps};
use crate::{NeverSent, Signal, oneshot};
use proptest::prelude::*;

/// Who waits (priority, arrival, number), and who has a signal.
#[derive(Default)]
struct Model {
    waiting: Vec<(u32, usize, usize)>,
    called: Vec<usize>,
}

impl Model {
    /// The highest priority, and of those the first to arrive.
    fn signal(&mut self) -> bool {
        let first = self.waiting.iter().enumerate();
        let first = first.max_by_key(|(_, one)| (one.0, std::cmp::Reverse(one.1)));
        let Some((at, _)) = first else { return false };
        self.called.push(self.waiting.remove(at).2);
        true
    }
}

fn check(steps: &[Step]) {
    let (signal, mut model) = (Signal::new(), Model::default());
    let mut waiting: Vec<(usize, u32, Hand<'_, ()>)> = Vec::new();
    for (turn, Step { act, at, size }) in steps.iter().copied().enumerate() {
        let chosen = choose(at, waiting.len());
        match (act, chosen) {
            (0, _) => waiting.push((turn, size, Hand::new(signal.wait(size)))),
            (1 | 2, Some(at)) => {
                let (who, priority, hand) = &mut waiting[at];
                let called = model.called.iter().position(|one| one == who);
                assert_eq!(hand.poll().is_some(), called.is_some());
                if let Some(called) = called {
                    model.called.remove(called);
                    waiting.remove(at);
                } else if !model.waiting.iter().any(|one| one.2 == *who) {
                    model.waiting.push((*priority, turn, *who));
                }
            }
            (3, Some(at)) => {
                let (who, ..) = waiting.remove(at);
                model.waiting.retain(|one| one.2 != who);
                if let Some(called) = model.called.iter().position(|one| *one == who) {
                    model.called.remove(called);
                    model.signal();
                }
            }
            _ => assert_eq!(signal.signal(), model.signal(), "sent to nobody it is gone"),
        }
        assert_eq!(signal.awaited(), !model.waiting.is_empty());
        for (who, _, hand) in &waiting {
            assert_eq!(hand.woken(), u32::from(model.called.contains(who)));
        }
    }
    drop(waiting);
    assert!(!signal.awaited() && !signal.signal());
}

proptest! {
    #[test]
    fn a_signal_goes_to_whom_the_model_says(steps in steps(5)) {
        check(&steps);
    }
}

#[test]
fn a_value_is_received_once_or_it_is_said_that_none_comes() {
    let (sender, receiver) = oneshot();
    let mut receiver = Hand::new(receiver);
    assert!(receiver.poll().is_none() && !sender.is_in_vain());
    assert_eq!(sender.send(7), Ok(()));
    assert_eq!((receiver.woken(), receiver.poll()), (1, Some(Ok(7))));

    let (sender, receiver) = oneshot::<u32>();
    let mut receiver = Hand::new(receiver);
    assert!(receiver.poll().is_none());
    drop(sender);
    assert_eq!((receiver.woken(), receiver.poll()), (1, Some(Err(NeverSent))));

    let (sender, mut receiver) = oneshot();
    assert_eq!(receiver.try_receive(), Ok(None));
    assert_eq!(sender.send(8), Ok(()));
    assert_eq!((receiver.try_receive(), receiver.try_receive()), (Ok(Some(8)), Err(NeverSent)));
}

#[test]
fn a_value_that_nobody_receives_is_given_back_or_dropped() {
    let value = std::rc::Rc::new(());
    let (sender, receiver) = oneshot();
    drop(receiver);
    assert!(sender.is_in_vain() && sender.send(std::rc::Rc::clone(&value)).is_err());
    let (sender, receiver) = oneshot();
    assert!(sender.send(std::rc::Rc::clone(&value)).is_ok());
    drop(receiver);
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
}
