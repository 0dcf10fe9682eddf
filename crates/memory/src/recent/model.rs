//! Models of a writer and readers of the last records, in every order that the memory model allows.

use super::*;
use loom::thread;

const WORDS: usize = 2;

fn check(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// Returns the content of record `number`: no word of it is in another record, and none is 0.
fn record(number: u64) -> [u64; WORDS] {
    std::array::from_fn(|i| 10 * (number + 1) + i as u64)
}

/// The way in which a record is written.
#[derive(Clone, Copy)]
enum Writes {
    /// The writer is [`Recorder::write`].
    Whole,
    /// The old sequence word stays while the words change.
    WithoutOdd,
    /// The words may be visible before the odd sequence word.
    WithoutFence,
    /// The even sequence word may be visible before the words.
    WithoutRelease,
}

fn write(recorder: &Recorder<WORDS>, writes: Writes) {
    let number = recorder.next.get();
    if let Writes::Whole = writes {
        return recorder.write(&record(number));
    }
    let at = slot_of::<WORDS>(number, recorder.mask);
    if !matches!(writes, Writes::WithoutOdd) {
        recorder.region.store(at, writing_sequence(number));
    }
    if !matches!(writes, Writes::WithoutFence) {
        fence(Ordering::Release);
    }
    for (i, word) in record(number).into_iter().enumerate() {
        recorder.region.store(at + 1 + i, word);
    }
    if matches!(writes, Writes::WithoutRelease) {
        recorder.region.store(at, complete_sequence(number));
    } else {
        recorder.region.publish(at, complete_sequence(number));
    }
    recorder.next.set(number + 1);
}

/// The way in which a record is read.
#[derive(Clone, Copy)]
enum Reads {
    /// The reader is [`RecentReader::read`].
    Whole,
    /// The reader does not check the sequence word after the words.
    Once,
    /// The second check may be executed before the words are read.
    WithoutFence,
}

fn read(recent: &RecentReader<WORDS>, number: u64, reads: Reads) -> Option<[u64; WORDS]> {
    if let Reads::Whole = reads {
        return recent.read(number);
    }
    let at = slot_of::<WORDS>(number, recent.mask);
    if recent.region.load(at) != complete_sequence(number) {
        return None;
    }
    fence(Ordering::Acquire);
    let record = std::array::from_fn(|i| recent.region.load(at + 1 + i));
    let stood = matches!(reads, Reads::Once) || recent.region.load(at) == complete_sequence(number);
    stood.then_some(record)
}

/// Models two records that are written to the same slot while a reader reads one of them. Panics if the reader
/// gets words that are no record.
fn overwritten(number: u64, writes: Writes, reads: Reads) {
    check(None, move || {
        let region = Region::heap(words_of(1, WORDS));
        let (recorder, recent) = (Recorder::new(region.clone(), 1), RecentReader::new(region, 1));
        let writer = thread::spawn(move || {
            write(&recorder, writes);
            write(&recorder, writes);
        });
        let found = read(&recent, number, reads);
        assert!(found.is_none_or(|found| found == record(number)), "a torn record");
        writer.join().unwrap();
        assert_eq!((recent.read(0), recent.read(1)), (None, Some(record(1))));
    });
}

#[test]
fn no_torn_record_is_read() {
    overwritten(0, Writes::Whole, Reads::Whole);
    overwritten(1, Writes::Whole, Reads::Whole);
}

#[test]
#[should_panic(expected = "a torn record")]
fn without_the_odd_sequence_a_torn_record_is_read() {
    overwritten(0, Writes::WithoutOdd, Reads::Whole);
}

#[test]
#[should_panic(expected = "a torn record")]
fn without_the_writers_fence_a_torn_record_is_read() {
    overwritten(0, Writes::WithoutFence, Reads::Whole);
}

#[test]
#[should_panic(expected = "a torn record")]
fn without_release_a_torn_record_is_read() {
    overwritten(1, Writes::WithoutRelease, Reads::Whole);
}

#[test]
#[should_panic(expected = "a torn record")]
fn without_the_second_check_a_torn_record_is_read() {
    overwritten(0, Writes::Whole, Reads::Once);
}

#[test]
#[should_panic(expected = "a torn record")]
fn without_the_readers_second_fence_a_torn_record_is_read() {
    overwritten(0, Writes::Whole, Reads::WithoutFence);
}

#[test]
fn every_counted_record_is_complete() {
    check(Some(3), || {
        let region = Region::heap(words_of(2, WORDS));
        let (recorder, recent) = (Recorder::new(region.clone(), 2), RecentReader::new(region, 2));
        let writer = thread::spawn(move || {
            for number in 0..2 {
                recorder.write(&record(number));
            }
        });
        for number in 0..recent.written() {
            assert_eq!(recent.read(number), Some(record(number)));
        }
        writer.join().unwrap();
        assert_eq!((recent.oldest(), recent.written()), (0, 2));
    });
}

#[test]
fn a_reader_that_follows_gets_records_in_order_and_whole() {
    check(Some(2), || {
        let region = Region::heap(words_of(2, WORDS));
        let (recorder, recent) = (Recorder::new(region.clone(), 2), RecentReader::new(region, 2));
        let writer = thread::spawn(move || {
            for number in 0..3 {
                recorder.write(&record(number));
            }
        });
        let mut next = 0;
        for _ in 0..2 {
            let (oldest, written) = (recent.oldest(), recent.written());
            assert!(written >= next, "the number of records went backwards");
            for number in next.max(oldest)..written {
                let found = recent.read(number);
                assert!(found.is_none_or(|found| found == record(number)), "a torn record");
            }
            next = written;
        }
        writer.join().unwrap();
        assert_eq!((recent.read(1), recent.read(2)), (Some(record(1)), Some(record(2))));
    });
}

#[test]
fn a_writer_may_stop_after_any_store() {
    // Writing a record takes one store for the odd sequence, one per word, one for the even sequence and one for
    // the count.
    let stores = 1 + WORDS as i64 + 2;
    for life in 0..=2 * stores {
        check(Some(2), move || {
            let region = Region::heap(words_of(1, WORDS));
            let recorder = Recorder::new(region.mortal(life), 1);
            let recent = RecentReader::new(region, 1);
            let writer = thread::spawn(move || {
                for number in 0..2 {
                    recorder.write(&record(number));
                }
            });
            for number in 0..2 {
                let found = recent.read(number);
                assert!(found.is_none_or(|found| found == record(number)), "a torn record");
            }
            writer.join().unwrap();
            let stands = [stores - 1..=stores, 2 * stores - 1..=2 * stores];
            for (number, stands) in (0..).zip(stands) {
                let whole = stands.contains(&life).then(|| record(number));
                assert_eq!(recent.read(number), whole, "after {life} stores");
            }
        });
    }
}
