use super::*;
use crate::frame::{CallNumber, Flags};
use alloc::vec::Vec;

const LONG: Placed = Placed { slab: 1, index: 2, len: 3 * CHUNK_BYTES_MAX as u32 + 5 };
const SHORT: Placed = Placed { slab: 1, index: 3, len: 20_000 };

fn oneway() -> [u64; 3] {
    Head::oneway(1, 0).words()
}

fn call(index: u32) -> [u64; 3] {
    Head::call(1, CallNumber::new(index, 1), 0).words()
}

fn reply(index: u32) -> [u64; 3] {
    Head::reply(CallNumber::new(index, 1), 0).words()
}

fn cancel(index: u32) -> [u64; 3] {
    Head::cancel(CallNumber::new(index, 1)).words()
}

fn calm() -> StreamLoad {
    StreamLoad::default()
}

fn busy() -> StreamLoad {
    StreamLoad { busy: true, all_read: false }
}

/// Returns a backlog whose first frame, a call of number 7, has a long payload.
fn deferred() -> Backlog<u32> {
    let mut backlog = Backlog::default();
    assert_eq!(backlog.turn(0, call(7), Some(LONG), calm), ShipTime::Later);
    backlog.defer(call(7), Some(LONG), 0);
    backlog
}

#[test]
fn replies_overtake_a_long_payload_and_requests_do_not() {
    let mut backlog = deferred();
    let number = CallNumber::new(1, 1);
    let passing = [
        reply(1),
        Head::failed(number, 8).words(),
        cancel(1),
        Head::nack(3).words(),
        Head::grant(3).words(),
        Head::extend(number).words(),
        Head::extended(number).words(),
        Head::slab(3).words(),
        Head::retire(3).words(),
        Head::switch(1).words(),
    ];
    for (position, words) in passing.into_iter().enumerate() {
        let turn = backlog.turn(position as u64 + 1, words, None, calm);
        assert_eq!(turn, ShipTime::Now, "{:?}", Head::kind_in(&words));
    }
    let waiting = [
        oneway(),
        call(8),
        Head::reserve().words(),
        Head::withdraw(3).words(),
        Head::goodbye().words(),
    ];
    for (position, words) in waiting.into_iter().enumerate() {
        let turn = backlog.turn(position as u64 + 20, words, None, calm);
        assert_eq!(turn, ShipTime::Later, "{:?}", Head::kind_in(&words));
        backlog.defer(words, None, 1);
    }
    assert_eq!(backlog.turn(40, reply(2), Some(SHORT), calm), ShipTime::Later, "the reply is long");
    assert_eq!(
        backlog.turn(41, cancel(7), None, calm),
        ShipTime::Later,
        "the call is still deferred"
    );
    assert_eq!(backlog.turn(42, cancel(8), None, calm), ShipTime::Later);
    assert_eq!(backlog.turn(43, cancel(9), None, calm), ShipTime::Now);
}

#[test]
fn a_payload_is_shipped_in_chunks_before_its_frame() {
    let mut backlog = deferred();
    assert_eq!(backlog.turn(1, oneway(), None, calm), ShipTime::Later);
    backlog.defer(oneway(), None, 1);
    let mut at = 0;
    while let Some(chunk) = backlog.chunk() {
        assert_eq!((due(&backlog), chunk.at, chunk.whole), (None, at, LONG.len));
        backlog.shipped(chunk.bytes);
        at += chunk.bytes;
    }
    assert_eq!((at, due(&backlog)), (LONG.len, Some((0, None))));
    backlog.written(2);
    assert_eq!(due(&backlog), Some((1, None)));
    backlog.written(3);
    // A request that was written before both stays behind them.
    assert!(backlog.is_empty());
    assert_eq!(backlog.turn(2, call(7), Some(LONG), calm), ShipTime::Bare);
    assert_eq!(backlog.turn(3, oneway(), None, calm), ShipTime::Bare);
    assert_eq!(backlog.turn(4, oneway(), None, calm), ShipTime::Now);
}

/// Returns the number of the frame that is due, and the shipped bytes of its payload if the call is given up.
fn due<F: Copy>(backlog: &Backlog<F>) -> Option<(F, Option<u32>)> {
    backlog.due().map(|due| (*due.frame, due.given_up))
}

