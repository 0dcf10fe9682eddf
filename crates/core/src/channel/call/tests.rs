//! Tests that compare both tables with plain maps, by generated acts.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// One act of a caller or of its peer. Numbers choose among the calls ever opened.
#[derive(Clone, Debug)]
enum Act {
    Open,
    Answer(usize),
    Take(usize),
    Close(usize),
    Abandon(usize),
    AnswerWords(u32, u32),
    Drain,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => Just(Act::Open),
        3 => any::<usize>().prop_map(Act::Answer),
        3 => any::<usize>().prop_map(Act::Take),
        2 => any::<usize>().prop_map(Act::Close),
        2 => any::<usize>().prop_map(Act::Abandon),
        2 => (0..6u32, 0..6u32).prop_map(|(i, g)| Act::AnswerWords(i, g)),
        1 => Just(Act::Drain),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Waiting,
    Abandoned,
    Answered,
}

/// The plain model: the fate of every number in use.
#[derive(Default)]
struct Model {
    live: HashMap<CallNumber, (usize, Fate)>,
    ever: Vec<CallNumber>,
}

impl Model {
    fn pick(&self, at: usize) -> Option<CallNumber> {
        self.ever.get(at % self.ever.len().max(1)).copied()
    }

    fn fate(&self, call: CallNumber) -> Option<Fate> {
        self.live.get(&call).map(|&(_, fate)| fate)
    }
}

fn answer(table: &CallTable<usize>, model: &mut Model, call: CallNumber) {
    let expected = model.live.get(&call).copied();
    match (table.answer(call), expected) {
        (Ok(Answered::Waiting(waiter)), Some((id, Fate::Waiting))) => {
            assert_eq!(waiter, id);
            model.live.insert(call, (id, Fate::Answered));
        }
        (Ok(Answered::Abandoned), Some((_, Fate::Abandoned))) => {
            model.live.remove(&call);
        }
        (Err(Rule::AnsweredTwice { .. }), Some((_, Fate::Answered))) => {}
        (Err(Rule::NotOpen { .. } | Rule::StaleGeneration { .. }), None) => {}
        (seen, expected) => panic!("answer {call}: {seen:?}, expected {expected:?}"),
    }
}

fn apply(table: &CallTable<usize>, model: &mut Model, act: Act) {
    match act {
        Act::Open => {
            let id = model.ever.len();
            let call = table.open(id).unwrap();
            assert!(!model.ever.contains(&call), "{call} was returned before");
            model.ever.push(call);
            model.live.insert(call, (id, Fate::Waiting));
        }
        Act::Answer(at) => {
            if let Some(call) = model.pick(at) {
                answer(table, model, call);
            }
        }
        Act::AnswerWords(index, generation) => {
            answer(table, model, CallNumber::new(index, generation));
        }
        Act::Take(at) => {
            let Some(call) = model.pick(at) else { return };
            let expected = model.live.get(&call).copied();
            match (table.take(call), expected) {
                (Ok(Some(waiter)), Some((id, Fate::Waiting))) => assert_eq!(waiter, id),
                (Ok(None), Some((_, Fate::Abandoned))) => {}
                (Err(Rule::AnsweredTwice { .. }), Some((_, Fate::Answered))) => return,
                (Err(Rule::NotOpen { .. } | Rule::StaleGeneration { .. }), None) => return,
                (seen, expected) => panic!("take {call}: {seen:?}, expected {expected:?}"),
            }
            model.live.remove(&call);
        }
        Act::Close(at) => {
            let Some(call) = model.pick(at) else { return };
            let held = model.live.get(&call).filter(|(_, fate)| *fate != Fate::Abandoned);
            let held = held.map(|&(id, _)| id);
            assert_eq!(table.close(call), held);
            if held.is_some() {
                model.live.remove(&call);
            }
        }
        Act::Abandon(at) => {
            let Some(call) = model.pick(at) else { return };
            match (table.abandon(call), model.live.get(&call).copied()) {
                (Abandon::Cancel(waiter), Some((id, Fate::Waiting))) => {
                    assert_eq!(waiter, id);
                    model.live.insert(call, (id, Fate::Abandoned));
                }
                (Abandon::Answered(waiter), Some((id, Fate::Answered))) => {
                    assert_eq!(waiter, id);
                    model.live.remove(&call);
                }
                (Abandon::Gone, None | Some((_, Fate::Abandoned))) => {}
                (seen, expected) => panic!("abandon {call}: {seen:?}, expected {expected:?}"),
            }
        }
        Act::Drain => {
            for (call, waiter) in table.drain() {
                assert_eq!(model.live.remove(&call), Some((waiter, Fate::Waiting)));
            }
            assert!(model.live.values().all(|&(_, fate)| fate != Fate::Waiting));
            model.live.retain(|_, (_, fate)| *fate == Fate::Answered);
        }
    }
    assert_eq!(table.len(), model.live.len());
    assert_eq!(table.is_empty(), model.live.is_empty());
}

