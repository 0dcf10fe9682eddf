use super::*;
use crate::bill::example;
use crate::bill::recording::{Ended, KeptThread, Missed};

fn all() -> (Recording, Vec<Finding>) {
    let recording = example::recording();
    let found = findings(&recording);
    (recording, found)
}

fn of<'a>(found: &'a [Finding], text: &str) -> &'a Finding {
    let found_one = found.iter().find(|one| one.title.contains(text));
    found_one.unwrap_or_else(|| panic!("{text}: {found:#?}"))
}

#[test]
fn every_problem_is_a_finding() {
    let (_, found) = all();
    let lock = of(&found, "of Bank.transfer: ");
    assert!(lock.title.starts_with("Slowest of 600 samples of Bank.transfer: 5"), "{}", lock.title);
    assert!(lock.title.contains("us waiting for the lock `accounts`"), "{}", lock.title);
    assert!(
        lock.detail.contains("12 of 600 sampled waited for this reason: 50."),
        "{}",
        lock.detail
    );
    let budget = of(&found, "of Bank.audit: ");
    assert!(
        budget
            .title
            .contains("us running the handler, up to 310 us without a pause and beyond its budget")
    );
    assert!(budget.detail.contains("6 of 300 sampled exceeded the budget"), "{}", budget.detail);
    let slept = of(&found, "of Prices.price: ");
    assert!(slept.title.contains("us waking `quotes`, which slept"), "{}", slept.title);
    let full = of(&found, "of Sink.note: ");
    assert!(full.title.contains("us waiting for room in a full lane to `sink`"), "{}", full.title);
    assert!([lock, budget, slept, full].iter().all(|one| one.level == Level::Late));
    assert!([lock, budget, slept, full].iter().all(|one| one.subject.is_some()));
    let bets = of(&found, "`bank` lost 12.0% of its bets on handlers");
    assert!(bets.title.ends_with("waited for a lock (1,200)") && bets.level == Level::Note);
}

#[test]
fn the_worst_comes_first_and_a_calm_method_last() {
    let (mut recording, found) = all();
    assert!(found.is_sorted_by_key(|one| one.level));
    assert!(found[0].title.contains("Bank.audit"), "310 us: {}", found[0].title);
    // A method without late messages has a calm finding.
    let calm = &mut recording.subjects[0];
    calm.slow = calm.typical;
    calm.causes.clear();
    let title = calm.title();
    let found = findings(&recording);
    let last = found.last().unwrap();
    assert_eq!(last.level, Level::Calm);
    assert!(last.title.contains(&title), "{}", last.title);
}

#[test]
fn other_delays_of_a_method_are_further_findings() {
    let (mut recording, _) = all();
    let one = recording.subjects.iter_mut().find(|one| one.method == "transfer").unwrap();
    let delay = |cause, max| Delay { cause, name: None, stories: 3, p50: 5_000.0, max };
    one.causes.extend([
        delay(Cause::CalleeSlept, 48_000.0),
        delay(Cause::Budget, 310_000.0),
        delay(Cause::Pause, 9_000.0),
    ]);
    let found = findings(&recording);
    let slept = of(&found, "`bank` slept: waking it took up to 48.0 us");
    assert_eq!(
        slept.detail,
        "3 of 600 sampled waited for this reason: 5.00 us at the median, 48.0 us at most."
    );
    of(&found, "the handler ran for 310 us without a pause, beyond its budget");
    assert!(!found.iter().any(|one| one.title.contains("a step")), "single pauses are usual");
}

#[test]
fn frequent_delays_are_reported_despite_long_pauses_of_the_machine() {
    let (mut recording, _) = all();
    let one = recording.subjects.iter_mut().find(|one| one.method == "transfer").unwrap();
    (one.slow, one.whole.p999) = (None, Some(14e6));
    let told = |recording: &Recording| {
        let found = findings(recording);
        found.iter().any(|one| one.title.contains("us for the lock `accounts`"))
    };
    assert!(told(&recording), "12 of 600 waited for 50 us, and some paused for 14 ms");
    recording.subjects.iter_mut().for_each(|one| one.samples.stories *= 10);
    assert!(!told(&recording), "12 of 6,000 are outliers too");
}

#[test]
fn two_runs_within_the_budget_are_within_it() {
    let (mut recording, _) = all();
    let one = &mut recording.subjects[0];
    let at = one.slow.unwrap();
    let phases = one.way.phases.iter().zip(&mut one.told[at].phases);
    phases.for_each(|(phase, took)| *took = if phase.item == Item::Execute { 6e4 } else { 1.0 });
    let title = format!("of {}: 120 us, of which 120 us running the handler", one.title());
    let found = findings(&recording);
    assert!(of(&found, &title).title.ends_with("running the handler"), "{found:?}");
}

