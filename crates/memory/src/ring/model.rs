//! Models of the ring between two threads, in every order that the memory model allows.

use super::*;
use crate::region::Region;
use crate::sync::Ordering;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

const SLOTS: u32 = 2;

fn region() -> Region {
    Region::heap(SLOTS as usize * SLOT_WORDS)
}

fn check(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// Returns the payload of a message: a word that a reader would take for the head of another message, in this lap
/// or in the next.
fn payload(number: u64) -> u64 {
    let lap = 1 + number / 2 + number % 2;
    number << 32 | 1 << SPAN_SHIFT | KIND | lap
}

/// Sends message `number`. Returns false if there is no room for it.
fn send(writer: &Writer, progress: &AtomicU64, number: u64) -> bool {
    // Where two slots are free in one piece, the sender fills both and commits one.
    let ask = || progress.load(Ordering::Relaxed);
    let claim = writer.claim(2, 0, ask).or_else(|_| writer.claim(1, 0, ask));
    let mut claim = match claim {
        Ok(claim) => claim,
        Err(Refused::Full) => return false,
        Err(refused) => panic!("{refused:?}"),
    };
    let word = payload(number).to_le_bytes();
    claim.write(0, &word);
    if claim.room() > SLOT {
        claim.write(SLOT - HEAD, &word);
    }
    claim.commit([KIND, number, !number], WORD);
    true
}

/// Receives message `number` whole. Returns false if it has not come.
fn receive(reader: &Reader, number: u64) -> bool {
    let Some(head) = reader.look().unwrap() else { return false };
    assert_eq!(head[1..], [number, !number], "a stale or torn head");
    let mut word = [0; WORD];
    reader.read(0, &mut word);
    assert_eq!(u64::from_le_bytes(word), payload(number), "a stale or torn payload");
    reader.advance();
    true
}

fn cross(messages: u64) {
    let region = region();
    let progress = Arc::new(AtomicU64::new(0));
    let (writer, reader) = (Writer::new(region.clone(), 0), Reader::new(region, 0));
    let told = Arc::clone(&progress);
    let sender = thread::spawn(move || {
        for number in 0..messages {
            while !send(&writer, &told, number) {
                thread::yield_now();
            }
        }
    });
    for number in 0..messages {
        while !receive(&reader, number) {
            thread::yield_now();
        }
        progress.store(reader.consumed(), Ordering::Release);
    }
    sender.join().unwrap();
    assert_eq!(reader.look(), Ok(None));
}

#[test]
fn messages_cross_whole_and_in_order() {
    check(None, || cross(3));
}

#[test]
fn messages_cross_over_many_laps() {
    check(Some(3), || cross(6));
}

#[test]
fn a_writer_that_stops_after_any_store_leaves_only_committed_frames() {
    const MESSAGES: u64 = 3;
    for stores in 0..=20 {
        check(None, move || {
            let region = region();
            let progress = Arc::new(AtomicU64::new(0));
            let mortal = region.mortal(stores);
            let (writer, reader) = (Writer::new(mortal.clone(), 0), Reader::new(region, 0));
            let told = Arc::clone(&progress);
            let sender = thread::spawn(move || {
                let mut committed = 0;
                for number in 0..MESSAGES {
                    let mut tries = 0;
                    while tries < 2 && !send(&writer, &told, number) {
                        thread::yield_now();
                        tries += 1;
                    }
                    // The store of the first word, which commits a message, is its last store.
                    if tries == 2 || !mortal.is_alive() {
                        break;
                    }
                    committed += 1;
                }
                committed
            });
            let mut received = 0;
            for _ in 0..2 {
                if receive(&reader, received) {
                    received += 1;
                    progress.store(reader.consumed(), Ordering::Release);
                }
                thread::yield_now();
            }
            let committed = sender.join().unwrap();
            while receive(&reader, received) {
                received += 1;
            }
            assert_eq!(received, committed);
        });
    }
}

#[test]
fn a_reader_that_stops_at_any_point_loses_no_committed_frame() {
    const MESSAGES: u64 = 4;
    // The reader stops after `acts` acts, each a poll, a read with its advance, or a store of progress.
    for acts in 0..=6 {
        check(None, move || {
            let region = region();
            let progress = Arc::new(AtomicU64::new(0));
            let (writer, reader) = (Writer::new(region.clone(), 0), Reader::new(region, 0));
            let told = Arc::clone(&progress);
            let receiver = thread::spawn(move || {
                let mut received = 0;
                for act in 0..acts {
                    match act % 3 {
                        0 => drop(reader.look().unwrap()),
                        1 if receive(&reader, received) => received += 1,
                        1 => {}
                        _ => told.store(reader.consumed(), Ordering::Release),
                    }
                    thread::yield_now();
                }
                (reader, received)
            });
            let mut sent = 0;
            for _ in 0..MESSAGES {
                if send(&writer, &progress, sent) {
                    sent += 1;
                }
                thread::yield_now();
            }
            // The next reader finds the rest of the messages and nothing else.
            let (reader, mut received) = receiver.join().unwrap();
            while receive(&reader, received) {
                received += 1;
            }
            assert_eq!(received, sent);
        });
    }
}
