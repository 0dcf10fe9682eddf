//! Tests of samples, from the side of the owner and of an observer, and of pages that no node writes.

use super::*;
use crate::observe::{NODE_AT, OWN_AT};
use proptest::prelude::*;

/// A page that is small enough to be filled quickly with any words.
const SMALL: Shape = Shape { records: 4, subjects: 3 };

fn config(cases: u32) -> ProptestConfig {
    let cases = if cfg!(miri) { 2 } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn small() -> (Samples, SamplesView, Region) {
    let page = Region::heap(words_of(SMALL));
    let samples = Samples::over(page.clone(), SMALL, "a/1", 7);
    let view = SamplesView::new(&page.read_only()).unwrap();
    (samples, view, page)
}

fn record(number: u64) -> Record {
    Record {
        subject: number as u16,
        kind: (number >> 1) as u8,
        rung: (number >> 2) as u8,
        flags: !number as u32,
        note: (number >> 3) as u16,
        doubt: number & DOUBT_MAX,
        peer: !number,
        stamps: std::array::from_fn(|i| number << 8 | i as u64),
    }
}

/// Generates the smallest words, the largest, and any others.
fn words() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..300_u64, (u64::MAX - 9)..=u64::MAX]
}

#[test]
#[cfg_attr(miri, ignore = "two thousand records take it two minutes; a small page goes through it")]
fn a_view_sees_what_the_owner_writes() {
    let samples = Samples::heap("a/1", 7);
    let view = samples.view();
    assert_eq!((view.node().as_str(), view.incarnation()), ("a/1", 7));
    assert_eq!(view.pid(), u64::from(std::process::id()));
    assert_eq!(view.ticks_per_second(), ticks_per_second());
    assert_eq!((view.written(), view.oldest(), view.read(0)), (0, 0, None));
    let written = RECORDS as u64 + 3;
    (0..written).for_each(|number| samples.write(&record(number)));
    assert_eq!((samples.written(), view.written(), view.oldest()), (written, written, 3));
    assert!((0..3).all(|number| view.read(number).is_none()));
    assert!((3..written).all(|number| view.read(number) == Some(record(number))));
    assert_eq!(view.read(written), None);
    assert!(!samples.is_shared() && !view.page.is_writable());
}

#[test]
fn subjects_are_numbered_from_one_until_the_table_is_full() {
    let (samples, view, _) = small();
    let long = "ä".repeat(SUBJECT_BYTES_MAX);
    let texts = ["Shop::buy", &long, "", "one too many"];
    let numbers = texts.map(|text| samples.subject(text));
    assert_eq!(numbers, [Some(1), Some(2), Some(3), None]);
    let cut = "ä".repeat((SUBJECT_BYTES_MAX - '…'.len_utf8()) / 2) + "…";
    assert_eq!(view.subject(0), None);
    assert_eq!(view.subject(1).as_deref(), Some("Shop::buy"));
    assert_eq!(view.subject(2), Some(cut));
    assert_eq!(view.subject(3).as_deref(), Some(""));
    let beyond = if cfg!(miri) { 200 } else { u16::MAX };
    assert!((4..=beyond).all(|number| view.subject(number).is_none()));
    if cfg!(miri) {
        // The table of a full page takes Miri half a minute.
        return;
    }
    let full = Samples::heap("a/1", 7);
    let last = SUBJECTS_MAX as u16;
    assert!((1..=last).all(|number| full.subject("text") == Some(number)));
    assert_eq!((full.subject("text"), full.view().subject(last)), (None, Some("text".into())));
}

