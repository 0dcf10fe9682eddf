//! Tests that compare the last records with a plain queue, and that give their reader a hostile writer.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const WORDS: usize = 3;

fn config(cases: u32) -> ProptestConfig {
    let cases = if cfg!(miri) { 3 } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn pair(records: usize) -> (Recorder<WORDS>, RecentReader<WORDS>, Region) {
    let region = Region::heap(words_of(records, WORDS));
    let recent = RecentReader::new(region.read_only(), records);
    (Recorder::new(region.clone(), records), recent, region)
}

#[derive(Clone, Debug)]
enum Step {
    Write([u64; WORDS]),
    /// Writes this many records, so that laps pass.
    Pass(u16),
    Read(u64),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<[u64; WORDS]>().prop_map(Step::Write),
        1 => (0..40_u16).prop_map(Step::Pass),
        4 => (0..80_u64).prop_map(Step::Read),
    ]
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn a_reader_gets_the_last_records(
        power in 0..5_u32,
        steps in proptest::collection::vec(steps(), 1..if cfg!(miri) { 20 } else { 60 }),
    ) {
        let records = 1 << power;
        let (recorder, recent, _) = pair(records);
        let (mut queue, mut written) = (VecDeque::new(), 0_u64);
        for step in steps {
            let mut write = |record| {
                recorder.write(&record);
                queue.push_back(record);
                written += 1;
                if queue.len() > records {
                    queue.pop_front();
                }
            };
            match step {
                Step::Write(record) => write(record),
                Step::Pass(count) => (0..u64::from(count)).for_each(|i| write([i, !i, 7])),
                Step::Read(back) => {
                    // The number is between a few before the oldest record and a few that are not written yet.
                    let number = (written + 20).saturating_sub(back);
                    let at = number.checked_sub(written - queue.len() as u64);
                    let kept = at.and_then(|at| queue.get(at as usize).copied());
                    prop_assert_eq!(recent.read(number), kept);
                }
            }
            prop_assert_eq!((recorder.written(), recent.written()), (written, written));
            prop_assert_eq!(recent.oldest(), written - queue.len() as u64);
        }
        let all: Vec<_> = (recent.oldest()..written).map(|number| recent.read(number)).collect();
        prop_assert_eq!(all, queue.into_iter().map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn a_reader_survives_any_words(
        words in proptest::collection::vec(
            prop_oneof![any::<u64>(), 0..20_u64, (u64::MAX - 20)..=u64::MAX],
            words_of(4, WORDS),
        ),
        numbers in proptest::collection::vec(
            prop_oneof![any::<u64>(), 0..20_u64, (u64::MAX - 9)..=u64::MAX, near_half()],
            1..20,
        ),
    ) {
        let (_, recent, region) = pair(4);
        for (at, &word) in words.iter().enumerate() {
            region.store(at, word);
        }
        prop_assert_eq!(recent.written(), words[WRITTEN_AT].min(u64::MAX / 2));
        prop_assert!(recent.written() - recent.oldest() <= 4);
        for number in numbers {
            let at = HEAD + number as usize % 4 * (WORDS + 1);
            // The result is the record with this number in its sequence word, and nothing else.
            let stands = u128::from(words[at]) == 2 * u128::from(number) + 2;
            let record = stands.then(|| [words[at + 1], words[at + 2], words[at + 3]]);
            prop_assert_eq!(recent.read(number), record);
        }
    }
}

fn near_half() -> impl Strategy<Value = u64> {
    (u64::MAX / 2 - 9)..(u64::MAX / 2 + 9)
}

#[test]
fn the_highest_number_is_read_and_never_mistaken_for_another() {
    let (_, recent, region) = pair(1);
    region.store(HEAD, u64::MAX - 1);
    assert_eq!(recent.read(u64::MAX / 2 - 1), Some([0; WORDS]));
    for sequence in [0, u64::MAX] {
        region.store(HEAD, sequence);
        for number in [0, u64::MAX / 2 - 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX] {
            assert_eq!(recent.read(number), None, "record {number} at {sequence}");
        }
    }
}

#[test]
fn a_record_that_is_being_written_is_not_returned() {
    let (recorder, recent, region) = pair(2);
    (0..4).for_each(|i| recorder.write(&[i; WORDS]));
    // The writer has begun record 4 and stops.
    region.store(HEAD, writing_sequence(4));
    region.store(HEAD + 1, 4);
    let read: Vec<_> = (2..6).map(|number| recent.read(number)).collect();
    assert_eq!(read, [None, Some([3; WORDS]), None, None]);
}

#[test]
#[should_panic(expected = "no power of two")]
fn a_number_of_records_that_is_no_power_of_two_is_refused() {
    let _ = RecentReader::<WORDS>::new(Region::heap(words_of(8, WORDS)), 6);
}

#[test]
#[should_panic(expected = "no room for 8 records")]
fn a_region_that_is_too_small_is_refused() {
    let _ = RecentReader::<WORDS>::new(Region::heap(words_of(8, WORDS) - 1), 8);
}

#[test]
fn readers_in_threads_get_whole_records_or_none() {
    const WRITTEN: u64 = if cfg!(miri) { 50 } else { 300_000 };
    let record = |number: u64| [number, !number, number.wrapping_mul(0x9e37_79b9_7f4a_7c15)];
    let (recorder, recent, _) = pair(2);
    let end = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let recent = recent.clone();
            scope.spawn(move || {
                let mut next = 0;
                while next < WRITTEN && Instant::now() < end {
                    let written = recent.written();
                    assert!(written >= next);
                    for number in next.max(recent.oldest())..written {
                        let found = recent.read(number);
                        assert!(found.is_none_or(|found| found == record(number)), "{found:?}");
                    }
                    next = written;
                }
                assert_eq!(next, WRITTEN);
            });
        }
        scope.spawn(move || (0..WRITTEN).for_each(|number| recorder.write(&record(number))));
    });
    let read: Vec<_> = (WRITTEN - 3..WRITTEN).map(|number| recent.read(number)).collect();
    assert_eq!(read, [None, Some(record(WRITTEN - 2)), Some(record(WRITTEN - 1))]);
}
