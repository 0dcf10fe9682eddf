use super::*;
use crate::bill::example::{self, Message, usual};
use upbeat_core::bill::Item;
use upbeat_core::bill::collected::PAIRS_MIN;
use upbeat_core::bill::way::{CALL, ONEWAY};
use upbeat_memory::samples::{STAMPS_MAX, Samples};

fn collected(page: &Samples) -> Collector {
    let mut collector = Collector::default();
    collector.look(&mut Source::new(page.view()));
    collector
}

#[test]
fn a_record_is_in_the_page_of_the_caller_or_of_the_receiver() {
    let page = Samples::heap("us", 1);
    let subject = page.subject("them\nService\nmethod").unwrap();
    for way in [CALL, ONEWAY] {
        let happened = MessageEvents::FULL;
        Message { page: &page, subject, way, note: 0, happened }.write(100, |_, _| None);
    }
    let recording = collected(&page).recording(0, 1.0);
    let mut seen: Vec<_> = recording
        .subjects
        .iter()
        .map(|one| (one.way.name, one.from.as_str(), one.to.as_str(), one.samples.stories))
        .collect();
    seen.sort();
    assert_eq!(seen, [("call", "us", "them", 1), ("one-way", "them", "us", 1)]);
    assert_eq!(recording.subjects[0].happened["lane full"], 1);
}

#[test]
fn pairs_give_the_means() {
    let page = Samples::heap("us", 1);
    let subject = page.subject("them\nService\nmethod").unwrap();
    let (mut collector, mut source) = (Collector::default(), Source::new(page.view()));
    let record = Record {
        subject,
        kind: 0,
        rung: 0,
        flags: 0,
        note: 0,
        doubt: 0,
        peer: 2,
        stamps: [5_000; STAMPS_MAX],
    };
    for _ in 0..PAIRS_MIN {
        for rung in CALL.rungs() {
            let mut stamps = record.stamps;
            stamps[usize::from(rung.max(1))] += 1_000 * u64::from(rung) + 20;
            page.write(&Record { rung: StampMode::Pair(rung).byte(), stamps, ..record });
        }
        collector.look(&mut source);
    }
    let recording = collector.recording(0, 1.0);
    let one = &recording.subjects[0];
    assert_eq!((one.samples.means_from.as_str(), one.samples.stories), ("pairs", 0));
    assert_eq!(one.samples.pairs as usize, PAIRS_MIN * CALL.rungs().count());
    assert_eq!((one.typical(), one.slow()), (None, None));
    let ns = 1e9 / page.view().ticks_per_second() as f64;
    assert!((one.samples.stamp_ns - 20.0 * ns).abs() < 1e-6);
    assert!((one.whole.mean - 25_000.0 * ns).abs() < 1e-3, "{:?}", one.whole);
}

#[test]
fn times_of_two_clocks_have_their_possible_error() {
    let page = Samples::heap("us", 1);
    let local = page.subject("them\nService\nlocal\nlocal\n").unwrap();
    let remote = page.subject("them\nService\nremote\ntls\n10.0.0.7:7411").unwrap();
    let mut stamps = [0; STAMPS_MAX];
    for (at, stamp) in stamps.iter_mut().enumerate() {
        *stamp = 1_000 + 10 * at as u64;
    }
    let record =
        Record { subject: 0, kind: 0, rung: 255, flags: 0, note: 0, doubt: 0, peer: 2, stamps };
    page.write(&Record { subject: local, ..record });
    for doubt in [3_000, 5_000] {
        page.write(&Record { subject: remote, doubt, ..record });
    }
    let recording = collected(&page).recording(0, 1.0);
    let sessions = recording.sessions();
    let carried: Vec<_> = sessions.iter().map(|one| (one.carried.as_str(), one.samples)).collect();
    assert_eq!(carried, [("TLS, 10.0.0.7:7411", 2), ("memory of one process", 1)]);
    let ns = 1e9 / page.view().ticks_per_second() as f64;
    assert!(
        (sessions[0].doubt.unwrap() - 4_000.0 * ns).abs() < 1e-6 && sessions[1].doubt.is_none()
    );
    for subject in &recording.subjects {
        let told: Vec<Leg> = subject
            .lines
            .iter()
            .filter(|line| subject.doubt_of(line).is_some())
            .map(|line| line.leg)
            .collect();
        let of_wire = told.iter().all(|leg| matches!(leg, Leg::Out | Leg::Back));
        assert_eq!(!told.is_empty(), subject.method == "remote");
        assert!(of_wire, "{told:?}");
        let sum: f64 = subject.lines.iter().map(|line| line.ns.mean).sum();
        assert!((sum - subject.whole.mean).abs() < 1e-6);
    }
}

