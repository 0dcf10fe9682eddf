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
        Record { kind: 9, ..good },
        Record { rung: 0, ..good },
        Record { rung: 200, ..good },
        Record { rung: 8, ..good },
        Record { subject: 999, ..good },
        Record { subject: short, ..good },
        backwards,
    ];
    records.iter().for_each(|record| page.write(record));
    let collector = collected(&page);
    assert_eq!(collector.missed(), Missed { overwritten: 0, unusable: 7 });
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
        assert!((slow.total() - subject.whole.p999).abs() < 1e-6);
        assert!(subject.told.is_sorted_by_key(|told| told.began_ns as u64));
    }
}
