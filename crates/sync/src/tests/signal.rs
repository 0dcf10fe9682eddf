//! Tests of signals and one-shot channels.

use super::{PolledFuture, Step, choose, steps};
use crate::{NeverSent, Signal, oneshot};
use proptest::prelude::*;

/// The waiters (priority, arrival, number), and those that were notified.
#[derive(Default)]
struct Model {
    waiting: Vec<(u32, usize, usize)>,
    notified: Vec<usize>,
}

impl Model {
    /// Notifies the waiter of the highest priority, and among these the first to arrive.
    fn signal(&mut self) -> bool {
        let first = self.waiting.iter().enumerate();
        let first = first.max_by_key(|(_, one)| (one.0, std::cmp::Reverse(one.1)));
        let Some((at, _)) = first else { return false };
        self.notified.push(self.waiting.remove(at).2);
        true
    }
}

fn check(steps: &[Step]) {
    let (signal, mut model) = (Signal::new(), Model::default());
    let mut waiting: Vec<(usize, u32, PolledFuture<'_, ()>)> = Vec::new();
    for (turn, Step { act, at, size }) in steps.iter().copied().enumerate() {
        let chosen = choose(at, waiting.len());
        match (act, chosen) {
            (0, _) => waiting.push((turn, size, PolledFuture::new(signal.wait(size)))),
            (1 | 2, Some(at)) => {
                let (who, priority, future) = &mut waiting[at];
                let notified = model.notified.iter().position(|one| one == who);
                assert_eq!(future.poll().is_some(), notified.is_some());
                if let Some(notified) = notified {
                    model.notified.remove(notified);
                    waiting.remove(at);
                } else if !model.waiting.iter().any(|one| one.2 == *who) {
                    model.waiting.push((*priority, turn, *who));
                }
            }
            (3, Some(at)) => {
                let (who, ..) = waiting.remove(at);
                model.waiting.retain(|one| one.2 != who);
                if let Some(notified) = model.notified.iter().position(|one| *one == who) {
                    model.notified.remove(notified);
                    model.signal();
                }
            }
            _ => assert_eq!(signal.signal(), model.signal(), "a signal without a waiter is lost"),
        }
        assert_eq!(signal.has_waiters(), !model.waiting.is_empty());
        for (who, _, future) in &waiting {
            assert_eq!(future.woken(), u32::from(model.notified.contains(who)));
        }
    }
    drop(waiting);
    assert!(!signal.has_waiters() && !signal.signal());
}

proptest! {
    #[test]
    fn a_signal_reaches_the_waiter_that_the_model_names(steps in steps(5)) {
        check(&steps);
    }
}

#[test]
fn a_value_is_received_once_or_the_receiver_gets_an_error() {
    let (sender, receiver) = oneshot();
    let mut receiver = PolledFuture::new(receiver);
    assert!(receiver.poll().is_none() && !sender.is_closed());
    assert_eq!(sender.send(7), Ok(()));
    assert_eq!((receiver.woken(), receiver.poll()), (1, Some(Ok(7))));

    let (sender, receiver) = oneshot::<u32>();
    let mut receiver = PolledFuture::new(receiver);
    assert!(receiver.poll().is_none());
    drop(sender);
    assert_eq!((receiver.woken(), receiver.poll()), (1, Some(Err(NeverSent))));

    let (sender, mut receiver) = oneshot();
    assert_eq!(receiver.try_receive(), Ok(None));
    assert_eq!(sender.send(8), Ok(()));
    assert_eq!((receiver.try_receive(), receiver.try_receive()), (Ok(Some(8)), Err(NeverSent)));
}

#[test]
fn an_unreceived_value_is_returned_or_dropped() {
    let value = std::rc::Rc::new(());
    let (sender, receiver) = oneshot();
    drop(receiver);
    assert!(sender.is_closed() && sender.send(std::rc::Rc::clone(&value)).is_err());
    let (sender, receiver) = oneshot();
    assert!(sender.send(std::rc::Rc::clone(&value)).is_ok());
    drop(receiver);
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
}