#[test]
fn unusable_records_are_counted() {
    let page = Samples::heap("us", 1);
    let subject = page.subject("them\nService\nmethod").unwrap();
    let short = page.subject("no lines").unwrap();
    let stamps = std::array::from_fn(|at| at as u64);
    let (flags, note, doubt) = (u32::MAX, 77, 0);
    let good = Record { subject, kind: 0, rung: 255, flags, note, doubt, peer: 0, stamps };
    let mut backwards = good;
    backwards.stamps[3] = u64::MAX;
    let records = [
        good,
        Record { kind: 99, ..good },
        Record { rung: 0, ..good },
        Record { rung: 200, ..good },
        Record { rung: 8, ..good },
        Record { subject: 999, ..good },
        Record { subject: short, ..good },
        backwards,
    ];
    records.iter().for_each(|record| page.write(record));
    let collector = collected(&page);
    assert_eq!(collector.missed(), Missed { overwritten: 0, unusable: 7, unnamed: 0 });
    assert_eq!(collector.samples(), 1);
    assert_eq!(collector.recording(0, 1.0).subjects[0].told[0].lock, None);
}

#[test]
fn overwritten_records_are_counted() {
    let page = Samples::heap("us", 1);
    let subject = page.subject("them\nService\nmethod").unwrap();
    let (mut collector, mut source) = (Collector::default(), Source::new(page.view()));
    let happened = MessageEvents::default();
    let message = Message { page: &page, subject, way: CALL, note: 0, happened };
    (0..RECORDS as u64 + 100).for_each(|n| message.write(n, |_, _| None));
    collector.look(&mut source);
    let (missed, samples) = (collector.missed(), collector.samples());
    assert!(missed.overwritten >= 100 && missed.unusable == 0, "{missed:?}");
    assert_eq!(missed.overwritten + samples, RECORDS as u64 + 100);
    collector.look(&mut source);
    assert_eq!(collector.samples(), samples, "nothing is taken twice");
}

#[test]
fn hostile_texts_are_cleaned() {
    let page = Samples::heap("us\u{1b}[2J", 1);
    let subject = page.subject("them\r\nSer\u{7}vice\nmeth\rod").unwrap();
    let lock = page.subject("lo\u{1b}ck").unwrap();
    let happened = MessageEvents::default();
    Message { page: &page, subject, way: CALL, note: lock, happened }.write(1, |_, _| None);
    let recording = collected(&page).recording(0, 1.0);
    let one = &recording.subjects[0];
    let all = [&one.from, &one.to, &one.service, &one.method, one.told[0].lock.as_ref().unwrap()];
    assert!(all.iter().all(|text| !text.chars().any(char::is_control)), "{all:?}");
    assert_eq!(one.method, "meth\u{fffd}od");
}

#[test]
fn phases_of_one_item_and_leg_share_a_line() {
    let recording = example::recording();
    let of = |title: &str| recording.subjects.iter().find(|one| one.title() == title).unwrap();
    let transfer = of("Bank.transfer");
    let lines: Vec<_> = transfer.lines.iter().map(|line| (line.item, line.leg)).collect();
    let wires = lines.iter().filter(|(item, _)| *item == Item::Wire);
    assert_eq!(wires.map(|(_, leg)| *leg).collect::<Vec<_>>(), [Leg::Out, Leg::Back]);
    let runs = lines.iter().filter(|(item, _)| *item == Item::Execute);
    assert_eq!(runs.count(), 1, "before and after a wait");
    assert!(transfer.lines.iter().any(|line| line.item == Item::Lock && line.ns.max > 50_000.0));
    assert!(usual(Item::Lock) == 0 && of("Sink.note").way == ONEWAY);
}

#[test]
fn the_kept_stories_include_the_slowest() {
    let recording = example::recording();
    for subject in &recording.subjects {
        assert!(subject.told.len() <= TOLD_SLOWEST + TOLD_OTHERS + 2);
        let slowest = subject.told.iter().map(MessageTimes::total).fold(0.0, f64::max);
        assert!((slowest - subject.whole.max).abs() < 1e-6);
        let (typical, slow) = (subject.typical().unwrap(), subject.slow().unwrap());
        assert!((typical.total() - subject.whole.p50).abs() < 1e-6);
        assert!((slow.total() - slow_of(subject)).abs() < 1e-6);
        assert!(subject.told.is_sorted_by_key(|told| told.began_ns as u64));
    }
}

/// The value nearest to p99.9, which is not shown of so few samples.
fn slow_of(subject: &Subject) -> f64 {
    assert!(subject.whole.p999.is_none());
    let values = subject.told.iter().map(MessageTimes::total);
    values.fold(0.0, f64::max)
}