#[test]
fn a_cancelled_call_ships_no_more_payload_and_keeps_its_turn() {
    let mut backlog = deferred();
    let words = call(8);
    assert_eq!(backlog.turn(1, words, Some(LONG), calm), ShipTime::Later);
    backlog.defer(words, Some(LONG), 1);
    let operation = Head::operation(258, CallNumber::new(9, 1), 0).words();
    assert_eq!(backlog.turn(2, operation, Some(SHORT), calm), ShipTime::Later);
    backlog.defer(operation, Some(SHORT), 2);
    let shipped = backlog.chunk().unwrap().bytes;
    backlog.shipped(shipped);
    for (position, index) in [8, 9, 7].into_iter().enumerate() {
        let turn = backlog.turn(position as u64 + 3, cancel(index), None, calm);
        assert_eq!(turn, ShipTime::Later, "a request stays behind deferred requests");
        backlog.defer(cancel(index), None, 3);
    }
    assert_eq!(due(&backlog), Some((0, Some(shipped))), "no more of the payload is shipped");
    backlog.written(6);
    assert_eq!(due(&backlog), Some((1, Some(0))), "nothing of the payload was shipped");
    // The connection breaks: the bytes that were shipped are shipped again, and no others.
    backlog.again();
    let first = Placed { len: shipped, ..LONG };
    assert_eq!(backlog.turn(6, call(7), Some(first), calm), ShipTime::Now);
    assert_eq!(due(&backlog), Some((1, Some(0))));
    backlog.written(7);
    assert_eq!(due(&backlog), None);
    assert_eq!(
        backlog.chunk().map(|chunk| chunk.bytes),
        Some(SHORT.len),
        "an operation is shipped whole"
    );
}

#[test]
fn a_call_that_is_given_up_has_no_time_left() {
    let number = CallNumber::new(7, 1);
    let granted = Flags::PLACED.with(Flags::GRANTED);
    let late = granted.with(Flags::DEADLINE).with(Flags::MADE);
    let placed = LONG.as_u64();
    let cut = Placed { len: 20, ..LONG }.as_u64();
    for (flags, before, after) in [
        (granted, vec![placed, 5], vec![0, cut, 5]),
        (late, vec![900, placed, 5, 6], vec![0, cut, 5, 6]),
        (late.with(Flags::CONTEXT), vec![900, placed, 5, 6, 24], vec![0, cut, 5, 6, 0]),
        (granted.with(Flags::CONTEXT), vec![placed, 5, 24], vec![0, cut, 5, 0]),
    ] {
        let words = Head::call(1, number, flags.extension_bytes()).with_flags(flags).words();
        let (words, extensions) = given_up(words, &before, 20).unwrap();
        let head = Head::parse(words).unwrap();
        assert_eq!(extensions, after);
        assert_eq!((head.flags, head.call), (flags.with(Flags::DEADLINE), number));
        assert_eq!(head.body_bytes(), 0);
    }
    assert_eq!(given_up(call(7), &[], 20), None);
}

#[test]
fn a_medium_frame_is_deferred_while_the_connection_accepts_no_more() {
    let mut backlog = Backlog::<u32>::default();
    assert_eq!(backlog.turn(0, oneway(), Some(SHORT), calm), ShipTime::Now);
    assert_eq!(backlog.turn(1, oneway(), None, busy), ShipTime::Now);
    assert_eq!(backlog.turn(2, oneway(), Some(SHORT), busy), ShipTime::Later);
}

#[test]
fn stamps_stay_behind_their_message() {
    let stamps = Head::stamps(CallNumber::NONE, 8).words();
    let mut backlog = deferred();
    assert_eq!(backlog.turn(1, reply(1), None, calm), ShipTime::Now);
    assert_eq!(backlog.turn(2, stamps, None, calm), ShipTime::Now);
    assert_eq!(backlog.turn(3, oneway(), None, calm), ShipTime::Later);
    backlog.defer(oneway(), None, 1);
    assert_eq!(backlog.turn(4, stamps, None, calm), ShipTime::Later);
}

#[test]
fn deferred_bytes_are_bounded() {
    let mut backlog = deferred();
    let most = (DEFERRED_BYTES_MAX / SLOT_BYTES) as u64;
    for position in 1..most {
        assert_eq!(backlog.turn(position, oneway(), None, calm), ShipTime::Later);
        backlog.defer(oneway(), None, 1);
    }
    assert_eq!(backlog.turn(most, oneway(), None, calm), ShipTime::Blocked);
    let all_read = || StreamLoad { busy: false, all_read: true };
    // Bytes of a payload are shipped first, since they need no slot.
    assert_eq!(backlog.turn(most, oneway(), None, all_read), ShipTime::Blocked);
    backlog.shipped(LONG.len);
    assert_eq!(backlog.turn(most, oneway(), None, calm), ShipTime::Blocked);
    // The lane is full of frames that wait for a frame without a slot.
    assert_eq!(backlog.turn(most, oneway(), None, all_read), ShipTime::Later);
}

/// A lane, and what its peer has received, over connections that break.
struct Lane {
    backlog: Backlog<usize>,
    /// The frames by their numbers, or padding. Each takes one slot.
    slots: Vec<Option<usize>>,
    shipped: usize,
    /// Whether the connection accepts no more.
    busy: bool,
    /// The payload bytes that were shipped over this connection, by frame.
    bytes: Vec<u32>,
    /// The slots that the peer has received: the number of a frame each, or none for padding.
    got: Vec<Option<usize>>,
    /// The frames that were deferred and not shipped since, and the slots behind them.
    deferred: Vec<(usize, u64)>,
}

