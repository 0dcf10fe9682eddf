//! The causes of delays: maps each phase to a cause, and decides when a phase counts as a delay.
//!
//! A phase counts as a delay when it is long and also a large part of its message, so that a fast
//! message never counts as late. The findings describe the delays in words.

use crate::bill::recording::{Cause, Delay};
use std::collections::BTreeMap;
use upbeat_core::bill::Item;
use upbeat_core::bill::collected::{Spread, Story};
use upbeat_core::bill::timeline::Leg;
use upbeat_core::bill::way::{MessageEvents, Way};

/// The shortest time that counts as a delay.
const LEAST_NS: f64 = 1_000.0;
/// The smallest share of its message that counts as a delay.
const LEAST_PART: f64 = 0.1;
/// A step in which nothing is waited for counts as a delay when it takes this many times its median.
const TIMES_MEDIAN: f64 = 8.0;

/// Returns the cause that a long phase has.
pub(crate) fn cause(item: Item, leg: Leg) -> Cause {
    match (item, leg) {
        (Item::Room, _) => Cause::Room,
        (Item::Wake, Leg::Out) => Cause::CalleeSlept,
        (Item::Wake, _) => Cause::CallerSlept,
        (Item::Notice, Leg::Callee) => Cause::CalleeBusy,
        (Item::Notice, _) => Cause::CallerBusy,
        (Item::Execute, _) => Cause::Budget,
        (Item::Lock, _) => Cause::Lock,
        (Item::Wait, _) => Cause::Wait,
        (Item::Queue, _) => Cause::Queue,
        _ => Cause::Pause,
    }
}

/// Returns the cause of a long phase of one message.
pub(crate) fn cause_in(happened: MessageEvents, item: Item, leg: Leg) -> Cause {
    match cause(item, leg) {
        Cause::Wait if happened.has(MessageEvents::CALL) => Cause::Call,
        other => other,
    }
}