#[test]
fn the_slow_message_of_a_thousand_stories_is_p999() {
    let (mut recording, _) = all();
    recording.subjects[0].samples.stories = 1_000;
    let title = recording.subjects[0].title();
    of(&findings(&recording), &format!("p99.9 of {title}: "));
}

#[test]
fn a_long_step_without_waiting_is_attributed_to_the_machine() {
    let (mut recording, _) = all();
    let one = &mut recording.subjects[0];
    let at = one.slow.unwrap();
    let phases = one.way.phases.iter().zip(&mut one.told[at].phases);
    phases.for_each(|(phase, took)| *took = if phase.item == Item::Decode { 9e5 } else { 1.0 });
    let title = format!("of {}", one.title());
    let found = findings(&recording);
    let finding = of(&found, &title);
    assert!(finding.title.contains("in `decode` at"), "{}", finding.title);
    assert!(finding.detail.contains("the kernel ran another process"), "{}", finding.detail);
}

#[test]
fn bets_that_are_rarely_lost_or_taken_are_not_reported() {
    let (mut recording, _) = all();
    let counters = recording.nodes[1].counters.as_mut().unwrap();
    counters.insert("promoted by lock".into(), 80);
    assert!(!findings(&recording).iter().any(|one| one.title.contains("bets on")));
    let counters = recording.nodes[1].counters.as_mut().unwrap();
    counters.insert("handlers inline".into(), 10);
    assert!(!findings(&recording).iter().any(|one| one.title.contains("bets on")));
}

#[test]
fn missing_samples_are_reported() {
    let (mut recording, _) = all();
    recording.missed = Missed { overwritten: 5_000, unusable: 1, unnamed: 2 };
    let counters = recording.nodes[1].counters.as_mut().unwrap();
    counters.extend([("samples taken".into(), 90), ("samples lost".into(), 10)]);
    recording.nodes[0].counters = None;
    recording.nodes[2].ended = true;
    let found = findings(&recording);
    of(&found, "5,000 samples were overwritten");
    of(&found, "1 sample is not included");
    of(
        &found,
        "2 samples have no name, and no figure includes them: the table of names of a node is full",
    );
    of(&found, "`bank` lost 10 samples while they were observed");
    of(&found, "the counters of `desk` are left out");
    of(&found, "`sink` (process 4711) has ended while it was observed");
}

#[test]
fn calls_without_a_result_and_futures_that_block_are_the_worst() {
    let (mut recording, _) = all();
    let [from, to, service, method] = ["desk", "bank", "Bank", "audit"].map(str::to_owned);
    let how = "given-up".to_owned();
    recording.ended.push(Ended { from, to, service, method, how, calls: 7, p50: 1e6, max: 2e6 });
    let kept = |service: &str, method: &str, blocked| KeptThread {
        node: "bank".into(),
        service: service.into(),
        method: method.into(),
        count: 9,
        blocked,
        longest: 2e7,
        budget: 1e5,
    };
    recording.kept.extend([kept("Bank", "load", 8), kept("", "task", 0)]);
    let found = findings(&recording);
    let blocked =
        of(&found, "The handler of Bank.load blocked the thread of `bank`, for up to 20.0 ms");
    assert!(
        blocked.detail.starts_with("9 times since the node started, of which 8 in system calls")
    );
    of(
        &found,
        "A task of the application kept the thread of `bank` for up to 20.0 ms without a pause",
    );
    let ended = of(&found, "7 sampled calls of Bank.audit from `desk` to `bank` were given up");
    assert!(ended.detail.starts_with("After 1.00 ms at the median, and 2.00 ms at most."));
    assert!([blocked, ended].iter().all(|one| one.level == Level::Late));
}

#[test]
fn the_callee_of_a_handler_is_named() {
    let (mut recording, _) = all();
    let one = recording.subjects.iter_mut().find(|one| one.method == "transfer").unwrap();
    let at = one.slow.unwrap();
    let told = &mut one.told[at];
    let phases = one.way.phases.iter().zip(&mut told.phases);
    phases.for_each(|(phase, took)| *took = if phase.item == Item::Wait { 9e6 } else { 1.0 });
    told.happened = MessageEvents::CALL.with(MessageEvents::PROMOTED).0;
    told.lock = Some("ledger".into());
    let found = findings(&recording);
    of(&found, "9.00 ms the handler waiting for a reply of `ledger`");
}

#[test]
fn a_recording_without_stories_has_no_slow_message() {
    let (mut recording, _) = all();
    recording.nodes.clear();
    recording.subjects.iter_mut().for_each(|one| {
        one.told.clear();
        one.causes.clear();
    });
    assert_eq!(findings(&recording), []);
}