/// Returns the next number of a simple generator.
fn next(random: &mut u64) -> u64 {
    *random =
        random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

impl Lane {
    /// Ships a frame or a chunk.
    fn step(&mut self, frames: &[([u64; 3], Option<Placed>)], random: &mut u64) {
        if next(random).is_multiple_of(3)
            && let Some((frame, _)) = due(&self.backlog)
        {
            self.backlog.written(self.slots.len() as u64);
            return self.slots.push(Some(frame));
        }
        if next(random).is_multiple_of(3)
            && let Some(chunk) = self.backlog.chunk()
        {
            self.backlog.shipped(chunk.bytes);
            self.bytes[chunk.index as usize] += chunk.bytes;
            return;
        }
        let Some(&slot) = self.slots.get(self.shipped) else { return };
        if let Some(frame) = slot {
            let (words, placed) = frames[frame];
            let load = StreamLoad { busy: self.busy, all_read: true };
            match self.backlog.turn(self.shipped as u64, words, placed, || load) {
                ShipTime::Now => self.bytes[frame] += placed.map_or(0, |placed| placed.len),
                ShipTime::Bare => {}
                ShipTime::Later => {
                    self.backlog.defer(words, placed, frame);
                    self.slots[self.shipped] = None;
                    self.got.push(None);
                    self.shipped += 1;
                    self.deferred.push((frame, self.shipped as u64));
                    return;
                }
                ShipTime::Blocked => return,
            }
            let whole = placed.map_or(0, |placed| placed.len);
            assert_eq!(
                self.bytes[frame], whole,
                "frame {frame}: its bytes are shipped first and once"
            );
            for (_, until) in self.deferred.extract_if(.., |(deferred, _)| *deferred == frame) {
                assert!(!self.backlog.is_deferred(until), "frame {frame} is shipped");
            }
        }
        assert!(self.deferred.iter().all(|(_, until)| self.backlog.is_deferred(*until)));
        self.got.push(slot);
        self.shipped += 1;
    }

    /// The connection breaks after the peer has received `has` slots.
    fn cut(&mut self, has: usize) {
        self.backlog.again();
        self.got.truncate(has);
        self.shipped = has;
        self.bytes.fill(0);
        assert!(self.got.iter().zip(&self.slots).all(|(got, slot)| got == slot));
    }
}

/// For every pattern of writes and broken connections, requests arrive once and in order, and replies once.
#[test]
fn all_frames_arrive_once_and_requests_in_order() {
    for seed in 0..500 {
        let mut random = seed;
        let mut lane = Lane {
            backlog: Backlog::default(),
            slots: Vec::new(),
            shipped: 0,
            busy: false,
            bytes: Vec::new(),
            got: Vec::new(),
            deferred: Vec::new(),
        };
        let mut frames = Vec::new();
        let mut steps = 0;
        while frames.len() < 60 || lane.got.iter().flatten().count() < frames.len() {
            steps += 1;
            assert!(steps < 100_000, "seed {seed}: {lane:?} of {frames:?}", lane = lane.got);
            match next(&mut random) % 12 {
                0..4 if frames.len() < 60 => {
                    let number = frames.len() as u16;
                    let len = [20_000, 300_000, 2_000_000][next(&mut random) as usize % 3];
                    let placed = Some(Placed { slab: 0, index: number, len });
                    let words = |head: Head| head.with_flags(Flags::PLACED).words();
                    frames.push(match next(&mut random) % 4 {
                        0 => (words(Head::oneway(1, 8)), placed),
                        1 => (oneway(), None),
                        2 => (reply(number.into()), None),
                        _ => (words(Head::reply(CallNumber::new(number.into(), 1), 8)), placed),
                    });
                    lane.slots.push(Some(frames.len() - 1));
                    lane.bytes.push(0);
                }
                4 => lane.busy = !lane.busy,
                5 if next(&mut random).is_multiple_of(4) => {
                    let has = lane.got.len() as u64;
                    let lost = (next(&mut random) % 8).min(has);
                    lane.cut((has - lost) as usize);
                }
                _ => lane.step(&frames, &mut random),
            }
        }
        let came: Vec<usize> = lane.got.iter().flatten().copied().collect();
        let mut sorted = came.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..frames.len()), "seed {seed}: {came:?}");
        let is_request = |frame: &&usize| Head::kind_in(&frames[**frame].0) == Some(Kind::Oneway);
        assert!(came.iter().filter(is_request).is_sorted(), "seed {seed}: {came:?}");
    }
}