#[test]
fn a_page_is_checked_before_it_is_read() {
    let page = Region::heap(words_of(SMALL));
    let fault = |at, word| {
        let before = page.load(at);
        page.store(at, word);
        let fault = SamplesView::new(&page).err();
        page.store(at, before);
        fault
    };
    assert_eq!(SamplesView::new(&page).err(), Some(ObserveError::Foreign { magic: 0 }));
    let samples = Samples::over(page.clone(), SMALL, "a/1", 7);
    assert!(SamplesView::new(&page).is_ok());
    assert_eq!(fault(0, 5), Some(ObserveError::Foreign { magic: 5 }));
    assert_eq!(fault(1, 2), Some(ObserveError::Version { found: 2, known: 3 }));
    let name = |bytes| ObserveError::Name { bytes, max: 184 };
    assert_eq!(fault(NODE_AT, 184), None);
    assert_eq!(fault(NODE_AT, 185), Some(name(185)));
    assert_eq!(fault(NODE_AT, u64::MAX), Some(name(u64::MAX)));
    for (records, held) in [(0, false), (1, true), (2, true), (3, false), (4, true), (8, false)] {
        assert_eq!(fault(OWN_AT, records).is_none(), held, "{records} records");
    }
    let count = |count, room| Some(ObserveError::Count { count, room });
    assert_eq!(fault(OWN_AT, 2 * RECORDS as u64), count(2 * RECORDS as u64, RECORDS));
    assert_eq!(fault(OWN_AT, u64::MAX), count(u64::MAX, RECORDS));
    assert_eq!(fault(OWN_AT + 1, 4), count(SMALL.records as u64, 3));
    assert_eq!(fault(OWN_AT + 1, 257), count(257, SUBJECTS_MAX));
    assert_eq!(fault(OWN_AT + 2, 0), Some(ObserveError::Pace));
    for words in [0, 1, HEADER - 1, HEADER, HEADER + 1, SUBJECTS_AT, words_of(SMALL) - 1] {
        assert!(SamplesView::new(&page.part(0, words)).is_err(), "{words} words");
    }
    // The owner changes its header later, and a view does not change.
    samples.subject("Shop::buy").unwrap();
    let view = SamplesView::new(&page).unwrap();
    (0..SUBJECTS_AT).filter(|&at| at != ENTERED_AT).for_each(|at| page.store(at, u64::MAX));
    page.store(ENTERED_AT, u64::MAX);
    assert_eq!((view.node().as_str(), view.incarnation()), ("a/1", 7));
    assert_eq!(view.subject(1).as_deref(), Some("Shop::buy"));
    assert_eq!((view.subject(3).as_deref(), view.subject(4)), (Some(""), None));
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_record_is_read_as_it_was_written(
        (subject, kind, rung, flags) in any::<(u16, u8, u8, u32)>(),
        (note, doubt, peer) in (any::<u16>(), 0..=DOUBT_MAX, any::<u64>()),
        stamps in any::<[u64; STAMPS_MAX]>(),
    ) {
        let (samples, view, _) = small();
        let record = Record { subject, kind, rung, flags, note, doubt, peer, stamps };
        samples.write(&record);
        prop_assert_eq!(view.read(0), Some(record));
        samples.write(&Record { doubt: DOUBT_MAX + 1 + doubt, ..record });
        prop_assert_eq!(view.read(1), Some(Record { doubt: DOUBT_MAX, ..record }));
    }

    #[test]
    fn a_header_of_any_words_is_a_view_or_an_error(
        header in proptest::collection::vec(words(), HEADER),
        (known, name, records, subjects) in any::<(bool, bool, bool, bool)>(),
    ) {
        let (_, _, page) = small();
        let honest: Vec<_> = (0..HEADER).map(|at| page.load(at)).collect();
        header.iter().enumerate().for_each(|(at, &word)| page.store(at, word));
        // The first fault hides later ones, so some words are left as they were.
        let keep = [(0, known), (1, known), (NODE_AT, name), (OWN_AT, records)];
        for (at, kept) in keep.into_iter().chain([(OWN_AT + 1, subjects)]) {
            if kept {
                page.store(at, honest[at]);
            }
        }
        if let Ok(view) = SamplesView::new(&page) {
            prop_assert!(words_of(view.shape) <= page.words());
            // A byte that is no UTF-8 becomes three bytes.
            prop_assert!(view.node().len() <= 3 * 184);
            look(&view);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "generating a page takes it a minute; `recent` has the same test")]
    fn a_view_survives_any_words(
        page in proptest::collection::vec(words(), words_of(SMALL)),
        sequences in any::<[Option<u8>; 4]>(),
    ) {
        let (_, view, region) = small();
        page.iter().enumerate().for_each(|(at, &word)| region.store(at, word));
        for (i, number) in sequences.into_iter().enumerate() {
            let at = records_at(SMALL) + recent::words_of(i, WORDS);
            if let Some(number) = number {
                region.store(at, 2 * (u64::from(number) * 4 + i as u64) + 2);
            }
        }
        look(&view);
        for (i, number) in sequences.into_iter().enumerate() {
            if let Some(number) = number {
                prop_assert!(view.read(u64::from(number) * 4 + i as u64).is_some());
            }
        }
    }
}