/// Returns the delays in stories of one way. `lock` returns the name for the note of a story.
pub(crate) fn delays(
    way: &'static Way,
    stories: &[Story],
    lock: impl Fn(u64) -> Option<String>,
) -> Vec<Delay> {
    let phases: Vec<(Item, Leg)> =
        way.phases.iter().zip(Leg::of(way)).map(|(phase, leg)| (phase.item, leg)).collect();
    let median = |at: usize| Spread::of(stories.iter().map(|story| story.phases[at])).p50;
    let medians: Vec<f64> = (0..phases.len()).map(median).collect();
    let mut found: BTreeMap<(Cause, Option<String>), Vec<f64>> = BTreeMap::new();
    for story in stories {
        let total = story.total();
        let mut late: BTreeMap<(Cause, Option<String>), f64> = BTreeMap::new();
        let run = story.happened.run_us().map(|us| f64::from(us) * 1e3);
        for (at, (item, leg)) in phases.iter().enumerate() {
            let cause = cause_in(story.happened, *item, *leg);
            // The callee knows the budget of the method, and which of the handler's runs was the longest.
            let took = match (cause, run) {
                (Cause::Budget, Some(run)) => run.min(story.phases[at]),
                _ => story.phases[at],
            };
            let counts = match cause {
                Cause::Budget => run.is_some() && took >= LEAST_NS,
                Cause::Pause => took >= LEAST_NS.max(TIMES_MEDIAN * medians[at]),
                _ => took >= LEAST_NS,
            };
            if !counts || took < LEAST_PART * total {
                continue;
            }
            let is_condition = story.happened.has(MessageEvents::CONDITION);
            let is_call = story.happened.has(MessageEvents::CALL);
            let name = match cause {
                Cause::Lock if !is_condition && !is_call => lock(story.note),
                Cause::Wait if is_condition => lock(story.note),
                Cause::Call => lock(story.note),
                Cause::Pause => Some(item.name().to_owned()),
                _ => None,
            };
            let longest = late.entry((cause, name)).or_default();
            *longest = longest.max(took);
        }
        late.into_iter().for_each(|(key, took)| found.entry(key).or_default().push(took));
    }
    let delay = |((cause, name), took): ((Cause, Option<String>), Vec<f64>)| {
        let stories = took.len() as u64;
        let spread = Spread::of(took);
        Delay { cause, name, stories, p50: spread.p50, max: spread.max }
    };
    found.into_iter().map(delay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use upbeat_core::bill::way::CALL;

    fn story(long: impl Fn(Item, Leg) -> f64, note: u64) -> Story {
        let phases = CALL.phases.iter().zip(Leg::of(CALL));
        let phases = phases.map(|(phase, leg)| long(phase.item, leg)).collect();
        Story { began: 0, phases, happened: MessageEvents::default().with_run_us(200), note }
    }

    fn found(long: impl Fn(Item, Leg) -> f64) -> Vec<(Cause, Option<String>, u64)> {
        let mut stories: Vec<Story> = (0..50).map(|_| story(|_, _| 10.0, 0)).collect();
        stories.push(story(long, 1));
        let name = |note| (note == 1).then(|| "accounts".to_owned());
        let delays = delays(CALL, &stories, name).into_iter();
        delays.map(|one| (one.cause, one.name, one.stories)).collect()
    }

    #[test]
    fn each_cause_follows_from_its_phase() {
        let of = |item, leg| {
            found(move |one, at| if (one, at) == (item, leg) { 200_000.0 } else { 10.0 })
        };
        assert_eq!(of(Item::Room, Leg::Caller), [(Cause::Room, None, 1)]);
        assert_eq!(of(Item::Wake, Leg::Out), [(Cause::CalleeSlept, None, 1)]);
        assert_eq!(of(Item::Wake, Leg::Back), [(Cause::CallerSlept, None, 1)]);
        assert_eq!(of(Item::Notice, Leg::Callee), [(Cause::CalleeBusy, None, 1)]);
        assert_eq!(of(Item::Lock, Leg::Callee), [(Cause::Lock, Some("accounts".into()), 1)]);
        assert_eq!(of(Item::Execute, Leg::Callee), [(Cause::Budget, None, 1)]);
        assert_eq!(of(Item::Wire, Leg::Back), [(Cause::Pause, Some("wire".into()), 1)]);
    }

    #[test]
    fn the_phase_that_waited_for_a_condition_names_it() {
        let long = |items: &'static [Item]| {
            move |item: Item, _: Leg| if items.contains(&item) { 200_000.0 } else { 10.0 }
        };
        let named = |items, happened| {
            let story = Story { happened, ..story(long(items), 1) };
            let delays = delays(CALL, &[story], |_| Some("not empty".to_owned()));
            delays.into_iter().map(|one| (one.cause, one.name)).collect::<Vec<_>>()
        };
        let waits = (Cause::Wait, Some("not empty".to_owned()));
        let condition = MessageEvents::CONDITION;
        assert_eq!(named(&[Item::Wait], condition), std::slice::from_ref(&waits));
        assert_eq!(named(&[Item::Lock, Item::Wait], condition), [(Cause::Lock, None), waits]);
        // The longest wait was that for a node's reply.
        let called = (Cause::Call, Some("not empty".to_owned()));
        assert_eq!(
            named(&[Item::Lock, Item::Wait], MessageEvents::CALL),
            [(Cause::Lock, None), called]
        );
    }

    #[test]
    fn short_or_usual_phases_are_not_delays() {
        assert_eq!(found(|_, _| 900.0), []);
        let runs = |item, _| if item == Item::Execute { 900_000.0 } else { 10.0 };
        let within = Story { happened: MessageEvents::default(), ..story(runs, 0) };
        assert_eq!(delays(CALL, &[within], |_| None), [], "the method may run for that long");
        let mut stories: Vec<Story> = Vec::new();
        let long = |item, _| if item == Item::Marshal { 50_000.0 } else { 10.0 };
        (0..20).for_each(|_| stories.push(story(long, 0)));
        assert_eq!(delays(CALL, &stories, |_| None), [], "its marshalling is always that long");
    }

    #[test]
    fn stories_are_counted_once_and_by_name() {
        let waits = |_: Item, leg| if leg == Leg::Callee { 400_000.0 } else { 10.0 };
        let stories = [story(waits, 1), story(waits, 2)];
        let delays = delays(CALL, &stories, |note| Some(format!("lock {note}")));
        // Ten phases are equal, so each is a tenth of the whole or slightly less.
        assert!(delays.iter().all(|delay| delay.stories <= 2));
        let two = |item, _| if item == Item::Execute { 400_000.0 } else { 10.0 };
        let one = super::delays(CALL, &[story(two, 0)], |_| None);
        assert_eq!((one.len(), one[0].stories, one[0].max), (1, 1, 200_000.0), "the longest run");
    }
}