fn whole(page: &Samples, subject: u16, way: &'static Way, note: u16) {
    let happened = MessageEvents::default();
    Message { page, subject, way, note, happened }.write(1_000, |_, _| None);
}

#[test]
fn percentiles_need_enough_samples() {
    let page = Samples::heap("us", 1);
    let subject = page.subject("them\nService\nmethod").unwrap();
    let (mut collector, mut source) = (Collector::default(), Source::new(page.view()));
    let mut shown = Vec::new();
    for _ in 0..1_000 {
        whole(&page, subject, CALL, 0);
        collector.look(&mut source);
        let of = collector.samples();
        if [99, 100, 999, 1_000].contains(&of) {
            let amount = collector.recording(0, 1.0).subjects[0].whole;
            shown.push((of, amount.p99.is_some(), amount.p999.is_some()));
        }
    }
    let wanted = [(99, false, false), (100, true, false), (999, true, false), (1_000, true, true)];
    assert_eq!(shown, wanted);
}

#[test]
fn samples_from_before_are_left_out_unless_asked_for() {
    let page = Samples::heap("us", 1);
    let subject = page.subject("them\nService\nmethod").unwrap();
    (0..3).for_each(|_| whole(&page, subject, CALL, 0));
    let mut sources =
        [Source::from_now(page.view()), Source::new(page.view()), Source::of_new_node(page.view())];
    whole(&page, subject, CALL, 0);
    let counts = sources.each_mut().map(|source| {
        let (mut collector, older) = (Collector::default(), source.older());
        collector.look(source);
        let recording = collector.recording(0, 1.0);
        (recording.samples(), recording.before.samples, older)
    });
    assert_eq!(counts, [(1, 0, 3), (4, 3, 3), (4, 0, 0)]);
}

#[test]
fn samples_without_a_name_are_not_taken_for_another_version() {
    let page = Samples::heap("us", 1);
    whole(&page, 0, CALL, 0);
    let collector = collected(&page);
    assert_eq!(collector.missed(), Missed { unnamed: 1, ..Missed::default() });
}

#[test]
fn served_calls_are_shown_where_the_callers_are_not() {
    let page = Samples::heap("bank", 1);
    let served = page.subject("desk\nBank\ntransfer").unwrap();
    let lock = page.subject("accounts").unwrap();
    whole(&page, served, SERVED, lock);
    let mut collector = collected(&page);
    let recording = collector.recording(0, 1.0);
    let one = &recording.subjects[0];
    assert_eq!((one.from.as_str(), one.to.as_str(), one.way.name), ("desk", "bank", "served call"));
    assert!(one.lines.iter().all(|line| line.leg == Leg::Callee));
    // The bill of the caller has everything that the server's has.
    let callers = Samples::heap("desk", 2);
    let called = callers.subject("bank\nBank\ntransfer").unwrap();
    whole(&callers, called, CALL, 0);
    collector.look(&mut Source::new(callers.view()));
    let subjects = collector.recording(0, 1.0).subjects;
    assert_eq!((subjects.len(), subjects[0].way.name), (1, "call"));
}

#[test]
fn ends_without_a_result_and_over_runs_are_kept() {
    let page = Samples::heap("us", 1);
    let call = page.subject("them\nService\nmethod").unwrap();
    let own = page.subject("\nService\nblocks").unwrap();
    let second = page.view().ticks_per_second();
    let event = |subject, event: Event, stamps: &[u64]| {
        let mut all = [0; STAMPS_MAX];
        all[..stamps.len()].copy_from_slice(stamps);
        let rung = event.byte();
        let (kind, flags, note, doubt, peer) = (0, 0, 0, 0, 2);
        page.write(&Record { subject, kind, rung, flags, note, doubt, peer, stamps: all });
    };
    event(call, Event::Ended(BadEnd::GivenUp), &[second, 3 * second]);
    event(call, Event::Ended(BadEnd::GivenUp), &[second, 2 * second]);
    event(own, Event::Blocked, &[1, 2, second, 3, 2, second]);
    event(own, Event::Blocked, &[1, 2, second, 5, 4, 4 * second]);
    let recording = collected(&page).recording(0, 1.0);
    let [ended] = &recording.ended[..] else { panic!("{:?}", recording.ended) };
    assert_eq!((ended.how.as_str(), ended.calls, ended.from.as_str()), ("given-up", 2, "us"));
    assert_eq!((ended.p50, ended.max), (1e9, 2e9));
    let [kept] = &recording.kept[..] else { panic!("{:?}", recording.kept) };
    assert_eq!((kept.count, kept.blocked, kept.longest), (5, 4, 4e9));
    assert!(kept.node == "us" && recording.subjects.is_empty());
}