proptest! {
    #[test]
    fn the_table_agrees_with_a_map(acts in prop::collection::vec(act(), 0..200)) {
        let (table, mut model) = (CallTable::new(), Model::default());
        for act in acts {
            apply(&table, &mut model, act);
        }
        for &call in &model.ever {
            let there = matches!(model.fate(call), Some(Fate::Waiting | Fate::Answered));
            prop_assert_eq!(table.waiter(call).is_some(), there);
        }
    }

    #[test]
    fn serving_agrees_with_a_map(
        acts in prop::collection::vec((0..3u8, 0..8u32, 0..3u32), 0..200),
    ) {
        let (mut serving, mut model) = (Serving::new(), HashMap::new());
        for (at, (act, index, generation)) in acts.into_iter().enumerate() {
            let call = CallNumber::new(index, generation);
            if act == 0 {
                let taken = model.keys().any(|key: &CallNumber| key.index() == index);
                prop_assert_eq!(serving.admits(call).is_err(), taken);
                match serving.insert(call, at) {
                    Ok(()) => prop_assert!(!taken && model.insert(call, at).is_none()),
                    Err(rule) => {
                        prop_assert!(taken);
                        prop_assert_eq!(rule, Rule::DuplicateCall { index, generation });
                    }
                }
            } else if act == 1 {
                prop_assert_eq!(serving.remove(call), model.remove(&call));
            } else {
                prop_assert_eq!(serving.task_mut(call), model.get_mut(&call));
            }
            prop_assert_eq!(serving.len(), model.len());
        }
        prop_assert_eq!(serving.drain().collect::<HashMap<_, _>>(), model);
        prop_assert!(serving.is_empty());
    }
}

#[test]
fn a_full_table_returns_an_error_and_recovers() {
    let table = CallTable::new();
    let calls: Vec<_> = (0..CALLS_PER_SESSION_MAX).map(|id| table.open(id).unwrap()).collect();
    assert_eq!(table.open(0), Err(TableFull));
    assert_eq!(table.take(calls[7]), Ok(Some(7)));
    let again = table.open(7).unwrap();
    assert_eq!((again.index(), again.generation()), (7, 2));
    let stale = Rule::StaleGeneration { index: 7, seen: 1, open: 2 };
    assert_eq!(table.answer(calls[7]), Err(stale));
    assert!(TableFull.to_string().contains("4096"));
}

#[test]
fn a_waiter_is_exchanged_only_in_an_open_call() {
    let table = CallTable::new();
    let call = table.open('a').unwrap();
    assert_eq!(table.exchange(call, 'b'), Some('a'));
    assert_eq!(table.abandon(call), Abandon::Cancel('b'));
    assert_eq!((table.waiter(call), table.exchange(call, 'c')), (None, None));
    assert_eq!(table.len(), 1, "an abandoned call keeps its entry until the peer has replied");
    assert_eq!(table.take(call), Ok(None));
    assert!(table.is_empty());
}

#[test]
fn generations_wrap_around_and_skip_zero() {
    assert_eq!((next_generation(1), next_generation(u32::MAX)), (2, 1));
}

#[test]
fn invented_numbers_take_no_memory() {
    let mut serving = Serving::new();
    let call = CallNumber::new(u32::MAX, 1);
    let rule = Rule::TooManyCalls { index: u32::MAX, max: 4096 };
    assert_eq!((serving.admits(call), serving.insert(call, ())), (Err(rule), Err(rule)));
    assert!(serving.calls.is_empty());
}

#[test]
fn one_way_messages_are_counted() {
    let mut serving = Serving::<()>::new();
    serving.begin_oneway();
    serving.begin_oneway();
    serving.end_oneway();
    assert_eq!(serving.oneways(), 1);
}

#[test]
fn deadlines_saturate() {
    assert_eq!(Deadline::after(5, u64::MAX), Deadline::NEVER);
    assert_eq!(Deadline::NEVER.remaining(5), None);
    assert_eq!(Deadline::after(5, 5).remaining(20), Some(0));
}