/// Calls all methods of a view.
fn look(view: &SamplesView) {
    let _ = (view.node(), view.pid(), view.incarnation(), view.ticks_per_second());
    let (oldest, written) = (view.oldest(), view.written());
    assert!(written - oldest <= view.shape.records as u64);
    let ahead = (written..).take(8);
    for number in (oldest..written).chain(ahead).chain(0..8).chain(u64::MAX - 8..=u64::MAX) {
        let _ = view.read(number);
    }
    for number in (0..8).chain(254..260).chain([u16::MAX]) {
        let text = view.subject(number);
        assert!(text.is_none_or(|text| text.len() <= 3 * SUBJECT_BYTES_MAX));
    }
}

#[cfg(not(miri))]
mod mapped {
    use super::*;

    fn mine(incarnation: u64) -> Vec<SamplesView> {
        // Other tests of this process create pages that are refused.
        let views = observe(std::process::id()).unwrap_or_default();
        views.into_iter().filter(|view| view.incarnation() == incarnation).collect()
    }

    #[test]
    fn an_observer_finds_the_samples_of_a_process() {
        let samples = Samples::create("a/1", 0xd0).unwrap();
        samples.write(&record(0));
        let view = &mine(0xd0)[0];
        assert_eq!((view.node().as_str(), view.read(0)), ("a/1", Some(record(0))));
        assert_eq!(view.subject(1), None);
        (1..=RECORDS as u64).for_each(|number| samples.write(&record(number)));
        samples.subject("Shop::buy").unwrap();
        assert_eq!(view.read(RECORDS as u64), Some(record(RECORDS as u64)));
        assert_eq!((view.subject(1).as_deref(), view.oldest()), (Some("Shop::buy"), 1));
        assert!(samples.is_shared() && !view.page.is_writable());
        drop(samples);
        assert!(mine(0xd0).is_empty());
        assert_eq!((view.read(0), view.read(1)), (None, Some(record(1))));
    }

    #[test]
    fn a_page_of_another_kind_is_not_accepted() {
        use crate::counters::{self, Counters};
        let samples = Samples::create("a/1", 0xd1).unwrap();
        let counters = Counters::create(1, "a/1", 0xd2).unwrap();
        let others = counters::observe(std::process::id()).unwrap();
        assert!(others.iter().all(|view| view.incarnation() != 0xd1));
        assert_eq!((mine(0xd1).len(), mine(0xd2).len()), (1, 0));
        // A page with another label is not opened at all.
        let other = Segment::create("upbeat-other", words_of(FULL) * WORD, Writers::Owner)
            .and_then(Segment::reserve)
            .unwrap();
        let _ = Samples::over(other.region().clone(), FULL, "a/1", 0xd4);
        assert!(SamplesView::new(other.region()).is_ok() && mine(0xd4).is_empty());
        drop((samples, counters));
    }

    #[test]
    fn a_page_that_is_smaller_than_announced_is_skipped() {
        let segment = Segment::create(LABEL, words_of(SMALL) * WORD, Writers::Owner)
            .and_then(Segment::reserve)
            .unwrap();
        let own = [RECORDS as u64, SUBJECTS_MAX as u64, 1];
        KIND.announce(segment.region(), "a/1", 0xd3, own);
        assert!(mine(0xd3).is_empty());
        segment.region().store(OWN_AT, SMALL.records as u64);
        segment.region().store(OWN_AT + 1, SMALL.subjects as u64);
        assert_eq!(mine(0xd3).len(), 1);
    }
}
