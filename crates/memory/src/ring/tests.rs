//! Tests that compare the ring with a plain queue, and that give its reader a hostile writer.

use super::cursor::next_lap;
use super::*;
use crate::region::Region;
use proptest::prelude::*;
use std::collections::VecDeque;

fn ring(slots: u32) -> (Writer, Reader, Region) {
    ring_at(slots, 0)
}

fn ring_at(slots: u32, start: u32) -> (Writer, Reader, Region) {
    let region = Region::heap(slots as usize * SLOT_WORDS);
    let reader = Reader::new(region.read_only(), start);
    (Writer::new(region.clone(), start), reader, region)
}

fn config(cases: u32) -> ProptestConfig {
    let cases = if cfg!(miri) { 4 } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// The content of a payload.
#[derive(Clone, Debug)]
enum Fill {
    Bytes(Vec<u8>),
    /// Words that a reader would take for heads in a lap that is `laps` later.
    Heads {
        laps: u8,
        kind: u8,
        span: u16,
    },
}

impl Fill {
    fn bytes(&self, lap: u8, len: usize) -> Vec<u8> {
        match self {
            Fill::Bytes(bytes) => bytes.iter().copied().cycle().take(len).collect(),
            Fill::Heads { laps, kind, span } => {
                let lap = (0..*laps).fold(u64::from(lap), |lap, _| next_lap(lap));
                let word = word(lap as u8, *kind, *span).to_le_bytes();
                word.iter().copied().cycle().take(len).collect()
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Claims, writes the whole room, and commits `payload` bytes or drops the claim.
    Write {
        span: u32,
        keep: u32,
        payload: usize,
        fill: Fill,
        commit: bool,
    },
    Look,
    Advance,
    /// The writer learns the reader's progress.
    Progress,
    /// Sends and receives `count` messages one at a time, so that laps pass.
    Pass {
        count: u16,
        span: u32,
        fill: Fill,
    },
}

fn word(lap: u8, kind: u8, span: u16) -> u64 {
    u64::from(lap) | u64::from(kind) << 8 | u64::from(span) << SPAN_SHIFT
}

fn fills() -> impl Strategy<Value = Fill> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..100).prop_map(Fill::Bytes),
        (0u8..3, 0u8..3, 0u16..4).prop_map(|(laps, kind, span)| Fill::Heads { laps, kind, span }),
        (any::<u8>(), any::<u8>(), any::<u16>()).prop_map(|(laps, kind, span)| Fill::Heads {
            laps,
            kind,
            span
        }),
    ]
}

fn steps(slots: u32) -> impl Strategy<Value = Vec<Step>> {
    let passes = if cfg!(miri) { 20u16 } else { 700 };
    let step = prop_oneof![
        8 => (0..slots + 2, 0u32..3, any::<usize>(), fills(), prop::bool::weighted(0.8))
            .prop_map(|(span, keep, payload, fill, commit)| Step::Write { span, keep, payload, fill, commit }),
        6 => Just(Step::Look),
        6 => Just(Step::Advance),
        4 => Just(Step::Progress),
        1 => (0..passes, 1..=slots / 2, fills())
            .prop_map(|(count, span, fill)| Step::Pass { count, span, fill }),
    ];
    proptest::collection::vec(step, 0..if cfg!(miri) { 30 } else { 120 })
}

/// A ring together with the queue that models it.
struct Bench {
    writer: Writer,
    reader: Reader,
    queue: VecDeque<([u64; 3], Vec<u8>)>,
    /// The reader's progress that the writer would load.
    told: u64,
    sent: u64,
}

impl Bench {
    /// Returns whether a claim must be granted, by a rule that does not use laps.
    fn expected(&self, span: u32, keep: u32) -> Result<(), Refused> {
        let slots = u64::from(self.writer.slots());
        let rest = slots - self.writer.next.slot(&self.writer.ring) as u64;
        let need = u64::from(span) + u64::from(keep);
        let free = |known| slots - (self.writer.out() - known);
        if span != 0 && u64::from(span) <= rest && need <= self.writer.free.get() as u64 {
            return Ok(());
        }
        let most = self.writer.longest(keep);
        if span == 0 || span > most {
            return Err(Refused::TooLong { span, most });
        }
        let pad = if u64::from(span) > rest { rest } else { 0 };
        if need + pad <= free(self.told) { Ok(()) } else { Err(Refused::Full) }
    }

    fn write(
        &mut self,
        span: u32,
        keep: u32,
        payload: usize,
        fill: &Fill,
        commit: bool,
    ) -> Result<(), Refused> {
        let expected = self.expected(span, keep);
        let told = self.told;
        let outcome = self.writer.claim(span, keep, || told);
        let mut claim = match outcome {
            Ok(claim) => claim,
            Err(refused) => {
                assert_eq!(Err(refused), expected);
                return Err(refused);
            }
        };
        assert_eq!(expected, Ok(()));
        assert!(self.writer.slots() as usize >= self.queue.len() + span as usize);
        assert_eq!(self.writer.claim(1, 0, || told).err(), Some(Refused::Claimed));
        let bytes = fill.bytes(self.writer.next.lap() as u8, claim.room());
        // The whole room is written, in pieces that do not begin at words, whatever is committed.
        let (front, back) = bytes.split_at(bytes.len() / 3);
        claim.write(front.len(), back);
        claim.write(0, front);
        if commit {
            let payload = payload % (claim.room() + 1);
            self.sent += 1;
            let head = [u64::MAX, self.sent, bytes.len() as u64];
            claim.commit(head, payload);
            self.queue.push_back((head, bytes[..payload].to_vec()));
        } else {
            drop(claim);
        }
        Ok(())
    }

    fn look(&self) {
        // Padding that was not passed yet hides a short frame from the first short look.
        let hidden = self.reader.look_short();
        let seen = self.reader.look().unwrap();
        let short = self.reader.look_short();
        let expected = match seen {
            None => Look::Nothing,
            Some(head) if self.reader.span.get() == 1 => {
                Look::Short { kind: head[0].to_le_bytes()[1], head }
            }
            Some(_) => Look::Long,
        };
        assert_eq!(short, expected);
        assert!(hidden == short || hidden == Look::Long);
        let open = u64::from(self.reader.span.get());
        let more = self.writer.out() != self.reader.consumed() + open;
        assert_eq!(self.reader.has_another(), more);
        let Some((head, payload)) = self.queue.front() else {
            assert_eq!(seen, None);
            return;
        };
        let seen = seen.expect("a committed message was not seen");
        assert_eq!(seen[0] | OWNED, head[0]);
        assert_eq!(seen[1..], head[1..]);
        assert!(self.reader.room() >= payload.len() && self.reader.room() < payload.len() + SLOT);
        let mut bytes = vec![0; payload.len()];
        self.reader.read(0, &mut bytes);
        assert_eq!(bytes, *payload);
        if let Some((word, _)) = payload.split_first_chunk::<8>() {
            assert_eq!(self.reader.read_value::<[u8; 8]>(0), *word);
        }
    }

    fn advance(&mut self) {
        self.look();
        self.reader.advance();
        self.queue.pop_front();
    }

    fn progress(&mut self) {
        self.told = self.reader.consumed();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write { span, keep, payload, fill, commit } => {
                let _ = self.write(span, keep, payload, &fill, commit);
            }
            Step::Look => self.look(),
            Step::Advance => self.advance(),
            Step::Progress => self.progress(),
            Step::Pass { count, span, fill } => {
                while !self.queue.is_empty() {
                    self.advance();
                }
                for i in 0..count {
                    self.look();
                    self.progress();
                    self.write(span, 0, usize::from(i) * 7, &fill, true)
                        .expect("an empty ring accepts any message of half its length");
                    self.advance();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn a_ring_is_a_queue(
        (slots, start, steps) in (2u32..12).prop_flat_map(|slots| (Just(slots), 0..slots, steps(slots)))
    ) {
        let (writer, reader, _) = ring_at(slots, start);
        let mut bench = Bench { writer, reader, queue: VecDeque::new(), told: 0, sent: 0 };
        for step in steps {
            bench.step(step);
        }
        while !bench.queue.is_empty() {
            bench.advance();
        }
        bench.look();
        prop_assert_eq!(bench.reader.consumed(), bench.writer.out());
    }

    #[test]
    fn a_reader_survives_any_words(
        slots in 2u32..6,
        acts in proptest::collection::vec(
            (0usize..48, prop_oneof![
                any::<u64>(),
                (1u8..4, 0u8..3, 0u16..8).prop_map(|(lap, kind, span)| word(lap, kind, span)),
                (any::<u8>(), any::<u8>(), 0u16..8).prop_map(|(lap, kind, span)| word(lap, kind, span)),
            ], 0u8..4),
            0..if cfg!(miri) { 20 } else { 300 },
        )
    ) {
        let (_, reader, region) = ring(slots);
        let mut buffer = [0; 6 * SLOT];
        for (at, value, act) in acts {
            // Most stores hit words where heads begin.
            let at = if at < 24 { at % slots as usize * SLOT_WORDS } else { at % region.words() };
            match act {
                0 => reader.advance(),
                1 => {
                    region.store(at, value);
                    // The reported room is readable, whether a frame is open or not, and whether it changed since
                    // the look.
                    let room = reader.room();
                    reader.read(0, &mut buffer[..room]);
                }
                _ => region.store(at, value),
            }
            match reader.look() {
                Ok(Some(head)) => {
                    prop_assert!(head[0] & KIND != 0);
                    prop_assert!(reader.room() >= SLOT - HEAD && reader.room() < slots as usize * SLOT);
                    reader.read(0, &mut buffer[..reader.room()]);
                }
                Ok(None) => {}
                Err(RingFault { span, rest }) => prop_assert!(rest <= slots && span != rest || span == 0),
            }
            prop_assert!((reader.next.slot(&reader.ring) as u32) < slots && reader.next.lap() != 0);
        }
    }
}

#[test]
fn impossible_progress_is_refused() {
    let (writer, _, _) = ring(4);
    let send = |progress: u64| {
        let claim = writer.claim(1, 0, || progress)?;
        claim.commit([KIND, 0, 0], 0);
        Ok(writer.out())
    };
    for _ in 0..4 {
        send(0).unwrap();
    }
    assert_eq!(send(0), Err(Refused::Full));
    assert_eq!(send(5), Err(Refused::Progress { now: 5, known: 0, out: 4 }));
    assert_eq!(send(u64::MAX), Err(Refused::Progress { now: u64::MAX, known: 0, out: 4 }));
    // A refused progress changes nothing.
    assert_eq!(send(1), Ok(5));
    assert_eq!(send(0), Err(Refused::Progress { now: 0, known: 1, out: 5 }));
    assert_eq!(send(5), Ok(6));
}

#[test]
fn loading_the_progress_cannot_change_the_ring() {
    let (writer, ..) = ring(4);
    for _ in 0..4 {
        writer.claim(1, 0, || 0).unwrap().commit([KIND, 0, 0], 0);
    }
    let claim = writer.claim(1, 0, || {
        assert_eq!(writer.claim(1, 0, || 4).err(), Some(Refused::Claimed));
        1
    });
    claim.unwrap().commit([KIND, 0, 0], 0);
    assert_eq!(writer.out(), 5);
}

#[test]
fn the_counts_continue_in_a_larger_ring() {
    let (writer, reader, _) = ring(128);
    let send =
        |progress| writer.claim(1, 0, || progress).map(|claim| claim.commit([KIND, 7, 0], 0));
    for _ in 0..100 {
        send(0).unwrap();
        assert!(reader.look().unwrap().is_some());
        reader.advance();
    }
    let region = Region::heap(4 * SLOT_WORDS);
    writer.continue_in(region.clone());
    reader.continue_in(region.read_only());
    for _ in 0..4 {
        send(0).unwrap();
    }
    // The reader's progress is still in the old ring, first in its middle and then at its end.
    assert_eq!(send(3), Err(Refused::Full));
    assert_eq!(send(100), Err(Refused::Full));
    assert!(reader.look().unwrap().is_some());
    reader.advance();
    assert_eq!(reader.consumed(), 101);
    assert_eq!(send(reader.consumed()), Ok(()));
    assert_eq!(send(100), Err(Refused::Progress { now: 100, known: 101, out: 105 }));
    assert_eq!(send(106), Err(Refused::Progress { now: 106, known: 101, out: 105 }));
}

#[test]
fn a_span_that_can_never_fit_is_refused_as_too_long() {
    let (writer, reader, _) = ring(2);
    assert_eq!((writer.longest(0), writer.longest(1), writer.longest(2)), (1, 1, 0));
    let refusal = |span, keep| writer.claim(span, keep, || reader.consumed()).err();
    assert_eq!(refusal(0, 0), Some(Refused::TooLong { span: 0, most: 1 }));
    assert_eq!(refusal(3, 0), Some(Refused::TooLong { span: 3, most: 1 }));
    assert_eq!(refusal(1, 2), Some(Refused::TooLong { span: 1, most: 0 }));
    assert_eq!(refusal(1, u32::MAX), Some(Refused::TooLong { span: 1, most: 0 }));
    assert_eq!(refusal(u32::MAX, u32::MAX), Some(Refused::TooLong { span: u32::MAX, most: 0 }));
    writer.claim(1, 1, || 0).unwrap().commit([KIND, 0, 0], 0);
    assert_eq!(refusal(1, 1), Some(Refused::Full));
    assert_eq!(refusal(1, 0), None);
    reader.look().unwrap();
    reader.advance();
    assert_eq!(refusal(1, 1), None);
}

/// A span that not every position grants gets a place again, wherever the writer is by then.
#[test]
fn a_long_span_that_was_granted_once_gets_a_place_again() {
    const SLOTS: u32 = 32;
    const KEEP: u32 = 4;
    const LONG: u32 = SLOTS - KEEP;
    for first in 1..SLOTS {
        let (writer, reader, _) = ring(SLOTS);
        writer.claim(first, 0, || 0).unwrap().commit([KIND, 1, 0], 0);
        let too_long = Refused::TooLong { span: LONG, most: writer.longest(KEEP) };
        assert_eq!(writer.claim(LONG, KEEP, || 0).err(), Some(too_long));
        for _ in 0..2 {
            assert_eq!(writer.make_way(LONG, KEEP, || 0), Err(Refused::Full));
        }
        assert_eq!(reader.look().unwrap().map(|head| head[1]), Some(1));
        reader.advance();
        assert_eq!(reader.look().unwrap(), None);
        assert_eq!(writer.make_way(LONG, KEEP, || reader.consumed()), Ok(()));
        let claim = writer.claim(LONG, KEEP, || unreachable!("its room is known"));
        claim.unwrap().commit([KIND, 2, 0], 0);
        assert_eq!(reader.look().unwrap().map(|head| head[1]), Some(2));
    }
}

#[test]
fn padding_stays_in_the_ring() {
    let (_, reader, region) = ring(4);
    for (span, rest) in [(0, 4), (5, 4), (u16::MAX, 4)] {
        region.store(0, word(1, 0, span));
        assert_eq!(reader.look(), Err(RingFault { span: u32::from(span), rest }));
        assert_eq!(reader.consumed(), 0);
    }
    // In a ring that holds only padding, each look passes one lap and finds nothing.
    for lap in 1..=u8::MAX {
        region.store(0, word(lap, 0, 4));
        assert_eq!(reader.look(), Ok(None));
        assert_eq!(reader.consumed(), 4 * u64::from(lap));
    }
}

#[test]
fn a_frame_behind_padding_is_found_in_the_middle_of_the_ring() {
    let (writer, _, region) = ring(4);
    // A byte stream reads its own lane to ship it, through a writable region; only a peer's lane is read-only.
    let reader = Reader::new(region, 0);
    for frame in 0..10 {
        writer.claim(1, 0, || reader.consumed()).unwrap().commit([KIND, frame, 0], 0);
        writer.claim(1, 0, || reader.consumed()).unwrap().commit([KIND, frame + 100, 0], 0);
        assert_eq!(reader.look().unwrap().unwrap()[1], frame);
        reader.blank();
        assert!(!reader.is_open());
        assert_eq!(reader.look().unwrap().unwrap()[1], frame + 100);
        reader.advance();
        assert_eq!((reader.look(), reader.consumed()), (Ok(None), 2 * frame + 2));
    }
}

#[test]
#[should_panic(expected = "payload <= self.room()")]
fn committing_more_than_the_claim_panics() {
    let (writer, ..) = ring(4);
    writer.claim(1, 0, || 0).unwrap().commit([KIND, 0, 0], SLOT - HEAD + 1);
}

#[test]
#[should_panic(expected = "bytes.len() <= self.room() - at")]
fn writing_beyond_the_claim_panics() {
    let (writer, ..) = ring(4);
    writer.claim(1, 0, || 0).unwrap().write(SLOT - HEAD - 1, &[0; 2]);
}

#[test]
fn messages_cross_between_threads_whole_and_in_order() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let (messages, longest) = if cfg!(miri) { (15, 2) } else { (20_000, 7) };
    for slots in [2, 5, 64] {
        let (writer, reader, _) = ring(slots);
        let progress = AtomicU64::new(0);
        // A reader that panics must not leave the writer waiting.
        struct Gone<'a>(&'a AtomicU64);
        impl Drop for Gone<'_> {
            fn drop(&mut self) {
                self.0.store(u64::MAX, Ordering::Release);
            }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let writer = writer;
                for number in 0..messages {
                    let span = 1 + number as u32 % (slots / 2).min(longest);
                    let mut claim = loop {
                        match writer.claim(span, 0, || progress.load(Ordering::Relaxed)) {
                            Ok(claim) => break claim,
                            Err(Refused::Full) => std::thread::yield_now(),
                            Err(Refused::Progress { now: u64::MAX, .. }) => return,
                            Err(refused) => panic!("{refused:?}"),
                        }
                    };
                    let payload = claim.room() - number as usize % 8;
                    let word = (number as u64).to_le_bytes();
                    for at in 0..payload {
                        claim.write(at, &word[at % 8..][..1]);
                    }
                    claim.commit([KIND, number as u64, payload as u64], payload);
                }
            });
            let _gone = Gone(&progress);
            let mut bytes = [0; 8 * SLOT];
            for number in 0..messages as u64 {
                let head = loop {
                    match reader.look().unwrap() {
                        Some(head) => break head,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(head[1], number);
                let bytes = &mut bytes[..head[2] as usize];
                reader.read(0, bytes);
                let word = number.to_le_bytes();
                assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == word[at % 8]));
                reader.advance();
                progress.store(reader.consumed(), Ordering::Release);
            }
        });
    }
}
